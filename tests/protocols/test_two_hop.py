"""two_hop: lemma 8 of [KS98], and theorem 8's chain that it rightly fails to order."""

from typing import Any

from antecede.check import History, World, causal_violations, run_script
from antecede.endpoint.messages import Message, MessageId, Need, Packet
from antecede.endpoint.registry import PROTOCOLS, size
from antecede.protocols.two_hop import TwoHop
from tests.protocols.rig import (
    assert_damage_is_harmless,
    assert_restarts,
    campaign,
    control_of,
    delivered,
    forged,
    scripts,
)


def short_chains_broken(history: History) -> list[tuple[str, MessageId, MessageId]]:
    """Return (process, first, second) where a chain of one or two messages was overtaken.

    The chain: the first sender sent ``first`` to the process; then, or by the very same send,
    something to the second sender, which delivered it and then sent ``second``.
    """
    sent: dict[str, list[MessageId]] = {name: [] for name in history.members}
    heard: dict[str, list[MessageId]] = {name: [] for name in history.members}
    due: dict[MessageId, set[MessageId]] = {}
    done: dict[str, set[MessageId]] = {name: set() for name in history.members}
    broken = []
    for event in history.events:
        name, message = event.process, event.message
        if event.kind == "send":
            before = set(sent[name])
            for link in heard[name]:
                before |= {m for m in sent[link.sender] if m.seq <= link.seq}
            due[message] = before
            sent[name].append(message)
        else:
            heard[name].append(message)
            late = {m for m in due[message] - done[name] if name in history.dests(m)}
            broken += [(name, m, message) for m in sorted(late)]
            done[name].add(message)
    return broken


def test_a_chain_of_two_is_ordered() -> None:
    world = World("two_hop", "abc")
    world.send("a", ["c"])
    world.send("a", ["b"])
    world.arrive_packet("a", "b")
    world.send("b", ["c"])
    world.arrive_packet("b", "c")
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1),)}
    world.drain()
    world.check()

    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    assert control_of(world, "a", 2, "b") == ((0, 0, 1), (0, 0, 0))
    assert control_of(world, "b", 1, "c") == ((0, 0, 0), (1, 0, 0))


def chain_of_three(protocol: str) -> World:
    """Return theorem 8's computation: m to {x, d}, x to y, y to d, with m late at d."""
    world = World(protocol, "mxyd", promises=())
    world.send("m", ["x", "d"])
    world.arrive_packet("m", "x")
    world.send("x", ["y"])
    world.arrive_packet("x", "y")
    world.send("y", ["d"])
    world.arrive_packet("y", "d")
    world.drain()
    return world


def test_the_chain_of_theorem_8_is_not_ordered_and_the_registry_says_so() -> None:
    world = chain_of_three("two_hop")
    assert delivered(world, "d") == [("y", 1), ("m", 1)]
    assert [v.kind for v in causal_violations(world.history)] == ["causal"]
    assert short_chains_broken(world.history) == []
    assert delivered(chain_of_three("optimal"), "d") == [("m", 1), ("y", 1)]
    info = PROTOCOLS["two_hop"]
    assert "safety" not in info.promises
    assert "longer chains are not ordered" in info.guarantee


def test_every_cast_orders_short_chains_with_2n_integers() -> None:
    longer = 0
    for world in campaign("two_hop", 360):  # few of them have longer chains
        n = len(world.endpoints)
        assert short_chains_broken(world.history) == []
        assert {size(packet) for packet in world.packets} <= {(2 * n, 0, 8 * n)}
        longer += len(causal_violations(world.history))
    assert longer > 0
    for world in campaign("two_hop", 30, pull=True):
        assert short_chains_broken(world.history) == []


def test_damaged_bytes_are_refused() -> None:
    assert_damage_is_harmless(campaign("two_hop", 5, sizes=(3,))[-1])


def test_going_on_after_a_restart() -> None:
    assert_restarts("two_hop")


class ForgetsOthers(TwoHop):
    """Does not record a multicast for its other destinations."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        return super().taken(forged(packet, dests=1 << self.me))


class OneHop(TwoHop):
    """Leaves out what it has heard of: only channels are ordered."""

    def stamp(
        self, message: Message, others: tuple[int, ...], event: int, after: int
    ) -> dict[int, object]:
        stamped: Any = super().stamp(message, others, event, after)
        return {
            dest: [key if i == self.me else i for i, key in enumerate(known)]
            for dest, known in stamped.items()
        }


def test_mutants_are_caught() -> None:
    for mutant in (ForgetsOthers, OneHop):
        assert any(
            short_chains_broken(
                run_script(script, "two_hop", rules=mutant, promises=(), drain=0).history
            )
            for script in scripts(["multicast"], 50)
        )
