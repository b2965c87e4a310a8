"""Advice: the traffic of a log, every protocol that fits it, a recommendation and its reason."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import antecede
from antecede import events as eventlog
from antecede.advise import replays, traffic
from antecede.advise.api import advise, costs_on
from antecede.advise.costs import Cost, FaultKind, Status
from antecede.advise.recommendation import Traffic, need, recommend
from antecede.advise.replays import (
    pack_schedule,
    unpack_schedule,
    violations_of,
    without_protocol,
)
from antecede.advise.traffic import left_out, schedule_of, schedule_of_edges
from antecede.cli.main import app
from antecede.errors import UsageError
from antecede.events import Event
from antecede.events.edges import read_edges
from antecede.events.formats.edges import to_events
from antecede.events.sources import Source, read, table_of
from antecede.events.tables import ADVISE_COLUMNS
from antecede.report.advise_page import advise_page, messages_in_words
from antecede.report.numbers import figure
from antecede.sim import run
from antecede.sim.workloads import WORKLOADS
from tests.support.histories import LATE, Shape, history

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

LOG = history(Shape(processes=5, sends=60, fan_out=1, delay=0.5, own=0.0), 3)
PLAIN = ("optimal", "matrix", "buffered")
WIDE = history(Shape(processes=5, sends=80, fan_out=3, delay=0.5, own=0.0), 3)
CROSSING = history(Shape(processes=5, sends=150, fan_out=1, delay=2.0, own=0.0), 3)


def rows_of(table: pa.Table) -> dict[str, dict[str, Any]]:
    return {row["protocol"]: row for row in table.to_pylist()}


def costs_of(table: pa.Table) -> dict[str, Cost]:
    return {cost.protocol: cost for cost in costs_on(schedule_of(table))}


def test_delays_are_those_of_the_log() -> None:
    schedule = schedule_of(table_of(LOG))
    sent = {e.message: e.time for e in LOG if e.kind == "send"}
    seen = [e.time - sent[e.message] for e in LOG if e.kind == "deliver"]  # type: ignore[operator]
    assert schedule.about["delays"] == "as seen"
    assert sorted(schedule.delays) == pytest.approx(sorted(seen))
    assert schedule_of(table_of(LOG), delay="constant:2").delays.tolist() == [2.0] * 60


def test_clocks_that_differ_do_not_count_as_delay() -> None:
    skewed = [replace(e, time=(e.time or 0) + 100 * int(e.process[1:])) for e in LOG]
    straight, crooked = schedule_of(table_of(LOG)), schedule_of(table_of(skewed))
    assert crooked.delays.mean() < straight.delays.mean() + 1.0


def test_a_log_without_times_gets_a_model() -> None:
    table = table_of(LOG).drop_columns(["time"])
    schedule = schedule_of(table)
    assert schedule.about["delays"] == "exponential:0.05"
    assert (schedule.delays > 0).all()


def test_added_packets_take_as_long_as_those_of_the_log() -> None:
    slow = [replace(e, time=1000 * (e.time or 0)) for e in LOG]
    schedule = schedule_of(table_of(slow))
    assert schedule.about["added"].startswith("lognormal:")
    drawn = schedule.added.draw(np.random.default_rng(1), np.zeros(100_000), np.zeros(100_000))
    assert drawn.mean() == pytest.approx(schedule.delays.mean(), rel=0.05)
    assert drawn.std() == pytest.approx(schedule.delays.std(), rel=0.15)
    fixed = schedule_of(table_of(LOG), delay="constant:2")
    assert fixed.about["added"] == "constant:2"
    assert str(fixed.added) == "constant:2:0"


def test_times_that_are_none_leave_the_others_seen() -> None:
    some = [replace(e, time=float("nan") if k % 7 == 0 else e.time) for k, e in enumerate(LOG)]
    whole, part = schedule_of(table_of(LOG)), schedule_of(table_of(some))
    assert part.about["delays"] == "as seen"
    assert len(set(part.delays) & set(whole.delays)) > 30
    none = [replace(e, time=float("inf")) for e in LOG]
    assert schedule_of(table_of(none)).about["delays"] == "exponential:0.05"


@pytest.mark.parametrize("far", [1e308, -1e308, 1e200])
def test_times_that_cannot_be_calculated_with_are_unknown(tmp_path: Path, far: float) -> None:
    some = [replace(e, time=far if k % 5 == 0 else e.time) for k, e in enumerate(LOG)]
    schedule = schedule_of(table_of(some))
    assert schedule.about["delays"] == "as seen"
    assert schedule.delays.max() < 1e6
    path = tmp_path / "edges.txt"
    path.write_text(f"a b 1\nb c {far}\n")
    with pytest.raises(UsageError, match=r"the log has a time of .* seconds; times up to 1e\+100"):
        schedule_of_edges(read(Source(path, "edges")).events)


def test_delays_belong_to_their_own_copies() -> None:
    """A send to nobody else stands in the log, not in the schedule."""
    events = [
        Event("a", 1, "send", "own", ("a",), 0.0),
        Event("a", 2, "send", "m1", ("b",), 1.0),
        Event("a", 3, "send", "m2", ("b",), 2.0),
        Event("b", 1, "deliver", "m1", None, 1.5),
        Event("b", 2, "deliver", "m2", None, 2.25),
    ]
    assert schedule_of(table_of(events)).delays.tolist() == [0.5, 0.25]


def test_whole_numbers_are_names() -> None:
    columns = {
        "process": [1, 2, 2, 3],
        "seq": [1, 1, 2, 1],
        "kind": ["send", "deliver", "send", "deliver"],
        "message": [7, 7, 8, 8],
    }
    schedule = schedule_of(pa.table(columns))
    assert schedule.names == ("1", "2", "3")
    rows = rows_of(advise(schedule, protocols=["optimal"]))
    assert rows["optimal"]["status"] == "run"


def test_a_long_log_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MESSAGES_MAX", 20)
    schedule = schedule_of(table_of(LOG))
    assert schedule.messages == 20
    assert schedule.about["log_messages"] == 60
    words = messages_in_words({"messages": 20, "log_messages": 60})
    assert words == "the first 20 of 60 messages"
    choice = recommend(costs_on(schedule, PLAIN), Traffic(0.5), messages=words)
    assert "ran on all of the first 20 of 60 messages" in choice.reason


def test_an_edge_list_gets_a_stated_model(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("a b 1\na c 1\nb c 2\nb b 3\n")
    events = table_of(to_events(read_edges(path, [])))
    schedule = schedule_of_edges(events)
    assert schedule.messages == 2
    assert schedule.cast == "multicast"
    assert schedule.about["delays"] == "exponential:0.05"


def test_repeated_lines_of_an_edge_list_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("a b 1\na b 1\na c 1\nb b 2\na b 1\n")
    assert left_out(read(Source(path, "edges"))) == {"repeated_lines": 2, "copies_to_sender": 1}


def test_multicasts_have_all_figures_under_every_protocol() -> None:
    costs = costs_of(table_of(WIDE))
    ran = [cost for cost in costs.values() if cost.status is Status.RUN]
    assert {"central", "hierarchy", "history", "optimal"} <= {cost.protocol for cost in ran}
    for cost in ran:
        assert cost.added_delay_mean is not None
        assert cost.added_delay_mean >= 0
        assert cost.added_delay_p99 is not None
        assert cost.added_delay_p99 >= 0
    assert costs["history"].added_delay_mean == 0
    assert [cost.protocol for cost in ran if cost.carries_messages] == ["history"]
    assert "payloads count as empty" in costs["history"].reason
    # One more packet at most: the second hop replaces the copy's own packet.
    assert 0 < (costs["central"].extra_packets_per_message or 0) <= 1
    choice = recommend(list(costs.values()), Traffic(0.5, 2.0))
    assert choice.protocol not in {None, "history", "two_hop"}
    assert "If messages must never wait, use history: it adds 0 ms" in choice.otherwise


def test_what_breaks_order_is_never_recommended() -> None:
    costs = costs_of(table_of(CROSSING))
    for name in ("server", "two_hop", "synchronous"):
        assert costs[name].faults[0].kind is FaultKind.WEAK_GUARANTEE
        assert costs[name].reason.startswith("not recommended: its guarantee is too weak (")
    assert FaultKind.ORDER_BROKEN in {fault.kind for fault in costs["server"].faults}
    assert FaultKind.UNDELIVERED in {fault.kind for fault in costs["synchronous"].faults}
    assert not costs["optimal"].faults
    for names in (["server", "optimal"], ["synchronous", "optimal"], ["two_hop", "optimal"]):
        choice = recommend([costs[name] for name in names], Traffic(0.5))
        assert choice.protocol == "optimal"
    choice = recommend([costs["server"], costs["synchronous"]], Traffic(0.5))
    assert choice.protocol is None
    assert "their remarks say why" in choice.reason


def test_the_words_of_a_reason_decide_nothing() -> None:
    """A name or an option may contain any words: only the typed fields count."""
    words = "not recommended: ran on the first messages; its copies contain earlier messages"
    sound = Cost(
        protocol="odd",
        status=Status.RUN,
        note=words,
        model_bytes_per_copy=1.0,
        added_delay_mean=0.0,
    )
    choice = recommend([sound], Traffic(0.5))
    assert choice.protocol == "odd"
    assert "all of this traffic" in choice.reason


def test_runs_of_protocols_that_keep_order_are_found_to() -> None:
    schedule = schedule_of(table_of(CROSSING))
    assert violations_of(schedule, run("optimal", schedule)) == 0
    assert violations_of(schedule, run("server", schedule)) > 0


def test_a_row_per_protocol_with_all_columns() -> None:
    table = advise(table_of(LOG), protocols=PLAIN)
    assert tuple(table.column_names) == ADVISE_COLUMNS
    rows = rows_of(table)
    assert set(rows) == set(PLAIN)
    assert rows["matrix"]["entries_per_copy"] == 25
    assert rows["matrix"]["model_bytes_per_copy"] == 100
    assert rows["buffered"]["extra_packets_per_message"] == 1
    assert rows["optimal"]["added_delay_mean"] == rows["matrix"]["added_delay_mean"]
    assert 0 < rows["optimal"]["model_bytes_per_copy"] < 100
    assert rows["optimal"]["wire_bytes_per_copy"] is not None


def test_a_small_log_needs_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = schedule_of(table_of(LOG))
    engines: list[str] = []

    def watched(*words: Any, engine: str, **options: Any) -> Any:
        engines.append(engine)
        return run(*words, engine=engine, **options)

    monkeypatch.setattr(replays, "run", watched)
    small = costs_on(schedule, PLAIN)
    monkeypatch.setattr(replays, "SMALL_COPIES_MAX", 0)
    assert (costs_on(schedule, PLAIN), engines) == (small, ["plain"] * 3 + ["auto"] * 3)


def test_a_matrix_that_would_not_fit_is_computed(shared: Path) -> None:
    from antecede.sim.workloads.replay import replay_edges

    schedule = replay_edges(shared / "data" / "collegemsg.txt", limit=8000)
    assert schedule.n > 512
    rows = rows_of(advise(schedule, protocols=["matrix", "pruned", "central", "two_hop"]))
    assert rows["two_hop"]["status"] == "computed"
    assert rows["two_hop"]["reason"].startswith(
        "not recommended: its guarantee is too weak (order over"
    )
    assert "ran on the first" in rows["central"]["reason"]
    n = schedule.n
    assert rows["matrix"]["status"] == "computed"
    assert rows["matrix"]["model_bytes_per_copy"] == 4 * n * n
    assert "would not fit" in rows["matrix"]["reason"]
    assert rows["pruned"]["status"] == "run"
    formula = antecede.PROTOCOLS["matrix"].formula
    assert formula is not None
    assert formula.state(1899) == 4 * 1899 * 1899


def test_schedules_survive_packing() -> None:
    schedule = WORKLOADS["paper"](n=4, seed=1, received=20)
    back = unpack_schedule(pack_schedule(schedule))
    assert np.array_equal(back.delays, schedule.delays)
    assert back.names == schedule.names


def cost(name: str, size: float, delay: float | None, packets: float = 0.0) -> Cost:
    return Cost(
        protocol=name,
        status=Status.RUN,
        model_bytes_per_copy=size,
        added_delay_mean=delay,
        extra_packets_per_message=packets,
        state_bytes_peak=10.0,
    )


def test_the_choice_weighs_bytes_against_delay() -> None:
    traffic = Traffic(0.05)
    lean = cost("lean", 30, 0.0)
    choice = recommend(
        [cost("wide", 400, 0.0), cost("lean", 30, 0.001), cost("slow", 0, 2.0)], traffic
    )
    assert choice.protocol == "lean"
    assert "If latency does not matter, slow costs 0 bytes" in choice.otherwise
    assert recommend([cost("chatty", 0, 0.0, 9.0), lean], traffic).protocol == "lean"
    assert recommend([], traffic).protocol is None
    # Two packets for each message of twenty copies are a tenth of one for each copy.
    shared = [cost("chatty", 0, 0.0, 2.0), lean]
    assert recommend(shared, traffic).protocol == "lean"
    choice = recommend(shared, Traffic(0.05, 20.0))
    assert choice.protocol == "chatty"
    assert choice.reason.startswith("Use chatty: 4 bytes and 0 ms more a copy on average.")
    unknown = cost("unknown", 0, None)
    assert recommend([unknown, lean], traffic).protocol == "lean"
    assert recommend([unknown], traffic).protocol is None
    assert "No other protocol that keeps" in recommend([lean], traffic).reason


def test_times_too_short_to_matter_and_the_least_memory_are_said_plainly() -> None:
    quick = cost("quick", 4, 3.78e-9)
    small = replace(cost("small", 90, 2.0), state_bytes_peak=1.0)
    choice = recommend(
        [quick, replace(quick, protocol="other", model_bytes_per_copy=9.0), small], Traffic(0.05)
    )
    assert choice.reason.startswith("Use quick: 4 bytes and less than 0.001 ms more a copy")
    assert (
        "If memory is scarce, use small: it keeps at most 1 bytes per process" in choice.otherwise
    )


def test_advice_says_first_whether_a_protocol_is_needed() -> None:
    kept = [*LATE[:4], replace(LATE[5], seq=1, time=3.5), replace(LATE[4], seq=2)]
    for log, count, words in ((LATE, 1, "order."), (kept, 0, "needs none, but nothing promises")):
        costs = [without_protocol(schedule_of(table_of(log)))]
        said = need(costs)
        assert said.startswith(f"Without a protocol, {count} of 3 deliveries would have been out")
        assert words in said
        assert recommend(costs, Traffic(0.05)).protocol is None
    assert need([]) == ""


@pytest.mark.parametrize("make", [pd.DataFrame, list, pa.Table.from_pylist])
def test_advice_takes_what_an_audit_takes(make: Callable[[Any], Any]) -> None:
    rows = [dataclasses.asdict(event) for event in LOG]
    found = advise(make(rows), protocols=["optimal"]).to_pylist()
    assert [row["protocol"] for row in found] == ["optimal"]
    assert found == advise(table_of(LOG), protocols=["optimal"]).to_pylist()
    with pytest.raises(UsageError, match="give a frame"):
        advise(7)


def test_a_partial_run_is_mentioned_not_chosen() -> None:
    begun = replace(cost("begun", 10, 0.0), is_partial=True)
    lean = cost("lean", 30, 0.0)
    choice = recommend([lean, cost("next", 40, 0.0), begun], Traffic(0.05))
    assert choice.protocol == "lean"
    assert "Next best is next" in choice.otherwise
    assert "begun costs 10 bytes a copy and adds 0 ms on the beginning" in choice.otherwise
    close = replace(begun, model_bytes_per_copy=29.0)
    assert (
        "begun cost 29 bytes a copy on the beginning"
        in recommend([lean, close], Traffic(0.05)).otherwise
    )
    assert recommend([begun], Traffic(0.05)).protocol == "begun"


def test_rejected_rows_are_reported_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps(dataclasses.asdict(e) | {"dests": e.dests and [*e.dests]}) for e in LOG]
    path.write_text("\n".join([*lines, "no event", '{"process": "a"}']) + "\n")
    words = ["advise", str(path), "--local", "--protocol", "optimal", "--out", str(tmp_path / "o")]
    with pytest.raises(SystemExit) as ended:
        app(words)
    assert ended.value.code == 0
    said = json.loads((tmp_path / "o" / "summary.json").read_text())["result"]
    assert said["rejected"] == 2
    assert said["rejected_first"][0]["line"] == len(LOG) + 1
    assert pq.read_table(tmp_path / "o" / "rejected.parquet").num_rows == 2
    page = (tmp_path / "o" / "index.html").read_text()
    assert "2 rows of the log are not valid events" in page
    assert "delays as seen" in page
    assert said["added_delays"] in page
    with pytest.raises(SystemExit) as ended:
        app([*words, "--strict"])
    assert ended.value.code == 2


def test_results_name_units_marks_and_what_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "PLAIN_COPIES_MAX", 20)
    path = tmp_path / "log.jsonl"
    again = [replace(LOG[k], seq=1000 + k) for k in range(5)]
    own = Event("p0", 2000, "send", "own", ("p0",), 99.0)
    eventlog.write(path, [*LOG, *again, own])
    names = ["--protocol", "optimal", "--protocol", "central"]
    with pytest.raises(SystemExit):
        app(["advise", str(path), "--local", *names, "--out", str(tmp_path / "o")])
    shown = capsys.readouterr().out
    result = json.loads((tmp_path / "o" / "summary.json").read_text())["result"]
    sends = sum(e.kind == "send" for e in again)
    assert result["left_out"] == {
        "repeated_sends": sends, "repeated_deliveries": 5 - sends, "copies_to_sender": 1,
    }  # fmt: skip
    assert "1 copy to its own sender." in shown
    total = result["total_bytes_per_copy"]["optimal"]
    rows = {tuple(row[:2]): row for row in map(str.split, shown.splitlines())}
    assert rows["optimal", "run"][4] == figure(total)
    assert result["reason"].startswith("Use optimal")
    assert ("central", "run†") in rows
    assert f"Ran only on the first {result['beginning_messages']:,} messages" in shown
    page = (tmp_path / "o" / "index.html").read_text()
    for head in ("model bytes", "wire bytes", "total bytes", "added ms"):
        assert f'<th scope="col">{head} per copy' in page
    assert "<dt>central†</dt>" in page


def test_the_page_has_no_figure_that_is_none() -> None:
    result = {
        "messages": 20, "log_messages": 60, "copies": 20, "cast": "unicast", "processes": 3,
        "delays": "as seen", "added_delays": "constant:0", "delay_mean": 0.0, "rejected": 1,
        "rejected_first": [{"line": 4, "reason": "no JSON", "text": "x"}],
        "reason": "because", "otherwise": "", "not_chosen": ["odd"],
    }  # fmt: skip
    empty: dict[str, Any] = dict.fromkeys(ADVISE_COLUMNS)
    row = empty | {"protocol": "odd", "status": "run", "reason": "", "added_delay_mean": np.nan}
    row["model_bytes_per_copy"] = 4.0
    page = advise_page(result, [row], log="l", facts={})
    assert "<dt>odd*</dt>" in page
    assert "* not recommended" in page
    assert "nan" not in page.lower().split("<body", 1)[1].split("<script", 1)[0]
    assert "Replayed: the first 20 of 60 messages" in page
    assert "1 row of the log is not a valid event" in page


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown protocol 'optimum'; known: acknowledged"):
        advise(table_of(LOG), protocols=["optimum"])


@pytest.mark.spark
def test_spark_gives_the_same_advice(spark: SparkSession) -> None:
    table = table_of(LOG)
    found = advise(spark.createDataFrame(table), protocols=PLAIN).toArrow()
    assert found.to_pylist() == advise(table, protocols=PLAIN).to_pylist()
