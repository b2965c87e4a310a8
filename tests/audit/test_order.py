"""Order beyond messages that are sent once: clocks, relays, and events that the log lacks."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from antecede.audit.api import Audit, audit_table
from antecede.audit.verdicts import Asked
from antecede.audit.windows import hidden
from antecede.events import Event
from antecede.events.arrow_schemas import CLOCKS
from antecede.events.sources import table_of
from antecede.events.tables import (
    CAUSAL_CYCLE,
    CLOCK_AHEAD,
    DELIVERY_AMBIGUOUS,
    DELIVERY_WITHOUT_SEND,
    SENT_TWICE,
)
from tests.audit.campaign import completed
from tests.support.histories import BRIEF, CLOCKED, RELAYED, Shape, history
from tests.support.oracles import Stamped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Clock = dict[str, int] | None


def table(log: Sequence[Event]) -> pa.Table:
    """Return a log as a table, with its clocks if it has any."""
    clocks = [getattr(event, "clock", None) for event in log]
    found = table_of(log)
    if all(clock is None for clock in clocks):
        return found
    return found.append_column("clock", pa.array(clocks, CLOCKS))


def tell(story: Mapping[str, str], **clocks: Clock) -> list[Event]:
    """Return a log: per process, "+m>b,c" sends m to b and c, "+m" to whomever, "-m" delivers it.

    ``clocks`` has the clocks of some events, by process and place: b2 is the second event of b.
    """
    log: list[Event] = []
    for process, words in story.items():
        for seq, word in enumerate(words.split(), start=1):
            kind = {"+": "send", "-": "deliver", ".": "local"}[word[0]]
            message, _, to = word[1:].partition(">")
            dests = tuple(to.split(",")) if to else None
            clock = clocks.get(f"{process}{seq}")
            entries = None if clock is None else tuple(clock.items())
            log.append(Stamped(process, seq, kind, message or None, dests, None, entries))
    return log


def audit(
    log: Sequence[Event],
    *,
    assume_complete: bool = False,
    complete: bool | None = False,
    engine: str = "plain",
) -> Audit:
    asked = Asked(assume_complete=assume_complete, complete_until_end=complete)
    return audit_table(table(log), asked, engine=engine)


def kinds(found: Audit) -> set[str]:
    return set(found.tables["findings"].column("kind").to_pylist())


OVERTAKEN = {"a": "+A", "b": ". +B", "c": "-B -A"}


def test_clocks_prove_a_violation_that_messages_do_not_show() -> None:
    assert audit(tell(OVERTAKEN)).verdict == "ordered"
    found = audit(tell(OVERTAKEN, b2={"a": 1}))
    assert (found.verdict, found.summary["clocks"]) == ("broken", True)
    (row,) = found.tables["violations"].to_pylist()
    assert (row["process"], row["message"], row["overtaker"]) == ("c", "A", "B")
    assert (row["kind"], row["chain"]) == ("causal", ["A", "B"])
    assert found.explain("c", "A").endswith("although a sent A first: b knew of A when it sent B.")


def test_a_clock_counts_from_its_event_on() -> None:
    assert audit(tell(OVERTAKEN, b1={"a": 1})).verdict == "broken"
    later = {"a": "+A", "b": "+B .", "c": "-B -A"}
    assert audit(tell(later, b2={"a": 1})).verdict == "ordered"


@pytest.mark.parametrize("clock", [{"a": 0}, {"a": -3}, {"b": 5}, {"nobody": 7}, {}])
def test_entries_that_say_nothing_say_nothing(clock: Clock) -> None:
    found = audit(tell(OVERTAKEN, b2=clock))
    assert (found.verdict, kinds(found)) == ("ordered", set())


#: d got m1 late only if b had heard of c's send of m1 when it sent y.
COUNTED = {"c": ". +m2>b +m1>d", "b": "-m2 +y>d", "d": "-y -m1"}
OWN: dict[str, Clock] = {
    "c1": {"c": 1}, "c2": {"c": 2}, "c3": {"c": 3}, "b1": {"b": 1, "c": 2}, "b2": {"b": 2, "c": 2},
    "d1": {"d": 1, "b": 2, "c": 2}, "d2": {"d": 2, "b": 2, "c": 3},
}  # fmt: skip


@pytest.mark.parametrize("engine", ["plain", "local"])
def test_clocks_that_count_their_own_process_are_read_by_these_counts(engine: str) -> None:
    log = tell(COUNTED, **OWN)
    assert audit(log, engine=engine).verdict == "ordered"
    assert audit(log[1:], engine=engine).verdict == "ordered"
    twice = [log[0], *log]
    assert audit(twice, engine=engine).verdict == "ordered"
    late = tell(COUNTED, **{**OWN, "b2": {"b": 2, "c": 3}})
    for some in (late, late[1:], [late[0], *late]):
        found = audit(some, engine=engine)
        assert (found.verdict, found.summary["violations"]) == ("broken", 1)


@pytest.mark.parametrize("engine", ["plain", "local"])
def test_clocks_do_not_count_a_repeated_row_twice(engine: str) -> None:
    log = tell(COUNTED, b2={"c": 3})
    assert audit(log, engine=engine).verdict == "broken"
    assert audit([log[0], *log], engine=engine).verdict == "broken"


def test_a_clock_ahead_of_the_log_means_the_last_event_and_is_reported() -> None:
    found = audit(tell(OVERTAKEN, b2={"a": 9}))
    assert (found.verdict, kinds(found)) == ("broken", {CLOCK_AHEAD})
    (row,) = found.tables["findings"].to_pylist()
    assert (row["process"], row["seq"], row["message"]) == ("b", 2, "B")


def test_clocks_that_contradict_the_messages_decide_nothing() -> None:
    found = audit(tell({"a": "+x>b", "b": "-x"}, a1={"b": 1}))
    assert (found.verdict, kinds(found)) == ("undecidable", {CAUSAL_CYCLE})
    assert "a at seq 1 follows an event that follows it" in found.reason
    assert "b delivered x (seq 1) before an event that led to its send" in found.reason


@pytest.mark.parametrize("zed", ["zed", "aaa"])
@pytest.mark.parametrize("bob", ["-m1", "-m1 -m1"])
@pytest.mark.parametrize("dests", [">alpha,bob", ""])
def test_a_forward_is_a_relay_whatever_the_names(zed: str, bob: str, dests: str) -> None:
    forward = "+m1>bob" if dests else "+m1"
    found = audit(tell({zed: f"+m1{dests}", "alpha": f"-m1 {forward}", "bob": bob}))
    assert found.verdict == "ordered"
    assert CAUSAL_CYCLE not in kinds(found)
    assert found.summary["messages"] == 1


def test_what_comes_through_a_relay_follows_the_relay() -> None:
    story = {"zed": "+m>alpha", "carl": "+y>alpha,dan", "alpha": "-m -y +m>bob"}
    story |= {"bob": "-m +z>dan", "dan": "-z -y"}
    found = audit(tell(story))
    assert found.verdict == "broken"
    assert found.explain("dan", "y").endswith("bob knew of y when it sent z.")
    flooded = story | {"zed": "+m>alpha,bob"}  # Now bob may have it from zed.
    assert audit(tell(flooded)).verdict == "ordered"


def test_a_flood_that_comes_back_is_not_late() -> None:
    found = audit(tell({"a": "+m>b -x -m", "b": "-m +x>a +m>a"}))
    assert (found.verdict, kinds(found)) == ("ordered", set())
    all_to_all = {"a": "+m>b,c -x -m", "b": "-m +x>a +m>a,c", "c": "-m +m>a,b"}
    found = audit(tell(all_to_all))
    assert (found.verdict, kinds(found)) == ("ordered", {SENT_TWICE})


def test_the_earliest_send_counts_even_if_another_message_ordered_them() -> None:
    story = {"a": "+m>b +x>c", "c": "-x +m>d +y>d", "d": "-y -m", "b": "-m"}
    for late in ("c", "0"):  # By any name.
        renamed = [replace(e, process=late) if e.process == "c" else e for e in tell(story)]
        renamed = [
            replace(e, dests=tuple(late if d == "c" else d for d in e.dests)) if e.dests else e
            for e in renamed
        ]
        found = audit(renamed)
        assert found.verdict == "broken"
        (row,) = found.tables["violations"].to_pylist()
        assert (row["process"], row["message"], row["sender"]) == ("d", "m", "a")


def test_sends_that_nothing_orders_are_messages_of_their_own() -> None:
    found = audit(tell({"a": "+1>b +2>b", "c": "+1>d +2>d", "b": "-2 -1", "d": "-1 -2"}))
    assert found.verdict == "broken"
    (row,) = found.tables["violations"].to_pylist()
    assert (row["process"], row["message"], row["sender"]) == ("b", "1", "a")
    either = audit(tell({"a": "+1>b", "c": "+1>b", "b": "-1 -1"}))
    assert either.verdict == "undecidable"
    assert DELIVERY_AMBIGUOUS in kinds(either)


def test_a_message_from_outside_the_log_that_was_passed_on() -> None:
    found = audit(tell({"alpha": "-m +m>bob", "bob": "-m"}))
    assert (found.verdict, kinds(found)) == ("ordered", {DELIVERY_WITHOUT_SEND})


#: A violation that the log would show, if it had the delivery of r at b.
UNLOGGED = {"a": "+x>d +r>b", "b": "+y>d", "d": "-y -x"}


def test_a_delivery_that_was_not_logged_can_hide_a_violation() -> None:
    found = audit(tell(UNLOGGED))
    assert found.verdict == "undecidable"
    assert "d may have delivered x (seq 2) after an effect" in found.reason
    assert "2 of 3 sends with deliveries, and on 2 of 2 deliveries with sends" in found.reason
    assert (found.summary["paired_sends"], found.summary["paired_deliveries"]) == (2, 2)
    assumed = audit(tell(UNLOGGED), assume_complete=True)
    assert assumed.verdict == "ordered"
    assert "2 of 3 sends with deliveries" in assumed.reason
    assert audit(tell(UNLOGGED | {"b": "-r +y>d"})).verdict == "broken"
    unknown = {process: words.replace("+r>b", "+r") for process, words in UNLOGGED.items()}
    assert audit(tell(unknown)).verdict == "undecidable"


def test_clocks_show_what_pairing_does_not() -> None:
    assert audit(tell(UNLOGGED, b1={})).verdict == "ordered"
    assert audit(tell(UNLOGGED, b1={"a": 2})).verdict == "broken"
    assert audit(tell(UNLOGGED, a1={}, d1={}, d2={})).verdict == "undecidable"


def test_a_clock_may_say_that_it_does_not_state_everything() -> None:
    assert audit(tell(UNLOGGED, b1={"b": 0})).verdict == "undecidable"
    assert audit(tell(UNLOGGED, b1={"b": 0, "a": 2})).verdict == "broken"


@pytest.mark.parametrize(
    "story",
    [
        {"a": "+x>d +r>b", "b": "+y>d", "d": "-x -y"},
        {"a": "+x>d +r>b", "b": ".", "d": "-x"},
        {"a": "+x>d +r>nobody", "b": "+y>d", "d": "-y -x"},
        {"a": "+x>d", "b": "+y>d -ghost", "d": "-y -x"},
    ],
    ids=["in order", "nothing sent", "not in the log", "too late"],
)
def test_events_that_the_log_lacks_but_that_hide_nothing(story: dict[str, str]) -> None:
    found = audit(tell(story))
    assert found.verdict == "ordered"
    assert "This is based on" in found.reason


@pytest.mark.parametrize(
    "story",
    [
        {"a": "+x>d", "b": "-ghost +y>d", "d": "-y -x"},
        {"a": "+x>d +r>b", "b": "+s>c", "c": "+y>d", "d": "-y -x"},
        {"a": "+x>d", "b": "-ghost +r>c", "c": "-r +y>d", "d": "-y -x"},
        {"a": "+m>b,c", "b": "+n>c", "c": "-n -m"},
        {"a": "+m1>b", "b": "-m2 -m1"},
        {"a": "+m1>b +m2>b", "b": "-m1"},
        {"a": "+m1>b +m2>b", "b": "."},
        {"a": "+m1 +m2", "b": "-m2"},
        {"b": "-ghost -ghost2 +z>d", "d": "-z"},
    ],
    ids=[
        "no send",
        "two relays",
        "at a distance",
        "broadcast",
        "overtaken by one without a send",
        "overtaking",
        "both in flight",
        "to whomever",
        "two without sends",
    ],
)
def test_events_that_the_log_lacks_and_that_can_hide_a_violation(story: dict[str, str]) -> None:
    for engine in ("plain", "local"):
        assert audit(tell(story), engine=engine).verdict == "undecidable"
    if any(word[0] == "-" for words in story.values() for word in words.split()):
        assert audit(tell(story), assume_complete=True).verdict == "ordered"


@pytest.mark.parametrize("engine", ["plain", "local"])
def test_clocks_may_show_that_nothing_is_hidden_and_may_not(engine: str) -> None:
    unsent = {"a": "+m1>b", "b": "-m2 -m1"}
    assert audit(tell(unsent, b1={}), engine=engine).verdict == "ordered"
    assert audit(tell(unsent, b1={"a": 1}), engine=engine).verdict == "undecidable"
    absent = {"a": "+m1>b +m2>b", "b": "-m1"}
    assert audit(tell(absent, b1={"a": 1}), engine=engine).verdict == "ordered"
    assert audit(tell(absent, b1={"a": 2}), engine=engine).verdict == "undecidable"


@pytest.mark.parametrize("engine", ["plain", "local"])
def test_a_reply_under_the_id_of_its_request_is_a_message(engine: str) -> None:
    asked = {"a": "+r>b -r +z>d", "b": "+y>d -r +r>a", "d": "-z -y"}
    found = audit(tell(asked), engine=engine)
    assert (found.verdict, kinds(found)) == ("broken", set())
    assert found.records["violations"][0]["chain"] == ["y", "r", "z"]
    late = {"a": "+r>b -x -r", "b": "-r +r>a +x>a"}
    (row,) = audit(tell(late), engine=engine).records["violations"]
    assert (row["process"], row["message"], row["sender"]) == ("a", "r", "b")


@pytest.mark.parametrize("engine", ["plain", "local"])
@pytest.mark.parametrize("to", ["", ">b", ">a,b"])
def test_a_flood_whose_first_send_is_not_in_the_log_is_no_contradiction(
    to: str, engine: str
) -> None:
    flood = {"a": f"-x +x{to}", "b": f"-x +x{to.replace('b', 'a')}"}
    found = audit(tell(flood | {"c": "+p>d +q>d", "d": "-q -p"}), engine=engine)
    assert found.verdict == "broken"
    assert CAUSAL_CYCLE not in kinds(found)


@pytest.mark.parametrize("engine", ["plain", "local"])
def test_the_order_of_equal_numbers_decides_nothing_where_a_clock_counts_them(engine: str) -> None:
    log = tell({"a": "+x>d +m>d", "b": "+y>d", "d": "-y -m -x"}, b1={"a": 1})
    one = [replace(event, seq=1) if event.process == "a" else event for event in log]
    assert audit(log, engine=engine).verdict == "broken"
    assert audit(one, engine=engine).verdict == "undecidable"


@pytest.mark.parametrize("until_end", [False, True])
def test_no_completion_of_an_ordered_log_is_broken(until_end: bool) -> None:
    """``python -m tests.audit.campaign --completions N`` tries more."""
    seen = Counter(completed(seed, until_end=until_end) for seed in range(150))
    assert (True, False) not in seen
    assert seen[True, True] > 10 < seen[False, False]


#: Whoever sent m, d got it late: it had led to e.
UNSENT = {"b": "-m +e>d", "d": "-e -m"}


@pytest.mark.parametrize(
    "story",
    [
        UNSENT,
        {"b": "-m +e>c", "c": "-e +f>d", "d": "-f -m"},
        {"a": "+x>d", "b": "-m +e>d", "d": "-x -e -m"},
        {"a": "+e>d", "d": "-e -m"},
    ],
    ids=["seen", "seen at a distance", "seen later", "sent by anyone"],
)
def test_a_message_without_its_send_can_be_late(story: dict[str, str]) -> None:
    found = audit(tell(story))
    assert found.verdict == "undecidable"
    assert "d may have delivered m " in found.reason
    assert found.tables["violations"].num_rows == 0
    assert audit(tell(story), assume_complete=True).verdict == "ordered"


def test_clocks_do_not_tell_when_an_unknown_send_happened() -> None:
    clocks: dict[str, Clock] = {"b1": {}, "b2": {}, "d1": {"b": 2}, "d2": {"b": 2}}
    assert audit(tell(UNSENT, **clocks)).verdict == "undecidable"


def test_a_message_without_its_send_that_came_first_is_not_late() -> None:
    assert audit(tell({"d": "-m +e>b", "b": "-e +f>d"})).verdict == "ordered"
    assert audit(tell({"d": "-m +e>b -f -m", "b": "-e +f>d"})).verdict == "ordered"


def test_no_broken_log_is_ordered_without_the_sends_of_late_messages() -> None:
    undecidable = 0
    for seed in range(60):
        log = history(Shape(processes=3, sends=4, delay=3.0), seed)
        late = set(audit(log).tables["violations"].column("message").to_pylist())
        if late:
            rest = audit([e for e in log if e.kind != "send" or e.message not in late])
            assert rest.verdict != "ordered", f"seed={seed}"
            undecidable += rest.verdict == "undecidable"
    assert undecidable > 10


def test_a_log_that_is_too_large_to_find_out_is_undecidable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harmless = tell({"a": "+x>d +r>b", "b": "+y>d", "d": "-x -y"})
    for limit in ("PASSES_MAX", "PAIRS_MAX"):
        with monkeypatch.context() as patch:
            patch.setattr(hidden, limit, 0)
            found = audit(harmless, engine="local")
        assert (found.verdict, "too large" in found.reason) == ("undecidable", True)
    assert audit(harmless).verdict == "ordered"


@pytest.mark.parametrize("shape", [*RELAYED[:5], CLOCKED[6], *BRIEF[::40]])
def test_no_verdict_depends_on_names(shape: Shape) -> None:
    for seed in range(8):
        log = history(shape, seed)
        names = sorted({e.process for e in log} | {d for e in log for d in e.dests or ()})
        shuffled = random.Random(seed).sample(names, len(names))
        new = dict(zip(names, shuffled, strict=True))
        renamed = [_renamed(event, new) for event in log]
        one, other = audit(log), audit(renamed)
        assert one.verdict == other.verdict, f"seed={seed}"
        for name in ("violations", "missing", "findings"):
            assert _places(one, name, new) == _places(other, name), f"seed={seed}"


def _renamed(event: Event, new: Mapping[str, str]) -> Stamped:
    clock: tuple[tuple[str, int], ...] | None = getattr(event, "clock", None)
    return Stamped(
        new[event.process],
        event.seq,
        event.kind,
        event.message,
        None if event.dests is None else tuple(new[d] for d in event.dests),
        event.time,
        None if clock is None else tuple((new.get(p, p), count) for p, count in clock),
    )


def _places(
    found: Audit, name: str, new: Mapping[str, str] | None = None
) -> set[tuple[object, ...]]:
    rows = found.tables[name].to_pylist()
    columns = ("seq", "kind", "message", "overtaker", "overtaker_seq", "lateness")
    who = ("process", "sender", "overtaker_sender")
    return {
        (
            *(row.get(c) for c in columns),
            *((new or {}).get(row.get(c), row.get(c)) for c in who),
        )
        for row in rows
    }
