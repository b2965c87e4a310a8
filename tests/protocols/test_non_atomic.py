"""non_atomic against the oracle and optimal, the definition, lies, snapshots and mutants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from antecede import NOTHING, Endpoint, MessageId, Need, Packet, endpoint, size
from antecede.check import History, World, causal_violations
from antecede.endpoint.logs import Entries, Log
from antecede.endpoint.messages import FREE, Message
from antecede.endpoint.rules import Own
from antecede.protocols.non_atomic import Data, NonAtomic
from tests.protocols.support import (
    assert_goes_on_equal,
    assert_refused,
    promise_broken_by,
    run,
    scripts,
)

if TYPE_CHECKING:
    from antecede.endpoint.info import Cast

NAME = "non_atomic"
ALL_CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")
MEMBERS = ("a", "b", "c", "d")


def group() -> dict[str, Endpoint]:
    return {name: endpoint(NAME, process=name, members=MEMBERS) for name in MEMBERS}


# The definition.


def test_parts_come_in_any_order_and_what_follows_after_all_of_them() -> None:
    world = World(NAME, MEMBERS)
    one = world.send("a", ["b"])
    two = world.send("a", ["b"], after=NOTHING)
    after = world.send("a", ["b"])
    for n in (2, 3, 1):
        world.arrive_packet("a", "b", n)
    assert world.history.deliveries("b") == [two, one, after]
    world.check()


def test_a_part_does_not_speak_for_another() -> None:
    """Not transitive: y follows m and arrives; M, of the same event, still has to wait for m."""
    world = World(NAME, MEMBERS)
    world.send("c", ["d"])
    told = world.send("c", ["a"])
    world.arrive_packet("c", "a")
    assert world.history.deliveries("a") == [told]
    world.send("a", ["b"])
    world.send("a", ["d"], after=NOTHING)
    last = world.send("a", ["d"], after=NOTHING)
    world.arrive_packet("a", "d", 2)
    assert world.endpoints["d"].waiting() == {last: (Need("c", 1),)}
    world.drain()
    world.check()


@pytest.mark.parametrize(
    ("after", "is_part"), [(None, False), (NOTHING, True), (1, True), (2, False), (3, False)]
)
def test_after_tells_which_sends_belong_together(after: int | None, is_part: bool) -> None:
    """The second send begins a non-atomic event after local event 1."""
    a = group()["a"]
    for _ in range(2):
        a.send(["b"])
    a.send(["b"], after=NOTHING)
    (packet,) = a.send(["c"], after=after).packets
    assert cast("tuple[int, Entries]", packet.control)[0] == (2 if is_part else 4)


def test_a_send_to_a_process_that_is_gone_begins_an_event_too() -> None:
    """The third message goes by the second event, which only the first one began."""
    world = World(NAME, MEMBERS)
    world.crash("b")
    world.skip("c", "b")
    world.send("c", ["b"], after=NOTHING)
    world.send("c", ["a"], after=NOTHING)
    after = world.send("c", ["a"], after=1)
    world.arrive_packet("c", "a", 2)
    assert world.endpoints["a"].waiting() == {after: (Need("c", 2),)}
    world.drain()
    world.check()


def test_of_two_messages_that_depend_on_a_lost_one_the_later_may_be_delivered_first() -> None:
    """d knows only of the earlier one, and says that it depends on the lost message too."""
    ends = group()
    _, first = ends["b"].send(["c", "d"]).packets
    one, second = ends["b"].send(["c", "d"]).packets
    (two,) = ends["b"].send(["c"], after=NOTHING).packets
    ends["c"].receive(two)
    ends["c"].receive(one)
    assert [str(d.message) for d in ends["c"].skip("b", 1).deliveries] == ["b:3", "b:2"]
    ends["d"].receive(first)
    ends["d"].receive(second)
    (delivery,) = ends["c"].receive(ends["d"].send(["c"]).packets[0]).deliveries
    assert delivery.unmet == (Need("b", 1),)


def test_without_after_it_is_optimal_and_a_clock() -> None:
    for script in scripts(15, ALL_CASTS, first=300):
        ours, theirs = run(script, NAME), run(script, "optimal")
        assert ours.history.events == [
            event if event.kind == "deliver" else replace(event, is_part=False)
            for event in theirs.history.events
        ]
        for mine, other in zip(map(size, ours.packets), map(size, theirs.packets), strict=True):
            assert mine == (*other[:2], other.model_bytes + 4)


def test_promises_hold_in_pull_mode() -> None:
    for script in scripts(30, ALL_CASTS, ranks=True, pull=True):
        run(script, NAME)


# The oracle knows the definition too.


def test_the_oracle_orders_different_events_only() -> None:
    one, two, three = (MessageId("a", seq) for seq in (1, 2, 3))
    history = History(("a", "b"))
    for message, is_part in ((one, False), (two, True), (three, False)):
        history.send("a", message, ("b",), is_part=is_part)
    assert history.causes_at("b", two) == frozenset()
    assert history.causes_at("b", three) == {one, two}
    for message in (two, three):
        history.deliver("b", message)
    (violation,) = causal_violations(history)
    assert (violation.message, violation.overtaker) == (one, three)


def test_the_oracle_lets_a_process_deliver_its_own_messages_at_once() -> None:
    """Here b knows of a part that it has not delivered when it sends to itself."""
    world = World(NAME, MEMBERS)
    world.send("a", ["b"])
    world.send("a", ["b"], after=NOTHING)
    world.arrive_packet("a", "b", 2)
    world.send("b", ["b"])
    world.drain()
    world.check()


# What it costs.


def test_parts_do_not_replace_each_other() -> None:
    """The counterexample to the hope that less order needs less information."""
    kept = {}
    for after in (None, NOTHING):
        a = group()["a"]
        a.send(["b"])
        a.send(["b"], after=after)
        kept[after] = {message.seq for message in a.dependencies()}
    assert kept == {None: {2}, NOTHING: {1, 2}}


def test_what_is_set_aside_is_carried_although_it_is_known_to_be_delivered() -> None:
    """The counterexample to the least information."""
    ends = group()
    to_a, to_d = ends["c"].send(["a", "d"]).packets
    ends["a"].receive(to_a)
    (part,) = ends["a"].send(["d"]).packets
    for packet in (to_d, part):
        ends["d"].receive(packet)
    (answer,) = ends["d"].send(["a"]).packets
    ends["a"].receive(answer)
    assert ends["a"].dependencies() == {}
    (packet,) = ends["a"].send(["d"], after=NOTHING).packets
    assert ("c", 1, ("d",)) in cast("tuple[int, Entries]", packet.control)[1]


# Bad packets, snapshots.


def test_knowledge_of_what_was_not_sent_is_refused() -> None:
    ends = group()
    ends["b"].receive(ends["a"].send(["b", "c"]).packets[0])
    (packet,) = ends["b"].send(["a"]).packets
    assert_refused(group()["a"], packet, match="more messages of this process than the 0")


@pytest.mark.parametrize("pull", [False, True])
def test_a_snapshot_goes_on_as_if_nothing_happened(pull: bool) -> None:
    for script in scripts(4, ALL_CASTS, first=60, ranks=True, pull=pull):
        assert_goes_on_equal(script, NAME)


# Mutants: each breaks one step; the oracle must notice.


class Stamping(NonAtomic):
    """Changes what is known before a send."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        self._prepare(message)
        return super().stamp(message, others, event, after)

    def _prepare(self, message: Message) -> None:
        raise NotImplementedError


