"""Workloads are as described: distributions, triggers, FIFO channels, replayed traffic."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from antecede import UsageError, sim
from antecede.sim.workloads import (
    WORKLOADS,
    client_server,
    gossip,
    groups,
    paper,
    replay_edges,
    replay_events,
    ring,
    with_semantics,
)

if TYPE_CHECKING:
    from pathlib import Path

    from antecede.events import Rejected


@pytest.mark.parametrize("cast", ["unicast", "multicast", "broadcast"])
def test_the_papers_workload(cast: str) -> None:
    """[JPCY97] section 6.2: gaps of 0.1 s, uniform destinations, n/2 of them on average."""
    n = 20
    schedule = paper(n=n, cast=cast, received=800, warm_up=200, seed=3)
    assert schedule.copies >= 1000 * n
    assert schedule.copies < 1000 * n + n
    widths = np.diff(schedule.offsets)
    assert widths.mean() == pytest.approx(
        {"unicast": 1, "multicast": n / 2}.get(cast, n - 1), rel=0.05
    )
    assert set(widths) == {"unicast": {1}, "broadcast": {n - 1}}.get(cast, set(range(1, n)))
    gaps = np.diff(schedule.time[schedule.sender == 7])
    assert gaps.mean() == pytest.approx(0.1, rel=0.2)
    counts = np.bincount(schedule.dests, minlength=n)
    assert counts.min() > 0.8 * counts.mean()
    assert schedule.delays.mean() == pytest.approx(0.05, rel=0.05)


def test_an_answer_follows_its_request_whatever_the_protocol_delays() -> None:
    schedule = client_server(n=8, servers=2, received=50, seed=1, delay="lognormal:0.05:1.5")
    trace = sim.run("buffered", schedule).trace
    plan = schedule.plan()
    triggered = np.flatnonzero(schedule.trigger >= 0)
    assert len(triggered) > 50
    for row in triggered:
        copies = range(plan.offsets[schedule.trigger[row]], plan.offsets[schedule.trigger[row] + 1])
        (copy,) = (c for c in copies if plan.dests[c] == schedule.sender[row])
        assert trace.sent[row] == trace.delivered[copy] + schedule.think[row]


def test_a_ring_passes_its_tokens_on() -> None:
    schedule = ring(n=5, received=20, tokens=2, seed=1)
    assert (schedule.dests == (schedule.sender + 1) % 5).all()
    assert (schedule.trigger < 0).sum() == 2
    alone = ring(n=5, received=20, tokens=1, seed=1)
    assert sim.run("matrix", alone).metrics["held_fraction"] == 0


def test_rumours_go_deep() -> None:
    schedule = gossip(n=9, received=30, fanout=2, depth=3, seed=1)
    depth = np.zeros(schedule.messages, int)
    for row in range(schedule.messages):
        depth[row] = 0 if schedule.trigger[row] < 0 else depth[schedule.trigger[row]] + 1
    counts = np.bincount(depth)
    assert counts.tolist() == [counts[0], 2 * counts[0], 4 * counts[0]]


def test_groups_overlap_as_told() -> None:
    schedule = groups(n=9, size=4, overlap=1, received=30, seed=1)
    members = {
        frozenset([s, *schedule.dests[a:b]])
        for s, a, b in zip(schedule.sender, schedule.offsets, schedule.offsets[1:], strict=False)
    }
    assert members == {frozenset({0, 1, 2, 3}), frozenset({3, 4, 5, 6}), frozenset({6, 7, 8, 0})}


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_fifo_channels_never_let_a_copy_overtake(workload: str) -> None:
    for fifo in (True, False):
        made = WORKLOADS[workload]
        schedule = made(
            n=4, received=150, seed=2, fifo=fifo, delay="lognormal:0.05:2", mean_gap=0.01
        )
        trace = sim.run("optimal", schedule).trace
        message = schedule.plan().message
        overtakes = 0
        for source in range(4):
            for dest in range(4):
                rows = np.flatnonzero(
                    (schedule.sender[message] == source) & (schedule.dests == dest)
                )
                rows = rows[np.lexsort((trace.number[message[rows]],))]
                overtakes += int((np.diff(trace.arrived[rows]) < 0).sum())
        assert (overtakes == 0) == fifo


def test_semantics_have_the_probability_and_reach_asked_for() -> None:
    schedule = with_semantics(paper(n=10, received=2000), probability=0.3, reach=4)
    assert (schedule.rank > 0).mean() == pytest.approx(0.3, abs=0.02)
    assert set(schedule.rank) == {0, 1, 2, 3, 4}
    with pytest.raises(UsageError, match="probability=2"):
        with_semantics(schedule, probability=2)


def test_a_replayed_log_has_the_same_causes() -> None:
    """What was triggered by a delivery in the run is triggered by it in the replay."""
    schedule = gossip(n=6, received=30, seed=4, delay="exponential:0.1")
    run = sim.run("optimal", schedule, events=True)
    assert run.events is not None
    again = replay_events(run.events, seed=1)
    assert again.messages == schedule.messages
    assert again.names == tuple(sorted(schedule.names))
    assert (again.trigger >= 0).sum() >= (schedule.trigger >= 0).sum()
    assert sim.run("matrix", again).metrics["undelivered"] == 0


def test_a_log_without_times_or_destinations_can_be_replayed() -> None:
    rows = [
        ("a", 1, "send", "m1"), ("b", 1, "deliver", "m1"), ("b", 2, "send", "m2"),
        ("a", 2, "deliver", "m2"), ("c", 5, "deliver", "m1"), ("c", 6, "send", "alone"),
        ("a", 3, "local", None),
    ]  # fmt: skip
    columns = dict(
        zip(("process", "seq", "kind", "message"), map(list, zip(*rows, strict=True)), strict=True)
    )
    schedule = replay_events(pa.table(columns))
    assert schedule.messages == 2
    assert schedule.trigger.tolist() == [-1, 0]
    assert schedule.dests.tolist() == [1, 2, 0]


def test_a_time_that_is_no_number_is_no_time() -> None:
    nan, inf = float("nan"), float("inf")
    columns = {"process": ["a", "b", "b", "c", "a"], "seq": [1, 1, 2, 1, 2],
               "kind": ["send", "deliver", "send", "deliver", "send"],
               "message": ["m1", "m1", "m2", "m2", "m3"], "time": [nan, 1.0, 2.0, inf, 5.0],
               "dests": [["b"], None, ["c"], None, ["b"]]}  # fmt: skip
    schedule = replay_events(pa.table(columns))
    assert schedule.sender.tolist() == [0, 0, 1]
    assert schedule.time[:2].tolist() == [0.0, 0.0]
    assert schedule.think.tolist() == [0.0, 0.0, 1.0]


def test_the_head_of_a_replayed_log_is_its_beginning() -> None:
    schedule = gossip(n=6, received=60, seed=4, delay="exponential:0.1")
    run = sim.run("optimal", schedule, events=True)
    assert run.events is not None
    half = schedule.messages // 2
    senders = [s for _, s in sorted(zip(run.trace.sent, schedule.sender, strict=True))[:half]]
    head = replay_events(run.events, seed=1).head(half)
    assert np.bincount(head.sender, minlength=6).tolist() == np.bincount(senders).tolist()


def test_logs_that_cannot_be_replayed_are_one_line() -> None:
    with pytest.raises(UsageError, match="lacks the column kind"):
        replay_events(pa.table({"process": ["a"], "seq": [1], "message": ["m"]}))
    columns: dict[str, list[Any]] = {"process": ["a", "a", "b", "b"], "seq": [1, 2, 1, 2],
               "kind": ["deliver", "send", "deliver", "send"], "message": ["y", "x", "x", "y"],
               "dests": [None, ["b"], None, ["a"]]}  # fmt: skip
    with pytest.raises(UsageError, match="is delivered before"):
        replay_events(pa.table(columns))
    with pytest.raises(UsageError, match="nothing to replay"):
        replay_events(pa.table({key: value[:1] for key, value in columns.items()}))


def test_edges_of_equal_source_and_time_are_one_multicast(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text(
        "source destination time\n# a comment\n1 2 10\n1 3 10\n2 1 12\n2 2 13\n1 2 10\n3 1 11\n"
    )
    schedule = replay_edges(path)
    assert schedule.names == ("1", "2", "3")
    assert schedule.time.tolist() == [0, 1, 2]
    assert np.diff(schedule.offsets).tolist() == [2, 1, 1]
    with pytest.raises(UsageError, match="cannot read the edge list"):
        replay_edges(tmp_path / "none")


def test_invalid_edges_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("1,2,3\n1 2 soon\n1 2 inf\n1,2,3\n")
    rejected: list[Rejected] = []
    schedule = replay_edges(path, rejected=rejected)
    assert (schedule.messages, schedule.about["rejected"]) == (1, 2)
    assert [(bad.line, bad.text) for bad in rejected] == [(2, "1 2 soon"), (3, "1 2 inf")]
    path.write_text("1 1 3\n1 2 soon\n")
    with pytest.raises(UsageError, match=r"between two processes; .* line 2: expected: source"):
        replay_edges(path)
    path.write_text("1 2 3\n1 2 soon\nsome words\n")
    with pytest.raises(UsageError, match=r"not an edge list: 2 of its 3 lines .* line 2: expected"):
        replay_edges(path)


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_compressed_edges_are_read(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "edges.packed"
    with pa.CompressedOutputStream(str(path), packing) as file:
        file.write(b"1 2 3\n2 1 4\n")
    assert replay_edges(path).messages == 2


def test_standard_input_is_an_edge_list_however_often_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for text in (b"1 2 3\n2 1 4\n", b"1 2 3\n"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        lines = text.count(b"\n")
        assert [replay_edges("-").messages for _ in range(2)] == [lines, lines]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(UsageError, match="no line of 'standard input' is a message"):
        replay_edges("-")


def test_a_real_edge_list(shared: Path) -> None:
    schedule = replay_edges(shared / "data" / "collegemsg.txt", limit=3000)
    assert schedule.messages == 3000
    assert sim.run("optimal", schedule).metrics["undelivered"] == 0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: paper(n=1), "n=1 processes"),
        (lambda: paper(n=3, cast="anycast"), "unknown cast 'anycast'"),
        (lambda: paper(n=3, received=-1), "received=-1"),
        (lambda: paper(n=3, received=0, warm_up=9), "received=0 is not possible; use at least 1"),
        (lambda: paper(n=3, mean_gap=float("nan")), "mean_gap=nan"),
        (lambda: client_server(n=3, servers=3), "servers=3 of n=3"),
        (lambda: gossip(n=3, fanout=0), "fanout=0"),
        (lambda: groups(n=5, size=3, overlap=3), "overlap=3"),
    ],
)
def test_impossible_workloads_are_one_line(call: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        call()  # type: ignore[operator]
