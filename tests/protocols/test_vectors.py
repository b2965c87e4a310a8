"""vectors: [SES89], and what multicast needs beyond it."""

from antecede.core.messages import Need, Packet
from antecede.core.registry import size

from antecede.check import World
from antecede.protocols.vectors import Vectors
from tests.protocols.rig import (
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    control_of,
    delivered,
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
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1, "event"),)}
    world.drain()
    world.check()

    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    assert control_of(world, "a", 1, "c") == (time(1, 0, 0), ())
    assert control_of(world, "a", 2, "b") == (time(2, 0, 0), (("c", (1, 0, 0)),))
    assert control_of(world, "b", 1, "c") == (time(2, 2, 0), (("c", (1, 0, 0)),))


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
    assert control_of(world, "b", 1, "c") == (time(1, 2, 0), (("c", (1, 0, 0)),))
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


def test_malformed_control_is_refused_and_changes_nothing() -> None:
    world = World("vectors", "abc")
    world.send("a", [*"b"])
    stamp, row = time(1, 0, 0), (0, 0, 0)
    bad: list[object] = [
        None,
        stamp,
        (stamp,),
        (stamp[:1], ()),
        (stamp[::-1], ()),
        (stamp, []),
        (stamp, (("b", (0, 0)),)),
    ]
    bad += [(stamp, (("x", row),)), (stamp, (("c", row), ("b", row))), (time(1, 0, -1), ())]
    bad += [(stamp, (("b",),)), (stamp, ((1, row),)), (stamp, (("b", (1, 0, 0)),))]
    bad += [(None, ("c",), ("b",), (stamp, ())), (None, (), (), (stamp, ()))]
    assert_refused(world.endpoints["b"], world.in_flight[0], bad)


def test_going_on_after_a_restart() -> None:
    assert_restarts("vectors")


class ReplacesItsClock(Vectors):
    """Takes the message's time instead of the maximum, as a published program does."""

    def _absorb(self, packet: Packet) -> object:  # type: ignore[override]
        reached = super()._absorb(packet)
        self._clock = self._carried(packet).rows[0]
        return reached

    def _check_claims(self, packet: Packet) -> None:
        """Accept what the mutant sends; the real one refuses it."""


def test_mutants_are_caught() -> None:
    assert caught("vectors", ReplacesItsClock) in {"liveness", "safety", "no_overblocking"}
