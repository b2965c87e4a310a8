"""How often random tests try something: a few times in the suite, many more in ``make soak``."""

from __future__ import annotations

import os

#: ``make soak`` sets it.
TIMES = int(os.environ.get("ANTECEDE_TIMES", "1"))


def seeds(count: int, first: int = 0) -> range:
    """Return so many seeds, or as many times more as the environment asks for."""
    return range(first, first + count * TIMES)
