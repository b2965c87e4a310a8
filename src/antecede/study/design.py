"""The parts of an experiment: a question, the runs that answer it, and what its results mean.

An experiment names its series and facets by keys: a protocol's name, with a variant after a colon
if there are several (``bounded:mixed``), or a short word of its own. Tables hold the keys; pages
show their labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from antecede.endpoint.registry import PROTOCOLS
from antecede.study.measuring import Measure, measure_run
from antecede.study.points import Points


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to run: the seeds, sizes and lengths of a preset.

    ``sizes`` are the numbers of processes in the figures of [JPCY97], ``large`` those in the growth
    experiment. Each process receives ``warm_up`` messages that are not measured, then ``received``
    that are. ``side_n``, ``side_warm_up`` and ``side`` do this for the other experiments.
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
    """The least number of sends per process in the growth experiment, and again in its warm-up."""
    slow_n: int = 100
    """The largest n at which `growth` runs delays of at least a gap in multicast and broadcast."""
    traffic: bytes | None = None
    chosen_sizes: tuple[int, ...] = ()
    """The numbers of processes that the user asked for, instead of an experiment's own."""
    chosen_delay: str | None = None
    """The delay that the user asked for, instead of an experiment's own."""

    def sizes_or(self, sizes: Iterable[int]) -> tuple[int, ...]:
        """Return the sizes that the user asked for, or else ``sizes``."""
        return self.chosen_sizes or tuple(sizes)

    def n_or(self, n: int) -> int:
        """Return the first size that the user asked for, or else this default."""
        return self.chosen_sizes[0] if self.chosen_sizes else n

    def delay_or(self, delay: str) -> str:
        """Return the delay that the user asked for, or else ``delay``."""
        return self.chosen_delay or delay

    @property
    def is_quick(self) -> bool:
        """Whether experiments run their shorter form."""
        return self.points < 6

    def cases(
        self,
        series: Iterable[str] | Mapping[str, Mapping[str, Any]],
        arguments: Mapping[str, Any],
        x: float,
        facet: str = "",
        *,
        workload: str = "paper",
        most_seeds: int | None = None,
    ) -> list[Case]:
        """Return a case per seed and series; the cases of a seed share a schedule.

        A series runs the protocol that its key begins with; a mapping gives it options.
        """
        chosen = series if isinstance(series, Mapping) else {key: {} for key in series}
        return [
            Case(key.partition(":")[0], workload, arguments, seed, key, x, facet, options)
            for seed in self.seeds[:most_seeds]
            for key, options in chosen.items()
        ]

    def thin(self, values: Iterable[float]) -> tuple[float, ...]:
        """Return at most ``points`` of ``values``, always including the first and the last."""
        every = tuple(values)
        if len(every) <= self.points:
            return every
        step = (len(every) - 1) / (self.points - 1)
        return tuple(every[round(number * step)] for number in range(self.points))

    def arguments(
        self, *, n: int, cast: str, delay: str, side: bool = False, **more: object
    ) -> dict[str, Any]:
        """Return the arguments of the workload of [JPCY97] at this scale."""
        return {
            "n": n,
            "cast": cast,
            "delay": delay,
            "received": self.side if side else self.received,
            "warm_up": self.side_warm_up if side else self.warm_up,
            **more,
        }


QUICK = Scale(
    name="quick",
    seeds=(1, 2, 3, 4, 5),
    received=300,
    warm_up=100,
    sizes=(10, 20, 30, 40, 50),
    large=(10, 20, 50, 100, 200),
    side=200,
    side_warm_up=100,
    side_n=12,
    points=4,
    gaps=6,
    slow_n=50,
)
"""Quick enough to watch: it shows the shapes of curves, with wide intervals."""

PAPER = Scale(
    name="paper",
    seeds=(1, 2, 3, 4, 5),
    received=50_000,
    warm_up=10_000,
    sizes=(10, 20, 30, 40, 50),
    large=(10, 20, 50, 100, 200, 300, 1000),
    side=2_000,
    side_warm_up=1_000,
    side_n=20,
    points=8,
    gaps=40,
)
"""The scale of [JPCY97], section 6.2: five runs, 10,000 messages of warm-up, 50,000 measured."""

