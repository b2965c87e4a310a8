"""phases: a reconstruction after [MR93]."""

import pytest

from antecede.check import World
from antecede.endpoint.messages import FREE, MessageId, Need, Packet
from antecede.endpoint.registry import PROTOCOLS, endpoint, restored, size
from antecede.errors import UsageError
from antecede.protocols.phases import Phases
from tests.protocols.rig import (
    RING,
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


def test_worked_example() -> None:
    world = World("phases", "abc", options={"groups": TRIANGLE})
    world.send("a", "B")
    world.send("a", "A")
    world.arrive_packet("a", "b")
    world.send("b", "C")
    world.arrive_packet("b", "c")
    asked = world.in_flight[-1]
    assert (asked.source, asked.dest, asked.control) == ("c", "a", ("ask", 1, 0))
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1, "stamp"),)}
    world.arrive_packet("a", "c")
    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    world.drain()
    world.check()

    assert control_of(world, "a", 1, "c") == (1, (0, 0, 0))
    assert control_of(world, "a", 2, "b") == (2, (0, 1, 0))
    assert control_of(world, "b", 1, "c") == (3, (2, 1, 0))


def test_a_silent_member_answers_with_a_promise() -> None:
    world = World("phases", "abc")
    world.send("a", ["b", "c"])
    world.arrive_packet("a", "b")
    world.send("b", ["a", "c"])
    world.arrive_packet("b", "a")
    assert delivered(world, "a") == [], "c was never heard"
    world.arrive_packet("a", "c", 2)
    world.arrive_packet("a", "c", 1)
    world.arrive_packet("c", "a")
    assert delivered(world, "a") == [("b", 1)]
    assert world.packets[-1].control == ("promise", 1, 0)


@pytest.mark.parametrize("groups", [TRIANGLE | {"D": ("d", "e", "a")}, RING])
def test_overlapping_groups_under_the_oracle(groups: dict[str, tuple[str, ...]]) -> None:
    for world in campaign("phases", 80, groups=groups):
        for packet in world.packets:
            numbers = 1 + len(groups) if packet.kind == "data" else 1
            assert size(packet) == (numbers, 0, 4 * numbers)
    campaign("phases", 30, groups=groups, pull=True)


def test_one_group_under_the_oracle_costs_two_integers() -> None:
    for world in campaign("phases", 60):
        data = [packet for packet in world.packets if packet.kind == "data"]
        assert {size(packet) for packet in data} <= {(2, 0, 8)}
        asks = [packet for packet in world.packets if packet.kind == "control"]
        assert len(asks) % 2 == 0, "every question is answered"
        assert len(asks) <= 2 * len(data) * len(world.endpoints)
    assert PROTOCOLS["phases"].reconstruction


def test_other_casts_are_refused_with_a_hint() -> None:
    one = endpoint("phases", process="a", members=("a", "b", "c"), groups=TRIANGLE)
    with pytest.raises(
        UsageError, match=r"does not send to b, c from 'a': it offers broadcast and groups"
    ):
        one.send(["b", "c"])


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("phases", "abc", options={"groups": TRIANGLE})
    world.send("a", "A")
    packet = world.in_flight[0]
    far = forged(packet, control=(1 << 40, [0, 0, 0]))
    assert_refused(world.endpoints["b"], [far], "far ahead")
    stray = forged(packet, dest_no=2)
    assert_refused(world.endpoints["c"], [stray], "without this process")
    assert_damage_is_harmless(campaign("phases", 5, sizes=(3,))[-1])


@pytest.mark.parametrize("order", [0, -1])
def test_a_silent_member_that_is_gone_is_not_waited_for(order: int) -> None:
    world = World("phases", "abc")
    world.send("a", ["b", "c"])
    world.arrive_packet("a", "b")
    world.send("b", ["a", "c"])
    world.crash("c")
    world.drain(order)
    assert delivered(world, "a") == []
    world.settle(order)
    world.check()
    assert delivered(world, "a") == [("b", 1)]


def test_questions_are_asked_also_after_a_lost_message() -> None:
    world = World("phases", "abc")
    world.send("b", ["a", "c"])
    world.arrive_packet("b", "c")
    world.send("b", ["a", "c"])
    world.lose_packet("b", "a", 1)
    world.drain()
    assert delivered(world, "a") == []
    assert Need("b", 1) in world.endpoints["a"].waiting()[MessageId("b", 2)]
    world.skip("a", "b", 1)
    world.drain()
    assert delivered(world, "a") == [("b", 2)]


def test_going_on_after_a_restart() -> None:
    assert_restarts("phases")


def test_a_message_that_its_channel_has_passed_is_refused() -> None:
    world = World("phases", "abc")
    world.send("a", ["b", "c"])
    world.arrive_packet("a", "b")
    state = world.endpoints["b"].state()
    again = restored(world.view, state | {"prefix": [0, 0, 0]}, resumed=True)
    assert_refused(again, [world.packets[0]], match="comes after what followed it")


class NeverWaitsForPending(Phases):
    """Forgets that what has arrived may still be held."""

    def blocker(self, packet: Packet) -> int:
        return next((key for key in self.missing(packet) if key & self.low > self.view.low), FREE)


class AsksNobody(Phases):
    """Waits for silent members without asking them."""

    def _ask(self, packet: Packet) -> None:
        pass


class WithoutChannelOrder(Phases):
    """Trusts the network to keep channels in order."""

    def check(self, packet: Packet) -> str:
        return ""

    def arrived(self, packet: Packet) -> tuple[int, ...]:
        place = self._channel + packet.source_no
        self.reached[place] = max(self.reached[place], packet.n << self.shift | place)
        self._hear_one(packet)
        return self._heard + packet.source_no, place

    def blocker(self, packet: Packet) -> int:
        return next((key for key in self.missing(packet) if key & self.low < self._channel), FREE)


def test_mutants_are_caught() -> None:
    assert caught("phases", NeverWaitsForPending, groups=RING) == "safety"
    assert caught("phases", WithoutChannelOrder, groups=RING) == "safety"
    assert caught("phases", AsksNobody, groups=RING) == "liveness"
