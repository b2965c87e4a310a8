"""scale: sizes that grow, a hierarchy of many levels, and extrapolations that say so."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import antecede
from antecede.study import measuring
from antecede.study.design import PAPER, QUICK, Case
from antecede.study.experiments import scale
from antecede.study.points import Measured, extrapolated, fit


def leaves(tree: Any) -> list[str]:
    return [tree] if isinstance(tree, str) else [name for part in tree for name in leaves(part)]


def depth(tree: Any) -> int:
    return 0 if isinstance(tree, str) else 1 + max(map(depth, tree))


def test_clusters_of_four_cover_all_at_every_size() -> None:
    for n in (1, 4, 5, 16, 17, 64, 300):
        trees = scale.levels(n)
        assert len(trees) <= 4
        assert sorted(leaves(trees)) == sorted(f"p{number}" for number in range(n))
        names = tuple(f"p{number}" for number in range(n))
        antecede.endpoint("hierarchy", process="p0", members=names, clusters=trees)
    assert depth(scale.levels(300)) > depth(scale.levels(16)) > 1


def test_a_longer_study_runs_more_processes() -> None:
    quick, long = (scale.cases(one) for one in (QUICK, PAPER))
    assert max(case.x for case in long) == 100_000
    for cast, series in scale.MANY:
        sizes, seeds = zip(
            *((case.x, case.seed) for case in quick if (case.facet, case.series) == (cast, series)),
            strict=True,
        )
        assert len(set(sizes)) >= 3, "or nothing can be fitted"
        assert len(set(seeds)) == 5


def measured(case: Case) -> dict[str, Any]:
    row = {
        "protocol": case.protocol,
        "series": case.series,
        "options": json.dumps(case.options),
        "workload": case.workload,
        "arguments": json.dumps(case.arguments),
        "seed": case.seed,
        "data": None,
    }
    return scale.measure(measuring.unpack(row))


@pytest.mark.parametrize(
    ("series", "packets", "control"),
    [
        ("tree", 1.0, 4.0),
        ("flooding", 3.0, 18.0),
        ("broadcast", 1.0, None),
        ("permits", None, None),
    ],
)
def test_every_packet_is_counted_once(
    series: str, packets: float | None, control: float | None
) -> None:
    """A tree has a packet for each delivery, flooding one for each end of a link but one."""
    case = next(
        case for case in scale.cases(QUICK) if (case.facet, case.series) == ("broadcast", series)
    )
    found = measured(case)
    if packets is None:
        assert found[scale.PACKETS] >= 2, "acknowledgements"
    else:
        assert found[scale.PACKETS] == pytest.approx(packets, abs=0.25)
    if control is not None:
        assert found[scale.BYTES] == pytest.approx(control, abs=1.5)
    headers = found[scale.HEADED] - found[scale.BYTES]
    assert headers == pytest.approx(40 * found[scale.PACKETS])


def test_an_extrapolation_is_wide_and_says_so() -> None:
    line = {100.0: 10.0, 1000.0: 21.0, 10_000.0: 41.0, 100_000.0: 82.0}
    found, far = fit(line), extrapolated(line, 1e9)
    assert found is not None
    assert far is not None
    assert far.low is not None
    assert far.high is not None
    assert far.mean == pytest.approx(found.factor * 1e9**found.exponent)
    assert far.low < far.mean / 1.3 < far.mean * 1.3 < far.high
    near = extrapolated(line, 1e6)
    assert near is not None
    assert near.high is not None
    assert near.high / near.mean < far.high / far.mean, "the further, the wider"
    assert extrapolated({1.0: 1.0, 2.0: 2.0}, 1e6) is None

    rows = [
        {"experiment": "scale", "metric": scale.BYTES, "facet": "broadcast", "series": "broadcast",
         "x": x, "mean": y, "low": y, "high": y, "runs": 5}
        for x, y in line.items()
    ]  # fmt: skip
    told = list(scale.findings(Measured(rows).of("scale")))
    assert len(told) == 2
    assert f"n^{found}" in told[0]
    assert told[1].startswith("Extrapolated to a million and to a billion processes, far beyond")
    assert math.isfinite(far.high)


def test_what_is_uncertain_is_not_extrapolated() -> None:
    assert scale.can_be_extrapolated({10.0: 1.0, 100.0: 2.1, 1e3: 4.0, 1e4: 8.1})
    for line in (
        {10.0: 1.0, 100.0: 2.0, 1e3: 4.0},  # too few sizes
        {10.0: 1.0, 100.0: 9.0, 1e3: 2.0, 1e4: 8.0},  # no power of n
        {10.0: 1.0, 100.0: 2.0, 1e3: 3.0, 1e4: 4.0},  # a logarithm
        {10.0: 5.0, 100.0: 5.1, 1e3: 4.9, 1e4: 5.0},  # no growth
        {10.0: 1.0, 100.0: 1.0, 1e3: 1.0, 1e4: 1.0},
        {10.0: 0.0, 100.0: 0.0, 1e3: 0.0, 1e4: 0.0},
    ):
        assert not scale.can_be_extrapolated(line), line
