"""How a report writes numbers."""

from __future__ import annotations

import math


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
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1000:
        return f"{value:,.0f}"
    if size < 0.001:
        return f"{value:.2e}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}"
