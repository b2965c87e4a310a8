"""Fixtures of the studies' tests: the points of a whole study without running it."""

from __future__ import annotations

from typing import Any

import pytest

from antecede.study.design import QUICK
from antecede.study.experiments import EXPERIMENTS

METRICS = (
    "entries_per_copy",
    "destinations_per_copy",
    "model_bytes_per_copy",
    "model_bytes_per_message",
    "total_bytes_per_message",
    "bytes_per_entry",
    "entries_share",
    "rst_share",
    "log_entries_mean",
    "log_entries_peak",
    "held_fraction",
    "added_delay_mean",
    "latency_mean",
    "latency_in_delays",
    "buffer_mean",
    "extra_packets_per_message",
    "microseconds_per_delivery",
    "false_held_fraction",
    "false_age",
    "network_delay_mean",
    "bytes_with_headers_per_message",
    "dependents_per_copy",
    "saturated",
    "throughput",
    "operations",
    "extra_packets_per_copy",
    "control_bytes_per_message",
    "control_bytes_per_delivery",
    "bytes_with_headers_per_delivery",
    "packets_per_delivery",
    "sent_everywhere",
)


@pytest.fixture(scope="session")
def points() -> list[dict[str, Any]]:
    """Return points for every experiment except traffic, made up but of the right shape."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for experiment in EXPERIMENTS.values():
        for number, case in enumerate(experiment.cases(QUICK)):
            for place, metric in enumerate(METRICS):
                mean = (1.0 + case.x) * (1 + 0.1 * (number % 7)) + place
                key = (experiment.name, metric, case.facet, case.series, str(case.x))
                rows[key] = {
                    "experiment": experiment.name,
                    "metric": metric,
                    "facet": case.facet,
                    "series": case.series,
                    "x": case.x,
                    "mean": mean,
                    "low": 0.9 * mean,
                    "high": 1.1 * mean,
                    "runs": 3,
                }
    for row in rows.values():
        if row["metric"] == "extra_packets_per_message" and row["experiment"] == "bounded":
            row["mean"] = max(0.0, 12.0 - row["x"])  # none at k = n * n
    return list(rows.values())


@pytest.fixture(scope="session")
def differences(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the same points against their experiments' baselines."""
    base = {
        (row["experiment"], row["metric"], row["facet"], row["x"]): row["mean"]
        for row in points
        if row["series"] == EXPERIMENTS[row["experiment"]].baseline
    }
    found = []
    for row in points:
        other = base.get((row["experiment"], row["metric"], row["facet"], row["x"]))
        if other and row["series"] != EXPERIMENTS[row["experiment"]].baseline:
            pair = {"mean": row["mean"] - other, "ratio": row["mean"] / other}
            found.append({**row, **pair})
    return found


@pytest.fixture(scope="session")
def overview() -> list[dict[str, Any]]:
    """Return a made-up overview of the runs."""
    names = (
        "experiment",
        "series",
        "protocol",
        "runs",
        "deliveries",
        "seconds",
        "timed",
        "saturated",
        "unsized",
    )
    return [
        dict(zip(names, ("overhead", "pruned", "pruned", 3, 900, 0.5, 1200, 1, 2), strict=True))
    ]
