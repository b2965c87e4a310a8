"""Order between non-atomic events that span processes: definition, sets, enumeration, mutants."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random

import pytest

from antecede import sim
from antecede.protocols.specs import Copy
from antecede.sim.workloads import paper
from antecede.study.experiments.spanning import ALONE, Entry, Process, read, size, united
from antecede.study.timed import play

Name = tuple[str, int]


class Group:
    """Processes, what is under way, and explicit sets of causes: no clocks."""

    def __init__(self, names: str, process: type[Process] = Process) -> None:
        self.names = tuple(names)
        self.processes = {name: process(name, self.names) for name in names}
        self.flying: list[Copy] = []
        self.past: dict[str, set[Name]] = {name: set() for name in names}
        """By process, the messages whose sends happened before now."""
        self.causes: dict[Name, frozenset[Name]] = {}
        self.groups: dict[Name, int] = {}
        self.dests: dict[Name, frozenset[str]] = {}
        self.known: dict[str, set[tuple[Name, str]]] = {name: set() for name in names}
        """By process, the deliveries that happened before now."""
        self.knew: dict[Name, frozenset[tuple[Name, str]]] = {}
        self.delivered: dict[str, list[Name]] = {name: [] for name in names}
        self.broken: list[str] = []

    def send(self, name: str, dests: str, group: int) -> None:
        process = self.processes[name]
        process.send(frozenset(dests), group)
        me = name, process.newest[name]
        self.causes[me] = frozenset(self.past[name])
        self.knew[me] = frozenset(self.known[name])
        self.groups[me], self.dests[me] = group, frozenset(dests)
        self.past[name].add(me)
        self.flying += process.outbox
        process.outbox.clear()
        self.check(name)

    def arrive(self, place: int) -> None:
        copy = self.flying.pop(place)
        for one in self.processes[copy.dest].receive(copy):
            me = one.source, one.number
            missing = self.before(me, copy.dest) - set(self.delivered[copy.dest])
            if missing:
                self.broken.append(f"{me} overtakes {sorted(missing)} at {copy.dest}")
            self.delivered[copy.dest].append(me)
            self.past[copy.dest] |= self.causes[me] | {me}
            self.known[copy.dest] |= self.knew[me] | {(me, copy.dest)}
        for held in self.processes[copy.dest].waiting:
            me = held.source, held.number
            if not self.before(me, copy.dest) - set(self.delivered[copy.dest]):
                self.broken.append(f"{me} waits without need at {copy.dest}")
        self.check(copy.dest)

    def before(self, message: Name, dest: str) -> set[Name]:
        """Return what must be delivered before a message: the definition."""
        return {m for m in self.causes[message] if self.must(m, message) and dest in self.dests[m]}

    def must(self, first: Name, second: Name) -> bool:
        group = self.groups[second]
        return group == ALONE or self.groups[first] != group

    def check(self, name: str) -> None:
        """Compare a log with what its past requires, by sets."""
        wanted: dict[tuple[Name, str], int] = {}
        for m in self.past[name]:
            later = [x for x in self.past[name] if m in self.causes[x] and self.must(m, x)]
            for d in self.dests[m]:
                guards = {self.groups[x] for x in later if d in self.dests[x]}
                if (m, d) not in self.known[name] and ALONE not in guards and len(guards) < 2:
                    wanted[m, d] = next(iter(guards), ALONE)
        log = self.processes[name].log
        kept = {(m, d): guard for m, entry in log.items() for d, guard in entry.guards.items()}
        if kept != wanted:
            self.broken.append(f"{name} keeps {kept}, not {wanted}")

    def finish(self, rng: Random) -> None:
        while self.flying:
            self.arrive(rng.randrange(len(self.flying)))
        if any(process.waiting for process in self.processes.values()):
            self.broken.append("something waits for ever")


def play_script(seed: int, process: type[Process] = Process) -> Group:
    rng = Random(seed)
    group = Group("abcde"[: rng.randint(2, 5)], process)
    for _ in range(rng.randint(5, 40)):
        if group.flying and rng.random() < 0.6:
            group.arrive(rng.randrange(len(group.flying)))
        else:
            name = rng.choice(group.names)
            others = [other for other in group.names if other != name]
            dests = rng.sample(others, rng.randint(1, len(others)))
            last = group.processes[name].group
            kind = rng.choice([ALONE, last, last, 1, 2, rng.randint(3, 9)])
            group.send(name, "".join(dests), kind)
    group.finish(rng)
    return group


def test_order_is_kept_and_nothing_waits_or_is_kept_without_need() -> None:
    for seed in range(400):
        assert play_script(seed).broken == []


class NoGuards(Process):
    """A message stands for the earlier ones, as in [KS98], for its own group as well."""

    def guarded(self, dests: frozenset[str], group: int) -> dict[Name, Entry]:
        return {
            name: Entry(entry.group, {d: g for d, g in entry.guards.items() if d not in dests})
            for name, entry in self.log.items()
        }


class OneGuard(Process):
    """One message of another group is taken to be enough for all."""

    def guarded(self, dests: frozenset[str], group: int) -> dict[Name, Entry]:
        found = super().guarded(dests, group)
        return {
            name: Entry(e.group, {d: guard for d, guard in e.guards.items() if guard == ALONE})
            for name, e in found.items()
        }


class ForgetsItself(Process):
    """RCV(3) as printed: the receiver leaves every entry, delivered or not."""

    def deliver(self, copy: Copy) -> None:
        super().deliver(copy)
        for entry in self.log.values():
            entry.guards.pop(self.j, None)


class CountsDeliveries(Process):
    """A later message of the same sender is taken to tell that the earlier ones are delivered."""

    def is_ready(self, copy: Copy) -> bool:
        group, _, o_m = read(copy)
        return all(
            any(i == name[0] and n >= name[1] for i, n in self.delivered)
            for name, entry in o_m.items()
            if self.j in entry.guards and (group == ALONE or entry.group != group)
        )


class WaitsForItsOwn(Process):
    """Parts of one event wait for each other."""

    def is_ready(self, copy: Copy) -> bool:
        return all(
            name in self.delivered for name, e in read(copy).log.items() if self.j in e.guards
        )


MUTANTS = (NoGuards, OneGuard, ForgetsItself, CountsDeliveries, WaitsForItsOwn)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_what_is_broken_on_purpose_is_caught(mutant: type[Process]) -> None:
    assert any(play_script(seed, mutant).broken for seed in range(200))


def explored(group: Group, sends: int) -> Iterator[Group]:
    """Yield the end of every computation of so many sends, each to any others, in two groups."""
    todo, seen = [(group, sends)], set()
    while todo:
        now, left = todo.pop()
        key = repr((left, sorted(map(str, now.flying)), now.delivered, now.groups, now.dests,
                    [sorted(past) for past in now.past.values()]))  # fmt: skip
        if key in seen:
            continue
        seen.add(key)
        if not left and not now.flying:
            yield now
        for place in range(len(now.flying)):
            other = deepcopy(now)
            other.arrive(place)
            todo.append((other, left))
        for name in now.names if left else ():
            others = "".join(other for other in now.names if other != name)
            for dests in (others, *others):
                for kind in (ALONE, 1, 2):
                    other = deepcopy(now)
                    other.send(name, dests, kind)
                    todo.append((other, left - 1))


def test_every_small_computation_is_right() -> None:
    ends = list(explored(Group("abc"), 2))
    assert len(ends) > 1000
    assert [end.broken for end in ends if end.broken] == []


def test_without_events_it_carries_what_optimal_carries() -> None:
    for cast in ("unicast", "multicast", "broadcast"):
        schedule = paper(n=6, cast=cast, seed=5, received=30, delay="exponential:0.05")
        processes = [Process(name, schedule.names) for name in schedule.names]

        def send(_row: int, place: int, dests: frozenset[str]) -> None:
            processes[place].send(dests, ALONE)  # noqa: B023 - called in this round only

        ours = play(schedule, processes, send, size, warm_up=0)
        theirs = sim.run("optimal", schedule).metrics
        for name in ("model_bytes_per_copy", "latency_mean", "held_fraction"):
            assert ours[name] == pytest.approx(theirs[name])


def test_two_guards_of_different_groups_are_enough() -> None:
    guarded = [Entry(7, {"d": guard}) for guard in (ALONE, 1, 2)]
    assert united(guarded[0], guarded[1]).guards == {"d": 1}
    assert united(guarded[1], guarded[1]).guards == {"d": 1}
    assert united(guarded[1], guarded[2]).guards == {}
