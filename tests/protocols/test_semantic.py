"""semantic against the oracle, sizes, bad packets, snapshots and mutants."""

from __future__ import annotations

from operator import add, sub
from typing import TYPE_CHECKING, cast

import pytest

from antecede import NOTHING, Endpoint, Packet, UsageError, endpoint, size
from antecede.check import BrokenPromiseError, World
from antecede.endpoint.messages import Message
from antecede.protocols.semantic import Control, Semantic
from tests.protocols.rig import assert_damage_is_harmless, forged
from tests.protocols.support import (
    assert_goes_on_equal,
    assert_refused,
    promise_broken_by,
    run,
    scripts,
)
from tests.support.prefixes import watch
from tests.support.rounds import some

if TYPE_CHECKING:
    from antecede.endpoint.info import Cast
    from antecede.endpoint.rules import Own
ALL_CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")


@pytest.mark.parametrize("cast_name", ALL_CASTS)
@pytest.mark.parametrize("pull", [False, True])
def test_promises_hold_whatever_messages_depend_on(cast_name: Cast, pull: bool) -> None:
    for script in scripts(some(70), (cast_name,), ranks=True, pull=pull):
        run(script, "semantic")


def test_a_message_waits_only_for_its_prefix() -> None:
    for script in scripts(some(80), ALL_CASTS, first=200, ranks=True):
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


def kept(end: Endpoint) -> dict[str, list[object]]:
    """Return what the rules keep."""
    return cast("dict[str, list[object]]", end.state()["rules"])


def test_memory_of_sends_nobody_depends_on_ends_when_somebody_does() -> None:
    a, b = (endpoint("semantic", process=name, members=("a", "b")) for name in "ab")
    sent = [a.send(["b"], after=NOTHING).packets[0] for _ in range(50)]
    assert len(kept(a)["open"]) == 50
    for packet in sent:
        b.receive(packet)
    a.receive(b.send(["a"]).packets[0])
    assert kept(a)["open"] == []
    assert a.notes() == {"covered": 50}


def triple() -> tuple[Endpoint, Packet]:
    a, b = (endpoint("semantic", process=name, members=("a", "b", "c")) for name in "ab")
    a.send(["c"])
    return b, a.send(["b"]).packets[0]


def test_what_no_member_sends_is_refused() -> None:
    b, packet = triple()
    prev, conc, first, last = cast("Control", packet.content.control)
    more = [(0, 1, 1), *prev[1:]]
    assert_refused(b, forged(packet, control=(more, conc, first, last)), match="packets came")
    late = [*last[:1], 1 << packet.view.shift | 1, *last[2:]]
    assert_refused(b, forged(packet, control=(prev, conc, first, late)), match="knows of more")
    mine = [prev[0], (1, 0, 0), prev[2]]
    assert_refused(b, forged(packet, control=(mine, conc, first, last)), match="knows of more")


def test_damaged_bytes_are_harmless() -> None:
    for script in scripts(3, ALL_CASTS, first=20, ranks=True):
        assert_damage_is_harmless(run(script, "semantic"))


@pytest.mark.parametrize("pull", [False, True])
def test_a_snapshot_goes_on_as_if_nothing_happened(pull: bool) -> None:
    for script in scripts(6, ALL_CASTS, first=60, ranks=True, pull=pull):
        assert_goes_on_equal(script, "semantic")


# Mutants: each breaks one step; the oracle must notice.


class NeverDependent(Semantic):
    """E1 never holds."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        return super().stamp(message, others, event, NOTHING)


class CountsAfterMoving(Semantic):
    """E7 as printed: the message counts as sent after MCV, although MCV is its own event."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        is_dependent = after > self._covered
        own = super().stamp(message, others, event, after)
        if is_dependent:
            me = self.me
            ones = tuple([int(dest in others) for dest in range(self.view.n)])
            self._prev[me] = tuple(map(sub, self._prev[me], ones))
            self._conc[me] = tuple(map(add, self._conc[me], ones))
        return own


class CountsDeliveries(Semantic):
    """DELIV as printed: how many were delivered, whichever they are."""

    def _count(self, sender: int, n: int, seq: int) -> tuple[int, ...]:
        self.reached[sender] += 1 << self.shift
        return self.places[sender]


class OwnCellOnly(Semantic):
    """R3 as printed: the receiver counts its own copy of a multicast and no other."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        one = packet.content
        alone = Message(one.view, one.sender, one.seq, 1 << self.me, b"", one.control)
        return super().taken(Packet(alone, packet.source_no, packet.dest_no, packet.n, None))


class WaitsForAll(Semantic):
    """R1 on both matrices: plain causal order."""

    def needs(self, packet: Packet) -> list[int]:
        prev, conc, _, _ = cast("Control", packet.content.control)
        me, shift = self.me, self.shift
        return [prev[k][me] + conc[k][me] << shift | k for k in range(self.view.n)]


class ForgetsPeers(Semantic):
    """Definition 5.3 without the maximum for the own events: too many sends look new."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        before = self._covered, self._open.copy()
        places = super().taken(packet)
        self._covered, self._open = before
        return places


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
