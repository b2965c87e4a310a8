"""hierarchy: representatives run optimal among themselves."""

import pytest

from antecede.check import World
from antecede.endpoint.messages import FREE, Need, Packet
from antecede.endpoint.registry import endpoint, size
from antecede.errors import HoldFullError, UsageError
from antecede.protocols.hierarchy import Hierarchy
from tests.protocols.rig import (
    assert_damage_is_harmless,
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    delivered,
    forged,
)

TWO = {"clusters": (("a", "b"), ("d", "c", "e"))}
THREE = {"clusters": (("a",), ("c", "b"), ("e", "d"))}
ALONE = {"clusters": (("a",), ("b",), ("c",), ("d",), ("e",))}


def test_a_message_goes_up_across_and_down() -> None:
    world = World("hierarchy", "abcde", options=TWO)
    world.send("b", ["a", "c", "e"])
    world.drain()
    world.check()
    hops = [(packet.source, packet.dest, packet.control) for packet in world.packets]
    assert hops == [
        ("b", "a", None),
        ("a", "d", (1, ())),
        ("d", "c", None),
        ("d", "e", None),
    ]
    assert [size(packet) for packet in world.packets] == [
        (0, 0, 0),
        (1, 0, 4),
        (0, 0, 0),
        (0, 0, 0),
    ]
    assert world.endpoints["d"].held == 0


def test_representatives_hold_for_their_clusters() -> None:
    """The triangle between clusters: e gets both, in order, from d."""
    world = World("hierarchy", "abcde", options=THREE)
    world.send("a", ["d"])
    world.send("a", ["b"])
    world.arrive_packet("a", "c")
    world.arrive_packet("c", "b")
    world.send("b", ["d"])
    world.arrive_packet("b", "c")
    world.arrive_packet("c", "e")
    waits = {("b", 1): (Need("a", 1, "relayed"),)}
    assert world.endpoints["e"].waiting() == waits
    assert world.endpoints["e"].held == 1
    world.drain()
    world.check()
    assert delivered(world, "d") == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("options", [TWO, THREE, ALONE])
def test_clusters_under_the_oracle_cost_what_optimal_costs_for_their_heads(
    options: dict[str, tuple[tuple[str, ...], ...]],
) -> None:
    heads = len(options["clusters"])
    head_of = {name: cluster[0] for cluster in options["clusters"] for name in cluster}
    for world in campaign("hierarchy", 20, options=options, sizes=(5,)):
        for packet in world.packets:
            entries, dests, model_bytes = size(packet)
            if head_of[packet.source] == head_of[packet.dest]:
                assert (entries, dests, model_bytes) == (0, 0, 0)
            else:
                assert dests <= heads * heads
                assert entries - 1 <= heads * heads
                assert model_bytes == 4 + 6 * (entries - 1) + 2 * dests
    campaign("hierarchy", 8, options=options, sizes=(5,), pull=True)


@pytest.mark.parametrize("inner", ["optimal", "matrix"])
def test_a_number_of_a_representative_gives_up_nothing_that_it_passed_on(inner: str) -> None:
    """What a passed on is b's: only if a is gone does nobody wait for it."""
    world = World("hierarchy", "abcde", options=TWO | {"inner": inner})
    one, two = (world.send("b", ["d"]) for _ in "12")
    world.arrive_packet("b", "a")
    world.arrive_packet("b", "a")
    world.arrive_packet("a", "d", 2)
    world.skip("d", "a", 1)
    assert world.endpoints["d"].waiting() == {two: (Need("a", 1, "relayed"),)}
    world.arrive_packet("a", "d")
    assert world.history.deliveries("d") == [one, two]
    _, four = (world.send("a", ["d"]) for _ in "12")
    world.arrive_packet("a", "d", 4)
    assert world.endpoints["d"].waiting() == {four: (Need("a", 3, "relayed"),)}
    world.skip("d", "a")
    assert world.history.deliveries("d") == [one, two, four]


DEEP = {"clusters": (("a", ("b", "c")), ("d", "e"))}
DEEPEST = {"clusters": (("a", ("b", ("c", ("d", "e")))),)}


