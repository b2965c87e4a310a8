"""A process of the benchmark ``endpoints``: it runs traffic on the antecede that it imports.

Every process of the traffic sends every 0.1 s on average, to one other or to a random set; a packet
takes 0.05 s on average, so packets overtake each other. Packets that the protocol adds
(acknowledgements, relayed messages) arrive at once.
"""

from __future__ import annotations

import gc
import heapq
import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from antecede import Effects, Packet

    End = tuple[Callable[[bytes], Packet], Callable[[Packet], Effects]]
    Item = Packet | tuple[End, bytes]

GAP, DELAY, PAYLOAD = 0.1, 0.05, bytes(16)


class Send(NamedTuple):
    """A step of the traffic: one process sends; packet k of the send gets place ``first + k``."""

    source: int
    dests: tuple[str, ...]
    first: int


class World:
    """All endpoints of one protocol, with their codecs and the packets between them."""

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
        self._ends = {
            end.process: (codec.decode, end.receive)
            for end, codec in zip(self.endpoints, self.codecs, strict=True)
        }
        self.deliveries = self.packets = self.bytes = 0
        self.traffic = self._traffic(cast)

    def _traffic(self, cast: str) -> Iterator[Send | int]:
        """Yield sends, and the places of arriving packets, in order of time."""
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
        """Carry out the next ``steps`` steps; return their time and their results."""
        ahead = [next(self.traffic) for _ in range(steps)]
        for step in ahead:  # packets that arrive in this slice are in its form
            if isinstance(step, int) and step in self.flight:
                self.flight[step] = self._converted(self.flight[step], codec=codec)
        before = self.deliveries, self.packets, self.bytes
        carry_out = self._run_coded if codec else self._run_bare
        gc.collect()
        gc.freeze()  # the steps ahead are the benchmark's own: spare the collector
        begin = time.process_time()
        carry_out(ahead)
        seconds = time.process_time() - begin
        gc.unfreeze()
        return {
            "seconds": seconds,
            "deliveries": self.deliveries - before[0],
            "packets": self.packets - before[1],
            "bytes": self.bytes - before[2],
        }

    # The following is all timed, so it does little else.

    def _run_bare(self, ahead: list[Send | int]) -> None:
        """Pass packets on as objects."""
        flight, deliveries = self.flight, 0
        send = [end.send for end in self.endpoints]
        receive = {end.process: end.receive for end in self.endpoints}
        extras: Sequence[Packet]
        for step in ahead:
            if isinstance(step, int):
                packet = flight.pop(step, None)
                if packet is None:
                    continue
                effects = receive[packet.dest](packet)
                extras = effects.packets
            else:
                source, dests, first = step
                effects = send[source](dests, PAYLOAD)
                extras = effects.packets
                if len(extras) == 1:
                    flight[first] = extras[0]
                    extras = ()
                else:
                    flight.update(enumerate(extras[: len(dests)], first))
                    extras = extras[len(dests) :]
            deliveries += len(effects.deliveries)
            if extras:  # packets that the protocol adds arrive at once
                queue = list(extras)
                while queue:
                    packet = queue.pop(0)
                    effects = receive[packet.dest](packet)
                    deliveries += len(effects.deliveries)
                    queue.extend(effects.packets)
        self.deliveries += deliveries

    def _run_coded(self, ahead: list[Send | int]) -> None:
        """Pass packets on as bytes."""
        flight, deliveries = self.flight, 0
        send = [end.send for end in self.endpoints]
        encode = {name: self.codecs[i].encode for name, i in self.positions.items()}
        ends = self._ends
        extras: Sequence[Packet]
        for step in ahead:
            if isinstance(step, int):
                item = flight.pop(step, None)
                if item is None:
                    continue
                (decode, receive), data = item
                effects = receive(decode(data))
                extras = effects.packets
            else:
                source, dests, first = step
                effects = send[source](dests, PAYLOAD)
                extras = effects.packets[len(dests) :]
                for packet in effects.packets[: len(dests)]:
                    data = encode[packet.source](packet)
                    flight[first] = ends[packet.dest], data
                    first += 1
                    self._count(packet, data)
            deliveries += len(effects.deliveries)
            if extras:
                queue = list(extras)
                while queue:
                    packet = queue.pop(0)
                    data = encode[packet.source](packet)
                    self._count(packet, data)
                    decode, receive = ends[packet.dest]
                    effects = receive(decode(data))
                    deliveries += len(effects.deliveries)
                    queue.extend(effects.packets)
        self.deliveries += deliveries

    def _count(self, packet: Packet, data: bytes) -> None:
        self.packets += 1
        self.bytes += len(data) - len(packet.payload)

    def _converted(self, item: Item, *, codec: bool) -> Item:
        if isinstance(item, tuple):
            (decode, _), data = item
            return item if codec else decode(data)
        if not codec:
            return item
        return self._ends[item.dest], self.codecs[self.positions[item.source]].encode(item)


def work() -> None:
    """Answer requests from standard input: make a world, or run its next steps."""
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
