"""papers/000, section 3: what each of the four kinds of pruning saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.experiments.base import Case, Experiment

if TYPE_CHECKING:
    from antecede.pipeline.experiments.base import Scale

KINDS = ("just_delivered", "already_delivered", "just_replaced", "already_replaced")


def cases(scale: Scale) -> list[Case]:
    """Return pruned with all four kinds, and with each left out."""
    return []


EXPERIMENT = Experiment(
    name="redundancy",
    paper="papers/000, section 3",
    question="What does each of the four kinds of pruning save?",
    x="processes",
    cases=cases,
    baseline="all four",
    how="",
    charts=(),
)
