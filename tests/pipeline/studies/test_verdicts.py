"""Verdicts come from the figures: other figures, another verdict; missing ones, no crash."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from antecede.pipeline.studies.claims import claim_rows, claims
from antecede.pipeline.studies.design import Outcome
from antecede.pipeline.studies.experiments import EXPERIMENTS, bounded, special
from antecede.pipeline.studies.experiments.overhead import PRS, PRUNED, RST
from antecede.pipeline.studies.measured import FAILS, HOLDS, LIMITS, NOT_RUN, Measured
from antecede.pipeline.studies.results import part_of

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


def outcome(number: str, measured: Measured) -> Outcome:
    claim, experiment = next(item for item in claims().items() if item[0].id == number)
    assert claim.judge is not None
    found = claim.judge(measured.of(experiment))
    assert found is not None
    return found


def verdict(number: str, measured: Measured) -> str:
    return outcome(number, measured).verdict


def overhead(entries: dict[str, Line], sizes: dict[str, Line]) -> Measured:
    rows = rows_of("overhead", "entries_per_copy", CASTS, entries)
    for metric in ("model_bytes_per_copy", "model_bytes_per_message", "bytes_per_entry"):
        rows += rows_of("overhead", metric, CASTS, sizes)
    dests = {PRUNED: {n: y / 2 for n, y in entries[PRUNED].items()}}
    rows += rows_of("overhead", "destinations_per_copy", CASTS, dests)
    fewer = [row for row in rows if row["series"] == PRUNED and row["facet"] == "multicast"]
    for row in fewer:  # the larger gain
        row["mean"] *= 0.9
    cross = {"delay=1": {10.0: 0.5, 30.0: 1.2}, "delay=10": {10.0: 0.4, 50.0: 1.1}}
    return Measured(rows + rows_of("crossover", "rst_share", (PRS,), cross))


def test_0_3_to_0_7_depend_on_the_figures() -> None:
    entries = {RST: power(1, 2), PRS: power(0.6, 2), PRUNED: power(2, 1)}
    sizes = {RST: power(4, 1.1), PRS: power(5, 1.1), PRUNED: power(3, 1.1)}
    good = overhead(entries, sizes)
    swapped = overhead(
        entries | {RST: entries[PRUNED], PRUNED: entries[RST]},
        sizes | {PRUNED: power(4000, 2)},
    )
    assert verdict("0.3", good) == HOLDS
    assert verdict("0.3", swapped) == FAILS
    assert verdict("0.4", good) == HOLDS
    few = overhead(entries | {PRUNED: power(0.001, 1)}, sizes)
    assert verdict("0.4", few) == FAILS
    assert verdict("0.6", good) == HOLDS
    assert verdict("0.6", swapped) == FAILS
    assert verdict("0.7", good) == HOLDS
    assert verdict("0.7", swapped) == FAILS
    large = sizes | {PRUNED: power(6, 1.1)}
    assert verdict("0.5", overhead(entries, large)) == HOLDS
    assert verdict("0.5", good) == FAILS


def test_0_2_depends_on_what_is_saved_and_never_holds_outright() -> None:
    def saving(factor: float) -> Measured:
        lines = {"pruned": flat(100.0), "pruned:without-just_replaced": flat(factor * 100.0)}
        return Measured(rows_of("redundancy", "model_bytes_per_copy", CASTS, lines))

    assert verdict("0.2", saving(1.2)) == LIMITS
    assert verdict("0.2", saving(0.9)) == FAILS


def test_0_6_without_crossover_says_so() -> None:
    sizes = {RST: power(4, 1.1), PRS: power(5, 1.1), PRUNED: power(3, 1.1)}
    rows = rows_of("overhead", "model_bytes_per_message", CASTS, sizes)
    found = outcome("0.6", Measured(rows))
    assert found.verdict == NOT_RUN
    assert "--experiment crossover" in found.result


def semantic_study(factor: float, held: float, age: float, work: float) -> Measured:
    facets = ("exponential",)
    both = {"semantic": flat(factor, DEPENDENCE), RST: flat(1.0, DEPENDENCE)}
    rows: Rows = []
    for metric in ("added_delay_mean", "buffer_mean", "entries_per_copy"):
        rows += rows_of("semantic", metric, facets, both)
    worked = {"semantic": flat(work, DEPENDENCE), RST: flat(1.0, DEPENDENCE)}
    rows += rows_of("semantic", "microseconds_per_delivery", facets, worked)
    for metric, value in (
        ("false_held_fraction", held),
        ("false_age", age),
        ("network_delay_mean", 0.1),
    ):
        rows += rows_of("semantic", metric, facets, {"semantic": flat(value, DEPENDENCE)})
    return Measured(rows)


def test_1_4_to_1_6_depend_on_the_figures() -> None:
    assert verdict("1.4", semantic_study(0.5, 0, 1, 1)) == HOLDS
    assert verdict("1.4", semantic_study(1000, 0, 1, 1)) == FAILS
    assert verdict("1.5", semantic_study(2, 0.01, 1.0, 1)) == HOLDS
    assert verdict("1.5", semantic_study(2, 0.3, 1.0, 1)) == LIMITS
    assert verdict("1.5", semantic_study(2, 0.3, 0.2, 1)) == FAILS
    assert verdict("1.6", semantic_study(2, 0, 1, 4)) == LIMITS
    assert verdict("1.6", semantic_study(2, 0, 1, 4000)) == FAILS
    assert verdict("1.6", semantic_study(2000, 0, 1, 4)) == FAILS


def growth_study(factor: float, exponent: float) -> Measured:
    line = {"delay=1": power(factor, exponent)}
    rows: Rows = []
    for metric in (
        "entries_per_copy",
        "log_entries_mean",
        "log_entries_peak",
        "microseconds_per_delivery",
    ):
        rows += rows_of("growth", metric, ("unicast",), line)
    return Measured(rows)


def test_2_3_to_2_5_depend_on_the_figures() -> None:
    small, steep, large = growth_study(1, 1.1), growth_study(0.01, 2.5), growth_study(1000, 1.1)
    assert verdict("2.3", small) == HOLDS
    assert verdict("2.3", large) == FAILS
    assert verdict("2.4", small) == HOLDS
    assert verdict("2.4", steep) == FAILS
    assert verdict("2.4", large) == FAILS
    assert verdict("2.5", small) == LIMITS
    assert verdict("2.5", steep) == FAILS


def test_2_6_depends_on_what_each_variant_does() -> None:
    def study(factor: float) -> Measured:
        logs = {"optimal": 10.0, "optimal:hardware": 10.0, "optimal:lookahead": 9.0}
        sizes = {"optimal": 10.0, "optimal:hardware": 12.0, "optimal:lookahead": 9.0}
        rows: Rows = []
        for metric, found, fewer in (
            ("log_entries_mean", logs, 10.0),
            ("model_bytes_per_copy", sizes, 7.0),
        ):
            lines = {
                name: flat(value)
                for name, value in (found | {"optimal:differences": fewer}).items()
            }
            for name in lines.keys() - {"optimal"}:
                lines[name][0.0] *= factor
            rows += rows_of("variants", metric, ("delay=5",), lines)
        return Measured(rows)

    assert verdict("2.6", study(1)) == LIMITS
    assert verdict("2.6", study(1000)) == FAILS


def test_2_8_depends_on_what_each_special_case_carries() -> None:
    def study(extra: float) -> Measured:
        rows: Rows = []
        for facet, name, _, limit in special.BOUNDS:
            lines = {"matrix": flat(100.0), name: flat(limit(10.0) + extra)}
            rows += rows_of("special", "entries_per_copy", (facet,), lines)
        return Measured(rows)

    assert verdict("2.8", study(0)) == HOLDS
    assert verdict("2.8", study(1000)) == FAILS
    missing = Measured(
        rows_of(
            "special", "entries_per_copy", ("unicast",), {"matrix": flat(9), "central": flat(0)}
        )
    )
    assert "synchronous in one token going round: not run" in outcome("2.8", missing).result


def test_3_2_is_judged_where_the_bound_does_not_act() -> None:
    def study(share: float) -> Measured:
        same = {bounded.SAME: {1.1: 0.01, 12.0: share}}
        extra = {bounded.SAME: {1.1: 5.0, 12.0: 0.0}}
        rows = rows_of("bounded", "entries_share", CASTS, same)
        return Measured(rows + rows_of("bounded", "extra_packets_per_message", CASTS, extra))

    assert verdict("3.2", study(0.4)) == HOLDS
    assert verdict("3.2", study(0.85)) == LIMITS
    assert verdict("3.2", study(0.95)) == FAILS


def buffered_study(latency: float, piped: float, acknowledgement: float) -> Measured:
    """Return the study in which a message takes ``latency`` times as long as under the matrix."""
    facets = ("fifo",)
    rows = rows_of(
        "buffered",
        "acknowledgement_bytes_per_message",
        facets,
        {"buffered": flat(acknowledgement, LOADS)},
    )
    rows += rows_of("buffered", "model_bytes_per_message", facets, {RST: flat(400, LOADS)})
    rows += rows_of("buffered", "extra_packets_per_message", facets, {"buffered": flat(1, LOADS)})
    rows += rows_of("buffered", "saturated", facets, {"buffered": {0.1: 0.0, 0.9: 1 / 3}})
    pairs = rows_of("buffered", "latency_mean", facets, {RST: flat(1 / latency, LOADS)})
    pairs += rows_of(
        "buffered", "added_delay_mean", facets, {"buffered:pipelined": flat(piped, LOADS)}
    )
    return Measured(rows, differences=pairs)


def test_4_5_has_three_parts_over_all_loads() -> None:
    good = outcome("4.5", buffered_study(1.05, 0.2, 6))
    assert good.verdict == HOLDS
    assert "buffered, FIFO channels, at 0.9: 1 of 3" in good.result
    slow = outcome("4.5", buffered_study(1.05, 0.9, 6))
    assert slow.verdict == LIMITS
    assert "10% at 0.01" in slow.result
    assert "Pipelining removes most of the delay: did not hold" in slow.result
    assert verdict("4.5", buffered_study(1000, 0.9, 6000)) == FAILS


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
