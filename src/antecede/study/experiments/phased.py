"""Whether phases save extra messages: a guess of [SA00], section 5.

[SA00] cites a report of Mostefaoui and Theel (IRISA 1062, 1996) without describing it. We could
only read the abstract of their later paper [MT98]: timestamps are small because the computation is
divided into phases. So the design here is our own: messages of an earlier phase are known to be
delivered, and need no entry.

.. [MT98] A. Mostefaoui and O. Theel. "Shrinking timestamp sizes of event ordering protocols".
   ICPADS 1998. https://doi.org/10.1109/ICPADS.1998.741041
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from antecede.protocols.specs import Copy
from antecede.protocols.specs import bounded as specified
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.measuring import Task
from antecede.study.points import Points, judged, spread
from antecede.study.timed import play

PLAIN, PHASED = "bounded", "bounded:phases"
SHARES = (1.25, 2.0, 4.0)
"""k as a multiple of n."""
N = 8
EVERY = 3
"""How many messages the coordinator sends per phase."""
PACKETS, TOTAL = "extra_packets_per_message", "total_bytes_per_message"
HEADERS, LATENCY = "bytes_with_headers_per_message", "latency_mean"
_QUICK, _LONG = {"received": 24, "warm_up": 12}, {"received": 150, "warm_up": 50}


class Process(specified.Process):
    """A process of [SA00] that drops entries of completely delivered phases; for unicast.

    The first process is the coordinator. It tells all to enter phase p; each then reports how many
    messages it sent before, on each channel. The coordinator tells each how many it must deliver,
    and when all have, that the phases before p are over: 5 (n - 1) packets.
    """

    every = EVERY

    def __init__(self, me: str, names: tuple[str, ...], *, k: int | None = None) -> None:
        super().__init__(me, names, k=k)
        self.coordinator = names[0]
        self.sent = dict.fromkeys(names, 0)
        self.phase = self.over = 0
        self.phases: dict[tuple[str, str, int], int] = {}
        """The phase of each message that an entry of the matrix names."""
        self.own = 0
        self.rows: dict[str, tuple[int, ...]] = {}
        self.left: set[str] = set()
        self.awaited: tuple[int, ...] | None = None

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Send; the coordinator may begin a phase, if the last change is complete."""
        super().send(dests, after)
        self.own += 1
        if self.i == self.coordinator and self.own >= self.every and self.phase == self.over:
            self.own = 0
            self.tell("enter", self.phase + 1)
            self.enter(self.phase + 1)

    def tell(self, what: str, *more: object, to: tuple[str, ...] = ()) -> None:
        """Send the others a packet about phases."""
        for j in to or self.names:
            if j != self.i:
                self.outbox.append(Copy(self.i, j, 0, frozenset(), (what, *more)))

    def replace(self, j: str) -> None:
        """Count the messages to j separately: their entry may have been dropped."""
        self.sent[j] += 1
        self.m = {cell: n for cell, n in self.m.items() if cell[1] != j}
        self.m[self.i, j] = self.sent[j]
        self.phases[self.i, j, self.sent[j]] = self.phase

    def enter(self, phase: int) -> None:
        """Begin a phase, and report how many messages were sent before."""
        self.phase = phase
        row = tuple(self.sent[j] for j in self.names)
        if self.i == self.coordinator:
            self.report(self.i, row)
        else:
            self.tell("report", row, to=(self.coordinator,))

    def report(self, i: str, row: tuple[int, ...]) -> None:
        """Note a report; when all have arrived, tell each process how many it must deliver."""
        self.rows[i] = row
        if len(self.rows) == len(self.names):
            self.left = set(self.names)
            for place, j in enumerate(self.names):
                column = tuple(self.rows[one][place] for one in self.names)
                if j == self.i:
                    self.awaited = column
                else:
                    self.tell("await", column, to=(j,))
            self.rows = {}

    def finish(self, j: str) -> None:
        """Note that j has delivered all its messages; when all have, the phases are over."""
        self.left.discard(j)
        if not self.left:
            self.tell("over", self.phase)
            self.drop(self.phase)

    def drop(self, phase: int) -> None:
        """Drop the entries of the phases before this one."""
        self.over = phase
        self.m = {
            (i, j): n for (i, j), n in self.m.items() if self.phases.get((i, j, n), 0) >= self.over
        }
        live = {(*cell, n) for cell, n in self.m.items()}
        self.phases = {name: p for name, p in self.phases.items() if name in live}

    def receive(self, copy: Copy) -> list[Copy]:
        """Receive a message, an extra message, or a packet about phases."""
        control = cast("tuple[Any, ...]", copy.control)
        delivered: list[Copy] = []
        match control:
            case ("enter", int(phase)):
                self.enter(phase)
            case ("report", tuple(row)):
                self.report(copy.source, row)
            case ("await", tuple(column)):
                self.awaited = column
            case ("done",):
                self.finish(copy.source)
            case ("over", int(phase)):
                self.drop(phase)
            case _:
                delivered = super().receive(copy)
        if self.awaited is not None and all(
            self.deliv[j] >= n for j, n in zip(self.names, self.awaited, strict=True)
        ):
            self.awaited = None
            if self.i == self.coordinator:
                self.finish(self.i)
            else:
                self.tell("done", to=(self.coordinator,))
        return delivered

    def is_ready(self, copy: Copy) -> bool:
        """Return whether a message can be delivered, or it is the turn of an extra message."""
        return all(n <= self.deliv[k] for k, d, n, _ in _entries(copy) if d == self.i)

    def merge(self, copy: Copy) -> None:
        """Merge M_m into M_i, without the phases that are over."""
        for k, d, n, phase in _entries(copy):
            if d != self.i and phase >= self.over and n > self.m.get((k, d), 0):
                self.m[k, d] = n
                self.phases[k, d, n] = phase
        self.trim()

    def entries(self, matrix: specified.Matrix) -> specified.Entries:
        """Return entries with their phases."""
        found = tuple((*cell, n, self.phases.get((*cell, n), 0)) for cell, n in matrix.items())
        return cast("specified.Entries", found)


