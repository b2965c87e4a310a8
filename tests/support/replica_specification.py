"""Opt-Track and Opt-Track-CRP step by step, by names, on the steps of [KS98].

It may be slow. It is there to be read, and to test :class:`Replica` against: on the same input,
both send, apply, return and keep the same.
"""

from __future__ import annotations

from typing import NamedTuple

from antecede.protocols.specs.optimal import Entries, Log, has_newer, purge_null_entries, spelt

Id = tuple[str, int]


class Update(NamedTuple):
    """A write on its way to ``dest``; or, if ``dest`` does not keep the key, an answer."""

    source: str
    dest: str
    writer: str
    clock: int
    stamp: int
    key: str
    replicas: frozenset[str]
    log: Entries
    """L_w: what the write depends on."""


class Request(NamedTuple):
    """A fetch: the writes that ``dest`` must have applied before it answers."""

    source: str
    dest: str
    key: str
    needs: frozenset[Id]


class NoValue(NamedTuple):
    """The answer to a fetch of a key that no process has written."""

    source: str
    dest: str
    key: str


Packet = Update | Request | NoValue


class Site:
    """Site i. ``where`` says which sites keep each key."""

    def __init__(self, me: str, names: tuple[str, ...], where: dict[str, frozenset[str]]) -> None:
        self.i = me
        self.where = where
        self.clock = self.stamp = 0
        # Apply_i[z]: the clock of the last write of z that was applied here
        self.apply = dict.fromkeys(names, 0)
        # LOG_i
        self.log: Log = {(z, 0): frozenset() for z in names}
        # The value of x that is shown, with LastWriteOn_i[x]
        self.shown: dict[str, Update] = {}
        self.outbox: list[Packet] = []
        self.waiting: list[Packet] = []
        self.answers: list[tuple[str, Id | None]] = []

    def write(self, key: str) -> None:
        """w(x): send the value to the sites that keep x."""
        replicas = self.where[key]
        self.clock += 1
        self.stamp += 1
        copies = {}
        for j in sorted(replicas | {self.i}):
            # Each copy carries LOG_i, which names, of the sites that get the write, only j itself.
            log = {
                entry: (dests - replicas) | (dests & replicas & {j})
                for entry, dests in self.log.items()
            }
            carried = spelt(purge_null_entries(log))
            copies[j] = Update(self.i, j, self.i, self.clock, self.stamp, key, replicas, carried)
        self.outbox += [copy for j, copy in copies.items() if j != self.i]
        # The write replaces all before it at the sites that get it.
        self.log = {entry: dests - replicas for entry, dests in self.log.items()}
        self.log[self.i, self.clock] = replicas - {self.i}
        self.log = purge_null_entries(self.log)
        if self.i in replicas:
            self.show(copies[self.i])

    def show(self, update: Update) -> None:
        """Show a write unless the shown one has a greater stamp."""
        rank = (update.stamp, update.writer)
        if shown := self.shown.get(update.key):
            rank = max(rank, (shown.stamp, shown.writer))
        if rank == (update.stamp, update.writer):
            self.shown[update.key] = update

    def receive(self, packet: Packet) -> list[Id]:
        """Accept a packet once it is ready; return the writes applied, in order."""
        self.waiting.append(packet)
        applied = []
        while due := list(filter(self.is_ready, self.waiting)):
            # Requests go first: any order would be right, but replicas use this one.
            ready = min(due, key=lambda one: isinstance(one, Update))
            self.waiting.remove(ready)
            if isinstance(ready, Update) and self.i in ready.replicas:
                self.apply[ready.writer] = ready.clock
                self.show(ready)
                applied.append((ready.writer, ready.clock))
            elif isinstance(ready, Request):
                self.answer(ready)
            else:
                self.take(ready)
        return applied

    def is_ready(self, packet: Packet) -> bool:
        """Return whether all writes that a request asks for, or a log names for us, are applied."""
        if isinstance(packet, NoValue):
            return True
        if isinstance(packet, Request):
            return all(t <= self.apply[z] for z, t in packet.needs)
        return all(t <= self.apply[z] for z, t, dests in packet.log if self.i in dests)

    def read(self, key: str) -> Id | None:
        """r(x), of a key that is kept here."""
        update = self.shown.get(key)
        if update is None:
            return None
        self.learn(update, {self.i})
        return update.writer, update.clock

    def learn(self, update: Update, sites: set[str]) -> None:
        """Merge LastWriteOn[x] into LOG_i: the write, and its log, applied at these sites."""
        self.stamp = max(self.stamp, update.stamp)
        last: Log = {(z, t): frozenset(dests) - sites for z, t, dests in update.log}
        last[update.writer, update.clock] = update.replicas - sites - {update.writer}
        dead = {o for o in last if o not in self.log and has_newer(self.log, o)}
        gone = {entry for entry in self.log if entry not in last and has_newer(last, entry)}
        merged = {entry: dests for entry, dests in self.log.items() if entry not in gone}
        for entry in last.keys() - dead:
            merged[entry] = merged.get(entry, last[entry]) & last[entry]
        self.log = purge_null_entries(merged)

    def fetch(self, key: str, j: str) -> None:
        """r(x), of a key that is kept elsewhere: ask site j."""
        needs = frozenset(entry for entry, dests in self.log.items() if j in dests)
        self.outbox.append(Request(self.i, j, key, needs))

    def answer(self, request: Request) -> None:
        """Send the value, with LastWriteOn[x]."""
        found = self.shown.get(request.key)
        if found is None:
            self.outbox.append(NoValue(self.i, request.source, request.key))
            return
        # Copies of the write for i do not name the other sites that keep x, so this one does not.
        log = tuple((z, t, tuple(d for d in dests if d != self.i)) for z, t, dests in found.log)
        carried = spelt(purge_null_entries({(z, t): frozenset(d) for z, t, d in log}))
        self.outbox.append(found._replace(source=self.i, dest=request.source, log=carried))

    def take(self, packet: Update | NoValue) -> None:
        """Accept the answer to a fetch."""
        if isinstance(packet, NoValue):
            self.answers.append((packet.key, None))
            return
        self.learn(packet, {self.i, packet.source})
        self.answers.append((packet.key, (packet.writer, packet.clock)))


