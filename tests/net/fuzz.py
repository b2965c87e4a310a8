"""A member sends well-structured but false frames: no node stops, and each costs little.

``python -m tests.net.fuzz --seconds 600`` prints its findings, and the worst cost of a frame. It
also opens damaged stores with correct checksums: they raise StoreError, or can be used.
"""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import argparse
import asyncio
import random
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import antecede
from antecede.net import Limits, Node, frames
from antecede.net.fields import put_bytes, put_number, put_numbers
from antecede.net.group.flush import Answer, Report
from antecede.net.group.paxos import KINDS, Vote
from antecede.net.group.views import Ballot, Change
from antecede.net.parcels import ALONE, NEXT, heading
from antecede.net.settings import Setup
from antecede.testing import Network, run
from tests.net.test_damage import damaged_stores
from tests.net.test_hostile_members import Deaf

FOUR: Final = ("a", "b", "c", "d")
PROTOCOLS: Final = (
    *("optimal", "matrix", "pruned", "broadcast", "history", "buffered", "permits"),
    "semantic",
)
MEMORY: Final = 20
"""The most memory, in bytes, that a received byte may take, and below, the most seconds."""
MEMORY_FREE: Final = 2 << 20
SECONDS: Final = 1e-6
SECONDS_FREE: Final = 0.25
FRAMES: Final = 60
STORES: Final = 200
STORE_PROTOCOLS: Final = ("optimal", "matrix", "history", "permits")


class Cost(NamedTuple):
    """The worst cost of frames, beyond a free allowance."""

    memory: float = 0.0
    seconds: float = 0.0

    def worse(self, other: Cost) -> Cost:
        return Cost(max(self.memory, other.memory), max(self.seconds, other.seconds))


