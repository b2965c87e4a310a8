"""zones: a reconstruction after the causal separators of [RV95]."""

import pytest

from antecede.check import World
from antecede.endpoint.messages import Need, Packet
from antecede.endpoint.registry import PROTOCOLS, endpoint, size
from antecede.errors import UsageError
from antecede.protocols.zones import Zones
from tests.protocols.rig import (
    assert_damage_is_harmless,
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    delivered,
    forged,
)

PAIR = (("a", "b", "c"), ("c", "d", "e"))
LINE = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"))
STAR = (("c", "a"), ("c", "b"), ("d", "c", "e"))


def test_worked_example() -> None:
    world = World("zones", "abcde", options={"zones": PAIR})
    world.send("a", [*"bcde"])
    world.arrive_packet("a", "b")
    world.send("b", [*"acde"])
    world.arrive_packet("b", "c")
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1, "relayed"),)}
    world.arrive_packet("a", "c")
    world.arrive_packet("c", "d", 2)
    assert world.endpoints["d"].waiting() == {("b", 1): (Need("c", 1, "relayed"),)}
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


def test_a_number_of_a_gateway_gives_up_nothing_that_it_passed_on() -> None:
    """What c passes on first is a's, and its own first message is its second."""
    world = World("zones", "abcde", options={"zones": PAIR})
    one = world.send("a", [*"bcde"])
    world.arrive_packet("a", "c")
    two = world.send("c", [*"abde"])
    world.arrive_packet("c", "d", 2)
    world.skip("d", "c", 1)
    assert world.history.deliveries("d") == []
    world.arrive_packet("c", "d", 1)
    assert world.history.deliveries("d") == [one, two]
    last = [world.send("c", [*"abde"]) for _ in "12"][1]
    world.arrive_packet("c", "d", 4)
    assert world.endpoints["d"].waiting() == {last: (Need("c", 3, "relayed"),)}
    world.skip("d", "c")
    assert world.history.deliveries("d") == [one, two, last]


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
    with pytest.raises(UsageError, match=r"does not send to b from 'a': it offers broadcast"):
        one.send(["b"])


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("zones", "abcde", options={"zones": PAIR})
    world.send("a", [*"bcde"])
    packet = world.in_flight[0]
    b = world.endpoints["b"]
    assert_refused(b, [forged(packet, source_no=3)], "not of a process in the same zone")
    assert_refused(b, [forged(packet, control=(0, [2, 0, 0]))], "is not counted")
    wrong = [forged(packet, sender=1), forged(packet, dests=4)]
    assert_refused(b, wrong, "not a message of another process for this one")
    assert_refused(b, [forged(packet, control=(0, [1, 1, 0]))], "knows of more messages")
    done = campaign("zones", 3, options={"zones": PAIR}, sizes=(5,))[-1]
    assert_damage_is_harmless(done)


def test_going_on_after_a_restart() -> None:
    assert_restarts("zones", {"zones": STAR}, sizes=(5,))


class RelaysOnArrival(Zones):
    """A gateway that sends on before it delivers."""

    def arrived(self, packet: Packet) -> None:
        for zone in self._counts:
            if zone != self._shared[packet.source_no]:
                self._spread(zone, packet.content)

    def taken(self, packet: Packet) -> tuple[int, ...]:
        self.reached[packet.source_no] = self.key(packet)
        return self.places[packet.source_no]


def test_mutants_are_caught() -> None:
    promise = caught("zones", RelaysOnArrival, options={"zones": PAIR}, sizes=(5,))
    assert promise == "safety"
