"""Random schedules of the whole protocol against the real reader, gate and contexts.

Each run has logs with gaps (compaction, control records), transactions that stay open, commit or
abort, groups of two instances with different subscriptions and isolation that also produce,
commits that are lost, rebalances and crashes. An oracle that knows no offset judges each start: it
only knows which names were written after which. At the end all possible steps are taken; a visible
record that is left over is a deadlock. Each variant switches one rule off.

``python -m tests.logs.model --runs 20000`` is the campaign; ``make explore`` runs it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from antecede.logs.gate import Gate
from antecede.logs.positions import Context, Log, Positions
from antecede.logs.reader import Order, Reader, Record

TOPICS = ("a", "b", "c")
PARTITIONS = 2
GROUPS = {"g1": "abc", "g2": "ab", "g3": "ac", "g4": "bc"}
#: Groups that see records of open and of aborted transactions.
UNCOMMITTED = {"g4"}
Place = tuple[str, int]


@dataclass(frozen=True)
class Rules:
    """The rules that hold."""

    gate: bool = True
    W: bool = True
    T: bool = True
    P: bool = True
    G: bool = True
    C: bool = True
    S: bool = True


@dataclass(slots=True)
class Entry:
    """A record in a log; ``state`` is open, committed, aborted or gone."""

    offset: int
    name: int
    header: bytes
    state: str = "committed"


class WithoutG(Gate):
    """A gate that knows only the last processed record."""

    def reached(self, log: Log, offset: int) -> None:
        pass

    def offer(
        self, log: Log, offset: int, needs: Mapping[Log, int], now: float, key: object = None
    ) -> dict[Log, int] | None:
        before, dirty = self.progress.get(log), set(self._dirty)
        found = super().offer(log, offset, needs, now, key)
        if before is None:
            self.progress.pop(log, None)
        else:
            self.progress[log] = before
        self._dirty = dirty
        return found


@dataclass
class Instance:
    """One instance of a group: its reader, where it fetches, and what it handles."""

    reader: Reader[Record]
    at: dict[Place, int] = field(default_factory=dict)
    #: Records of each log that are queued or being handled; a slow log is fetched no further.
    pending: dict[Place, int] = field(default_factory=dict)
    ended: dict[Place, int] = field(default_factory=dict)
    running: list[Record] = field(default_factory=list)


class World:
    """Logs, groups, and the history of the run."""

    def __init__(self, seed: int, rules: Rules) -> None:
        self.random = random.Random(seed)
        self.rules = rules
        places = [(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
        self.logs: dict[Place, list[Entry]] = {place: [] for place in places}
        self.end = dict.fromkeys(places, 0)
        self.past: list[int] = []  # per name, a bit for each name that it follows
        self.of_topic = dict.fromkeys(TOPICS, 0)
        self.void = 0  # names that nobody has to process: compacted
        self.aborted = 0
        self.late: list[tuple[Place, Entry]] = []  # writes on their way, without rule W
        self.transactions: list[list[tuple[Place, Entry]]] = []
        self.published: dict[str, dict[Place, int]] = {group: {} for group in GROUPS}
        self.complete = dict.fromkeys(GROUPS, 0)
        self.violations = 0
        self.members = {group: [self.instance(group) for _ in range(2)] for group in GROUPS}
        for group in GROUPS:
            self.rebalance(group)

    def instance(self, group: str) -> Instance:
        order: Order = "enforce" if self.rules.gate else "shadow"
        topics = list(GROUPS[group])
        kind = Gate if self.rules.G else WithoutG
        reader: Reader[Record] = Reader(kind(topics, shadow=not self.rules.gate), order)
        return Instance(reader)

    # Writing.

    def append(self, place: Place, entry: Entry) -> int:
        self.end[place] += self.random.choice((0, 0, 0, 1))  # a control record
        entry.offset = self.end[place]
        self.logs[place].append(entry)
        self.end[place] += 1
        return entry.offset

    def send(self, context: Context, past: int, count: int) -> None:
        """Write records one after the other, perhaps in a transaction."""
        is_open = count > 0 and self.random.random() < 0.3
        opened: list[tuple[Place, Entry]] = []
        for _ in range(count):
            place = self.random.choice(list(self.logs))
            log = Log(*place)
            name = len(self.past)
            self.past.append(past)
            past |= 1 << name
            self.of_topic[place[0]] |= 1 << name
            if self.rules.W:
                entry = Entry(0, name, context.begin(log), "open" if is_open else "committed")
                context.report(log, self.append(place, entry), 0.0)
                context.take_reports()
            else:
                header = Positions({k: v for k, v in context.seen.items() if k != log}).encode()
                entry = Entry(0, name, header)
                self.late.append((place, entry))
            opened.append((place, entry))
        if is_open and self.rules.W:
            self.transactions.append(opened)

    def end_transaction(self) -> None:
        """Commit or abort one; its marker takes an offset in each log that it wrote to."""
        opened = self.transactions.pop(self.random.randrange(len(self.transactions)))
        state = self.random.choice(("committed", "committed", "aborted"))
        for _, entry in opened:
            entry.state = state
            if state == "aborted":
                self.aborted |= 1 << entry.name
        for place in sorted({place for place, _ in opened}):
            self.end[place] += 1

    def compact(self) -> None:
        place = self.random.choice(list(self.logs))
        old = [entry for entry in self.logs[place][:-1] if entry.state == "committed"]
        if len(old) > 1:
            entry = self.random.choice(old)
            entry.state = "gone"
            self.void |= 1 << entry.name

    # Reading.

    def visible(self, group: str, place: Place, start: int) -> tuple[Entry | None, int]:
        """Return the next record that a group can see, and the end of what it can see."""
        stable = self.end[place]
        if group not in UNCOMMITTED:
            open_ones = [e.offset for e in self.logs[place] if e.state == "open"]
            stable = min([stable, *open_ones])
        for entry in self.logs[place]:
            if entry.offset >= stable:
                break
            if entry.offset < start or entry.state == "gone":
                continue
            if group in UNCOMMITTED or entry.state == "committed":
                return entry, stable
        return None, stable

    def rebalance(self, group: str) -> None:
        places = [place for place in self.logs if place[0] in GROUPS[group]]
        self.random.shuffle(places)
        for one in self.members[group]:
            if self.random.random() < 0.5:
                self.commit(group, one)
            for place in list(one.at):
                one.reader.revoke(*place)
            one.at.clear()
            one.pending.clear()
            one.ended.clear()
        for number, place in enumerate(places):
            one = self.members[group][number % 2]
            published = self.published[group].get(place)
            one.at[place] = published or 0
            one.pending[place] = 0
            one.reader.assign(*place, published)

    def crash(self, group: str) -> None:
        self.members[group][self.random.randrange(2)] = self.instance(group)
        self.rebalance(group)

    def commit(self, group: str, one: Instance, *, is_sure: bool = False) -> bool:
        one.reader.settle()
        gate = one.reader.gate
        if not self.rules.C and (gate.heads or one.running):
            return False  # only at the end of a batch
        found = gate.publish()
        if found and not is_sure and self.random.random() < 0.1:
            gate.not_published(found)  # the broker refused it
            return False
        changed = False
        for log, offset in found.items():
            place = (log.topic, log.partition)
            if self.published[group].get(place, -1) < offset:
                self.published[group][place] = offset
                changed = True
        return changed

    def fetch(self, group: str, one: Instance, place: Place) -> bool:
        reader = one.reader
        if not self.rules.S and reader.gate.heads:
            return False
        if one.pending[place] > 2:
            return False
        entry, stable = self.visible(group, place, one.at[place])
        if entry is None:
            if one.ended.get(place, -1) >= stable:
                return False
            one.ended[place] = stable
            one.at[place] = max(one.at[place], stable)
            reader.put(place, stable)
            return True
        record = Record(Log(*place), entry.offset, entry, entry.header, None, reader.finish)
        one.at[place] = entry.offset + 1
        one.pending[place] += 1
        reader.put(place, record)
        if not self.rules.P:  # commits what it fetched
            reader.gate.reached(record.log, entry.offset + 1)
        return True

    def start(self, group: str, one: Instance) -> bool:
        record = one.reader.take(0.0) or self.look_up(group, one)
        if record is None:
            return False
        one.running.append(record)
        self.judge(group, record.raw)
        return True

    def look_up(self, group: str, one: Instance) -> Record | None:
        """Look up the progress of the others; return a record that waited for it."""
        gate, published = one.reader.gate, self.published[group]
        gate.learn({log: published.get((log.topic, log.partition)) for log in gate.ask()})
        return one.reader.take(0.0)

    def judge(self, group: str, entry: Entry) -> None:
        """Count a start before a cause that the group reads, and can see, is complete."""
        reads = 0
        for topic in GROUPS[group]:
            reads |= self.of_topic[topic]
        void = self.void | (0 if group in UNCOMMITTED else self.aborted)
        if self.past[entry.name] & reads & ~void & ~self.complete[group]:
            self.violations += 1

    def finish(self, group: str, one: Instance, *, writes: bool) -> bool:
        """Let a handler end: it writes, and sometimes fails."""
        record = one.running.pop(self.random.randrange(len(one.running)))
        entry: Entry = record.raw
        fails = writes and self.random.random() < 0.05
        context = Context()
        context.read(record.log, record.offset, record.needs if self.rules.T else {})
        if writes:
            past = self.past[entry.name] | 1 << entry.name
            self.send(context, past, self.random.choice((0, 1, 1, 2)))
        if not fails:
            self.complete[group] |= 1 << entry.name
            place = (record.log.topic, record.log.partition)
            if place in one.pending:
                one.pending[place] = max(0, one.pending[place] - 1)
        one.reader.finish(record, not fails)
        return True

    # Time.

    def step(self) -> None:
        """Take one random step."""
        random_ = self.random
        group = random_.choice(list(GROUPS))
        one = random_.choice(self.members[group])
        what = random_.random()
        if what < 0.05:
            self.send(Context(), 0, random_.choice((1, 2, 3)))
        elif what < 0.35 and one.at:
            self.fetch(group, one, random_.choice(list(one.at)))
        elif what < 0.55:
            self.start(group, one)
        elif what < 0.75 and one.running:
            self.finish(group, one, writes=True)
        elif what < 0.87:
            self.commit(group, one)
        elif what < 0.90:
            self.compact()
        elif what < 0.93 and self.transactions:
            self.end_transaction()
        elif what < 0.94:
            self.rebalance(group)
        elif what < 0.945:
            self.crash(group)
        elif self.late:
            place, entry = self.late.pop(random_.randrange(len(self.late)))
            self.append(place, entry)

    def run(self, steps: int) -> tuple[int, int, int]:
        """Return violations, records left over, and records written."""
        for _ in range(steps):
            self.step()
        while self.late:
            self.append(*self.late.pop())
        while self.transactions:
            self.end_transaction()
        changed = True
        while changed:
            changed = False
            for group in GROUPS:
                for one in self.members[group]:
                    for place in list(one.at):
                        changed |= self.fetch(group, one, place)
                    while self.start(group, one):
                        changed = True
                    while one.running:
                        changed |= self.finish(group, one, writes=False)
                    changed |= self.commit(group, one, is_sure=True)
        return self.violations, self.left_over(), len(self.past)

    def left_over(self) -> int:
        """Return how many records some group can see and has not processed."""
        return sum(
            1
            for group, topics in GROUPS.items()
            for place, entries in self.logs.items()
            for entry in entries
            if place[0] in topics
            and (entry.state == "committed" or (group in UNCOMMITTED and entry.state == "aborted"))
            and not self.complete[group] >> entry.name & 1
        )


VARIANTS = {
    "all rules": Rules(),
    "without the gate": Rules(gate=False),
    "without W: writes to other logs are pipelined": Rules(W=False),
    "without T: direct causes only": Rules(T=False),
    "without P: commits what it fetched": Rules(P=False),
    "without G: progress is the last processed record": Rules(G=False),
    "without C: commits at the end of a batch": Rules(C=False),
    "without S: a waiting record stops its instance": Rules(S=False),
}


def campaign(rules: Rules, runs: range, steps: int = 400) -> dict[str, int]:
    """Run schedules; return how many were unsafe and deadlocked, and the first seed of each."""
    found = {"runs": len(runs), "records": 0, "violations": 0, "unsafe": 0, "stuck": 0}
    found |= {"first_unsafe": -1, "first_stuck": -1}
    for seed in runs:
        violations, left, records = World(seed, rules).run(steps)
        found["records"] += records
        found["violations"] += violations
        for name, is_so in (("unsafe", violations > 0), ("stuck", left > 0)):
            found[name] += is_so
            if is_so and found[f"first_{name}"] < 0:
                found[f"first_{name}"] = seed
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20_000, help="schedules with all rules")
    parser.add_argument("--broken", type=int, default=300, help="schedules without each rule")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    asked = parser.parse_args()
    good = True
    for name, rules in VARIANTS.items():
        is_whole = rules == Rules()
        begin, count = time.monotonic(), asked.runs if is_whole else asked.broken
        found = campaign(rules, range(asked.seed, asked.seed + count))
        bad = found["unsafe"] + found["stuck"]
        good &= not bad if is_whole else bad > 0
        print(f"{name}: {found}, {time.monotonic() - begin:.0f} s", flush=True)
    print("as proved" if good else "NOT as proved")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
