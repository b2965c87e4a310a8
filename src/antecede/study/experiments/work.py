"""What a send and a receipt cost in the worst case: section 6.2 of [KS98], and [GK00] beside RST.

The worst case is the log of theorem 8: every process has sent to every other, one process has heard
of all of it, and no message is known to be delivered. Operations are counted, not timed: how many
entries of a log, pairs of entries or cells of a matrix a step looks at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from antecede.protocols.specs import Specified
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.limits import CUBIC, QUADRATIC
from antecede.study.measuring import Task
from antecede.study.points import Points, judged, local_exponents, told_growth

SIZES = (10, 20, 40, 80)
PRINTED, COMMON, PAIRS, SORTED = "send:printed", "send:common", "receipt:printed", "receipt:sorted"
STEPS = (PRINTED, COMMON, PAIRS, SORTED)
LOGS, CELLS = "logs", "cells"
RST, SEMANTIC = "matrix", "semantic"
OPERATIONS = "operations"
Entry = tuple[int, int]
Log = dict[Entry, frozenset[int]]


def worst(n: int) -> Log:
    """Return the log of theorem 8 for process 0 among n: destinations by sender and clock.

    Every process except the first has sent to every other except the first, one by one.
    """
    log: Log = {}
    for sender in range(1, n):
        dests = [dest for dest in range(1, n) if dest != sender]
        log |= {(sender, clock): frozenset({dest}) for clock, dest in enumerate(dests, start=1)}
    return log


def send_printed(log: Log, dests: frozenset[int]) -> tuple[int, dict[int, Log]]:
    """SND(2) as printed: scan the log for each destination. Return operations and O_M."""
    count, sent = 0, {}
    for dest in dests:
        sent[dest] = dict[Entry, frozenset[int]]()
        for entry, remaining in log.items():
            count += 1
            if rest := remaining - (dests - {dest}):
                sent[dest][entry] = rest
    return count, sent


def send_common(log: Log, dests: frozenset[int]) -> tuple[int, dict[int, Log]]:
    """SND(2) with a common part for all destinations, then the differences. Return the same."""
    count, common = 0, dict[Entry, frozenset[int]]()
    own: dict[int, Log] = {dest: {} for dest in dests}
    for entry, remaining in log.items():
        count += 1
        if rest := remaining - dests:
            common[entry] = rest
        for dest in remaining & dests:
            count += 1
            own[dest][entry] = rest | {dest}
    return count, {dest: common | differs for dest, differs in own.items()}


def merge_printed(log: Log, o_m: Log) -> tuple[int, Log]:
    """RCV(4) as printed: all pairs of entries of the same sender. Return operations and LOG."""
    count = 0
    dead: set[Entry] = set()
    by_sender: dict[int, list[Entry]] = {}
    for entry in log:
        by_sender.setdefault(entry[0], []).append(entry)
    for other in o_m:
        for mine in by_sender.get(other[0], []):
            count += 1
            if other[1] < mine[1] and other not in log:
                dead.add(other)
            if mine[1] < other[1] and mine not in o_m:
                dead.add(mine)
    return count, _joined(log, o_m, dead)


def merge_sorted(log: Log, o_m: Log) -> tuple[int, Log]:
    """RCV(4) on logs sorted by sender and clock: each entry once. Return operations and LOG."""
    count = 0
    newest: list[dict[int, int]] = [{}, {}]
    for place, one in enumerate((log, o_m)):
        for sender, clock in one:
            count += 1
            newest[place][sender] = max(clock, newest[place].get(sender, 0))
    dead = {e for e in o_m if e not in log and e[1] < newest[0].get(e[0], 0)}
    dead |= {e for e in log if e not in o_m and e[1] < newest[1].get(e[0], 0)}
    return count, _joined(log, o_m, dead)


def _joined(log: Log, o_m: Log, dead: set[Entry]) -> Log:
    """Return the union of the remaining entries; a common entry keeps the common destinations."""
    merged = {entry: log.get(entry, dests) & dests for entry, dests in o_m.items()}
    return {entry: dests for entry, dests in (log | merged).items() if entry not in dead}


class Cells(dict[str, int]):
    """A row of a matrix that counts how often its cells are read and written."""

    looks = 0

    def __getitem__(self, key: str) -> int:
        Cells.looks += 1
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: int) -> None:
        Cells.looks += 1
        super().__setitem__(key, value)


def cells(protocol: str, n: int) -> int:
    """Return how many matrix cells a process looks at for a message and its delivery.

    The process runs the specification, the paper's steps one by one. The message depends on an
    earlier one.
    """
    names = tuple(f"p{number}" for number in range(n))
    make = import_module(f"antecede.protocols.specs.{protocol}").Process
    sender, receiver = (_counting(make(name, names)) for name in names[:2])
    for _ in range(2):
        Cells.looks = 0
        sender.send(frozenset({names[1]}))
        receiver.receive(sender.outbox.pop())
    return Cells.looks


def _counting(process: Specified) -> Specified:
    for name in ("sent", "prev", "conc"):
        matrix: Mapping[str, Mapping[str, int]] | None = getattr(process, name, None)
        if matrix is not None:
            setattr(process, name, {key: Cells(row) for key, row in matrix.items()})
    return process


def cases(scale: Scale) -> list[Case]:
    """Return each step at each size; nothing is random, so there is one seed."""
    places = [(LOGS, step, "optimal") for step in STEPS]
    places += [(CELLS, name, name) for name in (RST, SEMANTIC)]
    return [
        Case(protocol, "paper", {"n": n, "cast": "unicast", "received": 2}, 1, series, n, facet)
        for n in scale.sizes_or(SIZES)
        for facet, series, protocol in places
    ]


def operations(series: str, n: int) -> int:
    """Return how many operations a step takes in the worst case."""
    if series in (RST, SEMANTIC):
        return cells(series, n)
    log = worst(n)
    match series:
        case "send:printed":
            return send_printed(log, frozenset(range(1, n)))[0]
        case "send:common":
            return send_common(log, frozenset(range(1, n)))[0]
        case "receipt:printed":
            return merge_printed(log, log)[0]
        case _:
            return merge_sorted(log, log)[0]


def measure(task: Task) -> dict[str, Any]:
    """Count the operations of a step; only the number of processes in the schedule matters."""
    found = operations(task.series, task.schedule.n)
    return {"deliveries": 0, "seconds": 0.0, OPERATIONS: found}


def findings(points: Points) -> Iterator[str]:
    """Say how each step grows."""
    for facet in points.facets():
        for series in points.series(facet):
            told = told_growth(points.means(OPERATIONS, facet, series))
            if told is not None:
                yield f"{EXPERIMENT.label(series).capitalize()}: {told}."


@claim(
    "2.5",
    "A send takes cubic time as printed, quadratic with the common computation; a receipt "
    "takes quadratic time.",
    "Experiment work: entries and pairs of entries that each step looks at, on the logs of theorem "
    "8; tests/study/test_work.py checks that the counted steps do what the specification does.",
)
def _work(points: Points) -> Judgement | None:
    last, parts = {}, []
    for series in STEPS:
        line = points.means(OPERATIONS, LOGS, series)
        told = told_growth(line)
        if told is None:
            return None
        last[series] = list(local_exponents(line).values())[-1]
        n = max(line)
        power = round(last[series])
        parts.append(
            f"{EXPERIMENT.label(series)} {told}, {line[n] / n**power:.2f} n^{power} at n = {n:g}"
        )

    def verdict(limit: float) -> str:
        quadratic = [last[series] <= limit for series in (COMMON, PAIRS, SORTED)]
        cubic = limit < last[PRINTED] <= CUBIC.value
        return judged(always=all(quadratic) and cubic, sometimes=any(quadratic))

    result = (
        f"Operations in the worst case: {'; '.join(parts)}. RCV(4) as printed looks at all pairs "
        "of entries of a sender, and there may be n of each: quadratic time needs logs that are "
        f"sorted or hashed (docs/errata.md). {QUADRATIC.said(verdict)} Cubic is more than that, up "
        f"to {CUBIC.written()}."
    )
    sends = f"send n^{last[PRINTED]:.1f} as printed, n^{last[COMMON]:.1f} common"
    short = f"{sends}; receipt n^{last[PAIRS]:.1f} as printed, n^{last[SORTED]:.1f} sorted"
    wrong = "" if last[PAIRS] <= QUADRATIC.value else "quadratic time for a receipt"
    return Judgement(result, verdict(QUADRATIC.value), short, wrong)


EXPERIMENT = Experiment(
    name="work",
    rank=55,
    paper=paper("optimal"),
    part="section 6.2",
    question="How does the work of a send and of a receipt grow in the worst case?",
    how=(
        "Logs as large as there can be, by theorem 8: (n-1)(n-2) units. A broadcast is sent as "
        "printed (the log is gone through for each destination) and with the common computation "
        "(once for all); a message that carries the whole log is received as printed (all pairs of "
        "entries of a sender) and with logs by sender and clock. What is counted is how many "
        "entries or pairs a step looks at. Beside it, the cells of their matrices that matrix and "
        "semantic read and write for a message and its delivery, by the steps of their papers."
    ),
    x="processes",
    cases=cases,
    measure=measure,
    baseline=COMMON,
    labels={
        PRINTED: "send, as printed",
        COMMON: "send, common computation",
        PAIRS: "receipt, as printed",
        SORTED: "receipt, sorted logs",
        LOGS: "entries or pairs, optimal",
        CELLS: "cells of matrices",
    },
    charts=(Chart("steps", "Operations of one step", OPERATIONS, "operations", logs="xy"),),
    findings=findings,
    claims=(_work,),
)