def test_with_more_levels_a_message_turns_around_where_it_can() -> None:
    world = World("hierarchy", "abcde", options=DEEP)
    world.send("c", ["b"])
    world.send("c", ["a", "e"])
    world.drain()
    world.check()
    hops = [(str(p.message), p.source, p.dest) for p in world.packets]
    assert hops == [
        ("c:1", "c", "b"),
        ("c:2", "c", "b"),
        ("c:2", "b", "a"),
        ("c:2", "a", "d"),
        ("c:2", "d", "e"),
    ]


@pytest.mark.parametrize("options", [DEEP, DEEPEST])
def test_more_levels_under_the_oracle(options: dict[str, object]) -> None:
    campaign("hierarchy", 25, options=options, sizes=(5,))
    campaign("hierarchy", 6, options=options, sizes=(5,), pull=True)
    assert_restarts("hierarchy", options, sizes=(5,))


@pytest.mark.parametrize("clusters", [TWO, THREE, DEEP])
def test_representatives_may_run_matrix(clusters: dict[str, tuple[object, ...]]) -> None:
    """It costs a matrix of the representatives, where optimal costs less."""
    options = clusters | {"inner": "matrix"}
    cells = len(clusters["clusters"]) ** 2
    for world in campaign("hierarchy", 15, options=options, sizes=(5,)):
        found = {size(packet) for packet in world.packets}
        assert found <= {(0, 0, 0), (1 + cells, 0, 4 + 4 * cells)}
    assert_restarts("hierarchy", options, sizes=(5,))


def test_one_cluster_of_all_under_the_oracle_is_free_of_control() -> None:
    for world in campaign("hierarchy", 40):
        assert all(size(packet) == (0, 0, 0) for packet in world.packets)


def test_holding_is_bounded_and_passing_on_needs_no_room() -> None:
    world = World("hierarchy", "abcde", options=THREE, held_max=0)
    world.send("a", ["d"])
    world.send("a", ["b"])
    for source, dest in ("ac", "cb"):
        world.arrive_packet(source, dest)
    world.send("b", ["d"])
    world.arrive_packet("b", "c")
    late = next(packet for packet in world.in_flight if packet.dest == "e" and packet.source == "c")
    before = world.endpoints["e"].state()
    with pytest.raises(HoldFullError):
        world.endpoints["e"].receive(late)
    assert world.endpoints["e"].state() == before
    assert world.drain()
    world.check()


@pytest.mark.parametrize(
    ("clusters", "complaint"),
    [
        ((("a", "b"), ("b", "c")), "overlap"),
        ((("a", "b"),), "leave out c"),
        ("abc", "not a sequence"),
        ((("a", "b", "c"), ()), "expected a non-empty tuple"),
        (((("a", "b"), "c"),), "starts with its representative"),
        ((("a", ("b", "a"), "c"),), "more than once"),
    ],
)
def test_clusters_that_are_none_are_refused(clusters: object, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        endpoint("hierarchy", process="a", members=("a", "b", "c"), clusters=clusters)


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("hierarchy", "abcde", options=TWO)
    world.send("b", ["c"])
    up = world.in_flight[0]
    assert_refused(world.endpoints["a"], [forged(up, source_no=4)], "by way of a representative")
    world.arrive(0)
    across = world.in_flight[0]
    wrong = [forged(across, sender=2), forged(across, control=None, own=None)]
    assert_refused(world.endpoints["d"], wrong)
    world.arrive(0)
    down = world.in_flight[0]
    wrong = [forged(down, source_no=0), forged(down, dests=2), forged(down, control=across)]
    assert_refused(world.endpoints["c"], wrong)
    again = forged(across, n=2)
    assert_refused(world.endpoints["d"], [again], "has the number 1 of its representative again")
    assert_damage_is_harmless(campaign("hierarchy", 3, options=THREE, sizes=(5,))[-1])


def test_going_on_after_a_restart() -> None:
    assert_restarts("hierarchy", TWO, sizes=(5,))


class SkipsTheHigherLevel(Hierarchy):
    """Passes on what comes from other representatives in the order of arrival."""

    def blocker(self, packet: Packet) -> int:
        return FREE if packet.content.control is not None else super().blocker(packet)


def test_mutants_are_caught() -> None:
    promise = caught("hierarchy", SkipsTheHigherLevel, options=THREE, sizes=(5,))
    assert promise == "safety"
