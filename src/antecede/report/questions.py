"""What a study's page shows of an experiment: the question, and the charts that answer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LEVEL = 0.0
"""The x of a series that does not depend on it."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture: a metric against the experiment's x, a line (or bar) per series."""

    name: str
    title: str
    metric: str
    y: str
    kind: Literal["line", "bar"] = "line"
    log_x: bool = False
    log_y: bool = False
    series: tuple[str, ...] | None = None
    """Only these; all if None."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a paper claims or leaves open, and how the answer is shown."""

    name: str
    paper: str
    question: str
    x: str
    charts: tuple[Chart, ...]
    baseline: str
    """The series that the others are compared with on the same schedules."""
    how: str
    """One sentence on what was run, for the report."""
    levels: tuple[str, ...] = ()
    """Series that do not depend on x: run once (at ``LEVEL``) and drawn as level lines."""
