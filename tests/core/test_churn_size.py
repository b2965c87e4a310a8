"""Joins and leaves without end: what is kept depends on the members that are there."""

from __future__ import annotations

import sys
from random import Random
from typing import NamedTuple, cast

import pytest

import antecede
from antecede import Codec, Effects, Endpoint, Packet
from antecede.core.registry import restore
from antecede.core.state import State

LIVE = ("a", "b", "c")
DYNAMIC = [name for name, info in antecede.PROTOCOLS.items() if info.dynamic]


class Sizes(NamedTuple):
    """What a member's next packets carry and take, and what its snapshot takes."""

    entries: list[int]
    packet_bytes: list[int]
    snapshot_bytes: int


def graft(fresh: object, old: object) -> object:
    """Return the state of a fresh group with the counters of an old one; all else must agree."""
    if isinstance(fresh, dict):
        assert isinstance(old, dict)
        assert len(fresh) == len(old), (fresh, old)
        clocks = iter([key for key in old if isinstance(key, int)])
        pairs = [(next(clocks) if isinstance(key, int) else key, key) for key in fresh]
        return {theirs: graft(fresh[mine], old[theirs]) for theirs, mine in pairs}
    if isinstance(fresh, (tuple, list)):
        assert isinstance(old, (tuple, list))
        assert len(fresh) == len(old), (fresh, old)
        return type(fresh)(map(graft, fresh, old))
    if isinstance(fresh, int) and not isinstance(fresh, bool):
        assert isinstance(old, int)
        return old
    assert fresh == old
    return fresh


class Group:
    """Three members that stay, those that come and go, and the packets under way."""

    def __init__(self, seed: int, protocol: str = "optimal", coded: float = 1.0) -> None:
        self.protocol = protocol
        self.casts = antecede.PROTOCOLS[protocol].casts
        self.rng = Random(seed)
        self.coded = coded
        self.ends: dict[str, Endpoint] = {}
        self.codec = Codec(LIVE)
        self.flying: list[bytes | Packet] = []
        for name in LIVE:
            self.ends[name] = antecede.endpoint(protocol, process=name, members=LIVE)

    def send(self, source: str, dests: list[str]) -> None:
        """Send in the way that the protocol offers."""
        if "unicast" not in self.casts:
            dests = sorted(self.ends.keys() - {source})
        for some in [dests] if "broadcast" in self.casts else [[dest] for dest in dests]:
            self.take(self.ends[source].send(some, b""))

    def take(self, effects: Effects) -> None:
        """Put packets under way, some of them as bytes."""
        for packet in effects.packets:
            coded = self.rng.random() < self.coded
            self.flying.append(self.codec.encode(packet) if coded else packet)

    def arrive(self) -> None:
        found = self.flying.pop(self.rng.randrange(len(self.flying)))
        packet = found if isinstance(found, Packet) else self.codec.decode(found)
        if packet.dest in self.ends and packet.source in self.ends[packet.dest].members:
            self.take(self.ends[packet.dest].receive(packet))

    def talk(self) -> None:
        """Let everyone send to everyone else, and let all of it arrive."""
        for source in sorted(self.ends):
            self.send(source, sorted(self.ends.keys() - {source}))
        while self.flying:
            self.arrive()

    def come_and_go(self, name: str) -> None:
        self.codec.add(name)
        for end in self.ends.values():
            self.take(end.add(name))
        a = self.ends["a"]
        self.ends[name] = antecede.endpoint(
            self.protocol, process=name, members=a.members, removed=a.departed
        )
        self.work()
        del self.ends[name]
        for end in self.ends.values():
            self.take(end.remove(name))

    def work(self) -> None:
        for _ in range(8):
            source, *dests = self.rng.sample(sorted(self.ends), self.rng.randint(2, len(self.ends)))
            self.send(source, dests)
            if self.flying and self.rng.random() < 0.6:
                self.arrive()

    def clean(self) -> None:
        """Drop from the Codec whom everyone has forgotten."""
        known = {name for end in self.ends.values() for name in (*end.members, *end.departed)}
        for name in self.codec.members:
            if name not in known:
                self.codec.remove(name)


