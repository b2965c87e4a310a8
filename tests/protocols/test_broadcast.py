"""broadcast: [BSS91], one group and many that overlap."""

from typing import cast

import pytest

import antecede
from antecede.check import World
from antecede.endpoint.messages import Message, Need, Packet
from antecede.endpoint.registry import endpoint, size
from antecede.endpoint.rules import Own
from antecede.errors import UsageError
from antecede.protocols.broadcast import Broadcast, Grouped
from tests.protocols.rig import (
    RING,
    Groups,
    assert_damage_is_harmless,
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    control_of,
    delivered,
    forged,
)

TRIANGLE = {"A": ("a", "b"), "B": ("a", "c"), "C": ("b", "c")}


def test_worked_example_of_one_group() -> None:
    """The example T4."""
    world = World("broadcast", "abc")
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
    assert control_of(world, "a", 1, "c") == (("a", 1), ("b", 0), ("c", 0))
    assert control_of(world, "b", 1, "c") == (("a", 1), ("b", 1), ("c", 0))
    assert control_of(world, "c", 1, "a") == (("a", 1), ("b", 1), ("c", 1))


def triangle(rules: type[Broadcast] | None = None) -> World:
    world = World(
        "broadcast",
        "abc",
        options={"groups": TRIANGLE},
        promises=(),
        rules=rules,
    )
    world.send("a", "B")
    world.send("a", "A")
    world.arrive_packet("a", "b")
    world.send("b", "C")
    world.arrive_packet("b", "c")
    world.drain()
    return world


def test_worked_example_of_groups_in_a_ring() -> None:
    """The example T4g: b passes on a's number in B, a group that b does not belong to."""
    world = triangle()
    assert control_of(world, "b", 1, "c") == ((2, 0), (1, 0), (1, 0))
    assert delivered(world, "c") == [("a", 1), ("b", 1)]


def test_one_group_under_the_oracle_costs_n_integers() -> None:
    for world in campaign("broadcast", 80):
        n = len(world.endpoints)
        assert {size(packet) for packet in world.packets} <= {(n, 0, 4 * n)}
    campaign("broadcast", 20, pull=True)


@pytest.mark.parametrize("groups", [TRIANGLE | {"D": ("d", "e", "a")}, RING])
def test_overlapping_groups_under_the_oracle(groups: dict[str, tuple[str, ...]]) -> None:
    cells = sum(map(len, groups.values()))
    for world in campaign("broadcast", 150, groups=groups):
        assert {size(packet) for packet in world.packets} <= {(cells, 0, 4 * cells)}
    campaign("broadcast", 30, groups=groups, pull=True)


def test_a_cast_that_no_group_allows_names_those_that_do() -> None:
    ring = endpoint("broadcast", process="a", members=("a", "b", "c"), groups=TRIANGLE)
    with pytest.raises(
        UsageError, match=r"does not send to b, c from .a.: it offers broadcast and groups"
    ):
        ring.send(["b", "c"])
    with pytest.raises(UsageError, match="does not send to b, c"):
        ring.send("C")
    with pytest.raises(UsageError, match="one of the groups A, B, C"):
        ring.send("Z")
    plain = endpoint("broadcast", process="a", members=("a", "b", "c"))
    with pytest.raises(UsageError, match=r"does not send to b from .a.*optimal sends to any"):
        plain.send(["b"])
    assert len(plain.send("all").packets) == 2


@pytest.mark.parametrize(
    ("groups", "complaint"),
    [
        ([("a", "b")], "not a mapping"),
        ({}, "not a mapping"),
        ({"": ("a",)}, "not a name"),
        ({"g": "ab"}, "expected a non-empty tuple"),
        ({"g": ()}, "expected a non-empty tuple"),
        ({"g": ("a", "x")}, "'x', which is not a member"),
        ({"g": {"a", "x"}}, "'x', which is not a member"),
        ({"g": set()}, "expected a non-empty tuple"),
        ({"g": ("a", "a")}, "more than once"),
    ],
)
def test_groups_that_are_none_are_refused(groups: object, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        antecede.endpoint("broadcast", process="a", members=("a", "b"), groups=groups)


def test_what_no_member_sends_is_refused() -> None:
    world = World("broadcast", "abc", options={"groups": TRIANGLE})
    world.send("a", "A")
    packet, b = world.in_flight[0], world.endpoints["b"]
    known = list(cast("list[int]", packet.content.control))
    slot = next(slot for slot, key in enumerate(known) if key & packet.view.low == 1)
    known[slot] += 1 << packet.view.shift  # a message of b, which has sent none
    assert_refused(b, [forged(packet, control=known)], "knows of more messages of this process")
    assert_refused(b, [forged(packet, dests=0b110)], "is not for a group of its sender")


def test_what_no_member_sends_to_one_group_is_refused() -> None:
    world = World("broadcast", "abc")
    world.send("a", "all")
    packet, b = world.in_flight[0], world.endpoints["b"]
    known = [0, 1 << packet.view.shift | 1, 2]
    assert_refused(b, [forged(packet, control=known)], "knows of more messages of this process")
    assert_refused(b, [forged(packet, dests=0b010)], "is not for all members")


@pytest.mark.parametrize("groups", [None, RING])
def test_damaged_bytes_are_harmless(groups: Groups | None) -> None:
    for world in campaign("broadcast", 3, groups=groups):
        assert_damage_is_harmless(world)


def test_going_on_after_a_restart() -> None:
    assert_restarts("broadcast")


def test_a_message_to_oneself_alone_leaves_no_gap() -> None:
    world = World("broadcast", "abc")
    world.send("a", ["a"])
    second = world.send("a", "all")
    world.drain()
    world.check()
    assert world.history.deliveries("b") == [second]
    assert control_of(world, "a", 2, "b") == (("a", 2), ("b", 0), ("c", 0))


class OwnGroupsOnly(Grouped):
    """Carries only the vectors of the sender's own groups: unsafe on rings."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        own = super().stamp(message, others, event, after)
        vector = cast("list[int]", message.control)
        message.control = [
            key if slot in self._mine else key & self.low for slot, key in enumerate(vector)
        ]
        return own


class TicksOnDelivery(Broadcast):
    """Counts deliveries in its own entry, as vector clocks do: the next message waits for ever."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        places = super().taken(packet)
        self.reached[self.me] += 1 << self.view.shift
        return places


def test_mutants_are_caught() -> None:
    assert caught("broadcast", OwnGroupsOnly, groups=RING) == "safety"
    assert caught("broadcast", TicksOnDelivery, casts=["broadcast"]) in {
        "liveness",
        "no_overblocking",
    }


def test_own_groups_only_fails_the_worked_example() -> None:
    assert delivered(triangle(OwnGroupsOnly), "c") == [("b", 1), ("a", 1)]


def test_a_protocol_without_groups_asks_for_a_list() -> None:
    with pytest.raises(UsageError, match=r"string 'g'; expected a list: write \['g'\]"):
        endpoint("matrix", process="a", members=("a", "b")).send("g")
