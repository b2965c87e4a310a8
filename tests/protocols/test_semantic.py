"""semantic against the oracle, sizes, bad packets, snapshots and mutants."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from antecede import NOTHING, Endpoint, Need, Packet, PeerError, UsageError, endpoint, size
from antecede.check import BrokenPromiseError, World
from antecede.protocols.semantic import Matrix, Semantic
from tests.protocols.prefixes import watch
from tests.protocols.support import (
    assert_goes_on_equal,
    assert_refused,
    promise_broken_by,
    run,
    scripts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from antecede.core.info import Cast
    from antecede.core.messages import Sending
ALL_CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")


@pytest.mark.parametrize("cast_name", ALL_CASTS)
@pytest.mark.parametrize("pull", [False, True])
def test_promises_hold_whatever_messages_depend_on(cast_name: Cast, pull: bool) -> None:
    for script in scripts(70, (cast_name,), ranks=True, pull=pull):
        run(script, "semantic")


def test_a_message_waits_only_for_its_prefix() -> None:
    for script in scripts(80, ALL_CASTS, first=200, ranks=True):
        watch(script)


def test_depending_on_everything_is_causal_order_and_equals_matrix() -> None:
    for script in scripts(30, ALL_CASTS, first=300):
        assert run(script, "semantic").history.events == run(script, "matrix").history.events


def test_depending_on_nothing_holds_nothing() -> None:
    for script in scripts(20, ALL_CASTS, first=400):
        free = tuple((*s[:3], 0) if s[0] == "send" else s for s in script.steps)
        world = World("semantic", script.members)
        for step in free:
            if step[0] == "send":
                world.send(str(step[1]), cast("tuple[str, ...]", step[2]), after=NOTHING)
            elif world.in_flight:
                world.arrive(cast("int", step[1]) % len(world.in_flight), keep=bool(step[2]))
            assert all(ep.held == 0 for ep in world.endpoints.values())


def test_false_causality_costs_holding() -> None:
    held = {True: 0, False: 0}
    for ranks in held:
        for script in scripts(30, ("multicast",), first=500, ranks=ranks):
            world = World("semantic", script.members)
            for step in script.steps:
                if step[0] == "send":
                    rank = cast("int | None", step[3])
                    count = world.history.local_count(str(step[1]))
                    after = None if rank is None else NOTHING if not rank else max(0, count - rank)
                    world.send(str(step[1]), cast("tuple[str, ...]", step[2]), after=after)
                elif world.in_flight:
                    world.arrive(cast("int", step[1]) % len(world.in_flight))
                held[ranks] += sum(ep.held for ep in world.endpoints.values())
    assert 0 < held[True] < held[False]


def test_after_is_checked() -> None:
    a = endpoint("semantic", process="a", members=("a", "b"))
    a.send(["b"])
    for after in (-1, 2, True, "1"):
        with pytest.raises(UsageError, match="is not a local event; expected a number from 1 to 1"):
            a.send(["b"], after=after)  # type: ignore[arg-type]


def test_size_is_two_matrices() -> None:
    a = endpoint("semantic", process="a", members=("a", "b", "c"))
    (packet,) = a.send(["b"]).packets
    assert size(packet) == (18, 0, 72)


def test_memory_of_sends_nobody_depends_on_ends_when_somebody_does() -> None:
    a, b = (endpoint("semantic", process=name, members=("a", "b")) for name in "ab")
    sent = [a.send(["b"], after=NOTHING).packets[0] for _ in range(50)]
    assert len(cast("Semantic", a)._open) == 50
    for packet in sent:
        b.receive(packet)
    a.receive(b.send(["a"]).packets[0])
    assert cast("Semantic", a)._open == []
    assert cast("Semantic", a)._covered == 50


def triple() -> tuple[Endpoint, Packet]:
    a, b = (endpoint("semantic", process=name, members=("a", "b", "c")) for name in "ab")
    a.send(["c"])
    return b, a.send(["b"]).packets[0]


def test_malformed_control_is_refused_and_leaves_no_trace() -> None:
    b, packet = triple()
    prev, conc = cast("tuple[tuple[tuple[int, ...], ...], ...]", packet.control)
    bad: list[object] = [None, (), prev, (prev,), (prev, conc, conc), [prev, conc], (prev, None)]
    bad += [(prev[:2], conc), (prev, conc[:2]), (prev, (*conc, (0, 0, 0))), (list(prev), conc)]
    for row in ((0, 0), (0, 0, -1), (0, 0, True), (0, 0, "1"), [0, 0, 0], (0, 0, 0, 0), None):
        bad += [((row, *prev[1:]), conc), (prev, (*conc[:2], row))]
    bad += [(((0, 1, 1), *prev[1:]), conc), (prev, ((0, 3, 0), *conc[1:]))]
    assert_refused(b, packet, bad)


def test_a_control_packet_is_refused() -> None:
    b, packet = triple()
    before = b.state()
    with pytest.raises(PeerError, match="malformed semantic control"):
        b.receive(type(packet)("a", "b", 9, "control", None, (), b"", packet.control, "semantic"))
    assert b.state() == before


@pytest.mark.parametrize("pull", [False, True])
def test_a_snapshot_goes_on_as_if_nothing_happened(pull: bool) -> None:
    for script in scripts(6, ALL_CASTS, first=60, ranks=True, pull=pull):
        assert_goes_on_equal(script, "semantic")


# Mutants: each breaks one step; the oracle must notice.


class NeverDependent(Semantic):
    """E1 never holds."""

    def _stamp(self, sending: Sending) -> dict[str, object]:
        return super()._stamp(sending._replace(basis=NOTHING))


class CountsAfterMoving(Semantic):
    """E7 as printed: the message counts as sent after MCV, although MCV is its own event."""

    def _stamp(self, sending: Sending) -> dict[str, object]:
        is_dependent = sending.basis > self._covered
        controls = super()._stamp(sending)
        if is_dependent:
            me = self._positions[self.process]
            for dest in sending.others:
                self._prev[me][self._positions[dest]] -= 1
                self._conc[me][self._positions[dest]] += 1
        return controls


class CountsDeliveries(Semantic):
    """DELIV as printed: how many were delivered, whichever they are."""

    def _count(self, source: int, number: int) -> None:
        self._counts[source] += 1


class OwnCellOnly(Semantic):
    """R3 as printed: the receiver counts its own copy of a multicast and no other."""

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        source = self._positions[packet.source]
        before = [self._prev[source][d] + self._conc[source][d] for d in range(len(self.members))]
        reached = super()._absorb(packet)
        prev, conc = cast("tuple[Matrix, Matrix]", packet.control)
        for dest in packet.dests:
            d = self._positions[dest]
            if dest not in (self.process, packet.source):
                known = max(before[d], prev[source][d] + conc[source][d])
                self._conc[source][d] = known - self._prev[source][d]
        return reached


class WaitsForAll(Semantic):
    """R1 on both matrices: plain causal order."""

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        prev, conc = cast("tuple[Matrix, Matrix]", packet.control)
        me = self._positions[self.process]
        for k, member in enumerate(self.members):
            if self._counts[k] < prev[k][me] + conc[k][me]:
                yield Need(member, prev[k][me] + conc[k][me], "count")


class ForgetsPeers(Semantic):
    """Definition 5.3 without the maximum for the own events: too many sends look new."""

    def _cover(self) -> None:
        """Learn nothing."""


@pytest.mark.parametrize(
    "mutant", [NeverDependent, CountsAfterMoving, CountsDeliveries, OwnCellOnly]
)
def test_a_broken_step_loses_order(mutant: type[Semantic]) -> None:
    assert promise_broken_by(mutant, ALL_CASTS, ranks=True, promises={"safety"}) == "safety"


@pytest.mark.parametrize("mutant", [WaitsForAll, ForgetsPeers])
def test_waiting_for_more_than_the_prefix_is_noticed(mutant: type[Semantic]) -> None:
    with pytest.raises(BrokenPromiseError, match="for nothing in its prefix"):
        watch_many(mutant)


def watch_many(mutant: type[Semantic]) -> None:
    for script in scripts(300, ALL_CASTS, ranks=True):
        watch(script, mutant)
