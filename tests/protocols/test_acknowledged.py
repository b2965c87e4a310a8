"""acknowledged against the oracle and [KS98], its packets, bad controls, snapshots and mutants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import pytest

from antecede import Endpoint, MessageId, Need, Packet, PeerError, UsageError, endpoint, size
from antecede.check import World
from antecede.check.scripts import run_step
from antecede.protocols.acknowledged import Acknowledged
from tests.protocols.support import (
    assert_goes_on_equal,
    assert_refused,
    promise_broken_by,
    scripts,
)

if TYPE_CHECKING:
    from antecede.core.info import Cast

ALL_CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")
MEMBERS = ("a", "b", "c")
Units = set[tuple[MessageId, str]]


def units(entries: dict[MessageId, frozenset[str]]) -> Units:
    return {(message, dest) for message, dests in entries.items() for dest in dests}


@pytest.mark.parametrize("releases", [False, True])
def test_it_keeps_what_ks98_requires_except_for_what_is_delivered(releases: bool) -> None:
    """And of its own messages, exactly the copies required that are not acknowledged."""
    fewer = 0
    for script in scripts(60, ALL_CASTS):
        world = World(
            "acknowledged", script.members, options={"releases": releases}, fifo=script.fifo
        )
        for step in script.steps:
            run_step(world, step)
            for name, one in world.endpoints.items():
                kept, due = units(one.dependencies()), units(world.history.required(name))
                assert all(world.history.is_delivered(dest, m) for m, dest in kept ^ due)
                open_copies = cast("Acknowledged", one)._open
                own = {(m, dest) for m, dest in due if m.sender == name}
                assert {(m, dest) for m, dest in kept if m.sender == name} == {
                    (m, dest) for m, dest in own if m.seq in open_copies.get(dest, ())
                }
                fewer += len(due - kept)
    assert fewer > 0


def group(**options: Any) -> dict[str, Endpoint]:
    return {
        name: endpoint("acknowledged", process=name, members=MEMBERS, **options) for name in MEMBERS
    }


def carry(ends: dict[str, Endpoint], packets: Iterable[Packet]) -> list[Packet]:
    """Let packets arrive; return those that they cause."""
    return [new for packet in packets for new in ends[packet.dest].receive(packet).packets]


def test_nothing_is_carried_about_what_is_acknowledged() -> None:
    ends = group()
    first = ends["a"].send(["b", "c"]).packets
    answers = carry(ends, first)
    assert [(p.source, p.dest, p.control) for p in answers] == [
        ("b", "a", (1, 0, ())),
        ("c", "a", (1, 0, ())),
    ]
    releases = carry(ends, answers)
    assert [(p.dest, p.control) for p in releases] == [("b", (1,)), ("c", (1,))]
    assert carry(ends, releases) == []
    assert all(end.dependencies() == {} == end.state()["own"]["_log"] for end in ends.values())
    for source, dest in (("a", "b"), ("b", "c")):
        (packet,) = ends[source].send([dest]).packets
        assert packet.control == (packet.message_id.seq - 1, ())
        assert size(packet) == (0, 0, 4)


def test_without_releases_the_next_message_tells() -> None:
    ends = group(releases=False)
    assert carry(ends, carry(ends, ends["a"].send(["b", "c"]).packets)) == []
    (packet,) = ends["b"].send(["a"]).packets
    assert packet.control == (0, (("a", 1, ("c",)),))
    (packet,) = ends["a"].send(["b"]).packets
    assert packet.control == (1, ())


def test_a_correction_tells_whoever_still_carries_what_is_done() -> None:
    """When b sends, it does not know that a's message is delivered; c does, and tells b."""
    ends = group()
    first = ends["a"].send(["b", "c"]).packets
    releases = carry(ends, carry(ends, first))
    (late,) = [packet for packet in releases if packet.dest == "b"]
    carry(ends, [packet for packet in releases if packet.dest == "c"])
    data = ends["b"].send(["c"]).packets
    assert data[0].control == (0, (("a", 1, ("c",)),))
    (answer,) = carry(ends, data)
    assert answer.control == (1, 0, (("a", 1),))
    assert size(answer) == (1, 0, 14)
    carry(ends, [answer])
    assert "a" not in cast("Acknowledged", ends["b"])._log
    assert carry(ends, [late]) == []


