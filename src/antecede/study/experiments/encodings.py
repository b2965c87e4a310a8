"""What shorter logs would save: sections 3.5 and 6.2 of [KS98]."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from antecede.sim.schedule import Schedule
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.measuring import Task, run_task, timing
from antecede.study.points import Points, judged, spread
from antecede.study.replays import ENCODINGS, encodings

KS = "optimal"
SERIES = {name: KS if name == "printed" else f"optimal:{name}" for name in ENCODINGS}
CASTS = ("unicast", "multicast", "broadcast")
FEW: dict[str, dict[str, Any]] = {"groups": {}, "client_server": {"servers": 2}}
"""Workloads in which no process sends to all others, and their arguments."""
BYTES, EVERYWHERE = "model_bytes_per_copy", "sent_everywhere"
_N = 10
_QUICK, _LONG = {"received": 40, "warm_up": 20}, {"received": 200, "warm_up": 100}


def cases(scale: Scale) -> list[Case]:
    """Return one schedule per workload and seed, with each encoding of its logs."""
    length = _QUICK if scale.is_quick else _LONG
    shared = {"n": scale.n_or(_N), "delay": scale.delay_or("exponential:0.05"), **length}
    workloads: list[tuple[str, str, dict[str, Any]]]
    workloads = [(cast, "paper", {"cast": cast}) for cast in CASTS]
    workloads += [(name, name, more) for name, more in FEW.items()]
    return [
        case
        for facet, workload, more in workloads
        for case in scale.cases(SERIES.values(), shared | more, 0, facet, workload=workload)
    ]


def measure(task: Task) -> dict[str, Any]:
    """Measure the logs of a run in one encoding."""
    name = next(name for name, series in SERIES.items() if series == task.series)
    every = _replayed(task.schedule, task.warm_up)
    found = {key: value for key, value in every.items() if not key.startswith("bytes_")}
    return found | {BYTES: every[f"bytes_{name}"]}


@lru_cache(maxsize=1)
def _replayed(schedule: Schedule, warm_up: int) -> dict[str, Any]:
    """Replay a run with its logs; cached, because the cases of a schedule follow one another."""
    task = Task(KS, KS, {}, schedule, warm_up)
    base = run_task(KS, task)
    found = encodings(schedule, base.trace, warm_up=warm_up)
    same = {name: base.metrics[name] for name in ("seconds", "size_drift", "latency_drift")}
    return {**found, **timing(task, base.trace), **same}


def findings(points: Points) -> Iterator[str]:
    """Say what the encodings save, and how much need not be stored."""
    for facet in points.facets():
        told = [
            f"{EXPERIMENT.label(series)} {line[0.0]}"
            for series in SERIES.values()
            if (line := points.line(BYTES, facet, series))
        ]
        yield f"{EXPERIMENT.facet_label(facet)}: {', '.join(told)} bytes per copy."


@claim(
    "2.11",
    "With FIFO channels, what was sent once on every outgoing channel need not be stored "
    "(section 3.5); encodings of the log save space (section 6.2).",
    "Experiment encodings: the logs of the same runs written in each way, and how much of what is "
    "stored has been sent on every channel; tests/study/test_replays.py checks these logs against "
    "the protocol's, and drops what was sent everywhere from the algorithm as printed.",
)
def _shorter(points: Points) -> Judgement | None:
    saved: dict[str, list[float]] = {}
    shares = {}
    for facet in points.facets():
        for series in set(SERIES.values()) - {KS}:
            saved.setdefault(series, []).extend(points.ratios(BYTES, facet, series).values())
        if share := points.line(EVERYWHERE, facet, KS):
            shares[facet] = share[0.0]
    if not shares or not all(saved.values()):
        return None
    told = "; ".join(
        f"{EXPERIMENT.label(s)} x{spread(saved[s])}" for s in SERIES.values() if s != KS
    )
    where = "; ".join(
        f"{EXPERIMENT.facet_label(f)} {share.mean:.0%}" for f, share in shares.items()
    )
    never = all(share.mean == 0 for facet, share in shares.items() if facet in CASTS)
    result = (
        f"Bytes per copy in proportion to those as printed: {told}. Of what is stored after a "
        f"send, so much has been sent on every outgoing channel: {where}. "
        + (
            'Where everybody sends to everybody this is nothing: that "d is a destination of M" '
            "leaves a log with the first message to d, so what is stored has not been sent to d. "
            if never
            else ""
        )
        + "Elsewhere a process would have to know its channels, and absence would no longer mean "
        "that a message is delivered: dropped from the algorithm as printed, order is lost."
    )
    best = min(min(ratios) for ratios in saved.values())
    verdict = judged(always=False, sometimes=best < 1 or not never)
    few = [share.mean for facet, share in shares.items() if facet in FEW]
    short = f"encodings x{best:.2f} at best"
    short += f"; {spread(few, '{:.0%}')} not stored, if channels are known" if few else ""
    return Judgement(result, verdict, short)


EXPERIMENT = Experiment(
    name="encodings",
    rank=65,
    paper=paper("optimal"),
    part="sections 3.5 and 6.2",
    question="What would shorter encodings of the log save, and what need not be stored?",
    how=(
        f"{_N} processes, with a mean delay of half the mean gap between sends. Runs of optimal "
        "are replayed with the logs written out. As printed, an entry has an id, a clock and the "
        "ids of its destinations. Or each sender's id is written once, or the log is a sparse "
        "array of clocks by sender and destination, or an entry names the processes that are not "
        "its destinations where that is shorter. An id takes 2 bytes and a clock 4; lengths are "
        "not counted. In groups, everybody multicasts in overlapping groups of four; with clients "
        "and two servers, clients do not talk to each other."
    ),
    x="",
    cases=cases,
    measure=measure,
    baseline=KS,
    labels={
        KS: "as printed",
        "optimal:grouped": "each sender once",
        "optimal:array": "sparse array",
        "optimal:complements": "complements",
        "optimal:both": "each sender once, and complements",
        "client_server": "clients and servers",
    },
    charts=(
        Chart("bytes", "Bytes per copy", BYTES, "bytes", kind="bar"),
        Chart(
            "everywhere", "Sent on every outgoing channel", EVERYWHERE,
            "share of what is stored", kind="bar", series=(KS,),
        ),
    ),
    findings=findings,
    claims=(_shorter,),
)  # fmt: skip
