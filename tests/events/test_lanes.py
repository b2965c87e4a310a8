"""Concurrent work of a service is not ordered by its times."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest

from antecede.audit.api import Audit, audit_log, draw
from antecede.events import sources
from antecede.events.lanes import Lanes, Moment
from antecede.events.sources import Log, Source
from tests.support.traces import S, console, flat, jaeger, otlp, printed_by_go, zipkin

WRITERS = {
    "otlp": otlp,
    "jaeger": jaeger,
    "zipkin": zipkin,
    "flat": flat,
    "python": console,
    "go": printed_by_go,
}

#: A gateway calls the store twice at the same time; the second call comes first.
FAN_OUT = [
    S("gateway", "SERVER", "a0", 0, 100, "GET /"),
    S("gateway", "CLIENT", "a1", 1, 60, "GET /stock", "a0"),
    S("gateway", "CLIENT", "a2", 2, 50, "GET /price", "a0"),
    S("store", "SERVER", "b2", 10, 20, "GET /price", "a2"),
    S("store", "SERVER", "b1", 30, 40, "GET /stock", "a1"),
]
#: The shop sends twice, one after the other; mail handles both at the same time, the second first.
OVERTAKEN = [
    S("shop", "PRODUCER", "a1", 1, 2, "publish order"),
    S("shop", "PRODUCER", "a2", 3, 4, "publish payment"),
    S("mail", "CONSUMER", "b2", 10, 30, "process payment", links=("a2",)),
    S("mail", "CONSUMER", "b1", 15, 25, "process order", links=("a1",)),
]


def read(tmp_path: Path, spans: list[S], how: str = "otlp") -> Log:
    path = tmp_path / "trace.json"
    path.write_text(WRITERS[how](spans), encoding="utf-8")
    found = sources.read(Source(path))
    assert found.bad == 0, found.rejected.to_pylist()
    return found


def audited(tmp_path: Path, spans: list[S], how: str = "otlp") -> Audit:
    """Return the common verdict of all engines in this process."""
    log = read(tmp_path, spans, how)
    found = [audit_log(log, engine=engine) for engine in ("plain", "local")]
    assert found[0].verdict == found[1].verdict
    assert found[0].records == found[1].records
    return found[0]


@pytest.mark.parametrize("how", WRITERS)
def test_calls_in_parallel_are_not_ordered(tmp_path: Path, how: str) -> None:
    assert audited(tmp_path, FAN_OUT, how).verdict == "ordered"


@pytest.mark.parametrize("how", WRITERS)
def test_calls_one_after_the_other_are(tmp_path: Path, how: str) -> None:
    server, first, second, *others = FAN_OUT
    first = S("gateway", "PRODUCER", "a1", 1, 2, "publish", "a0")
    others[1] = S("store", "CONSUMER", "b1", 30, 40, "process", "a1")
    (late,) = audited(tmp_path, [server, first, second, *others], how).records["violations"]
    assert (late["process"], late["sender"], late["kind"]) == ("store", "gateway", "fifo")


@pytest.mark.parametrize("how", WRITERS)
def test_messages_that_are_handled_in_parallel_came_in_the_order_of_their_times(
    tmp_path: Path, how: str
) -> None:
    found = audited(tmp_path, OVERTAKEN, how)
    (late,) = found.records["violations"]
    assert late["process"] == "mail"
    assert late["message"].startswith("shop publish order")
    assert (late["seq"], late["overtaker_seq"]) == (2, 1)


def test_what_a_handler_sends_does_not_follow_what_another_handles(tmp_path: Path) -> None:
    spans = [
        S("other", "PRODUCER", "d1", 1, 2, "z"),
        S("other", "PRODUCER", "d2", 3, 4, "m2"),
        S("shop", "PRODUCER", "a1", 1, 2, "m1"),
        S("hub", "CONSUMER", "b2", 10, 30, "process m2", links=("d2",)),
        S("hub", "CONSUMER", "b1", 12, 20, "process m1", links=("a1",)),
        S("hub", "PRODUCER", "b3", 14, 15, "y", "b1"),
        S("mail", "CONSUMER", "e1", 40, 41, "process y", links=("b3",)),
        S("mail", "CONSUMER", "e2", 42, 43, "process z", links=("d1",)),
    ]
    assert audited(tmp_path, spans).verdict == "ordered"
    # If it began after the other one had ended, it may have known.
    spans[3] = S("hub", "CONSUMER", "b2", 10, 12, "process m2", links=("d2",))
    assert audited(tmp_path, spans).verdict == "broken"
    # It also knows what the span that it is below, or is linked to, has handled.
    spans[3] = S("hub", "CONSUMER", "b2", 10, 30, "process m2", links=("d2",))
    spans[4] = S("hub", "CONSUMER", "b1", 12, 20, "process m1", links=("a1", "b2"))
    assert audited(tmp_path, spans).verdict == "broken"
    # And what it was sent: here z before m1.
    spans[4] = S("hub", "CONSUMER", "b1", 12, 20, "process m1", links=("d2",))
    spans[3] = S("hub", "CONSUMER", "b2", 10, 30, "process m2", links=("a1",))
    assert audited(tmp_path, spans).verdict == "broken"


def test_a_handler_of_something_unknown_may_know_anything(tmp_path: Path) -> None:
    spans = [
        S("other", "PRODUCER", "d1", 1, 2, "z"),
        S("shop", "PRODUCER", "a1", 1, 2, "m1"),
        S("hub", "CONSUMER", "b2", 10, 30, "process m2", links=("a1",)),
        S("hub", "CONSUMER", "b1", 9, 20, "process m1", links=("ff",)),
        S("hub", "PRODUCER", "b3", 14, 15, "y", "b1"),
        S("mail", "CONSUMER", "e1", 40, 41, "process y", links=("b3",)),
        S("mail", "CONSUMER", "e2", 42, 43, "process z", links=("d1",)),
    ]
    assert audited(tmp_path, spans).verdict == "undecidable"


def test_the_page_shows_a_line_for_each_thing_that_a_service_does(tmp_path: Path) -> None:
    (shown,) = draw(read(tmp_path, FAN_OUT), None).illustrations
    assert [node.process for node in shown.diagram.nodes].count("gateway (2)") == 2
    (shown,) = draw(read(tmp_path, OVERTAKEN), "shop publish order a100").illustrations
    assert {node.process for node in shown.diagram.nodes} == {"shop", "mail"}


def test_lanes_have_exactly_the_order_of_the_rule() -> None:
    for seed in range(300):
        compare_with_the_rule(seed)


def compare_with_the_rule(seed: int) -> None:
    rng = random.Random(seed)
    spans = range(rng.randrange(2, 9))
    times: dict[int, tuple[int, int]] = {}
    above: dict[int, int | None] = {}
    for n in spans:
        parent = above[n] = rng.choice([None, *range(n)])
        start = rng.randrange(8) + (0 if parent is None else times[parent][0])
        times[n] = start, start + rng.choice([1, 2, 4, 8])
    moments = [m for m in product(spans, (False, True)) if rng.random() < 0.7]
    lanes = Lanes(times, above, moments, ())
    assert sorted(m for lane in lanes.lanes for m in lane) == sorted(moments)
    shown = set(lanes.after)
    for lane in lanes.lanes:
        shown |= {(a, b) for i, a in enumerate(lane) for b in lane[i + 1 :]}
    assert closed(moments, shown) == closed(moments, by_rule(times, above, moments)), lanes.lanes


def by_rule(
    times: dict[int, tuple[int, int]], above: dict[int, int | None], moments: list[Moment]
) -> set[tuple[Moment, Moment]]:
    """Return which moments precede which, from the spans above each pair of spans."""

    def path(n: int) -> list[int]:
        parent = above[n]
        return [n] if parent is None else [*path(parent), n]

    def lasts(n: int) -> int:
        ends = [times[k][1] for k in times if n in path(k) and any(m[0] == k for m in moments)]
        return max(ends, default=0)

    # A span is a task, its end another one inside it.
    tasks = {m: [*((n, False) for n in path(m[0])), *([m] if m[1] else [])] for m in moments}
    found = set()
    for a, b in product(moments, repeat=2):
        one, other = tasks[a], tasks[b]
        if a == b:
            continue
        common = sum(x == y for x, y in zip(one, other, strict=False))
        if common == len(one):
            found.add((a, b))  # a is the start of a span that b is in.
        elif common < len(other):
            x, y = one[common], other[common]
            until = times[x[0]][1] if x[1] else max(times[x[0]][1], lasts(x[0]))
            start = times[y[0]][1] if y[1] else times[y[0]][0]
            found |= {(a, b)} if until <= start else set()
    return found


def closed(moments: list[Moment], pairs: set[tuple[Moment, Moment]]) -> set[tuple[Moment, Moment]]:
    found = set(pairs)
    for k, i, j in product(moments, repeat=3):
        if (i, k) in found and (k, j) in found:
            found.add((i, j))
    return found
