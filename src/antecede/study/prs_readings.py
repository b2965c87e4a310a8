"""The readings of PRS: the body of its paper was not available, so two steps are uncertain.

One reading reproduces what [JPCY97] reports of PRS, so it stands for PRS in that paper's figures;
the others are drawn as a band around it.
"""

from __future__ import annotations

from collections.abc import Mapping

from antecede.protocols.direct import OWN_SLOTS, PRUNES
from antecede.study.points import Points, crossing

PRS = "direct"
_CHOSEN = ("kept", "direct")
READINGS: Mapping[str, Mapping[str, str]] = {PRS: {"own_slot": "kept"}} | {
    f"{PRS}:{slot}-{prune}": {"own_slot": slot, "prune": prune}
    for slot in OWN_SLOTS
    for prune in PRUNES
    if (slot, prune) != _CHOSEN
}
"""The options of every reading, by series. The first is the one for the figures."""

LABELS: Mapping[str, str] = {
    series: f"PRS, own slot {options['own_slot']}, {options['prune']} pruning"
    for series, options in READINGS.items()
    if series != PRS
}
READING = "own slot kept, direct pruning"
"""The reading for the figures, in words."""


def shares_of(points: Points, cast: str) -> dict[str, float]:
    """Return, by reading of PRS, its dependents as a share of n² at the largest size."""
    lines = {name: points.means("entries_per_copy", cast, name) for name in READINGS}
    return {name: line[max(line)] / max(line) ** 2 for name, line in lines.items() if line}


def named(series: str) -> str:
    """Return a reading in words."""
    return READING if series == PRS else LABELS[series].removeprefix("PRS, ")


def crossings(points: Points) -> dict[str, dict[str, float | None]]:
    """Return, by reading of PRS and delay, the size at which it passes RST in unicast."""
    other = points.study.of("crossover")
    found: dict[str, dict[str, float | None]] = {}
    for series in READINGS:
        for facet in other.facets():
            line = other.means("rst_share", facet, series)
            if line:
                found.setdefault(series, {})[facet] = crossing(line, 1.0)
    return found


def written_range(places: Mapping[str, float | None]) -> str:
    """Write the range of sizes over all delays."""
    known = [where for where in places.values() if where is not None]
    if not known:
        return "at no size measured"
    rest = "" if len(known) == len(places) else f" ({len(places) - len(known)} delays: never)"
    return f"{min(known):.1f} to {max(known):.1f}{rest}"
