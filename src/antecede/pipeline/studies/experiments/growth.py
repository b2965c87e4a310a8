"""papers/002, section 6: how overhead, log and work of the optimal protocol grow with n."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.studies.experiments.base import Case, Experiment
from antecede.report.questions import Chart

if TYPE_CHECKING:
    from antecede.pipeline.studies.experiments.base import Scale

RATIOS = (0.1, 1.0, 4.0)
WIDTHS = {"unicast": 0.0, "multicast": 0.5, "broadcast": 1.0}
"""Destinations of a message as a share of n."""

SLOW_N = 100
"""Up to here all delays; beyond, only the shorter ones: logs get long."""

_DELAYS = 6
_UNICAST = 4


def series(ratio: float) -> str:
    """Return the name of a line."""
    return f"delay = {ratio:g} gaps"


def _settled(scale: Scale, cast: str, ratio: float) -> float:
    """Return how many gaps a run takes to settle, and as long it is measured.

    A copy is under way, and then held, for several delays; and where a process hears of others
    once per gap only (unicast), its log takes longer to fill.
    """
    return scale.gaps * (_UNICAST if cast == "unicast" else 1) + _DELAYS * ratio


def cases(scale: Scale) -> list[Case]:
    """Return optimal at sizes up to hundreds, for three casts and three delays."""
    found = []
    for cast in ("unicast", "multicast", "broadcast"):
        for n in scale.large:
            for ratio in RATIOS:
                received = round(max(1.0, WIDTHS[cast] * n) * _settled(scale, cast, ratio))
                if n > SLOW_N and ratio > (1 if cast == "unicast" else 0.1):
                    continue
                if n > scale.slow_n and ratio > 1 and cast != "unicast":
                    continue
                arguments = {
                    "n": n,
                    "cast": cast,
                    "delay": f"exponential:{ratio / 10:g}",
                    "received": received,
                    "warm_up": received,
                }
                found += [
                    Case("optimal", "paper", arguments, seed, series(ratio), n, cast)
                    for seed in scale.seeds[: 3 if n <= SLOW_N else 2]
                ]
    return found


EXPERIMENT = Experiment(
    name="growth",
    paper="papers/002, section 6",
    question=(
        "The bound is n² entries, and the average is said to be much smaller: how does it grow "
        "with n, with the number of destinations, and with the delay?"
    ),
    x="processes",
    cases=cases,
    baseline=series(RATIOS[0]),
    how=(
        "The optimal protocol on papers/000's workload; unicast, multicast to n/2 on average, and "
        "broadcast; mean delay a tenth of, equal to, and four times the mean gap between sends. A "
        "run settles for as long as it is measured, which is longer the longer the delays are. A "
        "straight line on these logarithmic scales is a power of n; the table gives its exponent."
    ),
    charts=(
        Chart("entries", "Entries per copy", "entries_per_copy", "entries", log_x=True, log_y=True),
        Chart("log", "Entries in the log", "log_entries_mean", "entries", log_x=True, log_y=True),
        Chart(
            "work",
            "Time per delivery (compiled kernel, this machine)",
            "microseconds_per_delivery",
            "microseconds",
            log_x=True,
            log_y=True,
        ),
    ),
)
