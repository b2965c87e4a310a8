"""What all pages and verbs write alike: numbers, and the rows of a log that were left out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from antecede.events import Rejected, left_out


def figure(value: object) -> str:
    """Format a cell: numbers to three significant figures, anything else as text."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return _rounded(value) if isinstance(value, float) else str(value)


def _rounded(value: float) -> str:
    size = abs(float(f"{value:.3g}"))  # rounded first, so that 0.00999... becomes as long as 0.0100
    if size == 0:
        return "0"
    if size >= 1e15:
        return f"{value:.2e}"
    if size >= 1000:
        return f"{value:,.0f}"
    if size < 0.001:
        return f"{value:.2e}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with the noun it counts; ``many`` is its plural if that is irregular."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def unit_of(seconds: float) -> tuple[str, float]:
    """Return the unit that suits a time, and the length of the unit in seconds."""
    units = (("s", 1.0), ("ms", 1e-3), ("\N{MICRO SIGN}s", 1e-6))
    return next((one for one in units if seconds >= one[1]), units[-1]) if seconds else units[0]


def seconds_in_words(seconds: float) -> str:
    """Return a time with three significant figures, in the unit that suits it."""
    unit, size = unit_of(seconds)
    value = seconds / size
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"


def rejected_in_words(result: Mapping[str, Any]) -> str:
    """Return how many rows were left out, quoting the first; ``result`` is a run's summary.

    Its ``rejected`` is their number, and its ``rejected_first`` the first of them.
    """
    first = result["rejected_first"][0]
    quoted = Rejected(first["line"], str(first["text"]), first["reason"])
    return left_out(result["rejected"], quoted, first.get("source") or "")
