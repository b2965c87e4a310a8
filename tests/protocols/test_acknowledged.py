"""acknowledged against the oracle and [KS98], its packets, lies, snapshots and mutants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import pytest

from antecede import Endpoint, MessageId, Packet, UsageError, endpoint, size
from antecede.check import World
from antecede.check.scripts import run_step
from antecede.protocols.acknowledged import Acknowledged
from tests.protocols.support import (
    assert_goes_on_equal,
    assert_refused,
    promise_broken_by,
    scripts,
)
from tests.support.rounds import some

if TYPE_CHECKING:
    from antecede.endpoint.info import Cast

ALL_CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")
MEMBERS = ("a", "b", "c")
Units = set[tuple[MessageId, str]]


def units(entries: dict[MessageId, frozenset[str]]) -> Units:
    return {(message, dest) for message, dests in entries.items() for dest in dests}


@pytest.mark.parametrize("releases", [False, True])
def test_it_keeps_what_ks98_requires_except_for_what_is_delivered(releases: bool) -> None:
    """And of its own messages, exactly the copies required that are not acknowledged."""
    fewer = 0
    for script in scripts(some(60), ALL_CASTS):
        world = World(
            "acknowledged", script.members, options={"releases": releases}, fifo=script.fifo
        )
        for step in script.steps:
            run_step(world, step)
            for name, one in world.endpoints.items():
                kept, due = units(one.dependencies()), units(world.history.required(name))
                assert all(world.history.is_delivered(dest, m) for m, dest in kept ^ due)
                state = cast("dict[str, list[list[int]]]", one.state()["rules"])
                open_copies = dict(zip(script.members, state["open"], strict=True))
                own = {(m, dest) for m, dest in due if m.sender == name}
                assert {(m, dest) for m, dest in kept if m.sender == name} == {
                    (m, dest) for m, dest in own if m.seq in open_copies[dest]
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
    assert all(end.kept_entries() == 0 for end in ends.values())
    for source, dest in (("a", "b"), ("b", "c")):
        (packet,) = ends[source].send([dest]).packets
        assert packet.control == (packet.content.seq - 1, ())
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
    assert ends["b"].kept_entries() == 0
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


def test_acknowledgements_of_what_was_not_sent_are_refused() -> None:
    (answer,) = carry(ends := group(), ends["a"].send(["b"]).packets)
    assert answer.control == (1, 0, ())
    assert_refused(group()["a"], answer, match="more messages of this process than the 0")


def test_knowledge_of_what_was_not_sent_is_refused() -> None:
    ends = group()
    carry(ends, ends["a"].send(["b", "c"]).packets)
    (packet,) = ends["b"].send(["a"]).packets
    assert_refused(group()["a"], packet, match="more messages of this process than the 0")


@pytest.mark.parametrize("pull", [False, True])
def test_a_snapshot_goes_on_as_if_nothing_happened(pull: bool) -> None:
    for script in scripts(4, ALL_CASTS, first=60, pull=pull):
        assert_goes_on_equal(script, "acknowledged")


# Mutants: each breaks one step; the oracle must notice.


class AcknowledgesArrival(Acknowledged):
    """The acknowledgement means arrived, not delivered."""

    def arrived(self, packet: Packet) -> None:
        if packet.content.seq:
            self._answer(packet.source_no, (packet.content.seq, self._mark(), []))


class OneSpeaksForAll(Acknowledged):
    """An acknowledgement by one destination counts for all."""

    def _drop_acknowledged(self, dest: int, seq: int) -> None:
        for number in range(self.view.n):
            super()._drop_acknowledged(number, seq)


class CallsAllDone(Acknowledged):
    """The mark is simply the number of the last message."""

    def _raise_mark(self) -> None:
        self._learn(self.me, self.made - 1)


class ForgetsWithoutNeed(Acknowledged):
    """A newer message of the sender makes all older ones count as done."""

    def _learn(self, sender: int, mark: int) -> None:
        super()._learn(sender, max(mark, self._tops[sender] >> self.view.shift))


class NeverAnswers(Acknowledged):
    """Keeps everything that [KS98] requires, delivered or not: safe, but nothing is gained."""

    def _answer(self, dest: int, answer: object) -> None:
        """Send nothing."""


class Wakes(Acknowledged):
    """Wakes nobody."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        super().taken(packet)
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
        world = World("acknowledged", script.members, fifo=script.fifo, rules=NeverAnswers)
        for step in script.steps:
            run_step(world, step)
            for name, one in world.endpoints.items():
                assert one.dependencies() == world.history.required(name)
