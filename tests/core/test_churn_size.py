"""Joins and leaves without end: what is kept depends on the members that are there."""

from __future__ import annotations

from random import Random

import antecede
from antecede import Codec, Endpoint, Packet

LIVE = ("a", "b", "c")


class Group:
    """Three members that stay, those that come and go, and the packets under way."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.ends: dict[str, Endpoint] = {}
        self.codec = Codec(LIVE)
        self.flying: list[bytes] = []
        for name in LIVE:
            self.ends[name] = antecede.endpoint("optimal", process=name, members=LIVE)

    def send(self, source: str, dests: list[str]) -> None:
        for packet in self.ends[source].send(dests, b"").packets:
            self.flying.append(self.codec.encode(packet))

    def arrive(self) -> None:
        packet = self.codec.decode(self.flying.pop(self.rng.randrange(len(self.flying))))
        if packet.dest in self.ends and packet.source in self.ends[packet.dest].members:
            self.ends[packet.dest].receive(packet)

    def talk(self) -> None:
        """Let everyone send to everyone else, and let all of it arrive."""
        for source in sorted(self.ends):
            self.send(source, sorted(self.ends.keys() - {source}))
        while self.flying:
            self.arrive()

    def come_and_go(self, name: str) -> None:
        self.codec.add(name)
        for end in self.ends.values():
            end.add(name)
        a = self.ends["a"]
        self.ends[name] = antecede.endpoint(
            "optimal", process=name, members=a.members, removed=a.departed
        )
        for _ in range(8):
            source, *dests = self.rng.sample(sorted(self.ends), self.rng.randint(2, 4))
            self.send(source, dests)
            if self.rng.random() < 0.6:
                self.arrive()
        del self.ends[name]
        for end in self.ends.values():
            end.remove(name)

    def clean(self) -> None:
        """Drop from the Codec whom everyone has forgotten."""
        known = {name for end in self.ends.values() for name in (*end.members, *end.departed)}
        for name in self.codec.members:
            if name not in known:
                self.codec.remove(name)

    def sizes(self) -> list[tuple[int, int, int]]:
        result = []
        for name in LIVE:
            packet: Packet = self.ends[name].send(sorted(set(LIVE) - {name})).packets[0]
            snapshot = Codec(LIVE).snapshot(self.ends[name])
            data = Codec(LIVE).encode(packet)
            result.append((antecede.size(packet).entries, len(data), len(snapshot)))
        return result


def settled(joins: int) -> Group:
    group = Group(seed=joins)
    for number in range(joins):
        group.come_and_go(f"x{number}")
        if number % 5 == 4:
            group.talk()
            group.clean()
    for _ in range(4):
        group.talk()
    return group


def test_after_500_joins_and_leaves_all_is_as_small_as_in_a_fresh_group() -> None:
    old, fresh = settled(500), settled(0)
    for _ in range(120):  # counters as large, so that integers take as many bytes
        fresh.talk()
    assert [end.departed for end in old.ends.values()] == [()] * 3
    for one, other in zip(old.sizes(), fresh.sizes(), strict=True):
        assert one[0] == other[0] == 3
        assert one[1] <= other[1] + 3
        assert one[2] <= other[2] + 40


def test_while_packets_are_missing_nobody_is_forgotten() -> None:
    group = Group(seed=1)
    group.send("b", ["a", "c"])
    missing = [data for data in group.flying if group.codec.decode(data).dest == "a"]
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