def sizes(end: Endpoint) -> Sizes:
    """Return what an endpoint takes, and the packets of its next send."""
    snapshot = Codec(LIVE).snapshot(end)
    dests = [name for name in LIVE if name != end.process]
    packets = end.send(dests if "broadcast" in end.INFO.casts else dests[:1]).packets
    entries = [antecede.size(packet).entries for packet in packets]
    return Sizes(entries, [len(Codec(LIVE).encode(packet)) for packet in packets], len(snapshot))


def settled(protocol: str, rounds: int, *, joins: bool) -> Group:
    """Return a group after many rounds of work, each with someone who comes and goes or without."""
    group = Group(rounds, protocol, coded=0.2)
    for number in range(rounds):
        if joins:
            group.come_and_go(f"x{number}")
        else:
            group.work()
        if number % 5 == 4:
            group.talk()
            group.clean()
    for _ in range(4):
        group.talk()
    return group


@pytest.mark.parametrize("protocol", DYNAMIC)
def test_after_many_joins_and_leaves_all_is_as_small_as_in_a_fresh_group(protocol: str) -> None:
    """Ten thousand rounds are in ``make soak``."""
    check_sizes(protocol, rounds=500)


def check_sizes(protocol: str, rounds: int) -> None:
    """Compare a group after many joins and leaves with one that has the same counters.

    A counter takes more bytes the more has happened, in any group. So the other group is one that
    nobody joined, with the counters of the first: then all takes the same number of bytes.
    """
    old, fresh = settled(protocol, rounds, joins=True), settled(protocol, 5, joins=False)
    assert [end.departed for end in old.ends.values()] == [()] * 3
    for name in LIVE:
        end = old.ends[name]
        state = cast("State", graft(fresh.ends[name].state(), end.state()))
        assert sizes(end) == sizes(restore(state))


def test_while_packets_are_missing_nobody_is_forgotten() -> None:
    group = Group(seed=1)
    group.send("b", ["a", "c"])
    missing: list[bytes | Packet] = [
        data
        for data in group.flying
        if isinstance(data, bytes) and group.codec.decode(data).dest == "a"
    ]
    group.flying = [data for data in group.flying if data not in missing]
    group.come_and_go("x")
    for _ in range(5):
        group.talk()
    assert group.ends["a"].departed == ("x",)
    group.flying = missing
    for _ in range(3):
        group.talk()
    assert [end.departed for end in group.ends.values()] == [()] * 3


def test_a_removed_process_is_forgotten_although_a_restart_lost_what_said_so() -> None:
    names = (*LIVE, "x")
    ends = {name: antecede.endpoint("optimal", process=name, members=names) for name in LIVE}

    def talk(lost: tuple[str, str] | None = None) -> None:
        for source in LIVE:
            others = [name for name in LIVE if name != source]
            for packet in ends[source].send(others, b"").packets:
                if (packet.source, packet.dest) != lost:
                    ends[packet.dest].receive(packet)

    talk()
    for end in ends.values():
        end.remove("x")
    talk()
    for _ in range(3):
        talk(lost=("a", "c"))
    assert [end.departed for end in ends.values()] == [(), (), ("x",)]
    codec = Codec(LIVE)
    ends["a"] = codec.restore(codec.snapshot(ends["a"]))
    for _ in range(3):
        talk()
    assert [end.departed for end in ends.values()] == [()] * 3


if __name__ == "__main__":  # python -m tests.core.test_churn_size 10000 (make soak)
    for each in sys.argv[2:] or DYNAMIC:
        check_sizes(each, int(sys.argv[1]))
        print(f"{each}: as small after {sys.argv[1]} joins and leaves as a fresh group", flush=True)
