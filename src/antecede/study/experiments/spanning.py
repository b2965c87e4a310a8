"""Order only between non-atomic events that span several processes: a question of [KS98]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from antecede.protocols.specs import Copy, Specified
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.measuring import Task
from antecede.study.open_questions import BYTES, KS, LATENCY, arguments, less_order
from antecede.study.points import Points
from antecede.study.timed import play

OURS = "non_atomic:spanning"
PARTS = (1, 5, 20)
CASTS = ("unicast", "multicast")
HELD = "held_fraction"
ALONE = 0
"""The group of a message that belongs to no non-atomic event; it differs from all others."""


class Entry(NamedTuple):
    """A message's group and, by destination, the group of a later message to it, or ALONE."""

    group: int
    guards: dict[str, int]


Log = dict[tuple[str, int], Entry]


class Control(NamedTuple):
    """The group of a message, and O_M; as in [KS98], an older, absent entry is finished."""

    group: int
    newest: dict[str, int]
    log: Log


class Process(Specified):
    """A process that orders m before M only if their groups differ.

    The logs are those of [KS98], but a message x to d, sent after m in another group, replaces m
    at d only for messages of groups other than its own. So d stays in m's entry, guarded by the
    group of x, until a message of yet another group, or of none, follows m to d as well.
    """

    def __init__(self, me: str, names: tuple[str, ...]) -> None:
        super().__init__(me)
        self.j = me
        self.newest = dict.fromkeys(names, 0)
        """By sender, its latest message known here; all its earlier messages are known too."""
        self.log: Log = {}
        self.delivered: set[tuple[str, int]] = set()
        self.group = ALONE
        """The group of the last message sent or delivered here."""

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Send a message; ``after`` is its group."""
        group = self.group = after or ALONE
        guarded = self.guarded(dests, group)
        number = self.newest[self.j] + 1
        for d in sorted(dests):
            o_m: Log = {}
            for name, entry in self.log.items():
                guards = dict(guarded[name].guards)
                if d in entry.guards:
                    guards[d] = entry.guards[d]
                if guards:
                    o_m[name] = Entry(entry.group, guards)
            control = Control(group, dict(self.newest), o_m)
            self.outbox.append(Copy(self.j, d, number, dests, control))
        self.newest[self.j] = number
        self.log = {name: entry for name, entry in guarded.items() if entry.guards}
        self.log[self.j, number] = Entry(group, dict.fromkeys(dests, ALONE))

    def guarded(self, dests: frozenset[str], group: int) -> Log:
        """Return the log after a message of ``group`` to ``dests``."""
        found: Log = {}
        for name, entry in self.log.items():
            guards = dict(entry.guards)
            if group == ALONE or group != entry.group:
                for d in dests & guards.keys():
                    if group == ALONE or guards[d] not in (ALONE, group):
                        del guards[d]
                    else:
                        guards[d] = group
            found[name] = Entry(entry.group, guards)
        return found

    def is_ready(self, copy: Copy) -> bool:
        """Return whether all messages of other groups that name this process are delivered."""
        group, _, o_m = read(copy)
        return all(
            name in self.delivered
            for name, entry in o_m.items()
            if self.j in entry.guards and (group == ALONE or entry.group != group)
        )

    def deliver(self, copy: Copy) -> None:
        """Deliver a message, and merge what it carries."""
        group, newest, o_m = read(copy)
        self.group, me = group, (copy.source, copy.number)
        self.delivered.add(me)
        theirs = o_m | {me: Entry(group, dict.fromkeys(copy.dests, ALONE))}
        newest = newest | {copy.source: copy.number}
        merged: Log = {}
        for name in self.log.keys() | theirs.keys():
            if name not in theirs:
                if name[1] <= newest[name[0]]:
                    continue  # the sender knows that it is finished
                entry = self.log[name]
            elif name not in self.log:
                if name[1] <= self.newest[name[0]]:
                    continue  # it is known here to be finished
                entry = theirs[name]
            else:
                entry = united(self.log[name], theirs[name])
            guards = dict(entry.guards)
            if name in self.delivered:
                guards.pop(self.j, None)
            if guards:
                merged[name] = Entry(entry.group, guards)
        self.log = merged
        self.newest = {i: max(number, newest[i]) for i, number in self.newest.items()}


def read(copy: Copy) -> Control:
    """Return the control that a copy carries."""
    return cast("Control", copy.control)


def united(ours: Entry, theirs: Entry) -> Entry:
    """Return the union of an entry in two logs; two different guards release a destination."""
    guards = {}
    for d in ours.guards.keys() & theirs.guards.keys():
        both = {ours.guards[d], theirs.guards[d]} - {ALONE}
        if len(both) < 2:
            guards[d] = next(iter(both), ALONE)
    return Entry(ours.group, guards)


def size(copy: Copy) -> int:
    """Return the bytes of control: 2 for an id, 4 for a clock or group; tops count as entries."""
    group, newest, o_m = read(copy)
    tops = sum(number > 0 and (i, number) not in o_m for i, number in newest.items())
    total = 4 * (group != ALONE) + 6 * tops
    for entry in o_m.values():
        total += 6 + 4 * (entry.group != ALONE)
        total += sum(2 + 4 * (guard != ALONE) for guard in entry.guards.values())
    return total


def cases(scale: Scale) -> list[Case]:
    """Return our answer as events have more parts, and without events, which is optimal."""
    found = []
    for cast_ in CASTS:
        chosen = arguments(scale, cast=cast_, delay=0.5)
        if not scale.is_quick:
            chosen |= {"received": 100, "warm_up": 50}
        for seed in scale.seeds:
            place = ("paper", chosen, seed)
            found.append(Case(KS, *place, KS, 0, cast_))
            found += [Case(KS, *place, OURS, parts, cast_, {"parts": parts}) for parts in PARTS]
    return found


def measure(task: Task) -> dict[str, Any]:
    """Measure a run in which a message may continue the event of its sender's last message."""
    schedule, parts = task.schedule, task.options.get("parts", 0)
    processes = [Process(name, schedule.names) for name in schedule.names]
    rng, count = np.random.default_rng(schedule.seed), 0

    def send(_row: int, place: int, dests: frozenset[str]) -> None:
        nonlocal count
        group = processes[place].group
        if parts and (rng.random() < 1 / parts or group == ALONE):
            count += 1
            group = count
        processes[place].send(dests, group)

    return play(schedule, processes, send, size, warm_up=task.warm_up)


