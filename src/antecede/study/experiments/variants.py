"""What the variants of the optimal protocol save: section 4.5 of [KS98]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.limits import UNCHANGED
from antecede.study.measuring import Task, measure_run
from antecede.study.points import Points, judged, part

PRINTED = "optimal"
LOOKAHEAD = "optimal:lookahead"
HARDWARE = "optimal:hardware"
DIFFERENCES = "optimal:differences"
OPTIONS: dict[str, dict[str, bool]] = {
    PRINTED: {},
    LOOKAHEAD: {"lookahead": True},
    HARDWARE: {"hardware_multicast": True},
    DIFFERENCES: {"differential": True},
}
_N = 10
DELAYS = {"delay=0.5": "exponential:0.05", "delay=5": "exponential:0.5"}
_LOG, _BYTES = "log_entries_mean", "model_bytes_per_copy"
_TOTAL, _HEADERS = "total_bytes_per_message", "bytes_with_headers_per_message"


def cases(scale: Scale) -> list[Case]:
    """Return each variant on the same schedules, at a short and a long delay."""
    found = []
    for facet, delay in DELAYS.items():
        n = scale.n_or(_N)
        arguments = scale.arguments(n=n, cast="multicast", delay=delay, side=True)
        found += scale.cases(OPTIONS, arguments, 0, facet)
    return found


def measure(task: Task) -> dict[str, Any]:
    """Measure a run; hardware multicast sends one packet for all copies of a message."""
    found = measure_run(task)
    if task.series != HARDWARE:
        return found
    copies = found["data_packets_per_message"]
    each = found["model_bytes_per_message"] / copies
    return {**found, "model_bytes_per_message": each, "data_packets_per_message": 1.0}


@claim(
    "2.6",
    "Hardware multicast costs extra on that message only; lookahead purges earlier; FIFO "
    "channels allow sending differences.",
    "Experiment variants, on the same schedules; tests/protocols/test_optimal_remarks.py "
    "shows where lookahead as printed loses order.",
)
def _gains(points: Points) -> Judgement | None:
    told: list[str] = []

    def held(limit: float) -> list[bool]:
        judges: dict[str, tuple[str, str, Callable[[float], bool]]] = {
            HARDWARE: ("does not change the logs", _LOG, lambda ratio: abs(ratio - 1) <= limit),
            LOOKAHEAD: ("keeps less", _LOG, lambda ratio: ratio < 1),
            DIFFERENCES: ("sends fewer bytes", _BYTES, lambda ratio: ratio < 1),
        }
        found = []
        told.clear()
        for series, (what, metric, is_right) in judges.items():
            name = EXPERIMENT.label(series)
            ratios = _ratios(points, metric, series)
            if not ratios:
                told.append(f"{name}: not run")
                continue
            right = [is_right(ratio) for ratio in ratios.values()]
            unsure = [
                EXPERIMENT.facet_label(facet)
                for facet, ratio in ratios.items()
                if series != HARDWARE and ratio < 1 and not points.is_lower(metric, facet, series)
            ]
            found.append(all(right) and not unsure)
            doubt = f", but with too few seeds to be sure at {', '.join(unsure)}" if unsure else ""
            told.append(f"{name} {what}: {part(right)}{doubt} ({_figures(points, series)})")
        return found

    def verdict(limit: float) -> str:
        found = held(limit)
        return judged(always=False, sometimes=any(found))  # as printed, lookahead loses order

    if not held(UNCHANGED.value):
        return None
    parts = "; ".join(told)
    result = (
        f"{parts}. Bytes per message, one packet for all copies under hardware multicast: "
        f"{_messages(points)}. As printed, lookahead loses order (docs/errata.md); it was "
        f"measured with all that the message carries, and its own entry. {UNCHANGED.said(verdict)}"
    )
    best = {
        EXPERIMENT.label(series): min(ratios.values())
        for series in (LOOKAHEAD, DIFFERENCES)
        if (ratios := _ratios(points, _BYTES, series))
    }
    figures = ", ".join(f"{name} x{ratio:.2f} bytes" for name, ratio in best.items())
    short = f"{figures}; lookahead as printed loses order"
    return Judgement(result, verdict(UNCHANGED.value), short, "lookahead")


def _figures(points: Points, series: str) -> str:
    """Say what a variant does to bytes and logs, with the intervals of its own figures."""
    log, sizes = _ratios(points, _LOG, series), _ratios(points, _BYTES, series)
    return "; ".join(
        f"{EXPERIMENT.facet_label(facet)}: bytes x{sizes[facet]:.2f} "
        f"({points.level_point(_BYTES, facet, series)}), log x{log[facet]:.3f} "
        f"({points.level_point(_LOG, facet, series)})"
        for facet in log
        if facet in sizes
    )


def _messages(points: Points) -> str:
    """Say what each variant does to the bytes of a message, without and with headers."""
    return "; ".join(
        f"{EXPERIMENT.label(series)} "
        + ", ".join(
            f"x{ratio:.2f} (with headers x{with_headers[facet]:.2f}) at "
            f"{EXPERIMENT.facet_label(facet)}"
            for facet, ratio in _ratios(points, _TOTAL, series).items()
            if facet in with_headers
        )
        for series in (HARDWARE, LOOKAHEAD, DIFFERENCES)
        if (with_headers := _ratios(points, _HEADERS, series))
    )


def _ratios(points: Points, metric: str, series: str) -> dict[str, float]:
    """Return, by facet, a variant's metric as a multiple of the printed algorithm's."""
    found = {}
    for facet in points.facets():
        base, own = points.level(metric, facet, PRINTED), points.level(metric, facet, series)
        if own is not None and base:
            found[facet] = own / base
    return found


EXPERIMENT = Experiment(
    name="variants",
    rank=60,
    paper=paper("optimal"),
    part="section 4.5",
    question="What do lookahead, hardware multicast and sending only differences change?",
    how=(
        "The same multicast schedules under each variant, with a delay shorter and one longer than "
        "the gap between sends. Hardware multicast sends one identical packet to all destinations; "
        "differences are taken against the last packet on the same channel."
    ),
    x="",
    cases=cases,
    measure=measure,
    baseline=PRINTED,
    sweeps_delay=True,
    labels={
        PRINTED: "as printed",
        LOOKAHEAD: "lookahead",
        HARDWARE: "hardware multicast",
        DIFFERENCES: "differences",
        "delay=0.5": "delay = 0.5 gaps",
        "delay=5": "delay = 5 gaps",
    },
    charts=(
        Chart("bytes", "Bytes per copy", _BYTES, "bytes", kind="bar"),
        Chart("total", "Total bytes per message", _TOTAL, "bytes", kind="bar"),
        Chart("log", "Entries in the log", _LOG, "entries", kind="bar"),
    ),
    claims=(_gains,),
)