class PartsReplace(Stamping):
    """SND(3) as in [KS98], also for the parts of the open non-atomic event."""

    def _prepare(self, message: Message) -> None:
        dests = message.dests
        self._log = {k: rest for k, mask in self._log.items() if (rest := mask & ~dests)}


class SetsNothingAside(Stamping):
    """A part speaks for the next one."""

    def _prepare(self, message: Message) -> None:
        self._aside = [set() for _ in self._aside]


class BelievesAbsence(NonAtomic):
    """What another log leaves out is no longer set aside."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        tops, log, _ = cast("Data", packet.content.control)
        for dest, keys in enumerate(self._aside):
            self._aside[dest] = {
                key for key in keys if key > tops[key & self.low] or log.get(key, 0) >> dest & 1
            }
        return super().taken(packet)


class DropsItself(NonAtomic):
    """RCV(3) as in [KS98]: the receiver is dropped although it has not delivered the part."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        places = super().taken(packet)
        mine = ~(1 << self.me)
        log: Log = {key: rest for key, mask in self._log.items() if (rest := mask & mine)}
        self._log = log
        return places


class DeliversByNewest(NonAtomic):
    """Takes a message for delivered if a newer one of its channel is."""

    def missing(self, packet: Packet) -> list[int]:
        return [key for key in super().missing(packet) if key > self.reached[key & self.low]]

    def blocker(self, packet: Packet) -> int:
        return next(iter(self.missing(packet)), FREE)


class WaitsForParts(NonAtomic):
    """A part waits for the parts before it."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        own = dict(super().stamp(message, others, event, after) or {})
        _, log, _ = cast("Data", message.control)
        for dest in others:
            parts = [key for key, mask in log.items() if mask >> dest & 1]
            own[dest] = sorted({*cast("list[int]", own.get(dest, [])), *parts})
        return own


class Wakes(NonAtomic):
    """Wakes nobody."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        super().taken(packet)
        return ()


@pytest.mark.parametrize(
    "mutant", [PartsReplace, SetsNothingAside, BelievesAbsence, DropsItself, DeliversByNewest]
)
def test_a_broken_step_loses_order(mutant: type[NonAtomic]) -> None:
    found = promise_broken_by(mutant, ALL_CASTS, ranks=True, promises={"safety"}, count=600)
    assert found == "safety"


@pytest.mark.parametrize("mutant", [WaitsForParts, Wakes])
def test_waiting_without_need_is_noticed(mutant: type[NonAtomic]) -> None:
    assert promise_broken_by(mutant, ALL_CASTS, ranks=True) == "no_overblocking"
