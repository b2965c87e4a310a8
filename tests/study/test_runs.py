"""What an executor measures of one run: settled, sized where anything was sent, timed alone."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from antecede.report.page import Claims
from antecede.sim.kernels.registry import KERNELS
from antecede.study import experiments
from antecede.study.claims import claims
from antecede.study.design import PAPER, QUICK, Case, Scale
from antecede.study.experiments import EXPERIMENTS, bounded, execute, growth, redundancy
from antecede.study.grid import grid_rows
from antecede.study.measuring import SHORT, unpack
from antecede.study.points import Measured
from antecede.study.results import study_page


def executed(case: Case, experiment: str = "test") -> dict[str, Any]:
    (row,) = grid_rows(experiment, [case], seed=0)
    return execute(row)


def growth_case(scale: Scale, cast: str, n: int, ratio: float) -> Case:
    return next(
        case
        for case in growth.cases(scale)
        if (case.facet, case.x, case.series) == (cast, n, f"delay={ratio:g}")
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
    executed(case, "semantic")
    begun = time.thread_time()
    found = executed(case, "semantic")
    assert 0 < found["seconds"] < (time.thread_time() - begun) / 2  # false causality takes longer
    assert found["timed_deliveries"] > found["deliveries"] > 0


def test_the_quick_preset_needs_no_kernel_but_those_compiled_ahead() -> None:
    """Compiling takes seconds, and these runs would take no time on a kernel."""
    late = {name for name, kernel in KERNELS.items() if not kernel.ahead}
    found = {
        (case.protocol, unpack(row).schedule.copies)
        for experiment in EXPERIMENTS.values()
        for case in experiment.cases(QUICK)
        if case.protocol in late
        for row in grid_rows(experiment.name, [case], seed=0)
    }
    assert {protocol for protocol, _ in found} == late - {"delta"}, "no experiment loses messages"
    assert max(copies for _, copies in found) <= SHORT


def test_bounded_runs_the_others_once_per_schedule() -> None:
    cases = EXPERIMENTS["bounded"].cases(QUICK)
    level = [(case.protocol, case.facet, case.seed) for case in cases if case.protocol != "bounded"]
    assert len(level) == len(set(level))
    free = [case for case in cases if case.options.get("k") == case.arguments["n"] ** 2]
    assert {case.facet for case in free} == {"unicast", "multicast"}
    assert executed(free[0])["extra_packets_per_message"] == 0


@pytest.mark.parametrize("n", range(2, 9))
def test_bounded_takes_few_processes(n: int) -> None:
    """Each k is one that the protocol takes, and none is run twice."""
    cases = bounded.cases(replace(QUICK, points=8, seeds=(1,), side=20, chosen_sizes=(n,)))
    limited = [case for case in cases if case.protocol == "bounded"]
    runs = [(case.facet, case.series, str(case.options["k"])) for case in limited]
    assert len(runs) == len(set(runs))
    for case in limited:
        k = case.options["k"]
        assert all(n < one <= n * n for one in (k if isinstance(k, list) else [k]))
        assert executed(case, "bounded")["deliveries"] > 0
    assert {case.x for case in limited if case.options["k"] == n * n} == {float(n)}


def test_an_experiment_measures_its_runs_and_a_foreign_row_is_a_plain_run() -> None:
    pruned, without = redundancy.cases(QUICK)[:2]
    assert "pruned_just_delivered" not in executed(pruned)
    assert executed(pruned, "redundancy")["pruned_just_delivered"] > 0
    assert executed(without, "redundancy")["pruned_just_delivered"] == 0
    mixed = next(case for case in bounded.cases(QUICK) if case.series == bounded.MIXED)
    assert executed(mixed, "bounded")["extra_packets_per_message"] > 0


def test_hardware_multicast_is_one_packet_for_all_copies() -> None:
    found = {
        case.series: executed(case, "variants")
        for case in EXPERIMENTS["variants"].cases(QUICK)
        if case.seed == 1 and case.facet == "delay=0.5"
    }
    hardware, printed = found["optimal:hardware"], found["optimal"]
    assert hardware["data_packets_per_message"] == 1
    assert printed["data_packets_per_message"] > 4
    each = hardware["model_bytes_per_message"]
    assert each == pytest.approx(hardware["model_bytes_per_copy"], rel=0.1)
    assert each < printed["model_bytes_per_message"]


NOVEL = """
from antecede.study.design import Case, Claim, Experiment, Judgement

EXPERIMENT = Experiment(
    name="novel", rank=1000, paper="Doe 2026 [Doe26]", question="?", how="", x="n",
    baseline="matrix",
    cases=lambda scale: [Case("matrix", "paper", {"n": 3, "received": 5}, 1, "matrix", 3)],
    claims=(Claim("9.1", "New.", "This run.", judge=lambda points: Judgement("Yes.", "holds")),),
)
"""


def test_a_new_experiment_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "novel.py").write_text(NOVEL, encoding="utf-8")
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path)])
    found = experiments.discovered()
    assert list(found) == [*EXPERIMENTS, "novel"]
    monkeypatch.setattr("antecede.study.claims.EXPERIMENTS", found)
    assert next(reversed(claims().items()))[1] == "novel"
    (section,) = (s for s in study_page(Measured([]), [], {}).sections if s.id == "claims")
    (shown,) = (block for block in section.blocks if isinstance(block, Claims))
    assert [name for name, _ in shown.papers.values()][-1] == "Doe 2026"
    assert shown.lines[-1].paper == list(shown.papers)[-1]


def test_every_module_of_the_experiments_is_one_experiment() -> None:
    for name, experiment in EXPERIMENTS.items():
        module = import_module(f"antecede.study.experiments.{name}")
        assert module.EXPERIMENT is experiment
    ranks = [experiment.rank for experiment in EXPERIMENTS.values()]
    assert len(set(ranks)) == len(ranks)


@pytest.mark.parametrize("name", [n for n, each in EXPERIMENTS.items() if not each.needs_traffic])
def test_series_and_facets_are_keys_with_labels(name: str) -> None:
    experiment = EXPERIMENTS[name]
    cases = experiment.cases(QUICK)
    keys = {key for case in cases for key in (case.series, case.facet)}
    assert [key for key in keys if " " in key or "(" in key] == []
    assert experiment.baseline in keys
    assert {*experiment.levels, *experiment.labels} <= keys
