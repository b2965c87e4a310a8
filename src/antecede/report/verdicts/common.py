"""What every verdict is made of."""

from __future__ import annotations

from dataclasses import dataclass

HOLDS, LIMITS, FAILS, OPEN = "holds", "holds with limits", "does not hold", "open"
ANSWERED, PARTLY = "answered", "answered in part"
CASTS = ("unicast", "multicast")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out, and the verdict."""

    result: str
    verdict: str


def judged(*, always: bool, sometimes: bool = True) -> str:
    """Return the verdict on a claim that held always, sometimes or never."""
    return HOLDS if always else LIMITS if sometimes else FAILS
