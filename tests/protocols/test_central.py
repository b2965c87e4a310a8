"""central: a relay that sends everything on."""

import pytest

from antecede.check import World
from antecede.endpoint.messages import Need, Packet
from antecede.endpoint.registry import endpoint, size
from antecede.errors import UsageError
from antecede.protocols.central import Central
from tests.protocols.rig import (
    assert_damage_is_harmless,
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    delivered,
    forged,
)


def test_triangle_by_way_of_the_relay() -> None:
    world = World("central", "rabc")
    world.send("a", ["c"])
    world.send("a", ["b"])
    world.arrive_packet("a", "r")
    world.arrive_packet("a", "r")
    world.arrive_packet("r", "b")
    world.send("b", ["c"])
    world.arrive_packet("b", "r")
    world.arrive_packet("r", "c", 2)
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1),)}
    world.drain()
    world.check()

    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    assert [p.source for p in world.packets if p.message == ("a", 1)] == ["a", "r"]


@pytest.mark.parametrize("options", [None, {"relay": "b"}])
def test_every_cast_under_the_oracle_without_control(options: dict[str, object] | None) -> None:
    for world in campaign("central", 30, options=options):
        assert all(size(packet) == (0, 0, 0) for packet in world.packets)
    campaign("central", 30, options=options, pull=True)


def test_all_deliver_the_messages_of_others_in_one_order() -> None:
    for world in campaign("central", 40, casts=["broadcast"], sizes=(4,)):
        place = {message: i for i, message in enumerate(delivered(world, "a"))}
        for process in "bcd":
            common = [place[m] for m in delivered(world, process) if m in place and m[0] != process]
            assert common == sorted(common)


def test_the_relay_passes_on_what_its_application_has_not_taken() -> None:
    world = World("central", "abc", pull=True, held_max=1)
    for dests in (["a", "c"], ["c"], ["c"]):
        world.send("b", dests)
    world.drain()
    assert len(delivered(world, "c")) == 3
    world.send("b", ["a"])
    assert world.arrive_packet("b", "a")
    world.send("b", ["a"])
    assert not world.arrive_packet("b", "a"), "the relay's own mail is bounded"
    assert world.take("a") is not None
    assert world.arrive_packet("b", "a")


def test_an_application_takes_in_the_order_of_the_relay() -> None:
    world = World("central", "abc", pull=True)
    world.send("b", ["a"])
    world.drain()
    world.send("b", ["a"])
    world.send("c", ["a"])
    for source in "bc":
        world.arrive_packet(source, "a")
    assert world.endpoints["a"].waiting() == {("b", 2): (), ("c", 1): ()}
    assert world.take("a", "c") is None
    assert world.take("a", "b") is not None
    assert world.take("a", "c") is not None


def test_wrong_calls() -> None:
    with pytest.raises(UsageError, match="relay=3 is not a member"):
        endpoint("central", process="a", members=("a", "b"), relay=3)


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("central", "abcd")
    world.send("b", ["c"])
    packet = world.in_flight[0]
    wrong = [forged(packet, source_no=3), forged(packet, dests=2)]
    assert_refused(world.endpoints["a"], wrong, "by way of the relay")
    assert_refused(world.endpoints["a"], [forged(packet, own=4)], "name the message before")
    stray = forged(packet, dest_no=2)
    assert_refused(world.endpoints["c"], [stray], "by way of the relay")
    assert_damage_is_harmless(campaign("central", 5, sizes=(3,))[-1])


def test_who_lost_a_packet_is_told_which_message_it_was() -> None:
    """Every packet names the message before it, whoever sent that."""
    world = World("central", "rabc")
    world.send("a", ["c"])
    world.arrive_packet("a", "r")
    world.lose_packet("r", "c", 1)
    world.send("b", ["c"])
    world.drain()
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1),)}
    (delivery,) = world.endpoints["c"].skip("a", 1).deliveries
    assert delivery.unmet == (Need("a", 1),)


def test_what_was_declared_lost_is_passed_over_in_its_turn() -> None:
    """The relay lives and brings it after all; what follows must not wait for it."""
    world = World("central", "rabc")
    world.send("a", ["c"])
    world.send("b", ["c"])
    world.skip("c", "a")
    world.drain()
    assert delivered(world, "c") == [("b", 1)]
    assert world.endpoints["c"].held == 0


def test_going_on_after_a_restart() -> None:
    assert_restarts("central", {"relay": "c"})


class WithoutChannelOrder(Central):
    """Trusts the network to keep channels in order."""

    def needs(self, packet: Packet) -> list[int]:
        return []


def test_mutants_are_caught() -> None:
    assert caught("central", WithoutChannelOrder) == "safety"