def _entries(copy: Copy) -> tuple[tuple[str, str, int, int], ...]:
    return cast("tuple[tuple[str, str, int, int], ...]", copy.control)


def size(copy: Copy) -> int:
    """Return the bytes of control: 2 for an id, 4 for a number, 1 for the phase of an entry."""
    control = cast("tuple[Any, ...]", copy.control)
    if control and isinstance(control[0], str):
        return 4 * len(control[1]) if control[0] in ("report", "await") else 4
    return sum(8 if len(entry) == 3 else 9 for entry in control)


def cases(scale: Scale) -> list[Case]:
    """Return bounded as printed and with phases, on the same schedules."""
    n, length = scale.n_or(N), _QUICK if scale.is_quick else _LONG
    delay = scale.delay_or("exponential:0.05")
    arguments = scale.arguments(n=n, cast="unicast", delay=delay) | length
    found = []
    for share in SHARES:
        options = {"k": int(share * n)}
        found += scale.cases(dict.fromkeys((PLAIN, PHASED), options), arguments, share)
    return found


def measure(task: Task) -> dict[str, Any]:
    """Run the specification, as printed or with phases."""
    kind = Process if task.series == PHASED else specified.Process
    names, k = task.schedule.names, task.options["k"]
    processes = [kind(name, names, k=k) for name in names]

    def send(_row: int, place: int, dests: frozenset[str]) -> None:
        processes[place].send(dests)

    return play(task.schedule, processes, send, size, warm_up=task.warm_up)


def findings(points: Points) -> Iterator[str]:
    """Say how many packets are added, and how many bytes that makes."""
    for series in (PLAIN, PHASED):
        packets, sizes = points.line(PACKETS, "", series), points.line(TOTAL, "", series)
        told = "; ".join(
            f"{packets[x]} packets added per message and {sizes[x]} bytes in all at k = {x:g} n"
            for x in packets
            if x in sizes
        )
        if told:
            yield f"{EXPERIMENT.label(series)}: {told}."


@claim(
    "3.4",
    "A scheme as that of Mostefaoui and Theel (IRISA report 1062, 1996) probably saves extra "
    "messages.",
    "Experiment phased. The report was not available to us, only the abstract of a later paper "
    "(ICPADS 1998): phases with smaller timestamps. So the scheme is ours, and its packets count. "
    "Order and liveness: tests/study/test_phased.py.",
)
def _saves(points: Points) -> Judgement | None:
    ratios = {metric: points.ratios(metric, "", PHASED) for metric in (PACKETS, TOTAL, HEADERS)}
    times = points.ratios(LATENCY, "", PHASED)
    if not all(ratios.values()) or not times:
        return None
    added = list(ratios[PACKETS].values())
    both = "; ".join(
        f"x{ratio:.2f} at k = {x:g} n ({points.line(PACKETS, '', PHASED)[x]} per message)"
        for x, ratio in ratios[PACKETS].items()
    )
    result = (
        f"Packets added, those of the phases included, in proportion to the extra messages without "
        f"phases: {both}. Bytes in all x{spread(list(ratios[TOTAL].values()))}, with headers "
        f"x{spread(list(ratios[HEADERS].values()))}; time from send to delivery "
        f"x{spread(list(times.values()))}. A process counts what it has sent on each channel, and "
        "one process coordinates, which [SA00] does without."
    )
    verdict = judged(always=max(added) < 1, sometimes=min(added) < 1)
    return Judgement(result, verdict, f"x{spread(added)} of the packets added, phases included")


EXPERIMENT = Experiment(
    name="phased",
    rank=79,
    paper=paper("bounded"),
    part="section 5",
    question="Do phases save extra messages?",
    how=(
        f"{N} processes on the unicast workload of [JPCY97], with a mean delay of half the gap "
        "between sends; specifications, not endpoints. In phases, the first process asks all how "
        "much they have sent, tells each how much to deliver, and tells all when that is done; "
        f"then entries of earlier phases are dropped. A phase lasts {EVERY} messages of the first "
        "process, and at least until the one before is over."
    ),
    x="k as a multiple of n",
    cases=cases,
    measure=measure,
    baseline=PLAIN,
    labels={PLAIN: "as printed", PHASED: "with phases"},
    charts=(
        Chart("packets", "Packets added per message", PACKETS, "packets"),
        Chart("total", "Total bytes per message", TOTAL, "bytes"),
    ),
    findings=findings,
    claims=(_saves,),
)
