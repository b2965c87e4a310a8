"""Very many messages through every protocol: what an endpoint keeps must not grow.

``python -m tests.protocols.soak --messages 1000000`` (``make soak``) sends that many messages among
four members of each protocol, over a network that reorders and duplicates packets. After each tenth
everything in flight arrives; then the snapshots and the objects of the endpoints are measured. A
number may take a few more bytes than before, but nothing may accumulate.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from random import Random
from types import FunctionType, ModuleType
from typing import NamedTuple

import antecede
from antecede import Effects, Endpoint, Packet
from antecede.endpoint.view import View

MEMBERS = ("a", "b", "c", "d")
IN_FLIGHT_MAX = 12
PARTS = 10
GROWTH_MAX, SLACK_BYTES = 1.3, 100
"""How much larger the state may be at the end than after the first part."""


class Size(NamedTuple):
    """The state of all members: their snapshots, and the objects they consist of."""

    snapshot: int
    objects: int


class Soak:
    """One protocol's endpoints, and the packets between them."""

    def __init__(self, protocol: str, seed: int = 1) -> None:
        self.info = antecede.PROTOCOLS[protocol]
        self.ends = {
            name: antecede.endpoint(protocol, process=name, members=MEMBERS) for name in MEMBERS
        }
        self.codec = antecede.Codec(self.ends[MEMBERS[0]])
        self.rng = Random(seed)
        self.flying: list[Packet] = []
        self.sent = self.copies = self.delivered = 0

    def run(self, messages: int) -> Size:
        """Send ``messages`` messages, let everything arrive, and measure."""
        for _ in range(messages):
            self._send()
            limit = 0 if self.info.blocking else self.rng.randint(0, IN_FLIGHT_MAX)
            while len(self.flying) > limit:
                self._arrive()
        while self.flying:
            self._arrive()
        assert self.delivered == self.copies, f"{self.copies - self.delivered} copies are missing"
        ends = self.ends.values()
        return Size(
            sum(len(self.codec.snapshot(end)) for end in ends),
            sum(footprint(end) for end in ends),
        )

    def _send(self) -> None:
        source = self.rng.choice(MEMBERS)
        others = [name for name in MEMBERS if name != source]
        if "multicast" in self.info.casts:
            others = self.rng.sample(others, self.rng.randint(1, 3))
        elif "unicast" in self.info.casts:
            others = [self.rng.choice(others)]
        self.sent += 1
        self.copies += len(others)
        self._take(self.ends[source].send(others, b"payload"))

    def _arrive(self) -> None:
        packet = self.flying.pop(self.rng.randrange(len(self.flying)))
        self._take(self.ends[packet.dest].receive(packet))
        if self.rng.random() < 0.05:
            self._take(self.ends[packet.dest].receive(packet))

    def _take(self, effects: Effects) -> None:
        self.flying += effects.packets
        self.delivered += len(effects.deliveries)


def footprint(end: Endpoint) -> int:
    """Return the bytes of all objects that an endpoint consists of; its view is shared."""
    seen, total, waiting = set[int](), 0, list[object]([end])
    while waiting:
        one = waiting.pop()
        if id(one) not in seen and not isinstance(one, (View, type, ModuleType, FunctionType)):
            seen.add(id(one))
            total += sys.getsizeof(one)
            waiting += gc.get_referents(one)
    return total


def is_flat(first: Size, last: Size) -> bool:
    """Return whether nothing accumulated between two measurements."""
    return all(b <= GROWTH_MAX * a + SLACK_BYTES for a, b in zip(first, last, strict=True))


def soak(protocol: str, messages: int) -> tuple[list[Size], float]:
    """Return the sizes after each part, and the seconds it took."""
    begin = time.process_time()
    group = Soak(protocol)
    sizes = [group.run(messages // PARTS) for _ in range(PARTS)]
    return sizes, time.process_time() - begin


def main() -> int:
    """Soak the protocols named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--protocol", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at a time")
    asked = parser.parse_args()
    grown = []
    with ProcessPoolExecutor(asked.jobs) as pool:
        runs = {
            pool.submit(soak, protocol, asked.messages): protocol
            for protocol in asked.protocol or antecede.PROTOCOLS
        }
        for run in as_completed(runs):
            (sizes, seconds), protocol = run.result(), runs[run]
            flat = is_flat(sizes[0], sizes[-1])
            grown += [] if flat else [protocol]
            print(
                f"{protocol:<12} {asked.messages} messages, {seconds:6.1f} s; snapshots of four "
                f"{sizes[0].snapshot} -> {sizes[-1].snapshot} bytes, objects {sizes[0].objects} "
                f"-> {sizes[-1].objects} bytes: {'flat' if flat else 'GROWS'}",
                flush=True,
            )
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
