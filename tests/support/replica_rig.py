"""A store in memory: replicas and their specification side by side, judged by the oracle.

``python -m tests.support.replica_rig 20000`` runs that many random scripts.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from random import Random
from typing import cast

from antecede import Codec, MessageId, Packet
from antecede.protocols.specs.optimal import Entries, spelt
from antecede.replicas import Outcome, Replica
from tests.support import replica_specification as spec
from tests.support.replica_oracle import CausalMemory, NotCausalError

Where = dict[str, tuple[str, ...]]
Step = tuple[str, ...]


@dataclass
class Flight:
    """A packet in flight, in the form of the replica and of the specification."""

    packet: Packet
    copy: spec.Packet | None
    number: int
    is_again: bool = False


class Rig:
    """A store whose every step the caller chooses; any error raises AssertionError."""

    def __init__(
        self,
        members: tuple[str, ...],
        where: Where,
        *,
        compared: bool = True,
    ) -> None:
        self.members = members
        self.where = where
        self.is_full = not where
        self.compared = compared
        """Whether replicas must behave like the specification; broken ones do not."""
        self.replicas = {name: Replica(name, members, where) for name in members}
        kept = {part: frozenset(names) for part, names in where.items()}
        kept |= {key: frozenset(members) for key in ("x", "y", "z") if self.is_full}
        self.keys = sorted(kept)
        kind = spec.FullSite if self.is_full else spec.Site
        self.sites = {name: kind(name, members, kept) for name in members}
        self.kept = kept
        self.oracle = CausalMemory(members)
        self.flying: list[Flight] = []
        self.arrived: dict[str, set[MessageId]] = {name: set() for name in members}
        self.fetching: dict[str, tuple[str, str]] = {}
        self.codec = Codec(self.replicas[members[0]].view)
        self.posted = 0
        self.counts = dict.fromkeys(members, 0)
        self.steps: list[Step] = []

    # Steps.

    def write(self, process: str, key: str) -> None:
        self.steps.append(("write", process, key))
        self.counts[process] += 1
        write = MessageId(process, self.counts[process])
        self.oracle.write(process, write, key, self.kept[key])
        outcome = self.replicas[process].write(key, str(write).encode())
        self.sites[process].write(key)
        self._follow(process, outcome, [write] if process in self.kept[key] else [])

    def read(self, process: str, key: str) -> None:
        self.steps.append(("read", process, key))
        found = _write_of(self.replicas[process].read(key))
        self.oracle.read(process, key, found, process)
        expected = self.sites[process].read(key)
        assert not self.compared or found == expected
        self._follow(process, Outcome(), [])

    def fetch(self, process: str, key: str, source: str) -> None:
        self.steps.append(("fetch", process, key, source))
        self.fetching[process] = key, source
        outcome = self.replicas[process].fetch(key, source)
        self.sites[process].fetch(key, source)
        self._follow(process, outcome, [])

    def arrive(self, index: int, *, keep: bool = False) -> None:
        flight = self.flying[index]
        self.steps.append(("arrive", str(flight.number), "again" if keep else ""))
        if not keep:
            del self.flying[index]
        packet, process = flight.packet, flight.packet.dest
        outcome = self.replicas[process].receive(packet)
        if flight.is_again:
            assert outcome == Outcome()
            return
        flight.is_again = True
        if packet.message and process in packet.dests:
            self.arrived[process].add(packet.message)
        applied: list[MessageId] = []
        if flight.copy is not None:
            applied = [MessageId(*write) for write in self.sites[process].receive(flight.copy)]
        self._follow(process, outcome, applied)

    def _follow(self, process: str, outcome: Outcome, applied: list[MessageId]) -> None:
        for write in outcome.applied:
            assert write.value == str(write.message).encode()
            assert write.key == self.oracle.keys[write.message]
            self.oracle.apply(process, write.message)
        answers, self.sites[process].answers = self.sites[process].answers, []
        if outcome.answer is not None:
            key, source = self.fetching.pop(process)
            found = _write_of(outcome.answer.value)
            assert outcome.answer.key == key
            self.oracle.read(process, key, found, source)
            answers = answers[1:] if (key, found) in answers else [(key, found)]
        copies, self.sites[process].outbox = self.sites[process].outbox, []
        if self.compared:
            assert not answers
            assert [write.message for write in outcome.applied] == applied
            self._compare(process)
        for place, packet in enumerate(outcome.packets):
            data = self.codec.encode(packet)
            again = self.codec.decode(data)
            assert again == packet
            assert self.codec.encode(again) == data
            copy = copies.pop(0) if self.compared else None
            if copy is not None:
                _compare_packets(packet, copy)
            self.flying.append(Flight(again, copy, self.posted + place))
        assert not (self.compared and copies)
        self.posted += len(outcome.packets)

    def _compare(self, process: str) -> None:
        """Check that a process keeps what it should, and holds nothing without a reason."""
        site, replica = self.sites[process], self.replicas[process]
        assert _entries(replica.kept()) == spelt(site.log)
        kept, due = replica.dependencies(), self.oracle.required(process)
        if self.is_full:  # a write replaces those that it depends on
            stood = set(kept).union(*(self.oracle.pasts[write].writes for write in kept))
            assert due.keys() <= stood
        else:
            assert kept == due, f"{process} keeps {kept}, required is {due}"
        for write in self.arrived[process] - self.oracle.applied[process]:
            assert self.oracle.missing(process, write), f"{process} holds {write} for nothing"

    def drain(self) -> None:
        """Let everything arrive; all writes must be applied, and all replicas agree."""
        while self.flying:
            self.arrive(0)
        assert not self.oracle.unapplied()
        assert not any(replica.held for replica in self.replicas.values())
        for key, names in self.kept.items():
            assert len({self.replicas[name].read(key) for name in names}) == 1


def _compare_packets(packet: Packet, copy: spec.Packet) -> None:
    assert (packet.source, packet.dest) == (copy.source, copy.dest)
    if isinstance(copy, spec.Update):
        assert _entries(packet.control) == copy.log
    elif isinstance(copy, spec.Request):
        assert packet.control == (copy.key, tuple(sorted(copy.needs)))


def _write_of(value: bytes | None) -> MessageId | None:
    if value is None:
        return None
    sender, _, seq = value.decode().partition(":")
    return MessageId(sender, int(seq))


def _entries(control: object) -> Entries:
    """Return a log in the specification's form; a log of CRP has no destinations."""
    entries = cast("tuple[tuple[str, int, tuple[str, ...]], ...]", control)
    return tuple((entry[0], entry[1], entry[2] if len(entry) > 2 else ()) for entry in entries)


