"""How much memory this machine has, so that work that cannot fit is refused before it starts.

Linux grants more memory than there is and kills the process later, without a word.
"""

from __future__ import annotations

import os
from pathlib import Path

from antecede.errors import UsageError

GIB = 2**30
#: Where a container's own limit stands (version 2 and version 1 of control groups).
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_bytes() -> float:
    """Return the bytes of memory of this machine or container, infinite if unknown."""
    return min(_physical(), *map(_limit, _LIMITS))


def require_memory(needed: float, what: str, mend: str) -> None:
    """Refuse what takes more bytes than there are; the line says how many, and what to do."""
    has = machine_bytes()
    if needed > has:
        msg = (
            f"{what} would take about {needed / GIB:,.0f} GiB of memory, but this machine has "
            f"{has / GIB:,.0f} GiB; {mend}"
        )
        raise UsageError(msg)


def _physical() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _limit(place: str) -> float:
    try:
        return float(int(Path(place).read_text(encoding="ascii")))
    except (ValueError, OSError):  # "max", or another system
        return float("inf")
