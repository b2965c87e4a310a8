"""Non-atomic events that span processes: the definition by sets, and all small computations.

``python -m tests.support.spanning_rig 3`` visits every computation of three processes and three
messages, each to any others and in any event or in none.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from copy import copy as shallow
from random import Random

from antecede.protocols.specs import Copy
from antecede.study.experiments.spanning import ALONE, Process

Name = tuple[str, int]


class Group:
    """Processes, the packets in flight, and explicit sets of causes: no clocks."""

    def __init__(self, names: str, process: type[Process] = Process) -> None:
        self.names = tuple(names)
        self.processes = {name: process(name, self.names) for name in names}
        self.flying: list[Copy] = []
        self.past: dict[str, frozenset[Name]] = dict.fromkeys(names, frozenset())
        """By process, the messages whose sends happened before now."""
        self.causes: dict[Name, frozenset[Name]] = {}
        self.groups: dict[Name, int] = {}
        self.dests: dict[Name, frozenset[str]] = {}
        self.known: dict[str, frozenset[tuple[Name, str]]] = dict.fromkeys(names, frozenset())
        """By process, the deliveries that happened before now."""
        self.knew: dict[Name, frozenset[tuple[Name, str]]] = {}
        self.events: dict[str, tuple[Name, ...]] = dict.fromkeys(names, ())
        """By process, the messages it sent and delivered, in order."""
        self.delivered: dict[str, frozenset[Name]] = dict.fromkeys(names, frozenset())
        self.broken: list[str] = []

    def send(self, name: str, dests: str, group: int) -> None:
        process = self.processes[name]
        process.send(frozenset(dests), group)
        me = name, process.newest[name]
        self.causes[me] = self.past[name]
        self.knew[me] = self.known[name]
        self.groups[me], self.dests[me] = group, frozenset(dests)
        self.past[name] |= {me}
        self.events[name] += (me,)
        self.flying = self.flying + process.outbox
        process.outbox = []
        self.check(name)

    def arrive(self, place: int) -> None:
        copy = self.flying[place]
        self.flying = self.flying[:place] + self.flying[place + 1 :]
        here = copy.dest
        for one in self.processes[here].receive(copy):
            me = one.source, one.number
            missing = self.before(me, here) - self.delivered[here]
            if missing:
                self.broken.append(f"{me} overtakes {sorted(missing)} at {here}")
            self.delivered[here] |= {me}
            self.events[here] += (me,)
            self.past[here] |= self.causes[me] | {me}
            self.known[here] |= self.knew[me] | {(me, here)}
        for held in self.processes[here].waiting:
            me = held.source, held.number
            if not self.before(me, here) - self.delivered[here]:
                self.broken.append(f"{me} waits without need at {here}")
        self.check(here)

    def before(self, message: Name, dest: str) -> frozenset[Name]:
        """Return the messages that must be delivered before this one: the definition."""
        return frozenset(
            m for m in self.causes[message] if self.must(m, message) and dest in self.dests[m]
        )

    def must(self, first: Name, second: Name) -> bool:
        group = self.groups[second]
        return group == ALONE or self.groups[first] != group

    def check(self, name: str) -> None:
        """Check by sets that a log has what its past requires."""
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
        self.check_all_delivered()

    def check_all_delivered(self) -> None:
        if any(process.waiting for process in self.processes.values()):
            self.broken.append("something waits for ever")

    def copied(self) -> Group:
        """Return a copy that shares the logs: steps replace logs, and never change them."""
        other = shallow(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(other, name, value.copy())
        other.broken = self.broken.copy()
        for name, process in self.processes.items():
            other.processes[name] = mine = shallow(process)
            mine.waiting, mine.outbox = process.waiting.copy(), []
            mine.newest, mine.delivered = process.newest.copy(), process.delivered.copy()
        return other

    def situation(self) -> tuple[object, ...]:
        """Return what identifies this state: the events of all processes, and packets in flight."""
        told = tuple((m, self.groups[m], self.dests[m]) for m in sorted(self.groups))
        under_way = frozenset((copy.source, copy.number, copy.dest) for copy in self.flying)
        return tuple(self.events.values()), told, under_way


def explored(group: Group, sends: int) -> Iterator[Group]:
    """Yield every situation with ``sends`` sends, each to any others, in any event or in none.

    The names of processes and of events do not matter: the first message goes from the first
    process to the second or to all, and a new event has the next number.
    """
    todo, seen = [(group, sends)], set()
    while todo:
        now, left = todo.pop()
        key = now.situation()
        if key in seen:
            continue
        seen.add(key)
        if not left and not now.flying:
            now.check_all_delivered()
        yield now
        for place in range(len(now.flying)):
            other = now.copied()
            other.arrive(place)
            todo.append((other, left))
        for name in _senders(now) if left else ():
            for dests in _dests(now, name):
                for kind in range(max(now.groups.values(), default=ALONE) + 2):
                    other = now.copied()
                    other.send(name, dests, kind)
                    todo.append((other, left - 1))


def _senders(group: Group) -> tuple[str, ...]:
    return group.names if group.groups else group.names[:1]


def _dests(group: Group, name: str) -> list[str]:
    others = [other for other in group.names if other != name]
    if not group.groups:
        return ["".join(others[: count + 1]) for count in range(len(others))]
    chosen = range(1, 2 ** len(others))
    return ["".join(o for at, o in enumerate(others) if bits >> at & 1) for bits in chosen]


def main(arguments: list[str]) -> int:
    """Explore the given number of messages among three processes, and report the results."""
    sends, started, count = int(arguments[0]), time.process_time(), 0
    for situation in explored(Group("abc"), sends):
        count += 1
        if situation.broken:
            print(situation.broken, situation.events, situation.groups, situation.dests)
            return 1
        if count % 100_000 == 0:
            print(f"{count:,} situations, {time.process_time() - started:.0f} s", flush=True)
    spent = time.process_time() - started
    print(f"3 processes, {sends} messages: {count:,} situations, no failure ({spent:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
