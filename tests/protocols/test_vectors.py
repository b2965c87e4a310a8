"""vectors: [SES89], and what multicast needs beyond it."""

from typing import cast

from antecede.check import World
from antecede.endpoint.messages import Need, Packet
from antecede.endpoint.registry import size
from antecede.protocols.vectors import Control, Vectors
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


def time(*counts: int) -> tuple[tuple[str, int], ...]:
    return tuple(zip("abc", counts, strict=True))


def test_triangle() -> None:
    """The example T1: c waits for a, by the vector that b passed on."""
    world = World("vectors", "abc")
    world.send("a", [*"c"])
    world.send("a", [*"b"])
    world.arrive_packet("a", "b")
    world.send("b", [*"c"])
    world.arrive_packet("b", "c")
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1),)}
    world.drain()
    world.check()

    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    assert control_of(world, "a", 1, "c") == (time(1, 0, 0), ())
    assert control_of(world, "a", 2, "b") == (time(2, 0, 0), (("c", (1, 0, 0)),))
    assert control_of(world, "b", 1, "c") == (time(2, 1, 0), (("c", (1, 0, 0)),))


def test_multicast() -> None:
    """The example T1c: b knows that a's message went to c as well."""
    world = World("vectors", "abc")
    world.send("a", [*"bc"])
    world.arrive_packet("a", "b")
    world.send("b", [*"c"])
    world.arrive_packet("b", "c")
    world.drain()
    world.check()

    assert control_of(world, "a", 1, "c") == (time(1, 0, 0), ())
    assert control_of(world, "b", 1, "c") == (time(1, 1, 0), (("c", (1, 0, 0)),))
    assert delivered(world, "c") == [("a", 1), ("b", 1)]


def test_every_cast_under_the_oracle_within_its_bound() -> None:
    for world in campaign("vectors", 50):
        n = len(world.endpoints)
        for packet in world.packets:
            entries, dests, model_bytes = size(packet)
            assert entries <= 1 + n
            assert dests == 0
            assert model_bytes == 4 * n + (2 + 4 * n) * (entries - 1)
    campaign("vectors", 25, pull=True)


def test_what_no_member_sends_is_refused() -> None:
    world = World("vectors", "abc")
    world.send("a", [*"b"])
    packet = world.in_flight[0]
    control: Control = (1, 1, 0), {}
    assert_refused(world.endpoints["b"], [forged(packet, control=control)], "knows of more")


def test_damaged_bytes_are_harmless() -> None:
    for world in campaign("vectors", 3):
        assert_damage_is_harmless(world)


def test_after_a_loss_nothing_waits_for_what_others_were_told() -> None:
    """d's message for c knew of a's for d; c never hears of that one, and must not wait for it."""
    world = World("vectors", "abcd")
    world.send("a", [*"d"])
    world.arrive_packet("a", "d")
    world.send("d", [*"c"])
    world.send("d", [*"b"])
    world.arrive_packet("d", "b")
    last = world.send("b", [*"c"])
    world.lose_packet("d", "c", 1)
    world.arrive_packet("b", "c")
    c = world.endpoints["c"]
    assert set(c.waiting()[last]) == {Need("a", 1), Need("d", 1)}
    (delivery,) = c.skip("d", 1).deliveries
    assert (delivery.message, delivery.unmet) == (last, (Need("d", 1),))


def test_going_on_after_a_restart() -> None:
    assert_restarts("vectors")


class ReplacesItsClock(Vectors):
    """Takes the message's time instead of the maximum, as a published program does."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        places = super().taken(packet)
        time = cast("Control", packet.content.control)[0]
        self.reached[:] = [number << self.shift | k for k, number in enumerate(time)]
        return places

    def check(self, packet: Packet) -> str:
        """Accept what the mutant sends; the real one refuses it."""
        return ""


def test_mutants_are_caught() -> None:
    assert caught("vectors", ReplacesItsClock) in {"liveness", "safety", "no_overblocking"}


def test_two_losses_may_leave_an_effect_of_the_second_unmarked() -> None:
    """As the record says: b:1, which asks for both, takes the other one along."""
    world = World("vectors", "abcde")
    lost, other = world.send("e", ["b", "c"]), world.send("a", ["b", "c", "d"])
    for source, dest in ("eb", "ab", "ad"):
        world.arrive_packet(source, dest)
    world.send("b", ["c"])
    world.send("d", ["c"])
    world.arrive_packet("b", "c")
    for message in (lost, other):
        world.skip("c", *message)
    assert world.marked == 1
    world.arrive_packet("d", "c")
    assert world.marked == 1
    assert world.info.unmarked_by_skip