class Liar:
    """Makes frames of c."""

    def __init__(self, chance: random.Random, protocol: str) -> None:
        self.chance = chance
        self.setup = Setup("c", FOUR, protocol, {})
        self.end = antecede.endpoint(protocol, process="c", members=FOUR)
        self.codec = antecede.Codec(self.end)
        self.tickets = 0
        self.kinds: list[Callable[[], bytes]] = [
            self.vote,
            self.change,
            self.report,
            self.answer,
            self.unstable,
            self.numbers,
            self.noise,
        ]

    def number(self) -> int:
        chance = self.chance
        return chance.choice((0, 1, 2, chance.randrange(100), 1 << 20, (1 << 63) - 1))

    def name(self) -> str:
        chance = self.chance
        return chance.choice((*FOUR, "", "z", "x" * 300, chr(chance.randrange(0x250, 0xD000))))

    def many(self) -> int:
        return self.chance.choice((0, 1, 3, 40, 400))

    def vote(self) -> bytes:
        ballot, accepted = (Ballot(self.number(), self.name()) for _ in range(2))
        kind, slot = self.chance.choice(sorted(KINDS)), self.chance.choice((0, 1, 2))
        return Vote(kind, slot, ballot, accepted, self.change()).encoded()

    def change(self) -> bytes:
        joins = tuple((f"{self.name()}{n}", "127.0.0.1:1") for n in range(self.many()))
        leaves = tuple(self.chance.sample(FOUR, self.chance.randrange(3)))
        return Change(self.chance.choice((1, 1, 2)), joins, leaves).encoded()

    def counts(self) -> dict[str, int]:
        return {f"{self.name()}{n or ''}": self.number() for n in range(self.many())}

    def report(self) -> bytes:
        made = Report(self.chance.choice((0, 0, 1)), 1, self.chance.randrange(5))
        made.sent, made.got = self.counts(), self.counts()
        made.has = {
            name: (self.number() % (1 << 62), list(range(1, self.many())))
            for name in self.chance.sample(FOUR, self.chance.randrange(4))
        }
        return made.encoded()

    def answer(self) -> bytes:
        copies = [
            (self.chance.choice(("d", "d", self.name())), self.number() % 999, self.parcel(n + 1))
            for n in range(self.many() // 10)
        ]
        return Answer(0, 1, is_whole=bool(self.chance.randrange(2)), copies=copies).encoded()

    def unstable(self) -> bytes:
        out = bytearray(b"U")
        put_number(out, self.chance.choice((0, 1)))
        put_number(out, self.number())
        put_numbers(out, range(self.many()))
        return bytes(out)

    def numbers(self) -> bytes:
        """Return a kind of note with very many small fields."""
        out = bytearray((self.chance.choice(b"FNUCPQRSTWXH"),))
        for _ in range(self.chance.randrange(4)):
            put_number(out, self.number())
        count = self.chance.choice((100, 10_000, 200_000))
        put_number(out, count)
        return bytes(out) + self.chance.choice((b"\0", b"\1", b"\1x", b"\2xy\1")) * count

    def noise(self) -> bytes:
        return self.chance.randbytes(self.chance.randrange(100))

    def parcel(self, n: int) -> bytes:
        """Return a packet from c to a, possibly one that c could really have sent."""
        chance = self.chance
        kind = chance.randrange(8)
        if kind == 0:
            return chance.randbytes(chance.randrange(50))
        if kind < 3:
            return NEXT + chance.randbytes(chance.randrange(20))
        try:
            sent = self.end.send(["a", "b", "d"], chance.randbytes(10)).packets
        except antecede.AntecedeError:
            return ALONE
        if not sent:
            return ALONE
        self.tickets += 1
        before = heading(self.end.view, self.tickets, sent) if len(sent) > 1 else ALONE
        made = bytearray(before + self.codec.encode(sent[0]))
        if kind == 3:
            made[chance.randrange(len(made))] = chance.randrange(256)
        if kind == 4:  # a heading that says whatever it likes
            head = bytearray()
            for _ in range(self.many()):
                put_number(head, chance.randrange(5))
                put_number(head, self.number())
                put_bytes(head, self.noise())
            made = bytearray()
            put_bytes(made, bytes(head))
            made += self.codec.encode(sent[0])
        return bytes(made)

    def frame(self, *, has_packets: bool) -> bytes:
        chance = self.chance
        head = frames.Head(
            self.setup.digest,
            b"identity",
            view=chance.choice((0, 0, 0, 1, 7)),
            stable=self.number() if chance.randrange(4) == 0 else 0,
            low=chance.choice((0, 0, 1, self.number())),
        )
        notes = [chance.choice(self.kinds)() for _ in range(chance.choice((0, 1, 1, 2, 10)))]
        begin = chance.choice((1, 1, 1, 2, 50, 70_000))
        count = chance.choice((0, 1, 2, 30)) if has_packets else 0
        if chance.randrange(6) == 0 and count:  # a long run behind one whole packet
            packets = [(begin, self.parcel(begin))]
            packets += [
                (begin + n, NEXT + b"x") for n in range(1, min(100 * count, frames.PACKETS_MAX))
            ]
        else:
            packets = [(begin + n, self.parcel(begin + n)) for n in range(count)]
        if chance.randrange(5) == 0:
            packets = packets[:: chance.randrange(2, 5)]
        above = range(2, 2 + 2 * self.many(), 2)
        made = bytearray(frames.encode(head, self.number() % 9, above, packets, notes))
        if chance.randrange(4) == 0:
            made[chance.randrange(len(made))] = chance.randrange(256)
        if chance.randrange(8) == 0:
            made += chance.choice((b"\0", b"\1")) * chance.choice((10, 400_000))
        return bytes(made)


def lies_of(protocol: str) -> list[bytes]:
    """Return frames that once were expensive."""
    head = frames.Head(Setup("c", FOUR, protocol, {}).digest, b"identity")
    filler = b"\x01" * 400_000
    made = [
        frames.encode(head, 0, (), [], [kind + filler])
        for kind in (b"F\x00\x01\x00", b"N\x00\x01\x00", b"C\x01\x01", b"W\x01", b"P", b"X", b"U\0")
    ]
    empty = frames.encode(head, 0, (), [(n, b"") for n in range(1, 200)])
    count = 1_000_000
    many = bytearray(empty[: -4 * 199]) + bytes(4 * count)
    at = len(empty) - 4 * 199 - 12
    many[at : at + 4] = count.to_bytes(4, "big")
    return [*made, bytes(many), frames.encode(head, 0, (), [], [b"H"] * 60_000)]


async def session(seed: int, protocol: str, *, is_removing: bool) -> tuple[list[str], Cost]:
    """Let c lie to a for a while; return the findings and the worst cost."""
    chance = random.Random(seed)
    network, found, worst = Network(seed=seed), list[str](), Cost()
    tasks: list[asyncio.Task[None]] = []
    has_packets = chance.randrange(2) == 0
    """Packets of a liar may hold up those of others: see docs/threat-model.md. Notes may not."""
    given: Any = {"protocol": protocol, "limits": Limits(linger_seconds=0), "peers": FOUR}

    def node(name: str) -> Node:
        return Node(name, transport=network.transport(name), seed=seed, **given)

    async with node("a") as a, node("b") as b:
        liar = network.transport("c")
        await liar.start(Deaf())
        to_all = "unicast" not in antecede.PROTOCOLS[protocol].casts
        if is_removing:
            async with node("d") as d:
                await d.send(list(FOUR) if to_all else ["a"], b"d was here")
                await asyncio.sleep(1)
            tasks.append(asyncio.create_task(a.remove("d")))
        maker, driver = Liar(chance, protocol), a._driver
        assert driver is not None
        for data in [
            *lies_of(protocol),
            *(maker.frame(has_packets=has_packets) for _ in range(FRAMES)),
        ]:
            tracemalloc.start()
            begin = time.process_time()
            driver.received("c", data)
            await asyncio.sleep(0.05)
            seconds = time.process_time() - begin
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            cost = Cost(
                max(peak - MEMORY_FREE, 0) / len(data), max(seconds - SECONDS_FREE, 0) / len(data)
            )
            worst = worst.worse(cost)
            if cost.memory > MEMORY or cost.seconds > SECONDS * 10:  # tracing makes it slower
                found.append(
                    f"seed {seed} ({protocol}): {len(data)} bytes took {peak} bytes and "
                    f"{seconds:.2f} s: {data[61:120]!r}"
                )
        if driver.failure is None and not has_packets:
            await a.send(list(FOUR) if to_all else ["b"], b"are you well?")
            try:
                async with asyncio.timeout(600):
                    while (await anext(b)).payload != b"are you well?":
                        pass
            except TimeoutError:
                found.append(f"seed {seed} ({protocol}): b no longer hears a")
        if driver.failure is not None:
            found.append(f"seed {seed} ({protocol}): the node stopped: {driver.failure!r}")
        for task in tasks:
            task.cancel()
    return found, worst


def main() -> int:
    """Run sessions for a while."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    end, seed, worst, faults = time.monotonic() + chosen.seconds, chosen.seed, Cost(), 0
    stores = refused = 0
    while time.monotonic() < end:
        protocol = PROTOCOLS[seed % len(PROTOCOLS)]
        found, cost = run(session(seed, protocol, is_removing=seed % 3 == 0))
        if seed % 10 == 0:
            stores += STORES
            refused += damaged_stores(STORE_PROTOCOLS[seed // 10 % 4], STORES, seed)
        for sentence in found:
            print(sentence, flush=True)
        faults, worst, seed = faults + len(found), worst.worse(cost), seed + 1
    print(
        f"{seed - chosen.seed} sessions of frames, {faults} findings; at worst a byte took "
        f"{worst.memory:.1f} bytes beyond {MEMORY_FREE} and {worst.seconds * 1e6:.2f} ms a kB "
        f"beyond {SECONDS_FREE} s (traced); {refused} of {stores} damaged stores refused, the "
        "others opened"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
