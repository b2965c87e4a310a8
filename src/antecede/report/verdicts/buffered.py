"""Verdicts on the claims of papers/004."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.report.findings import RST
from antecede.report.page import figure
from antecede.report.verdicts.common import Outcome, judged, part

if TYPE_CHECKING:
    from antecede.report.measured import Measured

SHORT = 0.1
"""Up to here a round trip is short against the gap between sends."""
BARELY = 1.1
"""Up to here, as a multiple of the matrix's time to delivery, a delay is barely noticeable."""
LITTLE = 0.1
"""Up to here, as a share of the matrix's control, acknowledgements cost little."""
MOST = 0.5

PLAIN, PIPED = "buffered", "buffered, pipelined"


def buffered_delay(measured: Measured) -> Outcome | None:
    """4.5: delay, acknowledgements and pipelining, each over all loads on paired schedules."""
    found = [judge(measured) for judge in (_short_trips, _acknowledgements, _pipelining)]
    if any(one is None for one in found):
        return None
    known = [one for one in found if one is not None]
    held = [holds for holds, _ in known]
    result = " ".join([text for _, text in known] + _dropped(measured))
    return Outcome(result, judged(always=all(held), sometimes=any(held)))


def _short_trips(measured: Measured) -> tuple[bool, str] | None:
    """Compare the time from send to delivery with the matrix's on the same schedules."""
    barely, told = [], []
    for facet in measured.facets("buffered"):
        pairs = measured.paired("buffered", "latency_mean", facet, RST)
        ratios = {x: 1 / pair.ratio for x, pair in pairs.items() if pair.ratio}
        if not ratios:
            continue
        barely += [ratio <= BARELY for x, ratio in ratios.items() if x <= SHORT]
        told.append(f"{facet}: " + ", ".join(f"x{y:.2f} at {x:g}" for x, y in ratios.items()))
    if not barely:
        return None
    text = (
        "Time from send to delivery against the matrix's, by round trip / gap: "
        f"{'; '.join(told)}; barely noticeable is up to x{BARELY:g} at {SHORT:g} and below."
    )
    return all(barely), f"Barely noticeable when round trips are short: {part(barely)}. {text}"


def _acknowledgements(measured: Measured) -> tuple[bool, str] | None:
    """Compare the bytes of acknowledgements with the matrix's control."""
    little, sizes, matrices, packets = [], [], [], []
    for facet in measured.facets("buffered"):
        own = measured.means("buffered", "acknowledgement_bytes_per_message", facet, PLAIN)
        matrix = measured.means("buffered", "model_bytes_per_message", facet, RST)
        extra = measured.means("buffered", "extra_packets_per_message", facet, PLAIN)
        for x in own.keys() & matrix.keys() & extra.keys():
            little.append(own[x] <= LITTLE * matrix[x])
            sizes.append(own[x])
            matrices.append(matrix[x])
            packets.append(extra[x])
    if not little:
        return None
    text = (
        f"At most {figure(max(sizes))} bytes of acknowledgements a message (the matrix: at least "
        f"{figure(min(matrices))}), in up to {figure(max(packets))} packets more."
    )
    return all(little), f"Acknowledgements cost little: {part(little)}. {text}"


def _pipelining(measured: Measured) -> tuple[bool, str] | None:
    """Tell how much of the added delay pipelining removes, at every load."""
    removed: dict[float, float] = {}
    for facet in measured.facets("buffered"):
        pairs = measured.paired("buffered", "added_delay_mean", facet, PIPED)
        removed |= {x: 1 - pair.ratio for x, pair in pairs.items() if pair.ratio is not None}
    if not removed:
        return None
    told = ", ".join(f"{share:.0%} at {x:g}" for x, share in removed.items())
    most = [share > MOST for share in removed.values()]
    text = f"On FIFO channels it removes {told}."
    return all(most), f"Pipelining removes most of the delay: {part(most)}. {text}"


def _dropped(measured: Measured) -> list[str]:
    """Say which runs are missing from the means because their queues grew without bound."""
    told = []
    for facet in measured.facets("buffered"):
        for name in measured.series("buffered", facet):
            for x, point in measured.line("buffered", "saturated", facet, name).items():
                if point.mean > 0:
                    count = f"{round(point.mean * point.runs)} of {point.runs}"
                    told.append(f"{name}, {facet}, at {x:g}: {count}")
    return [f"Left out, as their queues grew without bound: {'; '.join(told)}."] if told else []
