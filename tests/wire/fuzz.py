"""Feeds damaged bytes to the Codec: ``python -m tests.wire.fuzz --seconds 600``.

Packets and snapshots of every protocol are the seeds. Packets are flipped, cut, spliced and
stuffed; snapshots likewise, or a value within them is replaced. The rules: ``decode`` returns a
packet that encodes to the same bytes, or raises PeerError; ``restore`` returns an endpoint that
works, or raises PeerError; an endpoint takes a decoded packet or refuses it by an error of ours and
stays as it was; nothing takes long.
"""

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import antecede
from antecede import Codec, Packet, PeerError
from antecede.errors import AntecedeError
from tests.support import campaigns
from tests.support.wire_runs import Run, names, variants

SECONDS_MAX = 20.0
"""How long one call may take; the seeds are a few kilobytes at most."""
EDGES = (0x00, 0x01, 0x7F, 0x80, 0xBF, 0xC0, 0xDF, 0xE0, 0xE8, 0xEF, 0xF1, 0xF3, 0xF5, 0xFF)


@dataclass
class Seeds:
    """The packets and snapshots of one protocol's run."""

    run: Run
    codec: Codec
    packets: list[bytes]
    snapshots: list[bytes]


@dataclass
class Campaign:
    """A seeded series of damaged inputs; ``findings`` are the rules broken."""

    seed: int
    protocols: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.seeds = [
            seeds_of(protocol, options, count, self.seed)
            for protocol, options in variants()
            if protocol in (self.protocols or antecede.PROTOCOLS)
            for count in (3, 9)
        ]

    def step(self) -> None:
        """Damage one seed and check the outcome."""
        seeds = self.chance.choice(self.seeds)
        if self.chance.random() < 0.75:
            data = damaged(self.chance, self.chance.choice(seeds.packets), seeds.packets)
            self.guard("decode", data, lambda: self.decode(seeds, data))
        else:
            whole = self.chance.choice(seeds.snapshots)
            if self.chance.random() < 0.2:
                data = damaged(self.chance, whole, seeds.packets)
            else:
                data = altered(self.chance, whole)
            self.guard("restore", data, lambda: self.restore(seeds, data))

    def decode(self, seeds: Seeds, data: bytes) -> None:
        codec = seeds.codec
        packet = codec.decode(data)
        assert type(packet) is Packet
        again = Codec(packet.view).encode(packet)
        assert again == data, "accepted bytes are not canonical"
        self.counts["packets accepted"] += 1
        endpoint = seeds.run.endpoints[packet.dest]
        before = codec.snapshot(endpoint)
        fresh = codec.restore(before, resumed=True)
        try:
            fresh.receive(packet)
            self.counts["packets received"] += 1
        except AntecedeError:
            self.counts["packets refused by the endpoint"] += 1
            assert codec.snapshot(fresh) == before, "a refused packet changed the endpoint"
        else:
            codec.restore(codec.snapshot(fresh), resumed=True)

    def restore(self, seeds: Seeds, data: bytes) -> None:
        codec = seeds.codec
        endpoint = codec.restore(data, resumed=True)
        assert isinstance(endpoint, antecede.Endpoint)
        self.counts["snapshots accepted"] += 1
        codec.restore(codec.snapshot(endpoint), resumed=True)
        endpoint.waiting()
        for packet in self.chance.sample(seeds.run.packets, 3):
            if packet.dest == endpoint.process:
                try:
                    endpoint.receive(packet)
                except AntecedeError:
                    self.counts["packets refused after a restore"] += 1

    def guard(self, what: str, data: bytes, call: Callable[[], None]) -> None:
        self.counts[what] += 1
        start = time.process_time()
        try:
            call()
        except PeerError as error:
            self.counts[f"{what}: PeerError"] += 1
            if "\n" in str(error):
                self.findings.append(f"{what} of {data.hex()}: the error has several lines")
        except Exception as error:  # noqa: BLE001 - any other exception is what we look for
            self.findings.append(f"{what} of {data.hex()}: {type(error).__name__}: {error}")
        if time.process_time() - start > SECONDS_MAX:
            self.findings.append(f"{what} of {data.hex()} took more than {SECONDS_MAX} s")


def seeds_of(protocol: str, options: dict[str, object], count: int, seed: int) -> Seeds:
    run = Run(protocol, names(count), seed, options).go(80)
    codec = Codec(run.endpoints[names(count)[0]])
    return Seeds(
        run,
        codec,
        [codec.encode(packet) for packet in run.packets[-40:]],
        [codec.snapshot(endpoint) for endpoint in run.endpoints.values()],
    )


def altered(chance: random.Random, data: bytes) -> bytes:
    """Return a snapshot with one value replaced."""
    record = json.loads(data)
    places: list[tuple[Any, Any]] = []
    rest = [record]
    while rest:
        value = rest.pop()
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in list(inside):
            places.append((value, key))
            if isinstance(part, (dict, list)):
                rest.append(part)
    for _ in range(chance.randint(1, 2)):
        owner, key = chance.choice(places)
        try:
            old = owner[key]
        except (IndexError, KeyError):
            continue
        number = old if type(old) is int else 1
        owner[key] = chance.choice(
            [None, 0, 1, -1, number + 1, number - 1, 1 << 48, 1 << 70, "", "x", "ff", [], {}, [old],
             True, 1.5, chance.choice(places)[1]]
        )  # fmt: skip
        if isinstance(owner, list) and chance.random() < 0.3:
            del owner[key]
    return json.dumps(record, separators=(",", ":")).encode()


def damaged(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Return ``data`` after one to four changes."""
    result = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(result) + 1)
        match chance.randrange(8):
            case 0:
                result[place : place + 1] = bytes((chance.choice(EDGES),))
            case 1:
                del result[place:]
            case 2:
                del result[place : place + chance.randint(1, 4)]
            case 3:
                result[place:place] = chance.randbytes(chance.randint(1, 4))
            case 4:
                other = chance.choice(others)
                result[place:] = other[chance.randrange(len(other)) :]
            case 5:
                result[place:place] = b"\xff" * chance.randint(1, 12) + b"\x01"
            case 6:
                result[place:place] = result[: chance.randint(1, 20)] * chance.randint(1, 20)
            case _:
                if place < len(result):
                    result[place] ^= 1 << chance.randrange(8)
    return bytes(result)


def main() -> int:
    parser = argparse.ArgumentParser(description="Feed damaged bytes to the Codec.")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--protocol", action="append", default=[])
    chosen = parser.parse_args()
    protocols = tuple(chosen.protocol)
    findings = campaigns.run(
        lambda seed: Campaign(seed, protocols), chosen.seconds, chosen.seed, steps=20_000
    )
    return campaigns.conclude(findings)


if __name__ == "__main__":
    raise SystemExit(main())
