"""The claim of [MF95], section 5, that its authors could not test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antecede.report.numbers import figure
from antecede.sim.schedule import HEADER_BYTES
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.limits import BARELY, LITTLE, SHORT, Limit
from antecede.study.points import Points, crossing, judged, part, spread

LOADS = (0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.1)
"""Mean round trip as a multiple of the mean gap between a process's sends: the queue's load."""
FEWER = (0.03, 0.1, 0.4, 0.8, 0.9, 1.1)

GAP = 0.1
_N = 10
_RECEIVED = 10_000
"""A queue at a load of 0.9 forgets its initial state only after hundreds of messages."""
_HIGH, _SHORT = 0.8, 2_500
"""Below this load a queue forgets sooner, so quick runs are shorter."""
FACETS: dict[str, tuple[str, dict[str, Any]]] = {
    "reordering": ("paper", {"cast": "unicast"}),
    "fifo": ("paper", {"cast": "unicast", "fifo": True}),
    "bursts": ("bursts", {"cast": "unicast"}),
}
RST, PLAIN = "matrix", "buffered"
BURSTS = "bursts"
"""The facet in which sends follow each other directly: the paper expects delay, so no verdict."""


def theory(load: float) -> float | None:
    """Return the time to delivery, in network delays, in theory (the queue M/E2/1).

    A message occupies the queue for a round trip of two exponential delays, so it waits for 1.5
    load / (1 - load) delays on average and then takes one. None if the queue is not stable.
    """
    return 1 + 1.5 * load / (1 - load) if load < 1 else None


def cases(scale: Scale) -> list[Case]:
    """Return buffered and matrix as the round trip grows, until the queues are overloaded."""
    found = []
    for facet, (workload, more) in FACETS.items():
        for load in FEWER if scale.is_quick else LOADS:
            received = _SHORT if scale.is_quick and load < _HIGH else _RECEIVED
            lengths = {"received": received, "warm_up": received // 5}
            delay = f"exponential:{load * GAP / 2:g}"
            arguments = {"n": scale.n_or(_N), "delay": delay, **lengths, **more}
            found += scale.cases((RST, PLAIN), arguments, load, facet, workload=workload)
    return found


def findings(points: Points) -> Iterator[str]:
    """Compare the time to delivery at the shortest and at the longest stable round trip."""
    for facet in points.facets():
        line = points.line("latency_in_delays", facet, PLAIN)
        matrix = points.line("latency_in_delays", facet, RST)
        both = [x for x in line if x in matrix and x < 1]
        if not both:
            continue
        low, high, name = min(both), max(both), EXPERIMENT.facet_label(facet)
        yield (
            f"{name[0].upper()}{name[1:]}: with a round trip of {low:g} gaps, a message takes "
            f"{line[low]} network delays under buffered and {matrix[low]} under matrix; with one "
            f"of {high:g} gaps, {line[high]} and {matrix[high]}."
        )


@claim(
    "4.5",
    "Untested by its authors: the extra delay is barely noticeable when round trips are "
    "short compared with the gaps; acknowledgements cost little.",
    "Experiment buffered: round trips from 3% of the gap to more than all of it, each protocol "
    "compared with buffered on the same schedules. Experiments pipelining and links measure what "
    "footnotes 4 and 5 mention.",
)
def _costs(points: Points) -> Judgement | None:
    ratios = {
        facet: {x: 1 / ratio for x, ratio in points.ratios("latency_mean", facet, RST).items()}
        for facet in points.facets()
    }
    short = [
        y
        for facet, line in ratios.items()
        for x, y in line.items()
        if x <= SHORT.value and facet != BURSTS
    ]
    little = _acknowledged(points)
    if not short or not little:
        return None

    def verdict(limit: float) -> str:
        barely = [ratio <= limit for ratio in short]
        cheap = [share <= LITTLE.value for share in little]
        return judged(always=all(barely + cheap), sometimes=any(barely) or any(cheap))

    told = "; ".join(
        f"{EXPERIMENT.facet_label(facet)}: "
        + ", ".join(f"x{y:.2f} at {x:g}" for x, y in line.items() if x < 1)
        for facet, line in ratios.items()
    )
    result = (
        "Barely noticeable when round trips are short: "
        f"{part([ratio <= BARELY.value for ratio in short])}. Time from send to delivery compared "
        f"with the matrix's, by round trip / gap: {told}. In bursts sends directly follow each "
        f"other, and the paper itself expects a delay. {_against_theory(points)}"
        "Acknowledgements cost little: "
        f"{part([share <= LITTLE.value for share in little])}; they take "
        f"{spread(little, '{:.1%}')} of the matrix's bytes, and "
        f"{spread(_acknowledged(points, HEADER_BYTES), '{:.0%}')} with a header on each. "
        f"{_footnotes(points)}"
        f"{BARELY.said(verdict)} {_meaning(SHORT)} {_meaning(LITTLE)}"
    )
    brief = f"x{max(short):.2f} of the matrix's time at most when trips are short"
    return Judgement(result, verdict(BARELY.value), brief)


def _meaning(limit: Limit) -> str:
    words = limit.words.format(limit.written())
    return f"{words[0].upper()}{words[1:]}."


def _acknowledged(points: Points, header: int = 0) -> list[float]:
    """Return buffered's only overhead, bytes of acknowledgements, as shares of the matrix's."""
    found = []
    for facet in points.facets():
        own = points.means("total_bytes_per_message", facet, PLAIN)
        packets = points.means("extra_packets_per_message", facet, PLAIN)
        matrix = points.means("model_bytes_per_message", facet, RST)
        found += [(own[x] + header * packets.get(x, 0)) / matrix[x] for x in own if matrix.get(x)]
    return found


def _against_theory(points: Points) -> str:
    """Compare the measured time to delivery with the theory (the queue M/E2/1)."""
    line = points.line("latency_in_delays", "reordering", PLAIN)
    told = [
        f"{point} at {x:g} (theory {expected:.2f})"
        for x, point in line.items()
        if (expected := theory(x)) is not None
    ]
    beyond = [f"{x:g}" for x in line if theory(x) is None]
    beyond += [f"{x:g}" for x in points.means("saturated", "reordering", PLAIN) if x not in line]
    note = f" From {beyond[0]} on the queue grows without bound." if beyond else ""
    return f"In network delays, the queue M/E2/1 beside: {', '.join(told)}.{note} " if told else ""


def _footnotes(points: Points) -> str:
    """Say what pipelining removes, and what limited bandwidth changes."""
    said = []
    piped = points.study.of("pipelining")
    told = []
    for facet in piped.facets():
        left = piped.ratios("added_delay_mean", facet, "buffered:pipelined")
        each = ", ".join(f"{1 - ratio:.0%} at {x:g}" for x, ratio in left.items())
        told += [f"{each} ({facet.replace('=', ' ')})"] if each else []
    if told:
        said.append(
            "Pipelining (footnote 4, which promises no figure) removes, by the probability that a "
            f"sender stays with its receiver: {'; '.join(told)} of the added delay. "
        )
    links = points.study.of("links")
    for facet in links.facets():
        ratio = links.ratios("latency_mean", facet, RST)
        where = crossing({-x: y for x, y in ratio.items()}, 1.0)
        if where is not None:
            slow = [x for x in links.means("saturated", facet, PLAIN) if x < min(ratio)]
            full = f" (at {max(slow) / 1000:g} kB/s buffered is overloaded)" if slow else ""
            said.append(
                f"On links of limited bandwidth (footnote 5), {facet.removeprefix('n=')} "
                f"processes: buffered is quicker than the matrix from {min(ratio) / 1000:g} "
                f"to about {figure(-where / 1000)} kB/s{full}. "
            )
    return "".join(said)


EXPERIMENT = Experiment(
    name="buffered",
    rank=90,
    paper=paper("buffered"),
    part="section 5",
    question=(
        "Without any control information, how much delay do acknowledged buffers add as the round "
        "trip approaches the gap between sends?"
    ),
    how=(
        f"Unicast among {_N} processes with a mean gap of 0.1 s between sends and exponential "
        "delays, so that the axis is the load of each process's output buffer. The curve is the "
        "queue M/E2/1, which is stable below a load of 1: no run below it is left out. A run is "
        "saturated if its own load reaches 1 and its queues have grown; its times depend on its "
        "length and are not drawn. In bursts, twenty messages follow each other ten times as fast, "
        "after a pause. Bytes are those of the model of [JPCY97]; an acknowledgement has a number "
        "of 4 bytes."
    ),
    x="round trip / gap between sends",
    cases=cases,
    baseline=PLAIN,
    sweeps_delay=True,
    labels={"reordering": "channels reorder", "fifo": "FIFO channels"},
    charts=(
        Chart(
            "added",
            "Delay added by the protocol (zero is not drawn on this scale)",
            "added_delay_mean",
            "seconds",
            logs="xy",
        ),
        Chart(
            "relative",
            "From send to delivery, in network delays",
            "latency_in_delays",
            "mean network delays",
            logs="xy",
            theory={"theory (M/E2/1)": theory},
        ),
        Chart(
            "throughput",
            "Deliveries per second, where queues do not grow without bound",
            "throughput",
            "deliveries per second",
            logs="x",
        ),
        Chart("acks", "Total bytes per message", "total_bytes_per_message", "bytes", logs="xy"),
    ),
    findings=findings,
    claims=(_costs,),
)