def test_it_can_keep_more_than_ks98_requires() -> None:
    """The smallest case: c has forgotten x, so its message cannot tell b that x is done there."""
    world = World("acknowledged", MEMBERS)
    x = world.send("a", ["b", "c"])
    for source, dest in (("a", "b"), ("a", "c"), ("b", "a"), ("c", "a"), ("a", "c")):
        assert world.arrive_packet(source, dest)
    world.send("c", ["b"])
    assert world.arrive_packet("c", "b")
    b = world.endpoints["b"]
    assert b.dependencies() == {x: {"c"}}
    assert world.history.required("b") == {}
    assert world.history.is_delivered("c", x)
    world.drain()
    assert b.dependencies() == {}


def test_options_are_checked() -> None:
    with pytest.raises(UsageError, match="releases=1 is neither True nor False"):
        group(releases=1)


def test_malformed_control_is_refused_and_leaves_no_trace() -> None:
    ends = group()
    ends["a"].send(["c"])
    (packet,) = ends["a"].send(["b"]).packets
    entry = ("a", 1, ("c",))
    assert packet.control == (0, (entry,))
    bad: list[object] = [None, (), (0,), (entry,), (0, entry), (-1, ()), (True, ()), ("0", ())]
    bad += [(2, ()), (0, ((*entry, 1),)), (0, (entry, entry)), (0, [entry]), (0, (("z", 1, ()),))]
    bad += [(0, (("a", 2, ("c",)),)), (0, (("a", 1, ("a",)),)), (0, (("b", 1, ("c",)),))]
    assert_refused(ends["b"], packet, bad)


def test_acknowledgements_of_what_was_not_sent_are_refused() -> None:
    ends = group()
    (answer,) = carry(ends, ends["a"].send(["b"]).packets)
    assert answer.control == (1, 0, ())
    bad: list[object] = [None, (), (1, 0), (-1,), (1, 0, None), (1, 0, (("z", 1),))]
    bad += [
        (2, 0, ()),
        (1, 0, (("a", 1),)),
        (1, 0, (("b", 1),)),
        (1, 0, (("c", 0),)),
        (1, 0, (), 0),
    ]
    assert_refused(ends["a"], answer, bad)
    with pytest.raises(PeerError, match="knows of 1 sends of 'a', which has made 0"):
        group()["a"].receive(answer)


@pytest.mark.parametrize("pull", [False, True])
def test_a_snapshot_goes_on_as_if_nothing_happened(pull: bool) -> None:
    for script in scripts(4, ALL_CASTS, first=60, pull=pull):
        assert_goes_on_equal(script, "acknowledged")


# Mutants: each breaks one step; the oracle must notice.


class AcknowledgesArrival(Acknowledged):
    """The acknowledgement means arrived, not delivered."""

    def _on_data(self, packet: Packet) -> None:
        self._emit_control(packet.source, (packet.message_id.seq, self._mark, ()))
        super()._on_data(packet)


class OneSpeaksForAll(Acknowledged):
    """An acknowledgement by one destination counts for all."""

    def _drop_acknowledged(self, dest: str, seq: int) -> None:
        for name in list(self._open):
            super()._drop_acknowledged(name, seq)


class CallsAllDone(Acknowledged):
    """The mark is simply the number of the last message."""

    def _raise_mark(self) -> None:
        self._learn(self.process, self._seq - 1)


class ForgetsWithoutNeed(Acknowledged):
    """A newer message of the sender makes all older ones count as done."""

    def _learn(self, sender: str, mark: int) -> None:
        super()._learn(sender, max(mark, max(self._log.get(sender, ()), default=0)))


class NeverAnswers(Acknowledged):
    """Keeps everything that [KS98] requires, delivered or not: safe, but nothing is gained."""

    def _emit_control(self, dest: str, control: object) -> None:
        """Send nothing."""


class Wakes(Acknowledged):
    """Wakes nobody."""

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        super()._absorb(packet)
        return ()


@pytest.mark.parametrize(
    "mutant", [AcknowledgesArrival, OneSpeaksForAll, CallsAllDone, ForgetsWithoutNeed]
)
def test_a_broken_step_loses_order(mutant: type[Acknowledged]) -> None:
    assert promise_broken_by(mutant, ALL_CASTS, promises={"safety"}) == "safety"


def test_a_message_that_is_not_woken_is_noticed() -> None:
    assert promise_broken_by(Wakes, ALL_CASTS) in {"liveness", "no_overblocking"}


def test_what_is_saved_is_saved_by_acknowledgements() -> None:
    """Without them it keeps exactly what [KS98] requires."""
    for script in scripts(20, ALL_CASTS):
        world = World("acknowledged", script.members, fifo=script.fifo, endpoint_class=NeverAnswers)
        for step in script.steps:
            run_step(world, step)
            for name, one in world.endpoints.items():
                assert one.dependencies() == world.history.required(name)