class FullSite(Site):
    """Site i if all sites keep all keys (CRP): a log is a set of writes."""

    def __init__(self, me: str, names: tuple[str, ...], where: dict[str, frozenset[str]]) -> None:
        super().__init__(me, names, where)
        self.log = {}

    def write(self, key: str) -> None:
        """w(x): send the value and LOG_i to all; the write replaces all before it."""
        self.clock += 1
        self.stamp += 1
        everyone = frozenset(self.apply)
        for j in sorted(everyone):
            copy = Update(self.i, j, self.i, self.clock, self.stamp, key, everyone, spelt(self.log))
            if j == self.i:
                self.show(copy)
            else:
                self.outbox.append(copy)
        self.log = {(self.i, self.clock): frozenset()}

    def is_ready(self, packet: Packet) -> bool:
        """Return whether every write in the log is applied here."""
        assert isinstance(packet, Update)
        return all(t <= self.apply[z] for z, t, _ in packet.log if z != self.i)

    def learn(self, update: Update, sites: set[str]) -> None:
        """Add the write to LOG_i, in place of the writes that it depends on."""
        self.stamp = max(self.stamp, update.stamp)
        known = dict(self.log.keys())
        if update.writer == self.i or known.get(update.writer, 0) >= update.clock:
            return
        for z, t, _ in (*update.log, (update.writer, update.clock, ())):
            if known.get(z, 0) <= t:
                known.pop(z, None)
        self.log = {entry: frozenset[str]() for entry in known.items()}
        self.log[update.writer, update.clock] = frozenset()
