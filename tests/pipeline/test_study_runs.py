"""What an executor measures of one run: settled, sized where anything was sent, timed alone."""

from __future__ import annotations

import time
from typing import Any

import pytest

from antecede.pipeline.studies.experiments import EXPERIMENTS, growth
from antecede.pipeline.studies.experiments.base import PAPER, QUICK, Case, Scale
from antecede.pipeline.studies.grid import grid_rows
from antecede.pipeline.studies.runner import execute


def executed(case: Case) -> dict[str, Any]:
    (row,) = grid_rows("test", [case], seed=0)
    return execute(row)


def growth_case(scale: Scale, cast: str, n: int, ratio: float) -> Case:
    return next(
        case
        for case in growth.cases(scale)
        if (case.facet, case.x, case.series) == (cast, n, growth.series(ratio))
    )


def test_a_run_that_sends_nothing_after_its_warm_up_has_no_sizes() -> None:
    arguments = {"n": 10, "cast": "multicast", "delay": "exponential:2", "received": 5}
    found = executed(Case("optimal", "paper", {**arguments, "warm_up": 40}, 1, "x", 0))
    assert found["deliveries"] > 0
    assert found["entries_per_copy"] is None
    assert found["model_bytes_per_message"] is None
    assert found["extra_packets_per_message"] is None


@pytest.mark.parametrize("cast", ["unicast", "multicast", "broadcast"])
def test_growth_is_measured_in_a_steady_state(cast: str) -> None:
    short = executed(growth_case(QUICK, cast, 20, 4.0))["entries_per_copy"]
    long = executed(growth_case(PAPER, cast, 20, 4.0))["entries_per_copy"]
    assert short == pytest.approx(long, rel=0.1)


def test_only_the_engine_is_timed_and_all_it_delivers_counts() -> None:
    case = next(c for c in EXPERIMENTS["semantic"].cases(QUICK) if c.protocol == "semantic")
    executed(case)
    begun = time.thread_time()
    found = executed(case)
    assert 0 < found["seconds"] < (time.thread_time() - begun) / 2  # false causality takes longer
    assert found["timed_deliveries"] > found["deliveries"] > 0


def test_bounded_runs_the_others_once_per_schedule() -> None:
    cases = EXPERIMENTS["bounded"].cases(QUICK)
    level = [(case.protocol, case.facet, case.seed) for case in cases if case.protocol != "bounded"]
    assert len(level) == len(set(level))
    free = [case for case in cases if case.options.get("k") == case.arguments["n"] ** 2]
    assert {case.facet for case in free} == {"unicast", "multicast"}
    assert executed(free[0])["extra_packets_per_message"] == 0
