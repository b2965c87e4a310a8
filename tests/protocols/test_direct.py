"""direct: [PRS97] with the readings of its pruning and of its own slot."""

import pytest

from antecede.check import World
from antecede.endpoint.info import Cast
from antecede.endpoint.messages import Message, Need, Packet
from antecede.endpoint.registry import PROTOCOLS, endpoint, size
from antecede.endpoint.rules import Own
from antecede.errors import UsageError
from antecede.protocols.direct import OWN_SLOTS, PRUNES, Control, Direct
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


def sets(world: World, sender: str, seq: int, dest: str) -> list[dict[str, int]]:
    """Return the sets that a message carried, in the order of the members."""
    control = control_of(world, sender, seq, dest)
    assert isinstance(control, tuple)
    return [dict(pairs) for pairs in control]


@pytest.mark.parametrize("prune", PRUNES)
def test_worked_example_of_three_waiting_messages(prune: str) -> None:
    """The example T3: exactly these pairs travel, and m3 waits for both others."""
    world = World("direct", "abcd", options={"prune": prune})
    world.send("a", [*"bcd"])
    world.arrive_packet("a", "b")
    world.send("b", [*"cd"])
    world.arrive_packet("b", "c")
    world.arrive_packet("a", "c")
    world.send("c", [*"d"])
    for source in "cba":
        world.arrive_packet(source, "d")
    world.send("d", [*"ab"])
    world.drain()
    world.check()

    assert delivered(world, "a") == [("d", 1)]
    assert delivered(world, "b") == [("a", 1), ("d", 1)]
    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    assert delivered(world, "d") == [("a", 1), ("b", 1), ("c", 1)]
    is_literal = prune == "literal"
    assert sets(world, "a", 1, "d") == [{}, {}, {}, {}]
    assert sets(world, "b", 1, "d") == [{}, {"a": 1}, {"a": 1}, {"a": 1}]
    last = {"a": 1, "b": 1} if is_literal else {"b": 1}
    assert sets(world, "c", 1, "d") == [{}, {}, {"b": 1}, last]
    assert sets(world, "d", 1, "a") == [{}, {}, {"a": 1} if is_literal else {}, {"c": 1}]


@pytest.mark.parametrize("prune", PRUNES)
def test_triangle(prune: str) -> None:
    world = World("direct", "abc", options={"prune": prune})
    world.send("a", [*"c"])
    world.send("a", [*"b"])
    world.arrive_packet("a", "b")
    world.send("b", [*"c"])
    world.arrive_packet("b", "c")
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1),)}
    world.drain()
    world.check()

    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    assert sets(world, "a", 1, "c") == [{}, {}, {}]
    assert sets(world, "a", 2, "b") == [{"a": 1}, {}, {"a": 1}]
    assert sets(world, "b", 1, "c") == [{}, {"a": 2}, {"a": 1}]


@pytest.mark.parametrize("prune", PRUNES)
def test_worked_example_where_optimal_has_nothing_left_to_say(prune: str) -> None:
    """The example T3c: two pairs of v are redundant here, and absent in optimal."""

    def run(protocol: str, options: dict[str, object]) -> World:
        world = World(protocol, "abc", options=options)
        for sender, dest in (("a", "b"), ("a", "c")):
            world.send(sender, [dest])
        world.arrive_packet("a", "c")
        world.send("c", [*"b"])
        world.arrive_packet("a", "b")
        world.arrive_packet("c", "b")
        world.send("c", [*"a"])
        world.send("b", [*"a"])
        world.arrive_packet("c", "a")
        world.arrive_packet("b", "a")
        world.send("a", [*"bc"])
        return world

    world = run("direct", {"prune": prune})
    assert sets(world, "a", 3, "b") == [{"a": 2, "b": 1, "c": 2}, {"a": 1}, {"a": 2}]
    assert control_of(run("optimal", {}), "a", 3, "b") == (
        ("a", 2, ()),
        ("b", 1, ()),
        ("c", 2, ()),
    )


