"""zones: a reconstruction after the causal separators of [RV95]."""

from dataclasses import replace

import pytest

from antecede.check import World
from antecede.core.messages import MessageId, Need, Packet
from antecede.core.registry import PROTOCOLS, endpoint, size
from antecede.errors import PeerError, UsageError
from antecede.protocols.zones import Zones
from tests.protocols.rig import assert_refused, assert_restarts, campaign, caught, delivered

PAIR = (("a", "b", "c"), ("c", "d", "e"))
LINE = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"))
STAR = (("c", "a"), ("c", "b"), ("d", "c", "e"))


def test_worked_example() -> None:
    world = World("zones", "abcde", options={"zones": PAIR})
    world.send("a", [*"bcde"])
    world.arrive_packet("a", "b")
    world.send("b", [*"acde"])
    world.arrive_packet("b", "c")
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1, "count", "zone 1"),)}
    world.arrive_packet("a", "c")
    world.arrive_packet("c", "d", 2)
    assert world.endpoints["d"].waiting() == {("b", 1): (Need("c", 1, "count", "zone 2"),)}
    world.drain()
    world.check()

    assert delivered(world, "c") == delivered(world, "d") == [("a", 1), ("b", 1)]
    carried = [(p.source, p.message, p.control) for p in world.packets if p.dest in "cd"]
    assert carried == [
        ("a", ("a", 1), (1, 0, 0)),
        ("b", ("b", 1), (1, 1, 0)),
        ("c", ("a", 1), (1, 0, 0)),
        ("c", ("b", 1), (2, 0, 0)),
    ]


@pytest.mark.parametrize("zones", [None, PAIR, LINE, STAR])
def test_zones_under_the_oracle_cost_an_integer_for_each_member(
    zones: tuple[tuple[str, ...], ...] | None,
) -> None:
    options = {"zones": zones}
    for world in campaign("zones", 40, options=options, sizes=(5,)):
        for packet in world.packets:
            ends = {packet.source, packet.dest}
            (zone,) = [part for part in zones or [world.history.members] if ends <= set(part)]
            assert size(packet) == (len(zone), 0, 4 * len(zone))
    campaign("zones", 20, options=options, sizes=(5,), pull=True)
    assert PROTOCOLS["zones"].reconstruction


@pytest.mark.parametrize(
    ("zones", "complaint"),
    [
        ((("a", "b"), ("c", "d")), "shares no gateway"),
        ((("a", "b"), ("b", "c"), ("c", "a", "d")), "shares a, c with the others"),
        ((("a", "b", "c"), ("b", "c", "d")), "shares b, c with the others"),
        ((("a", "b"), ("b", "c")), "leave out d"),
        ("abcd", "not a sequence"),
    ],
)
def test_zones_that_form_no_tree_are_refused(zones: object, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        endpoint("zones", process="a", members=tuple("abcd"), zones=zones)


def test_other_casts_are_refused_with_a_hint() -> None:
    one = endpoint("zones", process="a", members=("a", "b", "c"))
    with pytest.raises(UsageError, match=r"does not unicast to b.*protocols that unicast"):
        one.send(["b"])


def test_malformed_packets_are_refused_and_change_nothing() -> None:
    world = World("zones", "abcde", options={"zones": PAIR})
    world.send("a", [*"bcde"])
    packet = world.in_flight[0]
    bad: list[object] = [None, (), (1, 0), (0, 0, 0), (1, 0, -1), [1, 0, 0]]
    assert_refused(world.endpoints["b"], packet, bad)
    for wrong in ({"source": "d"}, {"message": MessageId("b", 1)}, {"dests": ("c",)}):
        before = world.endpoints["b"].state()
        with pytest.raises(PeerError):
            world.endpoints["b"].receive(replace(packet, **wrong))
        assert world.endpoints["b"].state() == before


def test_going_on_after_a_restart() -> None:
    assert_restarts("zones", {"zones": STAR}, sizes=(5,))


class RelaysOnArrival(Zones):
    """A gateway that sends on before it delivers."""

    def _on_data(self, packet: Packet) -> None:
        assert packet.message is not None
        for place in self._vectors:
            if place != self._shared[packet.source]:
                self._spread(place, packet)
        super()._on_data(packet)

    def _absorb(self, packet: Packet) -> object:  # type: ignore[override]
        place = self._shared[packet.source]
        self._vectors[place][packet.source] += 1
        count = self._vectors[place][packet.source]
        return (Need(packet.source, count, "count", f"zone {place + 1}"),)


def test_mutants_are_caught() -> None:
    promise = caught("zones", RelaysOnArrival, options={"zones": PAIR}, sizes=(5,))
    assert promise == "safety"
