"""Advice: a log's own sends as schedule, every protocol that fits, a choice with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from antecede.core.tables import ADVISE_COLUMNS
from antecede.errors import UsageError
from antecede.pipeline.advise import (
    FORMULAS,
    advise,
    advise_table,
    pack_schedule,
    schedule_of,
    unpack_schedule,
)
from antecede.pipeline.recommend import recommend
from antecede.pipeline.sources import table_of
from antecede.sim.workloads import WORKLOADS
from tests.pipeline.histories import Shape, history

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

LOG = history(Shape(processes=5, sends=60, fan_out=1, delay=0.5, own=0.0), 3)
PLAIN = ("optimal", "matrix", "buffered")


def rows_of(table: pa.Table) -> dict[str, dict[str, object]]:
    return {row["protocol"]: row for row in table.to_pylist()}


def test_delays_are_those_of_the_log() -> None:
    schedule = schedule_of(table_of(LOG))
    sent = {e.message: e.time for e in LOG if e.kind == "send"}
    seen = [e.time - sent[e.message] for e in LOG if e.kind == "deliver"]  # type: ignore[operator]
    assert schedule.about["delays"] == "as seen"
    assert sorted(schedule.delays) == pytest.approx(sorted(seen))
    assert schedule_of(table_of(LOG), delay="constant:2").delays.tolist() == [2.0] * 60


def test_clocks_that_differ_do_not_count_as_delay() -> None:
    from dataclasses import replace

    skewed = [replace(e, time=(e.time or 0) + 100 * int(e.process[1:])) for e in LOG]
    straight, crooked = schedule_of(table_of(LOG)), schedule_of(table_of(skewed))
    assert crooked.delays.mean() < straight.delays.mean() + 1.0


def test_a_log_without_times_gets_a_model() -> None:
    table = table_of(LOG).drop_columns(["time"])
    schedule = schedule_of(table)
    assert "delays" not in schedule.about
    assert (schedule.delays > 0).all()


def test_a_row_per_protocol_with_all_columns() -> None:
    table = advise_table(table_of(LOG), protocols=PLAIN)
    assert tuple(table.column_names) == ADVISE_COLUMNS
    rows = rows_of(table)
    assert set(rows) == set(PLAIN)
    assert rows["matrix"]["entries_per_copy"] == 25
    assert rows["matrix"]["model_bytes_per_copy"] == 100
    assert rows["buffered"]["extra_packets_per_message"] == 1
    assert rows["optimal"]["added_delay_mean"] == rows["matrix"]["added_delay_mean"]
    assert 0 < float(str(rows["optimal"]["model_bytes_per_copy"])) < 100
    assert rows["optimal"]["wire_bytes_per_copy"] is not None


def test_a_matrix_that_would_not_fit_is_computed(shared: Path) -> None:
    from antecede.sim.replay import replay_edges

    schedule = replay_edges(shared / "data" / "collegemsg.txt", limit=8000)
    assert schedule.n > 512
    rows = rows_of(advise_table(schedule, protocols=["matrix", "pruned", "central"]))
    assert "ran on the first" in str(rows["central"]["reason"])
    n = schedule.n
    assert rows["matrix"]["status"] == "computed"
    assert rows["matrix"]["model_bytes_per_copy"] == 4 * n * n
    assert "would not fit" in str(rows["matrix"]["reason"])
    assert rows["pruned"]["status"] == "run"
    assert FORMULAS["matrix"].state(1899) == 4 * 1899 * 1899


def test_schedules_survive_packing() -> None:
    schedule = WORKLOADS["paper"](n=4, seed=1, received=20)
    back = unpack_schedule(pack_schedule(schedule))
    assert np.array_equal(back.delays, schedule.delays)
    assert back.names == schedule.names


def test_the_choice_weighs_bytes_against_delay() -> None:
    base: dict[str, Any] = {
        "status": "run",
        "reason": "",
        "wire_bytes_per_copy": None,
        "state_bytes_peak": 10.0,
    }

    def row(name: str, size: float, delay: float, packets: float = 0.0) -> dict[str, Any]:
        return base | {
            "protocol": name,
            "model_bytes_per_copy": size,
            "added_delay_mean": delay,
            "extra_packets_per_message": packets,
        }

    rows = [row("wide", 400, 0.0), row("lean", 30, 0.001), row("slow", 0, 2.0)]
    choice = recommend(rows, usual_delay=0.05)
    assert choice.protocol == "lean"
    assert "If latency does not matter, slow costs 0 bytes" in choice.otherwise
    assert recommend([row("chatty", 0, 0.0, 9.0), row("lean", 30, 0.0)], 0.05).protocol == "lean"
    assert recommend([], 0.05).protocol is None
    begun = row("begun", 10, 0.0) | {"reason": "ran on the first 3,000 messages (no kernel)"}
    choice = recommend([row("lean", 30, 0.0), row("next", 40, 0.0), begun], 0.05)
    assert choice.protocol == "lean"
    assert "Next best is next" in choice.otherwise
    assert "begun costs 10 bytes a copy and adds 0 ms on the beginning" in choice.otherwise


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown protocol 'optimum'; known: bounded"):
        advise(table_of(LOG), protocols=["optimum"])


@pytest.mark.spark
def test_spark_gives_the_same_advice(spark: SparkSession) -> None:
    table = table_of(LOG)
    found = advise(spark.createDataFrame(table), protocols=PLAIN).toArrow()
    assert found.to_pylist() == advise_table(table, protocols=PLAIN).to_pylist()
