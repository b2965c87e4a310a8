"""A process of the benchmark ``endpoints``: it runs traffic on the antecede that it imports.

Every process of the traffic sends on average each 0.1 s, to one other or to a random set; a packet
takes 0.05 s on average, so packets overtake each other. What a protocol sends besides
(acknowledgements, relayed messages) arrives at once.
"""

from __future__ import annotations

import heapq
import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from antecede import Effects, Packet

    Item = Packet | tuple[int, bytes]

GAP, DELAY, PAYLOAD = 0.1, 0.05, bytes(16)


class Send(NamedTuple):
    """A step of the traffic: one process sends; packet k of the send gets place ``first + k``."""

    source: int
    dests: tuple[str, ...]
    first: int


class World:
    """All endpoints of one protocol, with their codecs and what is under way between them."""

    def __init__(self, protocol: str, n: int, cast: str) -> None:
        import antecede

        self.info = antecede.PROTOCOLS[protocol]
        self.names = tuple(f"p{i:03d}" for i in range(n))
        self.endpoints = [
            antecede.endpoint(protocol, process=name, members=self.names) for name in self.names
        ]
        self.codecs = [antecede.Codec(self.names) for _ in self.names]
        self.positions = {name: i for i, name in enumerate(self.names)}
        self.flight: dict[int, Any] = {}
        self.extras: list[Any] = []
        self.deliveries = self.packets = self.bytes = 0
        self.traffic = self._traffic(cast)

    def _traffic(self, cast: str) -> Iterator[Send | int]:
        """Yield sends, and the places of packets that arrive, in order of time."""
        rng = random.Random(f"{self.info.name} {len(self.names)} {cast}")
        n, place, clock = len(self.names), 0, 0.0
        heap: list[tuple[float, int]] = []
        while True:
            clock += rng.expovariate(n / GAP)
            while heap and (heap[0][0] <= clock or self.info.blocking):
                yield heapq.heappop(heap)[1]
            source = rng.randrange(1 if self.info.name == "server" else 0, n)
            dests = self._dests(rng, source, cast)
            yield Send(source, dests, place)
            for _ in dests:
                heapq.heappush(heap, (clock + rng.expovariate(1 / DELAY), place))
                place += 1

    def _dests(self, rng: random.Random, source: int, cast: str) -> tuple[str, ...]:
        if self.info.name == "server":
            return self.names[:1]
        others = [name for name in self.names if name != self.names[source]]
        if cast == "broadcast":
            return tuple(others)
        count = 1 if cast == "unicast" else rng.randint(1, len(others))
        return tuple(sorted(rng.sample(others, count)))

    def run(self, steps: int, *, codec: bool) -> dict[str, float]:
        """Carry out so many steps; return what they took and what came of them."""
        ahead = [next(self.traffic) for _ in range(steps)]
        for place, item in self.flight.items():  # what is under way is in the form of this slice
            self.flight[place] = self._converted(item, codec=codec)
        before = self.deliveries, self.packets, self.bytes
        carry_out = self._run_coded if codec else self._run_bare
        begin = time.process_time()
        carry_out(ahead)
        seconds = time.process_time() - begin
        return {
            "seconds": seconds,
            "deliveries": self.deliveries - before[0],
            "packets": self.packets - before[1],
            "bytes": self.bytes - before[2],
        }

    def _run_bare(self, ahead: list[Send | int]) -> None:
        """Hand packets over as they are; do little besides, for all of it is timed."""
        positions, flight, extras = self.positions, self.flight, self.extras
        send, receive = [e.send for e in self.endpoints], [e.receive for e in self.endpoints]
        for step in ahead:
            if isinstance(step, int):
                packet = flight.pop(step, None)
                if packet is None:
                    continue
                effects = receive[positions[packet.dest]](packet)
                extras.extend(effects.packets)
            else:
                effects = send[step.source](step.dests, PAYLOAD)
                self._dispatch(step, effects.packets)
            self.deliveries += len(effects.deliveries)
            while extras:
                packet = extras.pop(0)
                effects = receive[positions[packet.dest]](packet)
                self.deliveries += len(effects.deliveries)
                extras.extend(effects.packets)

    def _run_coded(self, ahead: list[Send | int]) -> None:
        """Hand packets over as bytes."""
        flight, extras = self.flight, self.extras
        for step in ahead:
            if isinstance(step, int):
                item = flight.pop(step, None)
                if item is None:
                    continue
                effects = self._arrive(item)
                extras.extend([self._encoded(packet) for packet in effects.packets])
            else:
                effects = self.endpoints[step.source].send(step.dests, PAYLOAD)
                self._dispatch(step, [self._encoded(packet) for packet in effects.packets])
            self.deliveries += len(effects.deliveries)
            while extras:
                effects = self._arrive(extras.pop(0))
                self.deliveries += len(effects.deliveries)
                extras.extend([self._encoded(packet) for packet in effects.packets])

    def _dispatch(self, step: Send, items: Sequence[Any]) -> None:
        """Put the message's packets on their way; what a protocol sends besides arrives at once."""
        count = len(step.dests)
        for place, item in enumerate(items[:count], step.first):
            self.flight[place] = item
        if len(items) > count:
            self.extras.extend(items[count:])

    def _encoded(self, packet: Packet) -> tuple[int, bytes]:
        data = self.codecs[self.positions[packet.source]].encode(packet)
        self.packets += 1
        self.bytes += len(data) - (len(PAYLOAD) if packet.payload else 0)
        return self.positions[packet.dest], data

    def _arrive(self, item: tuple[int, bytes]) -> Effects:
        dest, data = item
        return self.endpoints[dest].receive(self.codecs[dest].decode(data))

    def _converted(self, item: Item, *, codec: bool) -> Item:
        if isinstance(item, tuple):
            return item if codec else self.codecs[item[0]].decode(item[1])
        if not codec:
            return item
        return self.positions[item.dest], self.codecs[self.positions[item.source]].encode(item)


def work() -> None:
    """Answer requests on standard input: make a world, or run its next steps."""
    import antecede

    where = Path(antecede.__file__).resolve()
    print(json.dumps({"where": str(where), "protocols": _offers()}), flush=True)
    world: World | None = None
    for line in sys.stdin:
        request = json.loads(line)
        if "protocol" in request:
            world = World(request["protocol"], request["n"], request["cast"])
            answer: object = {}
        else:
            assert world is not None
            answer = world.run(request["steps"], codec=request["codec"])
        print(json.dumps(answer), flush=True)


def _offers() -> dict[str, list[str]]:
    import antecede

    return {name: list(info.casts) for name, info in antecede.PROTOCOLS.items()}


if __name__ == "__main__":
    work()
