"""semantic_optimal against the oracle and optimal, its limits, lies, snapshots, mutants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from antecede import NOTHING, Endpoint, Packet, UsageError, endpoint, size
from antecede.check import BrokenPromiseError, Script, World
from antecede.endpoint.messages import FREE, Message
from antecede.endpoint.rules import Own
from antecede.protocols.semantic_optimal import SemanticOptimal
from tests.protocols.support import (
    assert_goes_on_equal,
    assert_refused,
    promise_broken_by,
    run,
    scripts,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from antecede.endpoint.info import Cast

NAME = "semantic_optimal"
ALL_CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")
EXACT = {"window": 1000, "points": 1000}
EVERYTHING = {"safety", "liveness", "quiescence", "no_overblocking", "necessity"}


@pytest.mark.parametrize("cast_name", ALL_CASTS)
def test_without_limits_the_log_is_exactly_what_semantic_order_requires(cast_name: Cast) -> None:
    for script in scripts(25, (cast_name,), ranks=True):
        run(script, NAME, options=EXACT, promises=EVERYTHING)


@pytest.mark.parametrize("pull", [False, True])
def test_within_the_window_a_message_waits_only_for_what_it_depends_on(pull: bool) -> None:
    for script in scripts(20, ALL_CASTS, first=200, ranks=True, pull=pull):
        run(script, NAME, promises=EVERYTHING - {"necessity"})


def test_depending_on_everything_it_is_optimal() -> None:
    """The same deliveries and, copy by copy, the same sizes; that is causal order at its least."""
    for script in scripts(15, ALL_CASTS, first=300):
        ours, theirs = run(script, NAME), run(script, "optimal")
        assert ours.history.events == theirs.history.events
        assert list(map(size, ours.packets)) == list(map(size, theirs.packets))


def test_depending_on_nothing_holds_and_carries_nothing() -> None:
    for script in scripts(20, ALL_CASTS, first=400):
        free = tuple((*s[:3], 0) if s[0] == "send" else s for s in script.steps)
        world = run(replace(script, steps=free), NAME, promises=EVERYTHING - {"necessity"})
        assert {size(packet) for packet in world.packets} <= {(0, 0, 0)}


def test_an_event_older_than_the_window_orders_more() -> None:
    """The counterexample: the third message depends on the first alone, and waits for the second.

    Its event counts as the oldest one whose log is kept.
    """
    sends = (("send", "a", ("b",), None), ("send", "a", ("b",), 0), ("send", "a", ("b",), 2))
    arrivals = (("packet", "a", "b", 1, False), ("packet", "a", "b", 3, False))
    script = Script(("a", "b"), (*sends, *arrivals))
    run(script, NAME, options={"window": 2}, promises={"no_overblocking"})
    with pytest.raises(BrokenPromiseError, match="although every cause of it"):
        run(script, NAME, options={"window": 1}, promises={"no_overblocking"})


def test_a_point_forgotten_keeps_what_is_done() -> None:
    """The counterexample to the least information: a's answer cannot say that it delivered y.

    It knows of y and not of the message before, so a log without points says nothing of either.
    """
    world = World(NAME, ("a", "b", "c"), options={"points": 0})
    x = world.send("b", ["a", "c"])
    y = world.send("b", ["a"], after=NOTHING)
    world.arrive_packet("b", "a", 2)
    world.send("a", ["b"])
    world.arrive_packet("a", "b")
    assert world.endpoints["b"].dependencies() == {x: {"a", "c"}, y: {"a"}}
    assert world.history.required("b") == {x: {"a", "c"}}
    run(world.script, NAME, options={"points": 1}, promises={"necessity"})


def test_options_are_checked() -> None:
    for option, value in (("window", 0), ("window", True), ("points", -1), ("points", "2")):
        with pytest.raises(UsageError, match=f"{option}={value!r} is not an integer from"):
            group(**{option: value})


def group(**options: Any) -> dict[str, Endpoint]:
    return {p: endpoint(NAME, process=p, members=("a", "b", "c"), **options) for p in "abc"}


def test_what_travels() -> None:
    """Entries for what may be waited for, prefixes and points for what is known to be done."""
    a = group()["a"]
    a.send(["b"])
    a.send(["c"], after=NOTHING)
    (packet,) = a.send(["b"]).packets
    assert packet.control == ((("a", 1, ("b",)), ("a", 2, ("c",))), (), ())
    (packet,) = a.send(["c"], after=1).packets
    assert packet.control == ((("a", 1, ("b",)),), (), ())
    (packet,) = a.send(["c"]).packets
    assert packet.control == (
        (("a", 2, ("c",)), ("a", 3, ("b",)), ("a", 4, ("c",))),
        (),
        (),
    )
    assert size(packet) == (3, 3, 24)


def test_knowledge_of_what_was_not_sent_is_refused() -> None:
    ends = group()
    ends["b"].receive(ends["a"].send(["b", "c"]).packets[0])
    (packet,) = ends["b"].send(["a"]).packets
    assert_refused(group()["a"], packet, match="more messages of this process than the 0")


@pytest.mark.parametrize("pull", [False, True])
def test_a_snapshot_goes_on_as_if_nothing_happened(pull: bool) -> None:
    for script in scripts(4, ALL_CASTS, first=60, ranks=True, pull=pull):
        assert_goes_on_equal(script, NAME)


def test_a_process_keeps_as_many_logs_as_the_window_says() -> None:
    a = endpoint(NAME, process="a", members=("a", "b"), window=3)
    for _ in range(5):
        a.send(["b"])
    state = cast("dict[str, list[object]]", a.state()["rules"])
    assert (state["at"], len(state["logs"])) == ([3, 4, 5], 3)


# Mutants: each breaks one step; the oracle must notice.


class NeverDependent(SemanticOptimal):
    """Takes every message for independent."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        return super().stamp(message, others, event, NOTHING)


