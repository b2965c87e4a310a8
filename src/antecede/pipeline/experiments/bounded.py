"""papers/003, section 5: its four open questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.experiments.base import Case, Chart, Experiment, paper_arguments

if TYPE_CHECKING:
    from antecede.pipeline.experiments.base import Scale

FACTORS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)
"""k as a multiple of n; the protocol needs more than n."""


def cases(scale: Scale) -> list[Case]:
    """Return bounded over k, with one k for all and with different ones, beside optimal."""
    found = []
    n = scale.side_n
    for cast in ("unicast", "multicast"):
        arguments = paper_arguments(scale, n=n, cast=cast, delay="exponential:0.05", side=True)
        for factor in scale.thin(FACTORS):
            k = max(n + 1, round(factor * n))
            for seed in scale.seeds:
                place = (arguments, seed)
                one = Case("bounded", "paper", *place, "bounded, same k", factor, cast, {"k": k})
                uneven = {f"p{i}": max(2, k // 2 if i % 2 else 2 * k - k // 2) for i in range(n)}
                many = Case(
                    "bounded", "paper", *place, "bounded, half k/2, half 3k/2", factor, cast,
                    {"k": uneven},
                )  # fmt: skip
                found += [
                    one,
                    many,
                    Case("optimal", "paper", *place, "optimal (KS)", factor, cast),
                    Case("matrix", "paper", *place, "matrix (RST)", factor, cast),
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
    how=(
        "papers/000's workload, mean delay half the gap; k from just above n upwards. The total "
        "counts extra messages' bytes as well. optimal and matrix do not depend on k: they are the "
        "level lines on the same schedules."
    ),
    charts=(
        Chart(
            "extra",
            "Extra messages per message",
            "extra_packets_per_message",
            "extra messages",
            log_x=True,
            series=("bounded, same k", "bounded, half k/2, half 3k/2"),
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