READINGS = [{"prune": prune, "own_slot": slot} for prune in PRUNES for slot in OWN_SLOTS]


@pytest.mark.parametrize("options", READINGS)
def test_every_cast_under_the_oracle_within_its_bound(options: dict[str, str]) -> None:
    for world in campaign("direct", 30, options=options):
        n = len(world.endpoints)
        for packet in world.packets:
            entries, dests, model_bytes = size(packet)
            assert entries <= n * n
            assert (dests, model_bytes) == (0, 6 * entries)
    campaign("direct", 20, options=options, pull=True)


def pairs(cast: Cast, **options: str) -> tuple[int, list[object]]:
    """Return how many pairs a campaign carried, and what happened in it."""
    worlds = campaign("direct", 30, casts=[cast], options=options)
    orders: list[object] = [world.history.events for world in worlds]
    return sum(size(packet).entries for w in worlds for packet in w.packets), orders


def test_the_readings_differ_only_in_what_they_carry() -> None:
    for slot in OWN_SLOTS:
        literal, direct, full = (pairs("multicast", prune=p, own_slot=slot) for p in PRUNES)
        assert literal[1] == direct[1] == full[1]
        assert literal[0] > direct[0] > full[0]


def test_a_kept_slot_tells_more_and_so_lets_others_forget_more() -> None:
    """A cost where everyone hears everything, as in broadcast; a gain where few do."""
    emptied, kept = (pairs("broadcast", own_slot=slot) for slot in OWN_SLOTS)
    assert emptied[1] == kept[1]
    assert emptied[0] < kept[0]


def test_with_a_kept_slot_predecessors_are_named_again() -> None:
    world = World("direct", "abc", options={"own_slot": "kept"})
    world.send("b", [*"a"])
    world.arrive_packet("b", "a")
    world.send("a", [*"c"])
    world.send("a", [*"c"])
    assert sets(world, "a", 1, "c") == [{"b": 1}, {}, {}]
    assert sets(world, "a", 2, "c") == [{"a": 1, "b": 1}, {}, {"a": 1}]


def test_what_no_member_sends_is_refused() -> None:
    world = World("direct", "abc")
    world.send("a", [*"b"])
    packet = world.in_flight[0]
    control: Control = ({}, {1: 1 << packet.view.shift | 1}, {})
    assert_refused(world.endpoints["b"], [forged(packet, control=control)], "knows of more")


def test_damaged_bytes_are_harmless() -> None:
    for world in campaign("direct", 3):
        assert_damage_is_harmless(world)


def test_an_unknown_reading_is_refused() -> None:
    with pytest.raises(UsageError, match="prune='none' is unknown; expected one of literal"):
        endpoint("direct", process="a", members=("a", "b", "c"), prune="none")
    with pytest.raises(UsageError, match="own_slot='lost' is unknown; expected one of emptied"):
        endpoint("direct", process="a", members=("a", "b", "c"), own_slot="lost")


def test_it_is_marked_as_a_reconstruction() -> None:
    assert PROTOCOLS["direct"].reconstruction


def test_going_on_after_a_restart() -> None:
    assert_restarts("direct")
    assert_restarts("direct", {"own_slot": "kept"})


class ForgetsOthers(Direct):
    """Records a message only for the receiver, not for the other destinations."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        kept = self._barriers.copy()
        places = super().taken(packet)
        for dest, barrier in enumerate(kept):
            if dest not in (packet.source_no, self.me):
                self._barriers[dest] = barrier
        return places


class AttachesTooLate(Direct):
    """Attaches the sets after the update: a message waits for itself."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        own = super().stamp(message, others, event, after)
        message.control = tuple(self._barriers)
        return own


def test_mutants_are_caught() -> None:
    assert caught("direct", ForgetsOthers) == "safety"
    assert caught("direct", AttachesTooLate) == "no_overblocking"
