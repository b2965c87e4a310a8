"""papers/004, section 5: the claim its authors could not test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.studies.experiments.base import Case, Experiment, paper_arguments
from antecede.report.questions import Chart

if TYPE_CHECKING:
    from antecede.pipeline.studies.experiments.base import Scale

LOADS = (0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9)
"""Mean round trip as a multiple of the mean gap between a process's sends."""

GAP = 0.1
_N = 10
_RECEIVED = 1000
"""Pipelined buffers have no kernel: real endpoints run them."""


def cases(scale: Scale) -> list[Case]:
    """Return buffered, with and without pipelining, and matrix, as the round trip grows."""
    found = []
    for facet, fifo in (("channels reorder", False), ("FIFO channels", True)):
        for load in scale.thin(LOADS):
            arguments = paper_arguments(
                scale,
                n=_N,
                cast="unicast",
                delay=f"exponential:{load * GAP / 2:g}",
                side=True,
                fifo=fifo,
            )
            arguments["received"] = min(scale.side, _RECEIVED)
            for seed in scale.seeds:
                place = (arguments, seed)
                found.append(Case("matrix", "paper", *place, "matrix (RST)", load, facet))
                found.append(Case("buffered", "paper", *place, "buffered", load, facet))
                if fifo:
                    pipelined = Case(
                        "buffered", "paper", *place, "buffered, pipelined", load, facet,
                        {"pipelined": True},
                    )  # fmt: skip
                    found.append(pipelined)
    return found


EXPERIMENT = Experiment(
    name="buffered",
    paper="papers/004, section 5",
    question=(
        "Without any control information, how much delay do acknowledged buffers add as the round "
        "trip approaches the gap between sends, and does pipelining (footnote 4) remove it?"
    ),
    x="round trip / gap between sends",
    cases=cases,
    baseline="buffered",
    how=(
        "Unicast at a mean gap of 0.1 s; exponential delays, so that the axis is the load on each "
        "process's output buffer. Runs whose queues grow without bound are left out and counted. "
        "Bytes are papers/000's model for the matrix, and whole encoded acknowledgements."
    ),
    charts=(
        Chart(
            "added",
            "Delay added by the protocol (zero is not drawn on this scale)",
            "added_delay_mean",
            "seconds",
            log_x=True,
            log_y=True,
        ),
        Chart(
            "relative",
            "From send to delivery, in network delays",
            "latency_in_delays",
            "mean network delays",
            log_x=True,
            log_y=True,
        ),
        Chart(
            "throughput",
            "Deliveries per second, where queues do not grow without bound",
            "throughput",
            "deliveries per second",
            log_x=True,
        ),
        Chart("acks", "Bytes per message in all", "total_bytes_per_message", "bytes", log_x=True),
    ),
)
