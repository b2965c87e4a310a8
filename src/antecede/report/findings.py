"""Sentences computed from a study's points: what each experiment says, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antecede.report.measured import Measured
    from antecede.report.page import Table


def findings(experiment: str, measured: Measured) -> list[str]:
    """Return what an experiment says."""
    return []


def fits_table(experiment: str, measured: Measured) -> Table | None:
    """Return the fitted exponents of an experiment."""
    return None
