"""A study's points by name, and the few sums that sentences about them need."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Point:
    """A mean over seeds with its 95% interval (None where there was one seed)."""

    mean: float
    low: float | None
    high: float | None
    runs: int = 0


@dataclass(frozen=True, slots=True)
class Pair:
    """A series against its experiment's baseline, on the schedules on which both were measured."""

    difference: float
    ratio: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Fit:
    """A power of x fitted on logarithmic scales: y = factor * x ** exponent."""

    exponent: float
    error: float
    factor: float

    def __str__(self) -> str:
        return f"{self.exponent:.2f} ± {self.error:.2f}"


class Measured:
    """The points of a study."""

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        order: Iterable[tuple[str, str, str]] = (),
        differences: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Take the points; ``order`` lists experiment, facet and series as they are shown."""
        rank = {place: number for number, place in enumerate(dict.fromkeys(order))}
        self._points: dict[tuple[str, str, str, str], dict[float, Point]] = {}
        ranked = sorted(
            rows, key=lambda row: rank.get((row["experiment"], row["facet"], row["series"]), -1)
        )
        for row in ranked:
            key = (row["experiment"], row["metric"], row["facet"], row["series"])
            point = Point(row["mean"], row["low"], row["high"], row.get("runs") or 0)
            self._points.setdefault(key, {})[row["x"]] = point
        self._pairs: dict[tuple[str, str, str, str], dict[float, Pair]] = {}
        for row in differences:
            key = (row["experiment"], row["metric"], row["facet"], row["series"])
            pair = Pair(row["mean"], row["ratio"], row["runs"])
            self._pairs.setdefault(key, {})[row["x"]] = pair

    def has(self, experiment: str) -> bool:
        """Return whether the experiment was run."""
        return any(key[0] == experiment for key in self._points)

    def line(self, experiment: str, metric: str, facet: str, series: str) -> dict[float, Point]:
        """Return a series by x; empty where nothing was measured."""
        return dict(sorted(self._points.get((experiment, metric, facet, series), {}).items()))

    def means(self, experiment: str, metric: str, facet: str, series: str) -> dict[float, float]:
        """Return a series' means by x."""
        line = self.line(experiment, metric, facet, series)
        return {x: point.mean for x, point in line.items()}

    def level(self, experiment: str, metric: str, facet: str, series: str) -> float | None:
        """Return the mean of a series that does not depend on x."""
        return next(iter(self.means(experiment, metric, facet, series).values()), None)

    def paired(self, experiment: str, metric: str, facet: str, series: str) -> dict[float, Pair]:
        """Return a series against the experiment's baseline, by x."""
        return dict(sorted(self._pairs.get((experiment, metric, facet, series), {}).items()))

    def facets(self, experiment: str) -> list[str]:
        """Return the experiment's facets, in the order in which they were run."""
        return list(dict.fromkeys(key[2] for key in self._points if key[0] == experiment))

    def series(self, experiment: str, facet: str | None = None) -> list[str]:
        """Return the experiment's series."""
        return list(
            dict.fromkeys(
                key[3] for key in self._points if key[0] == experiment and facet in (None, key[2])
            )
        )

    def rows(
        self, experiment: str, metric: str, facet: str, names: Iterable[str]
    ) -> list[dict[str, Any]]:
        """Return what a chart draws."""
        return [
            {"x": x, "mean": p.mean, "low": p.low, "high": p.high, "series": name}
            for name in names
            for x, p in self.line(experiment, metric, facet, name).items()
        ]


def fit(line: Mapping[float, float]) -> Fit | None:
    """Fit a power law through the points by least squares on logarithms; None below three."""
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
    error = math.sqrt(rest / (count - 2) / spread)
    return Fit(slope, error, math.exp(start))


def crossing(line: Mapping[float, float], level: float) -> float | None:
    """Return the x at which a line first rises through a level, by straight interpolation."""
    points = sorted(line.items())
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if y0 < level <= y1:
            return x0 + (level - y0) / (y1 - y0) * (x1 - x0)
    return None
