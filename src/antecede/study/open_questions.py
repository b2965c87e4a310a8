"""Shared by experiments on open questions: our answer beside optimal on the same schedules."""

from __future__ import annotations

from typing import Any

from antecede.study.design import Judgement, Scale
from antecede.study.limits import AS_LITTLE, AS_QUICK
from antecede.study.measuring import Task, metrics, run_task
from antecede.study.points import ANSWERED, OPEN, PARTLY, Points, spread

KS = "optimal"
N = 10
BYTES, LATENCY, PACKETS = "model_bytes_per_copy", "latency_mean", "extra_packets_per_copy"
TOTAL, WITH_HEADERS = "total_bytes_per_message", "bytes_with_headers_per_message"
_GAP = 0.1
"""The mean gap between a process's sends in the workload of [JPCY97], in seconds."""


def arguments(scale: Scale, *, cast: str, delay: float, **more: object) -> dict[str, object]:
    """Return the workload of [JPCY97] among ten processes, with a delay in multiples of the gap.

    With ten processes, half the length of the other experiments is enough. Quick runs are so short
    that endpoints finish them before a kernel would be compiled.
    """
    length = {"received": 24, "warm_up": 12}
    if not scale.is_quick:
        length = {"received": scale.side // 2, "warm_up": scale.side_warm_up // 2}
    chosen = scale.arguments(
        n=scale.n_or(N), cast=cast, delay=f"exponential:{_GAP * delay:g}", side=True, **more
    )
    return chosen | length


def measure(task: Task) -> dict[str, Any]:
    """Measure a run, counting added packets over the whole run.

    Messages may wait at the sender, so the packets after the warm-up do not all belong to the
    messages after it.
    """
    found = run_task(task.protocol, task)
    added, messages = int(found.trace.added.sum()), task.schedule.messages
    return {
        **metrics(task, found),
        PACKETS: added / task.schedule.copies,
        "extra_packets_per_message": added / messages,
        "extra_bytes_per_message": int(found.trace.added_bytes.sum()) / messages,
    }


def answered(*, always: bool, sometimes: bool) -> str:
    """Return the verdict on a question that is answered yes always, sometimes or never."""
    return ANSWERED if always else PARTLY if sometimes else OPEN


def told(points: Points, metric: str, series: str, facet: str) -> str:
    """Write a series of figures, each beside optimal's, by x."""
    ours, theirs = points.line(metric, facet, series), points.line(metric, facet, KS)
    return ", ".join(
        f"{point} and {theirs[x]} at {x:g}" for x, point in ours.items() if x in theirs
    )


def less_order(sizes: list[float], times: list[float], result: str) -> Judgement | None:
    """Judge an answer that asks for less order than optimal, by its bytes and its time.

    Both are multiples of optimal's; ``result`` states the bytes and explains them.
    """
    if not sizes or not times:
        return None

    def verdict(limit: float) -> str:
        quick = all(time <= AS_QUICK.value for time in times)
        return answered(always=quick and all(y <= limit for y in sizes), sometimes=quick)

    whole = f"Time from send to delivery x{spread(times)} of optimal's. {result}"
    short = f"x{spread(times)} of optimal's time, x{spread(sizes)} of its control"
    return Judgement(f"{whole} {AS_LITTLE.said(verdict)}", verdict(AS_LITTLE.value), short)