def random_where(rng: Random, members: tuple[str, ...]) -> Where:
    """Return a few parts, each kept by some of the processes."""
    names = ["x", "y", "z", "u"][: rng.randint(2, 4)]
    return {
        name: tuple(sorted(rng.sample(members, rng.randint(1, len(members))))) for name in names
    }


def random_run(seed: int, *, full: bool = False, compared: bool = True) -> Rig:
    """Run a random script to its end."""
    rng = Random(seed)
    members = tuple("abcde"[: rng.randint(2, 5)])
    rig = Rig(members, {} if full else random_where(rng, members), compared=compared)
    newest = rng.random() < 0.4
    share = rng.choice((0.2, 0.35, 0.5))
    for _ in range(50):
        process, key = rng.choice(members), rng.choice(rig.keys)
        draw = rng.random()
        if rig.flying and draw > share:
            last = len(rig.flying) - 1
            index = last if newest and rng.random() < 0.7 else rng.randint(0, last)
            rig.arrive(index, keep=rng.random() < 0.15)
        elif process in rig.fetching:
            continue
        elif draw < share / 2:
            rig.write(process, key)
        elif process in rig.kept[key]:
            rig.read(process, key)
        else:
            rig.fetch(process, key, rng.choice(sorted(rig.kept[key])))
    rig.drain()
    return rig


def main(count: int) -> None:
    """Run random scripts, and explore."""
    for full in (False, True):
        for seed in range(count // 2):
            try:
                random_run(seed, full=full)
            except (AssertionError, NotCausalError) as error:
                sys.exit(f"seed {seed}, full={full}: {error}")
    print(count, "random scripts, no failure")


if __name__ == "__main__":
    main(int(sys.argv[1]))
