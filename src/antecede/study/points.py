"""A study's points by name, and the arithmetic for sentences about them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from antecede.report.numbers import figure

Line = tuple[str, str, str]  # metric, facet, series

HOLDS, LIMITS, FAILS, OPEN = "holds", "holds with limits", "does not hold", "open"
ANSWERED, PARTLY = "answered", "answered in part"
CONSISTENT = "consistent"
"""The verdict on a statement about all algorithms, which tests of some cannot prove."""
NOT_RUN = "not measured here"

DRIFT = 0.02
"""The halves of a settled run differ by less than this share, or only by chance."""
DRIFTS = {"size_drift": "size", "latency_drift": "time"}
"""The metrics that tell it, and what they are about."""


@dataclass(frozen=True, slots=True)
class Point:
    """A mean over seeds with its 95% interval (None if there was only one seed)."""

    mean: float
    low: float | None
    high: float | None
    runs: int = 0

    def __str__(self) -> str:
        """Write the mean and, if it is known, half its interval: ``18.3 ± 0.4``."""
        mean = figure(float(self.mean))
        if self.low is None or self.high is None or self.low == self.high:
            return mean
        half, decimals = (self.high - self.low) / 2, len(mean.partition(".")[2])
        if "e" in mean:
            return f"{mean} ± {half:.0e}"
        return f"{mean} ± {half:,.{decimals + (round(half, decimals) == 0)}f}"


@dataclass(frozen=True, slots=True)
class Fit:
    """A power of x fitted on logarithmic scales: y = factor * x ** exponent.

    ``error`` is half of the exponent's 95% interval: how far the points are from a power of x.
    """

    exponent: float
    error: float
    factor: float

    def __str__(self) -> str:
        return f"{self.exponent:.2f}"


# 0.975 quantiles of Student's t for 1, 2, ... degrees of freedom; beyond these, the normal's.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL = 1.960


def quantile(freedom: int) -> float:
    """Return how many standard errors a 95% interval extends to either side."""
    return _T[freedom - 1] if freedom <= len(_T) else _NORMAL


class Measured:
    """The points of a whole study."""

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        order: Iterable[tuple[str, str, str]] = (),
        differences: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Index the points; ``order`` lists experiment, facet and series in display order."""
        rank = {place: number for number, place in enumerate(dict.fromkeys(order))}
        self._points: dict[str, dict[Line, dict[float, Point]]] = {}
        ranked = sorted(
            rows, key=lambda row: rank.get((row["experiment"], row["facet"], row["series"]), -1)
        )
        for row in ranked:
            point = Point(row["mean"], row["low"], row["high"], row.get("runs") or 0)
            lines = self._points.setdefault(row["experiment"], {})
            lines.setdefault(_line_of(row), {})[row["x"]] = point
        self._ratios: dict[str, dict[Line, dict[float, float]]] = {}
        self._lower: dict[str, set[Line]] = {}
        for row in differences:
            if row["high"] is not None and row["high"] < 0:
                self._lower.setdefault(row["experiment"], set()).add(_line_of(row))
            if row["ratio"] is not None:
                ratios = self._ratios.setdefault(row["experiment"], {})
                ratios.setdefault(_line_of(row), {})[row["x"]] = row["ratio"]

    def of(self, experiment: str) -> Points:
        """Return one experiment's points; they are falsy if it was not run."""
        return Points(
            self,
            self._points.get(experiment, {}),
            self._ratios.get(experiment, {}),
            self._lower.get(experiment, set()),
        )


@dataclass(frozen=True, slots=True)
class Points:
    """The points of one experiment."""

    study: Measured
    _points: Mapping[Line, Mapping[float, Point]]
    _ratios: Mapping[Line, Mapping[float, float]]
    _lower: AbstractSet[Line]

    def __bool__(self) -> bool:
        return bool(self._points)

    def line(self, metric: str, facet: str, series: str) -> dict[float, Point]:
        """Return a series' points by x; empty if none was measured."""
        return dict(sorted(self._points.get((metric, facet, series), {}).items()))

    def means(self, metric: str, facet: str, series: str) -> dict[float, float]:
        """Return a series' means by x."""
        return {x: point.mean for x, point in self.line(metric, facet, series).items()}

    def level(self, metric: str, facet: str, series: str) -> float | None:
        """Return the mean of a series that does not depend on x."""
        return next(iter(self.means(metric, facet, series).values()), None)

    def level_point(self, metric: str, facet: str, series: str) -> Point | None:
        """Return the point of a series that does not depend on x."""
        return next(iter(self.line(metric, facet, series).values()), None)

    def drifting(self, metric: str, facet: str, series: str) -> dict[float, Point]:
        """Return the drifts, by x, of a series' runs that had not settled."""
        return {
            x: point
            for x, point in self.line(metric, facet, series).items()
            if point.low is not None and point.high is not None
            and abs(point.mean) > DRIFT and not point.low <= 0 <= point.high
        }  # fmt: skip

    def ratios(self, metric: str, facet: str, series: str) -> dict[float, float]:
        """Return a series as a multiple of the baseline on the same schedules, by x."""
        return dict(sorted(self._ratios.get((metric, facet, series), {}).items()))

    def is_lower(self, metric: str, facet: str, series: str) -> bool:
        """Return whether a series is below the baseline at some x, by the 95% interval."""
        return (metric, facet, series) in self._lower

    def facets(self) -> list[str]:
        """Return the facets in display order."""
        return list(dict.fromkeys(facet for _, facet, _ in self._points))

    def series(self, facet: str | None = None) -> list[str]:
        """Return the series of one facet, or of all."""
        return list(
            dict.fromkeys(series for _, own, series in self._points if facet in (None, own))
        )