def findings(points: Points) -> Iterator[str]:
    """Say how many copies wait, and at what cost."""
    for facet in points.facets():
        ours, theirs = points.means(HELD, facet, OURS), points.level(HELD, facet, KS)
        sizes = _ratios(points, BYTES, facet)
        both = [x for x in ours if x in sizes]
        if both and theirs is not None:
            x = max(both)
            yield (
                f"{facet[0].upper()}{facet[1:]}, {x:g} parts on average: {ours[x]:.1%} of the "
                f"copies held, {theirs:.1%} without events, with x{sizes[x]:.2f} of the control."
            )


def _ratios(points: Points, metric: str, facet: str) -> dict[float, float]:
    """Return our figures as multiples of optimal's, which do not depend on the parts."""
    base = points.level(metric, facet, KS)
    return {x: y / base for x, y in points.means(metric, facet, OURS).items()} if base else {}


@claim(
    "2.open.2",
    "Question: the same for non-atomic events that span several processes.",
    "A specification, not an endpoint (antecede.study.experiments.spanning): the definition, an "
    "oracle by sets, random scripts and broken variants (tests/study/test_spanning.py), every "
    "computation of three processes and three messages (python -m tests.support.spanning_rig 3); "
    "experiment spanning for its cost.",
)
def _spanning(points: Points) -> Judgement | None:
    parts: list[str] = []
    sizes: list[float] = []
    times: list[float] = []
    for facet in points.facets():
        ours, theirs = points.line(BYTES, facet, OURS), points.level_point(BYTES, facet, KS)
        sizes += _ratios(points, BYTES, facet).values()
        times += _ratios(points, LATENCY, facet).values()
        if ours and theirs:
            each = ", ".join(f"{point} at {x:g}" for x, point in ours.items())
            parts.append(f"{facet}: {each}, and {theirs} under optimal")
    result = (
        f"Bytes of control per copy by the mean number of parts: {'; '.join(parts)}. Entries and "
        "messages name their event, and a destination may have to name one more: that of the "
        "message that stands for it."
    )
    return less_order(sizes, times, result)


EXPERIMENT = Experiment(
    name="spanning",
    rank=76,
    paper=paper("optimal"),
    part="section 8",
    question="The same if a non-atomic event spans several processes?",
    how=(
        "The workload of non_atomic. A message continues the non-atomic event of the last message "
        "that its sender sent or delivered, or begins a new one, so that events have as many parts "
        "on average as the axis says. A name of an event takes 4 bytes. Without events, the same "
        "specification is optimal, and carries what optimal carries."
    ),
    x="mean number of parts of a non-atomic event",
    cases=cases,
    measure=measure,
    baseline=KS,
    levels=(KS,),
    sweeps_delay=True,
    labels={OURS: "events that span processes"},
    charts=(
        Chart("bytes", "Bytes per copy", BYTES, "bytes", logs="x"),
        Chart("held", "Messages held", HELD, "share of copies held", logs="x"),
    ),
    findings=findings,
    claims=(_spanning,),
)