class AbsenceByNewest(SemanticOptimal):
    """Absence means done as in [KS98]: whatever is older than the newest message known."""

    def _joined(self, prefixes: list[int], keys: Iterable[int], log: Collection[int]) -> list[int]:
        for key in (*keys, *log):
            prefixes[key & self.low] = max(key, prefixes[key & self.low])
        return []


class ReplacesEverything(SemanticOptimal):
    """SND(3) on the whole log, also on what the message does not depend on."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        own = super().stamp(message, others, event, after)
        log, prefixes, points = self._logs[-1]
        dests, sent = message.dests & ~(1 << self.me), message.seq << self.view.shift | self.me
        rest = {key: left for key, mask in log.items() if (left := mask & ~dests)}
        rest[sent] = dests
        points = self._joined(prefixes, (*log, *points), rest)
        self._logs[-1] = rest, prefixes, points
        return own


class DeliversByNewest(SemanticOptimal):
    """Takes a message for delivered if a newer one of its channel is."""

    def missing(self, packet: Packet) -> list[int]:
        return [key for key in super().missing(packet) if key > self.reached[key & self.low]]

    def blocker(self, packet: Packet) -> int:
        return next(iter(self.missing(packet)), FREE)


class WaitsForAll(SemanticOptimal):
    """Plain causal order: every message depends on everything."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        return super().stamp(message, others, event, event - 1)


@pytest.mark.parametrize(
    "mutant", [NeverDependent, AbsenceByNewest, ReplacesEverything, DeliversByNewest]
)
def test_a_broken_step_loses_order(mutant: type[SemanticOptimal]) -> None:
    found = promise_broken_by(mutant, ALL_CASTS, ranks=True, promises={"safety"}, count=400)
    assert found == "safety"


def test_waiting_for_more_than_it_depends_on_is_noticed() -> None:
    found = promise_broken_by(WaitsForAll, ALL_CASTS, ranks=True, promises={"no_overblocking"})
    assert found == "no_overblocking"


def test_a_world_can_be_asked_what_is_kept() -> None:
    world = World(NAME, ("a", "b", "c"))
    sent = world.send("a", ["b", "c"])
    assert world.endpoints["a"].dependencies() == {sent: {"b", "c"}}
