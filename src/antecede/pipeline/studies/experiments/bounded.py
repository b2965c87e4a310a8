"""papers/003, section 5: its four open questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.studies.experiments.base import Case, Experiment, paper_arguments
from antecede.report.questions import LEVEL, Chart

if TYPE_CHECKING:
    from antecede.pipeline.studies.experiments.base import Scale

DELAY = "exponential:0.05"
MIXED = "bounded, half below k, half above"
FACTORS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)
"""k as a multiple of n; the protocol needs more than n."""


_UNEVEN_N = 8
_UNEVEN_RECEIVED = 60
_UNEVEN = (1.5, 2.5, 4.0)


def cases(scale: Scale) -> list[Case]:
    """Return bounded over k beside optimal and matrix, and small runs with uneven k.

    With k = n * n, the last, the bound never acts: what is left out then is the rest's doing.
    """
    found = []
    n = scale.side_n
    for cast in ("unicast", "multicast"):
        arguments = paper_arguments(scale, n=n, cast=cast, delay=DELAY, side=True)
        for seed in scale.seeds:
            place = (arguments, seed)
            found += [
                Case("optimal", "paper", *place, "optimal (KS)", LEVEL, cast),
                Case("matrix", "paper", *place, "matrix (RST)", LEVEL, cast),
            ]
            for factor in (*scale.thin(FACTORS), float(n)):
                options = {"k": max(n + 1, round(factor * n))}
                found.append(
                    Case("bounded", "paper", *place, "bounded, same k", factor, cast, options)
                )
    return found + _uneven_cases(scale)


def _uneven_cases(scale: Scale) -> list[Case]:
    """Return runs in which half the processes have a lower limit and half a higher one."""
    found = []
    n = _UNEVEN_N
    arguments = paper_arguments(scale, n=n, cast="unicast", delay=DELAY, side=True) | {
        "received": _UNEVEN_RECEIVED,
        "warm_up": _UNEVEN_RECEIVED // 3,
    }
    facet = f"unicast, {n} processes, one k or mixed"
    for factor in _UNEVEN:
        k = round(factor * n)
        spread = min(k - n - 1, n * n - k)
        mixed = {f"p{i}": k + (spread if i % 2 else -spread) for i in range(n)}
        for seed in scale.seeds[:3]:
            place = (arguments, seed)
            found += [
                Case("bounded", "paper", *place, "bounded, same k", factor, facet, {"k": k}),
                Case("bounded", "paper", *place, MIXED, factor, facet, {"k": mixed}),
            ]
    found += [
        Case("optimal", "paper", arguments, seed, "optimal (KS)", LEVEL, facet)
        for seed in scale.seeds[:3]
    ]
    return found


EXPERIMENT = Experiment(
    name="bounded",
    paper="papers/003, section 5",
    question=(
        "How many extra messages does a bound of k entries cost, how many bytes in all, how much "
        "time, and is it better to give processes different bounds?"
    ),
    x="k / n",
    cases=cases,
    baseline="optimal (KS)",
    levels=("optimal (KS)", "matrix (RST)"),
    how=(
        "papers/000's workload, mean delay half the gap; k from just above n to n², where the bound "
        "never acts. The total counts extra messages' bytes as well. optimal and matrix do not depend on k: they are the "
        "level lines on the same schedules."
    ),
    charts=(
        Chart(
            "extra",
            "Extra messages per message",
            "extra_packets_per_message",
            "extra messages",
            log_x=True,
            series=("bounded, same k", MIXED),
        ),
        Chart(
            "total",
            "Bytes per message in all",
            "total_bytes_per_message",
            "bytes",
            log_x=True,
            log_y=True,
        ),
        Chart("penalty", "From send to delivery", "latency_mean", "seconds", log_x=True),
    ),
)
