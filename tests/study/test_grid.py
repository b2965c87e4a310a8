"""The grid, its aggregation and its resumption, on runs that cost nothing."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from antecede.runs import PARTS, RunFolder
from antecede.study.api import study
from antecede.study.design import Case, Experiment
from antecede.study.grid import (
    GRID,
    LONGEST_SECONDS,
    UNIT_SECONDS,
    cost,
    grid_rows,
    units,
)
from antecede.study.jobs import Done, run_grid, tables
from antecede.study.request import Request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession


def fake(row: Mapping[str, Any]) -> dict[str, Any]:
    """Stand in for a simulation: figures that can be checked by hand."""
    factor = {"matrix": 2.0, "optimal": 1.0}[row["protocol"]]
    return {
        "deliveries": 100,
        "entries_per_copy": factor * row["x"] + row["seed"],
        "model_bytes_per_message": 10.0,
        "extra_bytes_per_message": 5.0,
        "wire_bytes_per_copy": None,
        "saturated": row["x"] > 50 and row["seed"] < 3,  # one seed is lucky
        "seconds": 0.01,
        "own_figure": factor,
    }


def _cases(xs: tuple[float, ...] = (10, 20), seeds: tuple[int, ...] = (1, 2, 3)) -> list[Case]:
    return [
        Case(name, "paper", {"n": int(x), "cast": "unicast", "received": 10}, seed, name, x)
        for x in xs
        for seed in seeds
        for name in ("matrix", "optimal")
    ]


def _experiment(cases: list[Case], baseline: str) -> dict[str, Experiment]:
    experiment = Experiment(
        name="test",
        rank=0,
        paper="",
        question="?",
        how="",
        x="n",
        cases=lambda scale: cases,
        baseline=baseline,
    )
    return {"test": experiment}


def _folder(path: Path, *, resume: bool = False) -> RunFolder:
    return RunFolder.open(path, "study", options={}, resume=resume, resumable=True)


def test_a_run_is_known_by_what_it_runs() -> None:
    rows = grid_rows("test", _cases(), seed=0)
    assert len({row["run_id"] for row in rows}) == len(rows)
    assert [r["run_id"] for r in rows] == [r["run_id"] for r in grid_rows("test", _cases(), seed=0)]
    assert not {r["run_id"] for r in rows} & {
        r["run_id"] for r in grid_rows("test", _cases(), seed=7)
    }
    by_place = {(r["x"], r["seed"]): r["schedule"] for r in rows}
    assert all(by_place[r["x"], r["seed"]] == r["schedule"] for r in rows)
    assert len(set(by_place.values())) == len(by_place)


def test_units_hold_every_run_once_and_the_longest_come_first() -> None:
    cases = [
        Case("optimal", "paper", {"n": n, "received": size}, 1, "optimal", n)
        for n in (4, 50, 200)
        for size in (10, 1000, 20_000)
    ]
    rows = grid_rows("test", cases, seed=0)
    packed = units(rows)
    assert sorted(r["run_id"] for unit in packed for r in unit) == sorted(r["run_id"] for r in rows)
    weights = [sum(cost(row) for row in unit) for unit in packed]
    assert weights == sorted(weights, reverse=True)
    for weight, unit in zip(weights, packed, strict=True):
        limit = LONGEST_SECONDS if len({row["schedule"] for row in unit}) == 1 else UNIT_SECONDS
        assert weight <= limit or len(unit) == 1


def test_protocols_whose_work_does_not_grow_are_not_taken_for_most_of_a_study() -> None:
    """Estimated as if it grew with n, ten runs of 4,395 were 97% of the work: "0:51 left"."""
    rows = Request(preset="paper").rows()
    total = sum(map(cost, rows))
    assert max(map(cost, rows)) < total / 4
    assert sum(cost(row) for row in rows if row["n"] >= 10_000) < total / 2


def test_runs_on_one_schedule_stay_together() -> None:
    arguments = {"n": 30, "received": 20_000}
    cases = [
        Case(name, "paper", arguments, seed, name, 30)
        for seed in (1, 2)
        for name in ("matrix", "optimal", "pruned")
    ]
    packed = units(grid_rows("test", cases, seed=0))
    assert [len({row["schedule"] for row in unit}) for unit in packed] == [1, 1]


@pytest.mark.spark
def test_study_gives_one_row_per_run(spark: SparkSession) -> None:
    rows = grid_rows("test", _cases(), seed=0)
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=GRID))
    found = study(frame, run=fake).toArrow().to_pylist()
    assert {row["run_id"] for row in found} == {row["run_id"] for row in rows}
    assert all(row["wire_bytes_per_copy"] is None for row in found)
    assert {dict(row["extras"])["own_figure"] for row in found} == {1.0, 2.0}


@pytest.mark.spark
def test_means_intervals_and_paired_differences(spark: SparkSession, tmp_path: Path) -> None:
    rows = grid_rows("test", _cases(xs=(10, 20, 60)), seed=0)
    with _folder(tmp_path / "out") as folder:
        runs = run_grid(spark, rows, folder, run=fake)
    found = tables(spark, runs, _experiment(_cases(), "matrix"))
    points = {
        (row["series"], row["x"]): row
        for row in found.points.to_pylist()
        if row["metric"] == "entries_per_copy"
    }
    assert set(points) == {(s, x) for s in ("matrix", "optimal") for x in (10.0, 20.0)}
    point = points["matrix", 10.0]
    assert point["mean"] == pytest.approx(22.0)
    # Seeds 1, 2, 3: deviation 1, and Student's t for two degrees of freedom is 4.303.
    assert point["high"] - point["mean"] == pytest.approx(4.303 / math.sqrt(3))
    difference = {
        row["x"]: row
        for row in found.differences.to_pylist()
        if row["metric"] == "entries_per_copy"
    }
    # The seeds' part cancels out, as both ran on the same schedule: no interval is left.
    assert difference[20.0]["mean"] == pytest.approx(-20.0)
    assert difference[20.0]["high"] == pytest.approx(-20.0)
    assert difference[20.0]["ratio"] == pytest.approx(22 / 42)
    totals = [r for r in found.points.to_pylist() if r["metric"] == "total_bytes_per_message"]
    assert {row["mean"] for row in totals} == {15.0}
    assert sum(row["saturated"] for row in found.overview.to_pylist()) == 4
    full = {r["x"]: r for r in found.points.to_pylist() if r["metric"] == "saturated"}
    assert {x: (row["mean"], row["runs"]) for x, row in full.items()} == {
        10.0: (0.0, 3),
        20.0: (0.0, 3),
        60.0: (pytest.approx(2 / 3), 3),
    }


@pytest.mark.spark
def test_a_baseline_without_x_is_compared_with_every_point(
    spark: SparkSession, tmp_path: Path
) -> None:
    arguments = {"n": 10, "cast": "unicast", "received": 10}
    cases = [Case("optimal", "paper", arguments, 1, "level", 0.0)]
    cases += [Case("matrix", "paper", arguments, 1, "line", x) for x in (1.0, 2.0)]
    with _folder(tmp_path / "out") as folder:
        runs = run_grid(spark, grid_rows("test", cases, seed=0), folder, run=fake)
    found = tables(spark, runs, _experiment(cases, "level"))
    compared = {
        row["x"]: row["mean"]
        for row in found.differences.to_pylist()
        if row["metric"] == "entries_per_copy"
    }
    assert compared == {1.0: 2.0, 2.0: 4.0}


@pytest.mark.spark
def test_an_interrupted_study_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    rows = grid_rows("test", _cases(), seed=0)
    seen: list[Done] = []

    def interrupted(path: Path) -> None:
        with _folder(path) as folder:
            run_grid(spark, rows[:4], folder, run=fake)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "out")
    assert list((tmp_path / "out" / ".unfinished" / PARTS).glob("*.parquet"))
    with _folder(tmp_path / "out", resume=True) as folder:
        runs = run_grid(spark, rows, folder, run=fake, progress=seen.append)
    assert (seen[0].runs, seen[0].total, seen[0].deliveries) == (4, len(rows), 0)
    assert 0 < seen[0].share < 1
    assert seen[-1] == Done(len(rows), len(rows), 100 * (len(rows) - 4), 1.0)
    assert [now.share for now in seen] == sorted(now.share for now in seen)
    assert runs.column("run_id").to_pylist() == [row["run_id"] for row in rows]


@pytest.mark.spark
def test_only_a_resumed_study_reuses_the_runs_of_a_finished_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = grid_rows("test", _cases(xs=(10,), seeds=(1,)), seed=0)

    def simulated(*, resume: bool) -> int:
        seen: list[Done] = []
        with _folder(tmp_path / "out", resume=resume) as folder:
            runs = run_grid(spark, rows, folder, run=fake, progress=seen.append)
            folder.write_table("runs", runs, by="experiment")
            folder.finish({})
        return seen[-1].deliveries

    assert [simulated(resume=again) for again in (False, False, True)] == [200, 200, 0]


def slow(row: Mapping[str, Any]) -> dict[str, Any]:
    """Stand in for a long run, that Ctrl-C shall not wait for."""
    if row["seed"] > 1:
        time.sleep(600)
    return fake(row)


@pytest.mark.spark
def test_what_runs_is_cancelled_when_one_fails_and_what_is_finished_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    cases = [
        Case("matrix", "paper", {"n": 10, "received": 10**8 // seed}, seed, "matrix", 10)
        for seed in (1, 2)  # as many as there are cores: both run at once
    ]
    rows = grid_rows("test", cases, seed=0)

    def stop(done: Done) -> None:
        if done.runs:
            raise KeyboardInterrupt

    begun = time.monotonic()
    with _folder(tmp_path / "out") as folder, pytest.raises(KeyboardInterrupt):
        run_grid(spark, rows, folder, run=slow, progress=stop)
    assert time.monotonic() - begun < 300
    assert len(list((folder.stage / PARTS).glob("*.parquet"))) == 1


@pytest.mark.spark
def test_a_run_that_fails_says_which(spark: SparkSession, tmp_path: Path) -> None:
    rows = grid_rows("test", [Case("nonesuch", "paper", {"n": 3}, 1, "x", 3)], seed=0)
    with _folder(tmp_path / "out") as folder, pytest.raises(Exception, match="nonesuch"):
        run_grid(spark, rows, folder, run=fake)
