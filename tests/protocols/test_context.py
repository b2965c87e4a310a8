"""context: the conversation of [PBS89]."""

import pytest

from antecede.check import World
from antecede.endpoint.messages import Message, Need, Packet
from antecede.endpoint.registry import endpoint, size
from antecede.endpoint.rules import Own
from antecede.errors import UsageError
from antecede.protocols.context import Context
from tests.protocols.rig import (
    assert_damage_is_harmless,
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    control_of,
    delivered,
    forged,
)


def test_worked_example() -> None:
    """The example T4: only direct predecessors travel."""
    world = World("context", "abc")
    world.send("a", [*"bc"])
    world.arrive_packet("a", "b")
    world.send("b", [*"ac"])
    world.arrive_packet("b", "c")
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1),)}
    world.arrive_packet("a", "c")
    world.send("c", [*"ab"])
    world.drain()
    world.check()

    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    assert control_of(world, "a", 1, "c") == ()
    assert control_of(world, "b", 1, "c") == (("a", 1),)
    assert control_of(world, "c", 1, "a") == (("b", 1),)


def test_broadcast_under_the_oracle_within_its_bound() -> None:
    for world in campaign("context", 150):
        for packet in world.packets:
            entries, dests, model_bytes = size(packet)
            assert entries <= len(world.endpoints)
            assert (dests, model_bytes) == (0, 6 * entries)
    campaign("context", 30, pull=True)


def test_what_travels_is_the_transitive_reduction() -> None:
    for world in campaign("context", 40):
        for packet in world.packets:
            assert packet.message is not None
            causes = world.history.causes(packet.message)
            direct = {
                cause
                for cause in causes
                if not any(cause in world.history.causes(other) for other in causes)
            }
            is_self_only = {m for m in direct if world.history.dests(m) == (m.sender,)}
            if not is_self_only:
                assert set(packet.control) == direct  # type: ignore[call-overload]


def test_other_casts_are_refused_with_a_hint() -> None:
    one = endpoint("context", process="a", members=("a", "b", "c"))
    with pytest.raises(UsageError, match=r"does not send to b from 'a': it offers broadcast"):
        one.send(["b"])


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("context", "abc")
    world.send("a", [*"bc"])
    knowing = forged(world.in_flight[0], control=[1 << 2 | 1])
    assert_refused(world.endpoints["b"], [knowing], "knows of more messages")
    assert_damage_is_harmless(campaign("context", 5, sizes=(3,))[-1])


def test_going_on_after_a_restart() -> None:
    assert_restarts("context")


class ForgetsItself(Context):
    """Leaves its own last message out of the next one's predecessors."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        self._leaves.pop(self.me, None)
        return super().stamp(message, others, event, after)


class ReplacesTheLeaves(Context):
    """Takes every delivery for the only leaf."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        places = super().taken(packet)
        self._leaves = {packet.source_no: self._leaves[packet.source_no]}
        return places


def test_mutants_are_caught() -> None:
    assert caught("context", ForgetsItself) == "safety"
    assert caught("context", ReplacesTheLeaves) == "safety"