PRESETS: Mapping[str, Scale] = {scale.name: scale for scale in (QUICK, PAPER)}


@dataclass(frozen=True, slots=True)
class Case:
    """One run: a protocol on a schedule, and its place in the experiment's charts.

    ``workload``, ``arguments`` and ``seed`` make the schedule. Cases in which they are equal run on
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


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure: a metric against the experiment's x, with a line (or bar) per series."""

    name: str
    title: str
    metric: str
    y: str
    kind: Literal["line", "bar"] = "line"
    logs: Literal["", "x", "y", "xy"] = ""
    """The axes with a logarithmic scale."""
    series: tuple[str, ...] | None = None
    """The series to show; all if None."""
    hero: bool = False
    """Whether this is the picture that the page begins with."""
    theory: Mapping[str, Callable[[float], float | None]] = field(default_factory=dict)
    """Curves by label, as functions of x (None where they are not defined)."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The findings on a claim, and the verdict; ``short`` is the main figure in a few words.

    ``refuted`` names what is wrong as the paper prints it: a claim may join several statements.
    """

    result: str
    verdict: str
    short: str = ""
    refuted: str = ""


Judge = Callable[[Points], Judgement | None]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says, how it was tested, and either the outcome or how to judge it.

    ``judge`` returns the outcome with its figures, or None if the points for it were not measured.
    The verdict follows from the figures, so it may differ at another scale.
    """

    id: str
    text: str
    test: str
    outcome: Judgement | None = None
    judge: Judge | None = None


def claim(number: str, text: str, test: str) -> Callable[[Judge], Claim]:
    """Turn the decorated function, which judges from the experiment's points, into a claim."""
    return lambda judge: Claim(number, text, test, judge=judge)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A question that a paper claims to answer or leaves open, and how to answer it."""

    name: str
    rank: int
    """Experiments are reported in this order."""
    paper: str
    """The paper that makes the claims, as :func:`paper` names it."""
    part: str = ""
    """The part of the paper that the experiment is about, such as a section."""
    question: str
    how: str
    """What was run, for the report."""
    x: str
    cases: Callable[[Scale], list[Case]]
    baseline: str
    """The series with which the others are compared on the same schedules."""
    charts: tuple[Chart, ...] = ()
    fits: tuple[str, ...] = ()
    """Metrics to which the report fits a power of x."""
    levels: tuple[str, ...] = ()
    """Series that do not depend on x: run once, at x = 0, and drawn as level lines."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The text of series and facet keys on pages; by default from :func:`label`."""
    bands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Series to draw as one band, by the series whose line they surround."""
    sweeps_delay: bool = False
    """Whether the experiment varies the delay itself, so that users cannot choose it."""
    answer: Callable[[Points], Iterable[str]] = lambda _: ()
    """The page's opening sentences if this experiment's picture is at the top."""
    needs_traffic: bool = False
    """Whether the experiment replays the edge list of ``--traffic``: no cases without one."""
    measure: Measure = measure_run
    """Measures one run, on an executor."""
    findings: Callable[[Points], Iterable[str]] = lambda _: ()
    """States the results in a few sentences; points that were not measured get none."""
    claims: tuple[Claim, ...] = ()

    def label(self, key: str) -> str:
        """Return the text of a series on pages."""
        return self.labels.get(key) or label(key)

    def facet_label(self, key: str) -> str:
        """Return the text of a facet on pages; ``broadcast`` is a cast here, not the protocol."""
        return self.labels.get(key, key)


def label(key: str) -> str:
    """Return the text of a key: the protocol with its usual short name, and the variant."""
    name, _, variant = key.partition(":")
    title = PROTOCOLS[name].title if name in PROTOCOLS else name
    return f"{title}, {variant}" if variant else title


def paper(protocol: str) -> str:
    """Return the name of the paper that describes a protocol: authors, year and tag."""
    citation = PROTOCOLS[protocol].citation
    *first, last = citation.surnames
    names = f"{', '.join(first)} and {last}" if first else last
    return f"{names} {citation.year} [{citation.tag}]"