def _line_of(row: Mapping[str, Any]) -> Line:
    return row["metric"], row["facet"], row["series"]


@dataclass(frozen=True, slots=True)
class _Regression:
    """A straight line through points on logarithmic scales, by least squares."""

    slope: float
    start: float
    mean_x: float
    spread: float
    """The sum of squared distances from ``mean_x``."""
    deviation: float
    """The standard deviation of points from the line."""
    count: int

    def half(self, variance: float) -> float:
        """Return half the 95% interval of a value with ``variance`` times the points' variance."""
        return quantile(self.count - 2) * self.deviation * math.sqrt(variance)


def _regression(line: Mapping[float, float]) -> _Regression | None:
    pairs = [(math.log(x), math.log(y)) for x, y in line.items() if x > 0 and y > 0]
    if len(pairs) < 3:
        return None
    count = len(pairs)
    mean_x = sum(x for x, _ in pairs) / count
    mean_y = sum(y for _, y in pairs) / count
    spread = sum((x - mean_x) ** 2 for x, _ in pairs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in pairs) / spread
    start = mean_y - slope * mean_x
    rest = sum((y - start - slope * x) ** 2 for x, y in pairs)
    return _Regression(slope, start, mean_x, spread, math.sqrt(rest / (count - 2)), count)


def fit(line: Mapping[float, float]) -> Fit | None:
    """Fit a power law by least squares on logarithms; None for fewer than three points."""
    found = _regression(line)
    if found is None:
        return None
    return Fit(found.slope, found.half(1 / found.spread), math.exp(found.start))


def extrapolated(line: Mapping[float, float], x: float) -> Point | None:
    """Return what a fitted power law predicts for a far x, with its 95% prediction interval.

    The prediction assumes that the law still holds beyond the last point, which is not tested.
    """
    found = _regression(line)
    if found is None:
        return None
    far = math.log(x)
    half = found.half(1 + 1 / found.count + (far - found.mean_x) ** 2 / found.spread)
    middle = found.start + found.slope * far
    return Point(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def local_exponents(line: Mapping[float, float]) -> dict[tuple[float, float], float]:
    """Return the exponent between neighbouring points of a line."""
    points = sorted((x, y) for x, y in line.items() if x > 0 and y > 0)
    return {
        (x0, x1): math.log(y1 / y0) / math.log(x1 / x0)
        for (x0, y0), (x1, y1) in itertools.pairwise(points)
    }


def late_exponent(line: Mapping[float, float]) -> float:
    """Return the exponent between a line's middle and last point, since small sizes mislead."""
    points = sorted((x, y) for x, y in line.items() if x > 0 and y > 0)
    (x0, y0), (x1, y1) = points[(len(points) - 1) // 2], points[-1]
    return math.log(y1 / y0) / math.log(x1 / x0)


def told_growth(line: Mapping[float, float]) -> str | None:
    """Describe how a line grows: the fitted exponent, then local ones; None if too short."""
    found = fit(line)
    if found is None:
        return None
    local = "; ".join(f"{a:g} to {b:g}: {e:.2f}" for (a, b), e in local_exponents(line).items())
    return f"n^{found} ({local})"


def crossing(line: Mapping[float, float], level: float) -> float | None:
    """Return the x at which a line first rises through a level, by linear interpolation."""
    points = sorted(line.items())
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if y0 < level <= y1:
            return x0 + (level - y0) / (y1 - y0) * (x1 - x0)
    return None


def judged(*, always: bool, sometimes: bool = True) -> str:
    """Return the verdict on a claim that held always, sometimes or never."""
    return HOLDS if always else LIMITS if sometimes else FAILS


def spread(values: Sequence[float], form: str = "{:.2f}") -> str:
    """Write the range of some values, or the single value that all of them have."""
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def gaps(ratio: float) -> str:
    """Write a delay as a multiple of the gap between sends."""
    return f"delay = {ratio:g} gap{'s' if ratio != 1 else ''}"


def part(held: Sequence[bool]) -> str:
    """Return in words whether part of a claim held at each of its points."""
    if all(held):
        return "held"
    return f"held at {sum(held)} of {len(held)} points" if any(held) else "did not hold"
