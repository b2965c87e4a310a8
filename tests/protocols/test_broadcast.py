"""broadcast: [BSS91], one group and many that overlap."""

import pytest
from antecede.core.messages import Need, Packet, Sending
from antecede.core.registry import endpoint, size

import antecede
from antecede.check import World
from antecede.errors import UsageError
from antecede.protocols.broadcast import Broadcast
from tests.protocols.rig import (
    RING,
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    control_of,
    delivered,
)

TRIANGLE = {"A": ("a", "b"), "B": ("a", "c"), "C": ("b", "c")}


def test_worked_example_of_one_group() -> None:
    """The example T4."""
    world = World("broadcast", "abc")
    world.send("a", [*"bc"])
    world.arrive_packet("a", "b")
    world.send("b", [*"ac"])
    world.arrive_packet("b", "c")
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1, "count", "all"),)}
    world.arrive_packet("a", "c")
    world.send("c", [*"ab"])
    world.drain()
    world.check()

    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    assert control_of(world, "a", 1, "c") == (("a", 1), ("b", 0), ("c", 0))
    assert control_of(world, "b", 1, "c") == (("a", 1), ("b", 1), ("c", 0))
    assert control_of(world, "c", 1, "a") == (("a", 1), ("b", 1), ("c", 1))


def triangle(endpoint_class: type[Broadcast] | None = None) -> World:
    world = World(
        "broadcast",
        "abc",
        options={"groups": TRIANGLE},
        promises=(),
        endpoint_class=endpoint_class,
    )
    world.send("a", "B")
    world.send("a", "A")
    world.arrive_packet("a", "b")
    world.send("b", "C")
    world.arrive_packet("b", "c")
    world.drain()
    return world


def test_worked_example_of_groups_in_a_ring() -> None:
    """The example T4g: b passes on a's count in B, a group that b does not belong to."""
    world = triangle()
    assert control_of(world, "b", 1, "c") == ((1, 0), (1, 0), (1, 0))
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
    with pytest.raises(UsageError, match=r"does not multicast to b, c.*protocols that.*optimal"):
        ring.send(["b", "c"])
    with pytest.raises(UsageError, match="does not multicast"):
        ring.send("C")
    with pytest.raises(UsageError, match="one of the groups A, B, C"):
        ring.send("Z")
    plain = endpoint("broadcast", process="a", members=("a", "b", "c"))
    with pytest.raises(UsageError, match=r"does not unicast to b.*protocols that unicast:.*matrix"):
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


def test_malformed_control_is_refused_and_changes_nothing() -> None:
    world = World("broadcast", "abc", options={"groups": TRIANGLE})
    world.send("a", "A")
    good = ((1, 0), (0, 0), (0, 0))
    bad: list[object] = [
        None,
        (),
        good[:2],
        ((1,), (0, 0), (0, 0)),
        ((0, 0), (0, 0), (0, 0)),
        ((1, -1), *good[1:]),
    ]
    bad += [((1, 0.0), *good[1:]), ([1, 0], *good[1:])]
    assert_refused(world.endpoints["b"], world.in_flight[0], bad)


def test_malformed_control_of_one_group_is_refused_and_changes_nothing() -> None:
    world = World("broadcast", "abc")
    world.send("a", "all")
    good = (("a", 1), ("b", 0), ("c", 0))
    bad: list[object] = [None, (), good[:1], good[::-1], (("a", 0), *good[1:]), (1, 0, 0)]
    bad += [(*good, ("d", 1)), (*good, ("d", -1)), (("a", 1), ("b", 1), ("c", 0))]
    bad += [(None, (), (), good), (None, ("c",), ("b",), good), (None, "c", (), good)]
    assert_refused(world.endpoints["b"], world.in_flight[0], bad)


def test_going_on_after_a_restart() -> None:
    assert_restarts("broadcast")


class OwnGroupsOnly(Broadcast):
    """Carries only the vectors of the sender's own groups: unsafe on rings."""

    def _stamp(self, sending: Sending) -> dict[str, object]:
        stamped = super()._stamp(sending)
        own = tuple(
            tuple(vector.values()) if self.process in vector else (0,) * len(vector)
            for vector in self._vectors.values()
        )
        return dict.fromkeys(stamped, own)


class TicksOnDelivery(Broadcast):
    """Counts deliveries in its own entry, as vector clocks do: the next message waits for ever."""

    def _absorb(self, packet: Packet) -> object:  # type: ignore[override]
        reached = super()._absorb(packet)
        for vector in self._vectors.values():
            vector[self.process] += 1
        return reached


def test_mutants_are_caught() -> None:
    assert caught("broadcast", OwnGroupsOnly, groups=RING) == "safety"
    assert caught("broadcast", TicksOnDelivery, casts=["broadcast"]) in {
        "liveness",
        "no_overblocking",
    }


def test_own_groups_only_fails_the_worked_example() -> None:
    assert delivered(triangle(OwnGroupsOnly), "c") == [("b", 1), ("a", 1)]


def test_a_protocol_without_groups_names_those_that_have_them() -> None:
    with pytest.raises(UsageError, match=r"string 'g'; expected a list \(.*: broadcast, phases\)"):
        endpoint("matrix", process="a", members=("a", "b")).send("g")
