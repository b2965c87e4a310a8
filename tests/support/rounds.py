"""The number of rounds of random tests: few in the suite, many more in ``make soak``."""

from __future__ import annotations

import os

#: The factor that ``make soak`` sets.
TIMES = int(os.environ.get("ANTECEDE_TIMES", "1"))


def seeds(count: int, first: int = 0) -> range:
    """Return ``count`` seeds, times the factor that the environment sets."""
    return range(first, first + count * TIMES)


def some(count: int) -> int:
    """Return how many of ``count`` cases to try: a third, or many more in ``make soak``."""
    return max(min(count, 8), count * TIMES // 3)
