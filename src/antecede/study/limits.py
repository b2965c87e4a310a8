"""The limits that verdicts depend on, each defined once.

Papers say "nearly linear" or "barely noticeable". A verdict needs a number, and ours is as
arbitrary as any, so most results also say which verdicts other limits would give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit, its meaning in words (``{}`` is the value), and alternatives worth a look."""

    words: str
    value: float
    others: tuple[float, ...]
    form: str = "{:g}"

    def written(self, value: float | None = None) -> str:
        """Return a value as text, by default the limit itself."""
        return self.form.format(self.value if value is None else value)

    def said(self, verdict: Callable[[float], str]) -> str:
        """Say what the limit means and which verdicts its alternatives would give."""
        words = self.words.format(self.written())
        told = ", ".join(f"{self.written(other)}: {verdict(other)}" for other in self.others)
        return f"{words[0].upper()}{words[1:]} (with other limits: {told})."


NEARLY_LINEAR = Limit(
    "nearly O(n) means that no exponent between two sizes exceeds {}", 1.25, (1.1, 1.5, 1.75)
)
APPROACHES = Limit("approaching two thirds of n² means within {} n² of it", 0.1, (0.05, 0.2))
SLOWLY = Limit(
    "slowly growing means that no exponent between two sizes exceeds {}", 1.25, (1.1, 2.0, 2.5)
)
NEAR_25 = Limit("the paper's size is met within {} processes", 5.0, (3.0, 10.0))
PER_SENDER = Limit("a dependent per known sender means at least {} n of them", 0.9, (0.8, 1.0))
BOUNDED_SAVING = Limit(
    "a cost that does not depend on the run's length grows by less than {} as the length doubles",
    1.25,
    (1.1, 1.5),
    "x{:g}",
)
MUCH_LESS = Limit("greatly reduced means up to {} of the matrix's", 0.9, (0.5, 1.0), "x{:g}")
RARE = Limit("rare means up to {} of the copies", 0.05, (0.02, 0.1, 0.3), "{:.0%}")
DISTANT = Limit("distant means at least {} mean network delays earlier", 5.0, (2.0, 10.0))
SAME_ORDER = Limit(
    "work of the same order means that the exponent of n, in the upper half of the sizes, is at "
    "most {} above the matrix's",
    0.25,
    (0.1, 0.5),
)
TWICE = Limit("twice the space means within {} of 2", 0.1, (0.01, 0.5))
MUCH_SMALLER = Limit("much smaller means less than {} n² at the largest n", 0.25, (0.1, 0.5))
QUADRATIC = Limit(
    "quadratic means a last local exponent up to {}, because entries are sorted", 2.3, (2.1, 2.5)
)
CUBIC = Limit("cubic up to {}", 3.3, (3.1, 3.5))
UNCHANGED = Limit("unchanged means within {}", 0.01, (0.001, 0.05), "{:.1%}")
THINNED = Limit("thinned means that clearing leaves up to {} n² cells", 0.9, (0.5, 0.75))
SHORT = Limit("a round trip is short up to {} of the gap between sends", 0.1, (0.05, 0.2))
BARELY = Limit("barely noticeable means up to {} of the matrix's time", 1.1, (1.02, 1.25), "x{:g}")
LITTLE = Limit(
    "little means up to {} of the matrix's control information", 0.1, (0.02, 0.25), "{:.0%}"
)
AS_QUICK = Limit("as quick means up to {} of optimal's time", 1.02, (1.0, 1.1), "x{:g}")
CONSTANT = Limit("constant means at most {} bytes", 8.0, (4.0, 16.0))
NOT_LONG = Limit(
    "at the lowest load, messages may take up to {} of optimal's time", 2.0, (1.25, 4.0), "x{:g}"
)
AS_LITTLE = Limit("as little means up to {} of optimal's bytes", 1.02, (1.0, 1.25), "x{:g}")
