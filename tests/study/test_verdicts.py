"""Verdicts come from the figures: other figures, another verdict; missing ones, no crash."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import itertools
from typing import Any

import pytest

from antecede.study.claims import claim_rows, claims, refuted
from antecede.study.design import Judgement
from antecede.study.experiments import (
    EXPERIMENTS,
    encodings,
    growth,
    phased,
    special,
    thinning,
)
from antecede.study.experiments.overhead import PRUNED, RST
from antecede.study.points import FAILS, HOLDS, LIMITS, NOT_RUN, Measured
from antecede.study.prs_readings import PRS
from antecede.study.results import part_of

Rows = list[dict[str, Any]]
Line = dict[float, float]
SIZES = (10.0, 20.0, 50.0)
LOADS = (0.01, 0.1, 0.9)
DEPENDENCE = (0.0, 0.5, 1.0)


def rows_of(experiment: str, metric: str, facets: tuple[str, ...], lines: dict[str, Line]) -> Rows:
    """Return points of a metric, the same in every facet."""
    return [
        {
            "experiment": experiment,
            "metric": metric,
            "facet": facet,
            "series": series,
            "x": x,
            "mean": mean,
            "ratio": mean,
            "low": None,
            "high": None,
            "runs": 3,
        }
        for facet, (series, line) in itertools.product(facets, lines.items())
        for x, mean in line.items()
    ]


def power(factor: float, exponent: float) -> Line:
    return {n: factor * n**exponent for n in SIZES}


def flat(value: float, places: tuple[float, ...] = (0.0,)) -> Line:
    return dict.fromkeys(places, value)


CASTS = ("unicast", "multicast")


def outcome(number: str, measured: Measured) -> Judgement:
    claim, experiment = next(item for item in claims().items() if item[0].id == number)
    assert claim.judge is not None
    found = claim.judge(measured.of(experiment))
    assert found is not None
    return found


def verdict(number: str, measured: Measured) -> str:
    return outcome(number, measured).verdict


def overhead(
    entries: dict[str, Line], sizes: dict[str, Line], *, left: float = 0.5, cross: float = 25.0
) -> Measured:
    """Return a study with these dependents and bytes, where PRS passes RST at ``cross``."""
    rows = rows_of("overhead", "entries_per_copy", CASTS, entries)
    for metric in ("model_bytes_per_copy", "model_bytes_per_message", "bytes_per_entry"):
        rows += rows_of("overhead", metric, CASTS, sizes)
    dests = {PRUNED: {n: left * y for n, y in entries[PRUNED].items()}}
    rows += rows_of("overhead", "destinations_per_copy", CASTS, dests)
    fewer = [row for row in rows if row["series"] == PRUNED and row["facet"] == "multicast"]
    for row in fewer:  # the larger gain
        row["mean"] *= 0.9
    share = {PRS: {10.0: 0.5, cross: 1.0, 100.0: 1.2}}
    return Measured(rows + rows_of("crossover", "rst_share", ("delay=1", "delay=10"), share))


ENTRIES = {RST: power(1, 2), PRS: power(0.65, 2), PRUNED: power(2, 1)}
SIZES_OF = {RST: power(4, 1.1), PRS: power(5, 1.1), PRUNED: power(3, 1.1)}
GOOD = overhead(ENTRIES, SIZES_OF)
SWAPPED = overhead(
    ENTRIES | {RST: ENTRIES[PRUNED], PRUNED: ENTRIES[RST]}, SIZES_OF | {PRUNED: power(4000, 2)}
)


def redundancy(factor: float, *, grows: float = 1.0) -> Measured:
    lengths = (50.0, 100.0, 200.0)
    lines = {
        "pruned": flat(100.0, lengths),
        "pruned:without-just_replaced": flat(120.0, lengths),
        "pruned:without-already_delivered": {x: factor * 100 * x**grows for x in lengths},
    }
    return Measured(rows_of("redundancy", "model_bytes_per_copy", CASTS, lines))


def semantic_study(factor: float, held: float, age: float, exponent: float) -> Measured:
    both = {"semantic": flat(factor, DEPENDENCE), RST: flat(1.0, DEPENDENCE)}
    rows: Rows = []
    for metric in ("added_delay_mean", "buffer_mean"):
        rows += rows_of("semantic", metric, ("exponential",), both)
    for metric, value in (
        ("false_held_fraction", held),
        ("false_age", age),
        ("network_delay_mean", 0.1),
    ):
        rows += rows_of("loads", metric, CASTS, {"semantic": flat(value, (0.1, 1.0))})
    entries = {"semantic": power(factor, 2), RST: power(1, 2)}
    work = {"semantic": power(3, exponent), RST: power(1, 2)}
    rows += rows_of("overhead", "entries_per_copy", CASTS, entries)
    rows += rows_of("work", "operations", ("cells",), work)
    return Measured(rows)


def growth_study(factor: float, exponent: float) -> Measured:
    line = {"delay=1": power(factor, exponent)}
    rows: Rows = []
    for metric in (
        "entries_per_copy",
        "destinations_per_copy",
        "log_entries_mean",
        "log_entries_peak",
    ):
        rows += rows_of("growth", metric, ("unicast",), line)
    return Measured(rows)


def work_study(printed: float, common: float, receipt: float) -> Measured:
    exponents = {"send:printed": printed, "send:common": common}
    exponents |= {"receipt:printed": receipt, "receipt:sorted": receipt}
    lines = {name: power(1, exponent) for name, exponent in exponents.items()}
    return Measured(rows_of("work", "operations", ("logs",), lines))


def variants_study(factor: float, half: float = 0.0) -> Measured:
    """Return a study whose differences have intervals of twice a half."""
    logs = {"optimal": 10.0, "optimal:hardware": 10.0, "optimal:lookahead": 9.0}
    sizes = {"optimal": 10.0, "optimal:hardware": 12.0, "optimal:lookahead": 9.0}
    rows: Rows = []
    for metric, found, fewer in (
        ("log_entries_mean", logs, 10.0),
        ("model_bytes_per_copy", sizes, 7.0),
    ):
        lines = {
            name: flat(value) for name, value in (found | {"optimal:differences": fewer}).items()
        }
        for name in lines.keys() - {"optimal"}:
            lines[name][0.0] *= factor
        rows += rows_of("variants", metric, ("delay=5",), lines)
    pairs = [row | {"low": -1 - half, "high": -1 + half} for row in rows]
    return Measured(rows, differences=pairs)


def special_study(extra: float) -> Measured:
    rows: Rows = []
    for facet, name, _, limit in special.BOUNDS:
        lines = {"matrix": flat(100.0), name: flat(limit(10.0) + extra)}
        rows += rows_of("special", "entries_per_copy", (facet,), lines)
    return Measured(rows)


def thinning_study(share: float) -> Measured:
    lines = {thinning.CELLS: 0.9, thinning.OWN: 0.85, thinning.CLEARED: share}
    rows = rows_of(
        "thinning", "entries_share", CASTS, {name: flat(y, SIZES) for name, y in lines.items()}
    )
    sizes = {thinning.CLEARED: power(8 * share, 2), RST: power(4, 2)}
    rows += rows_of("thinning", "model_bytes_per_copy", CASTS, sizes)
    extra = {thinning.CLEARED: flat(0.0, SIZES)}
    return Measured(rows + rows_of("thinning", "extra_packets_per_message", CASTS, extra))


def buffered_study(latency: float, acknowledgement: float) -> Measured:
    """Return the study in which a message takes ``latency`` times as long as under the matrix."""
    facets = ("reordering",)
    lines = {"buffered": flat(acknowledgement, LOADS)}
    rows = rows_of("buffered", "total_bytes_per_message", facets, lines)
    rows += rows_of("buffered", "model_bytes_per_message", facets, {RST: flat(400, LOADS)})
    rows += rows_of("buffered", "latency_in_delays", facets, {"buffered": flat(2.0, LOADS)})
    rows += rows_of("buffered", "saturated", facets, {"buffered": {0.9: 0.0, 1.1: 1.0}})
    rows += rows_of(
        "pipelining", "added_delay_mean", ("load=0.4",), {"buffered": flat(1.0, (0.5,))}
    )
    rows += rows_of("links", "latency_mean", ("n=10",), {"buffered": flat(1.0, (1e3, 1e5))})
    rows += rows_of("links", "saturated", ("n=10",), {"buffered": {500.0: 1.0, 1e3: 0.0}})
    pairs = rows_of("buffered", "latency_mean", facets, {RST: flat(1 / latency, LOADS)})
    pairs += rows_of(
        "pipelining", "added_delay_mean", ("load=0.4",), {"buffered:pipelined": flat(0.45, (0.5,))}
    )
    pairs += rows_of("links", "latency_mean", ("n=10",), {RST: {1e3: 3.0, 1e5: 0.5}})
    return Measured(rows, differences=pairs)


def encodings_study(factor: float, share: float) -> Measured:
    series = [*encodings.SERIES.values()]
    rows = rows_of("encodings", "sent_everywhere", encodings.CASTS, {encodings.KS: flat(share)})
    lines = {name: flat(factor) for name in series if name != encodings.KS}
    pairs = rows_of("encodings", "model_bytes_per_copy", encodings.CASTS, lines)
    return Measured(rows, differences=pairs)


def phased_study(*packets: float) -> Measured:
    line = {float(x): y for x, y in enumerate(packets, start=1)}
    names = (phased.PACKETS, phased.TOTAL, phased.HEADERS, phased.LATENCY)
    rows = [row for name in names for row in rows_of("phased", name, ("",), {phased.PHASED: line})]
    return Measured(rows, differences=rows)


FEW = overhead(ENTRIES | {PRUNED: power(0.001, 1)}, SIZES_OF)
LARGE = overhead(ENTRIES, SIZES_OF | {PRUNED: power(6, 1.1)})
CASES: dict[str, dict[str, list[Measured]]] = {
    "0.2": {HOLDS: [redundancy(1.2)], FAILS: []},
    "0.3": {
        HOLDS: [GOOD],
        LIMITS: [overhead(ENTRIES | {PRS: power(0.9, 2)}, SIZES_OF)],
        FAILS: [SWAPPED],
    },
    "0.4": {HOLDS: [GOOD], LIMITS: [overhead(ENTRIES, SIZES_OF, left=3)], FAILS: [FEW]},
    "0.5": {HOLDS: [LARGE], FAILS: [GOOD]},
    "0.6": {
        HOLDS: [GOOD],
        LIMITS: [
            overhead(ENTRIES, SIZES_OF, cross=60.0),
            overhead(ENTRIES, SIZES_OF | {PRUNED: power(0.1, 1.5)}),
        ],
        FAILS: [SWAPPED],
    },
    "0.7": {HOLDS: [GOOD], FAILS: [SWAPPED]},
    "1.4": {
        HOLDS: [semantic_study(0.5, 0, 1, 1)],
        LIMITS: [semantic_study(0.95, 0, 1, 1)],
        FAILS: [semantic_study(1000, 0, 1, 1)],
    },
    "1.5": {
        HOLDS: [semantic_study(2, 0.01, 1.0, 1)],
        LIMITS: [semantic_study(2, 0.01, 0.1, 1)],
        FAILS: [semantic_study(2, 0.3, 1.0, 1)],
    },
    "1.6": {
        HOLDS: [semantic_study(2, 0, 1, 2.1)],
        LIMITS: [semantic_study(2, 0, 1, 3), semantic_study(3, 0, 1, 2)],
        FAILS: [semantic_study(2000, 0, 1, 3)],
    },
    "2.3": {LIMITS: [growth_study(1, 1.1)], FAILS: [growth_study(1000, 1.1)]},
    "2.4": {HOLDS: [growth_study(1, 1.1)], FAILS: [growth_study(1000, 1.1)]},
    "2.5": {
        HOLDS: [work_study(3, 2, 2)],
        LIMITS: [work_study(3.5, 2, 2), work_study(2, 2, 2), work_study(3, 2, 2.6)],
        FAILS: [work_study(3, 2.8, 2.6)],
    },
    "2.6": {LIMITS: [variants_study(1)], FAILS: [variants_study(1000)]},
    "2.8": {LIMITS: [special_study(0)], FAILS: [special_study(1000)]},
    "2.11": {
        LIMITS: [encodings_study(0.8, 0), encodings_study(1.2, 0.5)],
        FAILS: [encodings_study(1.2, 0)],
    },
    "3.2": {HOLDS: [thinning_study(0.6)], FAILS: [thinning_study(0.95)]},
    "3.4": {
        HOLDS: [phased_study(0.5, 0.9)],
        LIMITS: [phased_study(0.5, 1.1)],
        FAILS: [phased_study(1.1)],
    },
    "4.5": {
        HOLDS: [buffered_study(1.05, 6)],
        LIMITS: [buffered_study(1000, 6)],
        FAILS: [buffered_study(1000, 6000)],
    },
}


@pytest.mark.parametrize("number", CASES)
def test_figures_decide_the_verdict(number: str) -> None:
    for wanted, studies in CASES[number].items():
        for study in studies:
            assert verdict(number, study) == wanted


def test_every_judged_claim_can_hold_and_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = {c.id for c in claims() if c.judge is not None and "open" not in c.id}
    assert set(CASES) == judged
    never_holds = {number for number, cases in CASES.items() if not cases.get(HOLDS)}
    assert never_holds == {"2.3", "2.6", "2.8", "2.11"}  # docs/errata.md and tests show why
    monkeypatch.setattr(growth, "complement_units", lambda: (5, 5.0))
    assert verdict("2.3", growth_study(1, 1.1)) == HOLDS
    assert {number for number, cases in CASES.items() if not cases.get(FAILS)} == {"0.2"}


def test_0_2_fails_if_nothing_is_saved_and_says_what_is_unbounded() -> None:
    lines = {"pruned": flat(100.0), "pruned:without-just_replaced": flat(90.0)}
    none = Measured(rows_of("redundancy", "model_bytes_per_copy", CASTS, lines))
    assert verdict("0.2", none) == FAILS
    assert "unbounded: x60, x120, x240 at 50, 100, 200" in outcome("0.2", redundancy(1.2)).result
    assert "unbounded" not in outcome("0.2", redundancy(1.2, grows=0)).result


def test_results_say_what_other_limits_would_give() -> None:
    steeper = overhead(ENTRIES, SIZES_OF | {PRUNED: power(3, 1.2)})
    text = outcome("0.7", steeper).result
    assert "Nearly O(n) means that no exponent between two sizes exceeds 1.25" in text
    assert "(with other limits: 1.1: holds with limits, 1.5: holds, 1.75: holds)" in text


def test_results_have_local_exponents_and_intervals() -> None:
    rows = rows_of("growth", "entries_per_copy", ("unicast",), {"delay=1": power(1, 1.1)})
    told = outcome("2.4", Measured(rows)).result
    assert "n^1.10 (1.10 at first, 1.10 at the end)" in told
    assert "n^1.10 (10 to 20: 1.10; 20 to 50: 1.10)" in outcome("0.7", GOOD).result
    spread = [row | {"low": row["mean"] - 3, "high": row["mean"] + 3} for row in _points_of(GOOD)]
    assert "RST 2,500 ± 3," in outcome("0.3", Measured(spread)).result


def _points_of(measured: Measured) -> Rows:
    return [
        {
            "experiment": experiment, "metric": metric, "facet": facet, "series": series, "x": x,
            "mean": point.mean, "low": point.low, "high": point.high, "runs": point.runs,
        }
        for experiment, lines in measured._points.items()
        for (metric, facet, series), line in lines.items()
        for x, point in line.items()
    ]  # fmt: skip


def test_figures_decide_what_is_refuted_as_printed() -> None:
    linear, cubic = (refuted(work_study(3, 2, receipt)) for receipt in (2, 3))
    assert "lemmas 3 and 4 (1.2)" in linear
    assert "2.5" not in linear
    assert "lemmas 3 and 4 (1.2); quadratic time for a receipt (2.5)" in cubic


def test_0_6_without_crossover_says_so() -> None:
    rows = [row for row in _points_of(GOOD) if row["experiment"] == "overhead"]
    found = outcome("0.6", Measured(rows))
    assert found.verdict == NOT_RUN
    assert "--experiment crossover" in found.result


def test_0_3_and_0_6_say_which_reading_of_prs_brings_out_what() -> None:
    rows = _points_of(GOOD)
    other = "direct:emptied-direct"
    rows += rows_of("overhead", "entries_per_copy", CASTS, {other: power(0.9, 2)})
    early = {other: {5.0: 0.5, 10.0: 1.5}}
    rows += rows_of("crossover", "rst_share", ("delay=1", "delay=10"), early)
    third = outcome("0.3", Measured(rows)).result
    assert "own slot kept, direct pruning 0.650, own slot emptied, direct pruning 0.900" in third
    assert "(checked in multicast only) come out with own slot kept, direct pruning." in third
    sixth = outcome("0.6", Measured(rows)).result
    assert "own slot kept, direct pruning: 25.0 to 25.0" in sixth
    assert "own slot emptied, direct pruning: 7.5 to 7.5" in sixth
    for number in ("0.3", "0.6"):  # one reading agrees, the other does not
        assert verdict(number, Measured(rows)) == LIMITS


def test_1_5_and_1_6_name_the_experiment_that_is_missing() -> None:
    rows = rows_of("semantic", "added_delay_mean", ("exponential",), {"semantic": flat(1.0)})
    for number, name in (("1.5", "loads"), ("1.6", "overhead")):
        found = outcome(number, Measured(rows))
        assert found.verdict == NOT_RUN
        assert f"--experiment {name}" in found.result


def test_2_6_says_where_seeds_are_too_few() -> None:
    sure, unsure = (outcome("2.6", variants_study(1, half)).result for half in (0.5, 2.0))
    assert "too few seeds" not in sure
    assert "lookahead keeps less: held, but with too few seeds to be sure at delay = 5" in unsure
    assert "differences sends fewer bytes: held, but" in unsure


def test_2_8_names_what_was_not_run() -> None:
    lines = {"matrix": flat(9), "buffered": flat(0)}
    missing = Measured(rows_of("special", "entries_per_copy", ("unicast",), lines))
    assert "synchronous in one token going round: not run" in outcome("2.8", missing).result


def test_2_8_compares_relays_with_optimal_and_says_what_had_not_settled() -> None:
    rows = _points_of(special_study(0))
    lines = {"optimal": flat(30), "central": flat(12)}
    rows += rows_of("special", special.TOTAL, ("unicast", "multicast"), lines)
    drift = rows_of("special", "size_drift", ("multicast",), {"central": flat(0.1)})
    rows += [row | {"low": 0.05, "high": 0.15} for row in drift]
    text = outcome("2.8", Measured(rows)).result
    assert "central in multicast 12.0 (30.0), not settled; central in unicast 12.0 (30.0)." in text


def test_4_5_stands_beside_theory_and_quotes_the_footnotes() -> None:
    text = outcome("4.5", buffered_study(1.05, 6)).result
    assert "2.00 at 0.9 (theory 14.50)" in text
    assert "From 1.1 on the queue grows without bound." in text
    assert "55% at 0.5 (load 0.4)" in text
    assert "buffered is quicker than the matrix from 1 to about 80.2 kB/s (at 0.5" in text


def test_3_open_4_tells_the_delay_where_the_bound_acts() -> None:
    lines = {"optimal": flat(1.0), "bounded": {1.5: 1.2, 4.0: 1.1, 20.0: 1.0}}
    rows = rows_of("bounded", "latency_mean", CASTS, lines)
    extra = {"bounded": {1.5: 3.0, 4.0: 1.0, 20.0: 0.0}}
    rows += rows_of("bounded", "extra_packets_per_message", CASTS, extra)
    short = outcome("3.open.4", Measured(rows)).short
    assert short.startswith("+10.0% at k = 4 n to +20.0% at k = 1.5 n in unicast, ")


def test_open_questions_are_answered_from_the_figures(points: Rows, differences: Rows) -> None:
    more = [row | {"mean": row["mean"] + row["x"]} for row in points]
    before = claim_rows(Measured(points, differences=differences))
    after = claim_rows(Measured(more, differences=differences))
    asked = [(a, b) for a, b in zip(before, after, strict=True) if a.id.startswith("3.open")]
    assert len(asked) == 4
    assert all(a.result != b.result for a, b in asked)


@pytest.mark.parametrize("name", [n for n, each in EXPERIMENTS.items() if not each.needs_traffic])
def test_missing_series_are_said_to_be_missing(name: str, points: Rows, differences: Rows) -> None:
    rows = [row for row in points if row["experiment"] == name]
    pairs = [row for row in differences if row["experiment"] == name]
    for series in dict.fromkeys(row["series"] for row in rows):
        alone = Measured([row for row in rows if row["series"] == series]).of(name)
        assert part_of(EXPERIMENTS[name], alone).blocks
        for keeps in (True, False):
            kept = [row for row in rows if (row["series"] == series) == keeps]
            both = [row for row in pairs if (row["series"] == series) == keeps]
            for given in (both, []):
                measured = Measured(kept, differences=given)
                assert all(cell for row in claim_rows(measured) for cell in row)
                assert all(each.strip() for each in EXPERIMENTS[name].findings(measured.of(name)))


def test_a_single_place_of_each_series_is_enough_not_to_crash(points: Rows) -> None:
    for keep in (min, max):
        ends: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        for row in points:
            key = (row["experiment"], row["metric"], row["facet"], row["series"])
            ends[key] = keep(ends.get(key, row), row, key=lambda r: r["x"])
        measured = Measured(ends.values())
        assert all(cell for row in claim_rows(measured) for cell in row)
        assert [part_of(each, measured.of(name)) for name, each in EXPERIMENTS.items()]
