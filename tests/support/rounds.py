"""How often random tests try something: a few times in the suite, many more in ``make soak``."""

from __future__ import annotations

import os

#: ``make soak`` sets it.
TIMES = int(os.environ.get("ANTECEDE_TIMES", "1"))


def seeds(count: int, first: int = 0) -> range:
    """Return so many seeds, or as many times more as the environment asks for."""
    return range(first, first + count * TIMES)


def some(count: int) -> int:
    """Return how many of so many cases to try: a third, or many times more in ``make soak``."""
    return max(min(count, 8), count * TIMES // 3)
