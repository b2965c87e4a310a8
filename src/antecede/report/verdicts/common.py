"""What every verdict is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HOLDS, LIMITS, FAILS, OPEN = "holds", "holds with limits", "does not hold", "open"
ANSWERED, PARTLY = "answered", "answered in part"
NOT_RUN = "not measured here"
CASTS = ("unicast", "multicast")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out, and the verdict."""

    result: str
    verdict: str


def judged(*, always: bool, sometimes: bool = True) -> str:
    """Return the verdict on a claim that held always, sometimes or never."""
    return HOLDS if always else LIMITS if sometimes else FAILS


def part(held: Sequence[bool]) -> str:
    """Return in words whether a part of a claim held at each of its points."""
    if all(held):
        return "held"
    return f"held at {sum(held)} of {len(held)} points" if any(held) else "did not hold"
