"""Links of limited bandwidth, where metadata costs time: footnote 5 of [MF95].

Claim 4.5 quotes this experiment; ``buffered`` judges it.
"""

from __future__ import annotations

from collections.abc import Iterator

from antecede.report.numbers import figure
from antecede.study.design import Case, Chart, Experiment, Scale, paper
from antecede.study.points import Points

BANDWIDTHS = (2_000.0, 5_000.0, 20_000.0, 100_000.0, 1_000_000.0)
PAYLOAD = 100
FACETS = {"n=10": 10, "n=30": 30}
PROTOCOLS = ("matrix", "optimal", "buffered")
RST, KS, PLAIN = PROTOCOLS
_DELAY = "exponential:0.01"


def cases(scale: Scale) -> list[Case]:
    """Return the three series on the same schedules, as links get faster."""
    found = []
    sizes = {f"n={n}": n for n in scale.chosen_sizes} or FACETS
    for facet, n in sizes.items():
        for bandwidth in scale.thin(BANDWIDTHS):
            arguments = scale.arguments(
                n=n, cast="unicast", delay=scale.delay_or(_DELAY), side=True,
                links={"bandwidth": bandwidth, "payload": PAYLOAD},
            )  # fmt: skip
            found += scale.cases(PROTOCOLS, arguments, bandwidth, facet)
    return found


def findings(points: Points) -> Iterator[str]:
    """Say which is quickest on the slowest and the fastest links."""
    for facet in points.facets():
        lines = {name: points.line("latency_mean", facet, name) for name in PROTOCOLS}
        places = sorted({x for line in lines.values() for x in line})
        for x in dict.fromkeys(places[:1] + places[-1:]):
            known = {name: line[x] for name, line in lines.items() if x in line}
            told = ", ".join(f"{1000 * point.mean:.0f} ms {name}" for name, point in known.items())
            yield (
                f"{EXPERIMENT.facet_label(facet)}, links of {figure(x)} bytes per second: {told}."
            )


EXPERIMENT = Experiment(
    name="links",
    rank=94,
    paper=paper("buffered"),
    part="footnote 5",
    question=(
        "Matrices take time on the wire, acknowledgements take a round trip. Which costs less, by "
        "the bandwidth of the links?"
    ),
    how=(
        f"Unicast, messages of {PAYLOAD} bytes with a header of 40 bytes, delays of 10 ms on "
        "average. The packets of a link leave one after the other, and each takes the time of its "
        "bytes. Runs with an overloaded link or queue are not drawn."
    ),
    x="bytes per second of each link",
    cases=cases,
    baseline=PLAIN,
    labels={facet: f"{n} processes" for facet, n in FACETS.items()},
    charts=(
        Chart("latency", "From send to delivery", "latency_mean", "seconds", logs="xy"),
        Chart("bytes", "Total bytes per message", "total_bytes_per_message", "bytes", logs="xy"),
    ),
    findings=findings,
)
