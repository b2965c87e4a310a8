"""Sentences computed from a study's points: what each experiment says, in words.

No figure is typed here: where a point was not measured, its sentence is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.report.measured import crossing, fit
from antecede.report.page import Table, figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from antecede.report.measured import Measured

RST, PRS, PRUNED, KS = "matrix (RST)", "direct (PRS)", "pruned", "optimal (KS)"


def findings(experiment: str, measured: Measured) -> list[str]:
    """Return what an experiment says, in at most a few sentences."""
    say = _SAYINGS.get(experiment)
    return say(measured) if say is not None else []


def fits_table(experiment: str, measured: Measured) -> Table | None:
    """Return the exponents of n fitted to an experiment's lines."""
    metrics = {
        "overhead": ("entries_per_copy", "model_bytes_per_copy", "total_bytes_per_message"),
        "growth": ("entries_per_copy", "log_entries_mean", "microseconds_per_delivery"),
    }.get(experiment)
    if metrics is None:
        return None
    rows: list[tuple[object, ...]] = []
    for facet in measured.facets(experiment):
        for name in measured.series(experiment, facet):
            fits = [fit(measured.means(experiment, metric, facet, name)) for metric in metrics]
            rows.append((facet, name, *(None if f is None else str(f) for f in fits)))
    titles = tuple(metric.replace("_", " ") for metric in metrics)
    return Table(("", "series", *titles), rows, "Exponent of n, fitted (with its standard error)")


def last(line: dict[float, float]) -> tuple[float, float] | None:
    """Return the point at the largest x."""
    return max(line.items()) if line else None


def _overhead(measured: Measured) -> list[str]:
    said = []
    for cast in ("unicast", "multicast"):
        lines = {
            name: measured.means("overhead", "entries_per_copy", cast, name)
            for name in (RST, PRS, PRUNED, KS)
        }
        sizes = set.intersection(*(set(line) for line in lines.values()))
        if not sizes:
            continue
        n = max(sizes)
        at = {name: line[n] for name, line in lines.items()}
        said.append(
            f"In {cast} with {n:.0f} processes a copy carries {figure(at[RST])} dependents under "
            f"RST, {figure(at[PRS])} under PRS, {figure(at[PRUNED])} under pruned and "
            f"{figure(at[KS])} under optimal: pruned carries {at[RST] / at[PRUNED]:.0f} times "
            f"fewer than RST."
        )
    return said


def _crossover(measured: Measured) -> list[str]:
    said = []
    for name in measured.series("crossover", "PRS"):
        line = measured.means("crossover", "rst_share", "PRS", name)
        where = crossing(line, 1.0)
        if where is not None:
            said.append(f"{name}: above {where:.1f} processes PRS costs more than RST in unicast.")
        elif line:
            side = "more" if min(line.values()) >= 1 else "less"
            said.append(f"{name}: PRS costs {side} than RST at every size measured.")
    return said


def _redundancy(measured: Measured) -> list[str]:
    said = []
    for cast in measured.facets("redundancy"):
        base = measured.means("redundancy", "model_bytes_per_copy", cast, "all four pruned")
        if not base:
            continue
        parts = []
        for name in measured.series("redundancy", cast):
            own = measured.means("redundancy", "model_bytes_per_copy", cast, name)
            if name.startswith("without") and own:
                parts.append(f"{own[0.0] / base[0.0]:.2f} {name}")
        if parts:
            said.append(
                f"In {cast}, bytes per copy as a multiple of all four pruned: {', '.join(parts)}."
            )
    return said


def _semantic(measured: Measured) -> list[str]:
    said = []
    for facet in measured.facets("semantic"):
        ours = measured.means("semantic", "held_fraction", facet, "semantic")
        theirs = measured.means("semantic", "held_fraction", facet, RST)
        both = sorted(ours.keys() & theirs.keys())
        if not both:
            continue
        middle = both[(len(both) - 1) // 2]
        said.append(
            f"With {facet}, when {middle:.0%} of the messages depend on something, semantic holds "
            f"{ours[middle]:.1%} of the copies and matrix {theirs[middle]:.1%}."
        )
    return said


def _growth(measured: Measured) -> list[str]:
    said = []
    for cast in measured.facets("growth"):
        fits = {
            name: fit(measured.means("growth", "entries_per_copy", cast, name))
            for name in measured.series("growth", cast)
        }
        known = [f"n^{f.exponent:.2f} ({name})" for name, f in fits.items() if f is not None]
        if known:
            said.append(f"In {cast}, entries per copy grow as {', '.join(known)}.")
    return said


def _bounded(measured: Measured) -> list[str]:
    said = []
    for cast in measured.facets("bounded"):
        total = measured.means("bounded", "total_bytes_per_message", cast, "bounded, same k")
        best = measured.level("bounded", "total_bytes_per_message", cast, KS)
        extra = measured.means("bounded", "extra_packets_per_message", cast, "bounded, same k")
        if not total or best is None:
            continue
        k = min(total, key=lambda x: total[x])
        said.append(
            f"{cast[0].upper()}{cast[1:]}: with one k for all, the total is least at k = {k:g} n, "
            f"{figure(total[k])} bytes per message against optimal's {figure(best)}, with "
            f"{figure(extra.get(k))} extra messages each."
        )
    return said


def _buffered(measured: Measured) -> list[str]:
    said = []
    for facet in measured.facets("buffered"):
        line = measured.means("buffered", "latency_in_delays", facet, "buffered")
        matrix = measured.means("buffered", "latency_in_delays", facet, RST)
        both = line.keys() & matrix.keys()
        if not both:
            continue
        low, high = min(both), max(both)
        said.append(
            f"{facet[0].upper()}{facet[1:]}: with a round trip of {low:g} gaps a message takes "
            f"{line[low]:.2f} network delays under buffered and {matrix[low]:.2f} under matrix; at "
            f"{high:g} gaps {line[high]:.2f} and {matrix[high]:.2f}."
        )
    return said


def _traffic(measured: Measured) -> list[str]:
    said = []
    for facet in measured.facets("traffic"):
        own = measured.means("traffic", "model_bytes_per_copy", facet, KS)
        matrix = measured.means("traffic", "matrix_bytes", facet, KS)
        held = measured.means("traffic", "held_fraction", facet, KS)
        if own and matrix and held:
            said.append(
                f"With a {facet}, optimal carries {figure(own[0.0])} bytes per copy where a matrix "
                f"would take {figure(matrix[0.0])}, and {held[0.0]:.2%} of the copies have to wait."
            )
    return said


_SAYINGS: dict[str, Callable[[Measured], list[str]]] = {
    "overhead": _overhead,
    "crossover": _crossover,
    "redundancy": _redundancy,
    "semantic": _semantic,
    "growth": _growth,
    "bounded": _bounded,
    "buffered": _buffered,
    "traffic": _traffic,
}
