"""[KS98] section 7: theorem 8 and the upper bound on the information that is necessary."""

from typing import cast

import pytest

import antecede
from antecede import MessageId
from antecede.check import BrokenPromiseError, History, World, random_script, run_script
from antecede.endpoint.logs import Control
from antecede.endpoint.messages import Message
from antecede.endpoint.rules import Own
from antecede.protocols.optimal import Optimal


def chain_of_three(world: World) -> None:
    """m sends to x and d; x, having delivered, to y; y to d, where that arrives first."""
    world.send("m", ["d", "x"])
    world.arrive_packet("m", "x")
    world.send("x", ["y"])
    world.arrive_packet("x", "y")
    world.send("y", ["d"])
    world.arrive_packet("y", "d")
    world.arrive_packet("m", "d")


class Forgets(Optimal):
    """Leaves one instance of information, "d is a destination of m's message", out of messages."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        own = super().stamp(message, others, event, after)
        tops, log = cast("Control", message.control)
        m, low = self.view.numbers["m"], self.view.low
        message.control = tops, {key: mask for key, mask in log.items() if key & low != m}
        needs = cast("dict[int, list[int]]", own or {})
        return {dest: [k for k in keys if k & low != m] for dest, keys in needs.items()}


def test_theorem_8_a_chain_of_three_needs_every_instance() -> None:
    members = ("d", "m", "x", "y")
    world = World("optimal", members)
    chain_of_three(world)
    world.check()
    assert world.history.deliveries("d") == [MessageId("m", 1), MessageId("y", 1)]
    with pytest.raises(BrokenPromiseError, match="m:1 comes before y:1"):
        chain_of_three(World("optimal", members, promises={"safety"}, rules=Forgets))


@pytest.mark.parametrize("n", [3, 4, 6, 9])
def test_theorem_8_n_squared_instances_can_be_necessary_at_once(n: int) -> None:
    """Every process multicasts to all others, then unicasts to one who knows of them all.

    Nothing of it has been delivered anywhere else, so that one must pass on every (source,
    destination) pair that does not concern itself: quadratically many, and never more than n * n.
    """
    members = tuple(f"p{i}" for i in range(n))
    hub, rest = members[0], members[1:]
    world = World("optimal", members)
    for one in rest:
        for other in rest:
            if one != other:
                world.send(one, [other])
    for one in rest:
        world.send(one, [hub])
        while any(p.dest == hub for p in world.in_flight):
            world.arrive(next(i for i, p in enumerate(world.in_flight) if p.dest == hub))
    kept = world.endpoints[hub].dependencies()
    units = sum(map(len, kept.values()))
    assert units == (n - 1) * (n - 2)
    assert units <= n * n


@pytest.mark.parametrize("seed", range(20))
def test_never_more_than_n_squared_units(seed: int) -> None:
    n = 2 + seed % 7
    script = random_script(seed, members=n, casts=("unicast", "multicast"), steps=120)
    world = run_script(script, "optimal")
    for one in world.endpoints.values():
        assert sum(map(len, one.dependencies().values())) <= n * n
    for packet in world.packets:
        assert antecede.size(packet).destinations <= n * n


@pytest.mark.parametrize("seed", range(20))
def test_a_sender_has_at_most_one_unit_for_each_process_it_ever_sent_to(seed: int) -> None:
    """Section 6: the sum over senders of nd_i, how many destinations each has had."""
    n = 3 + seed % 6
    script = random_script(seed, members=n, casts=("unicast", "multicast"), steps=120)
    world = run_script(script, "optimal")
    ever: dict[str, set[str]] = {}
    for packet in world.packets:
        if packet.message is not None:
            ever.setdefault(packet.message.sender, set()).add(packet.dest)
    for one in world.endpoints.values():
        units: dict[str, list[str]] = {}
        for message, dests in one.dependencies().items():
            units.setdefault(message.sender, []).extend(dests)
        for sender, all_dests in units.items():
            assert len(all_dests) == len(set(all_dests))
            assert set(all_dests) <= ever[sender]


def test_required_information_is_what_the_figure_of_the_constraints_shows() -> None:
    """[KS98] figure 2: before and after each kind of fixed point."""
    history = History("ijd")
    first = MessageId("i", 1)
    history.send("i", first, ["d", "j"])
    assert history.required("i") == {first: frozenset({"d", "j"})}
    history.deliver("j", first)
    assert history.required("j") == {first: frozenset({"d"})}
    history.send("j", MessageId("j", 1), ["d"])
    assert history.required("j") == {MessageId("j", 1): frozenset({"d"})}
    assert history.carried(MessageId("j", 1), "d") == {first: frozenset({"d"})}
    history.deliver("d", first)
    assert history.required("d") == {first: frozenset({"j"})}
