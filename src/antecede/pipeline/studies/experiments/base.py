"""What an experiment is: a question, the runs that answer it, and the charts that show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from antecede.report.questions import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run: a preset's seeds, sizes and lengths.

    ``sizes`` are the numbers of processes of papers/000's figures, ``large`` those of the growth
    experiment. ``received`` messages reach each process, of which ``warm_up`` go unmeasured.
    ``side`` is the same for the experiments beside the figures, and ``side_n`` their n.
    """

    name: str
    seeds: tuple[int, ...]
    received: int
    warm_up: int
    sizes: tuple[int, ...]
    large: tuple[int, ...]
    side: int
    side_warm_up: int
    side_n: int
    points: int
    gaps: int
    """At least how many times each process sends in the growth experiment, and as many before."""
    slow_n: int = 100
    """The largest n at which growth runs long delays in multicast and broadcast."""
    traffic: bytes | None = None

    def thin(self, values: Iterable[float]) -> tuple[float, ...]:
        """Return at most ``points`` of ``values``, the first and the last always among them."""
        every = tuple(values)
        if len(every) <= self.points:
            return every
        step = (len(every) - 1) / (self.points - 1)
        return tuple(every[round(number * step)] for number in range(self.points))


QUICK = Scale(
    name="quick",
    seeds=(1, 2, 3),
    received=400,
    warm_up=100,
    sizes=(10, 20, 30, 40, 50),
    large=(10, 20, 50, 100, 200),
    side=300,
    side_warm_up=100,
    side_n=12,
    points=4,
    gaps=10,
    slow_n=50,
)
"""Small enough to be looked at while it runs; the shapes are there, the intervals are wide."""

PAPER = Scale(
    name="paper",
    seeds=(1, 2, 3, 4, 5),
    received=50_000,
    warm_up=10_000,
    sizes=(10, 20, 30, 40, 50),
    large=(10, 20, 50, 100, 200, 300),
    side=4_000,
    side_warm_up=1_000,
    side_n=20,
    points=8,
    gaps=40,
)
"""papers/000 section 6.2's own: five runs, 10,000 messages to settle and 50,000 measured."""

PRESETS: Mapping[str, Scale] = {scale.name: scale for scale in (QUICK, PAPER)}


@dataclass(frozen=True, slots=True)
class Case:
    """One run: a protocol on a schedule, and where it stands in its experiment's charts.

    ``arguments`` make the schedule (with ``workload`` and ``seed``); cases with equal ones run on
    the same schedule, so that differences between them are paired.
    """

    protocol: str
    workload: str
    arguments: Mapping[str, Any]
    seed: int
    series: str
    x: float
    facet: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    data: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Question):
    """A question of a paper's, asked by running it."""

    cases: Callable[[Scale], list[Case]]


def paper_arguments(
    scale: Scale, *, n: int, cast: str, delay: str, side: bool = False, **more: object
) -> dict[str, Any]:
    """Return the arguments of papers/000's workload at a scale."""
    return {
        "n": n,
        "cast": cast,
        "delay": delay,
        "received": scale.side if side else scale.received,
        "warm_up": scale.side_warm_up if side else scale.warm_up,
        **more,
    }
