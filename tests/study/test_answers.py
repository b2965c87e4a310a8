"""The figures of experiments decide whether open questions are answered."""

from __future__ import annotations

from typing import Any

import pytest

from antecede.study.claims import claims
from antecede.study.points import ANSWERED, FAILS, HOLDS, LIMITS, OPEN, PARTLY, Measured

Line = dict[float, float]
ONE: Line = {0.1: 1.0, 0.5: 1.0}
HALF: Line = {0.1: 0.5, 0.5: 0.5}
MIXED: Line = {0.1: 0.5, 0.5: 1.5}
MORE: Line = {0.1: 1.5, 0.5: 1.5}


SERIES = {"spanning": "non_atomic:spanning"}
"""Where it is not the experiment's name."""


def study(experiment: str, metrics: dict[str, Line]) -> Measured:
    """Return a study in which the protocol has these multiples of optimal's figures."""
    ours = SERIES.get(experiment, experiment)
    rows: list[dict[str, Any]] = [
        {
            "experiment": experiment, "metric": metric, "facet": "unicast", "series": series,
            "x": x, "mean": ratio, "ratio": ratio, "low": None, "high": None, "runs": 2,
        }
        for metric, line in metrics.items()
        for series, ratios in ((ours, line), ("optimal", dict.fromkeys(line, 1.0)))
        for x, ratio in ratios.items()
    ]  # fmt: skip
    return Measured(rows, differences=[row for row in rows if row["series"] == ours])


def figures(sizes: Line, times: Line) -> dict[str, Line]:
    names = ("model_bytes_per_copy", "total_bytes_per_message", "bytes_with_headers_per_message")
    return {**dict.fromkeys(names, sizes), "latency_mean": times}


CASES: list[tuple[str, str, str, dict[str, Line]]] = [
    ("1.open", "semantic_optimal", HOLDS, figures(HALF, ONE)),
    ("1.open", "semantic_optimal", LIMITS, figures(MIXED, ONE)),
    ("1.open", "semantic_optimal", FAILS, figures(MORE, ONE)),
    ("2.open", "non_atomic", ANSWERED, figures(ONE, HALF)),
    ("2.open", "non_atomic", PARTLY, figures(MORE, HALF)),
    ("2.open", "non_atomic", OPEN, figures(HALF, MIXED)),
    ("2.open.2", "spanning", ANSWERED, figures(ONE, HALF)),
    ("2.open.2", "spanning", PARTLY, figures(MORE, HALF)),
    ("2.open.2", "spanning", OPEN, figures(HALF, MIXED)),
    ("4.open.1", "acknowledged", ANSWERED, figures(HALF, ONE)),
    ("4.open.1", "acknowledged", PARTLY, figures(MIXED, ONE)),
    ("4.open.1", "acknowledged", PARTLY, figures(HALF, MORE)),
    ("4.open.1", "acknowledged", OPEN, figures(MORE, ONE)),
    ("4.open.3", "permits", ANSWERED, figures({0.1: 8.0, 0.5: 8.0}, {0.1: 1.5, 0.5: 9.0})),
    ("4.open.3", "permits", PARTLY, figures({0.1: 8.0, 0.5: 8.0}, {0.1: 3.0, 0.5: 9.0})),
    ("4.open.3", "permits", OPEN, figures({0.1: 8.0, 0.5: 9.0}, ONE)),
    ("5.open", "replicas", ANSWERED, figures(HALF, ONE)),
    ("5.open", "replicas", PARTLY, figures(MIXED, ONE)),
    ("5.open", "replicas", OPEN, figures(MORE, ONE)),
]


@pytest.mark.parametrize(("number", "experiment", "wanted", "metrics"), CASES)
def test_figures_decide_whether_a_question_is_answered(
    number: str, experiment: str, wanted: str, metrics: dict[str, Line]
) -> None:
    claim, name = next(item for item in claims().items() if item[0].id == number)
    assert name == experiment
    assert claim.judge is not None
    found = claim.judge(study(experiment, metrics).of(experiment))
    assert found is not None
    assert found.verdict == wanted
    assert found.short
