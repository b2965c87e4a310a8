"""central: a relay that sends everything on."""

from dataclasses import replace

import pytest

from antecede.check import World
from antecede.core.messages import Need
from antecede.core.registry import endpoint, size
from antecede.errors import UsageError
from antecede.protocols.central import Central
from tests.protocols.rig import (
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    delivered,
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
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("r", 1, "channel"),)}
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
    assert world.endpoints["a"].waiting() == {("b", 2): (), ("c", 1): (Need("a", 2, "count"),)}
    assert world.take("a", "c") is None
    assert world.take("a", "b") is not None
    assert world.take("a", "c") is not None


def test_wrong_calls() -> None:
    with pytest.raises(UsageError, match="relay=3 is not a member"):
        endpoint("central", process="a", members=("a", "b"), relay=3)


def test_malformed_packets_are_refused_and_change_nothing() -> None:
    world = World("central", "abcd")
    world.send("b", ["c"])
    assert_refused(world.endpoints["a"], world.in_flight[0], [0, (), b""])
    world.arrive(0)
    assert_refused(world.endpoints["c"], world.in_flight[0], [1, ()])
    stray = world.packets[0]
    for wrong in ({"source": "d"}, {"dests": ("b",)}):
        packet = endpoint("central", process="b", members=tuple("abcd")).send(["c"]).packets[0]
        assert packet == stray
        changed = replace(packet, **wrong)
        fresh = endpoint("central", process="a", members=tuple("abcd"))
        with pytest.raises(Exception, match="by way of the relay"):
            fresh.receive(changed)


def test_going_on_after_a_restart() -> None:
    assert_restarts("central", {"relay": "c"})


class WithoutChannelOrder(Central):
    """Trusts the network to keep channels in order."""

    FIFO = False


def test_mutants_are_caught() -> None:
    assert caught("central", WithoutChannelOrder) == "safety"
