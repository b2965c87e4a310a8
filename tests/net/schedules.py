"""Seeded fault schedules for nodes: crashes, torn writes, partitions, bad networks.

``python -m tests.net.schedules --seconds 600`` tries new seeds; a failure prints its seed. Every
second schedule crashes a host at the next step of a fixed run, under each protocol in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from antecede import MessageId, events
from antecede.check import Event, History, causal_violations, undelivered
from antecede.errors import NodeClosedError
from antecede.events import Rejected
from antecede.net import Limits, Node
from antecede.testing import Host, Network, VirtualLoop, run
from tests.support.casts import ASKED, dests_among

NAMES = ("a", "b", "c")
STEPS = 200
"""The approximate number of steps of the fixed run."""
FAULTY_SECONDS = 20.0
HEALING_SECONDS = 3600.0


@dataclass
class World:
    """The events of a run, seen from outside."""

    network: Network
    log: Path
    protocol: str
    limits: Limits
    messages: int
    hosts: dict[str, Host] = field(default_factory=dict)
    returned: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in NAMES})
    """Numbers of the sends that returned, by process."""
    dests: dict[MessageId, tuple[str, ...]] = field(default_factory=dict)
    done: dict[str, list[MessageId]] = field(default_factory=lambda: {name: [] for name in NAMES})
    """The deliveries marked done; a crash may lose a mark until ``done`` has returned."""
    finished: dict[str, list[MessageId]] = field(
        default_factory=lambda: {name: [] for name in NAMES}
    )
    """The deliveries for which ``done`` has returned."""
    handed: dict[str, list[list[MessageId]]] = field(
        default_factory=lambda: {name: [] for name in NAMES}
    )
    events: dict[str, dict[int, Event]] = field(
        default_factory=lambda: {name: {} for name in NAMES}
    )

    async def program(self, host: Host) -> None:
        """Send and consume, each time the host is started."""
        async with Node(
            host.name,
            peers=NAMES,
            protocol=self.protocol,
            transport=host.transport,
            store=host.store,
            limits=self.limits,
            events=self.log,
            seed=self.network.random.getrandbits(32),
        ) as node:
            handed: list[MessageId] = []
            self.handed[host.name].append(handed)
            sender = asyncio.get_running_loop().create_task(self.send_all(host.name, node))
            try:
                async for delivery in node:
                    assert delivery.message not in handed, "handed out twice in one life"
                    assert delivery.message not in self.finished[host.name], "done and again"
                    handed.append(delivery.message)
                    self.events[host.name][delivery.event] = Event(
                        host.name, "deliver", delivery.message
                    )
                    if self.network.random.random() < 0.2:
                        await asyncio.sleep(0.1)
                    self.done[host.name].append(delivery.message)
                    await delivery.done()
                    self.finished[host.name].append(delivery.message)
            finally:
                sender.cancel()

    async def send_all(self, name: str, node: Node) -> None:
        """Send the messages whose sends have not returned: some in a row, then a pause."""
        chance = self.network.random
        while (left := self.messages - len(self.returned[name])) > 0:
            dests = dests_among(NAMES, self.protocol, chance)
            count = chance.randint(1, left) if chance.random() < 0.5 else 1
            async with asyncio.TaskGroup() as group:
                for _ in range(count):
                    group.create_task(self.send(name, node, dests))
            await asyncio.sleep(chance.uniform(0, 0.5))

    async def send(self, name: str, node: Node, dests: tuple[str, ...]) -> None:
        """Send a message, and note it once the send has returned."""
        try:
            message = await node.send(dests, b"x" * self.network.random.randrange(200))
        except NodeClosedError:  # the host crashes
            return
        assert message not in self.dests or self.dests[message] == dests
        self.dests[message] = dests
        self.returned[name].add(message.seq)

    def crash(self, name: str) -> None:
        """Crash a host if it runs; start it again soon."""
        host = self.hosts[name]
        if host.is_running:
            host.crash()
            asyncio.get_running_loop().call_later(
                self.network.random.uniform(0.01, 3), self.start, name
            )

    def start(self, name: str) -> None:
        """Start a host unless it runs."""
        if not self.hosts[name].is_running:
            self.hosts[name].start(self.program)

    def is_quiet(self) -> bool:
        """Return whether all promised deliveries have been marked done."""
        if any(len(numbers) < self.messages for numbers in self.returned.values()):
            return False
        promised = {(dest, message) for message, dests in self.dests.items() for dest in dests}
        return promised <= {(name, message) for name in NAMES for message in self.done[name]}

    def check(self) -> None:
        """Check safety: no delivery is done twice, and order is kept within and across lives."""
        for name in NAMES:
            finished = self.finished[name]
            assert len(finished) == len(set(finished)), f"{name}: done twice"
            order = [event.message for _, event in sorted(self.events[name].items())]
            place = {message: index for index, message in enumerate(order)}
            assert len(place) == len(order), f"{name}: one message at two places"
            for life in self.handed[name]:
                places = [place[message] for message in life]
                assert places == sorted(places), f"{name}: another order in another life"


async def live(world: World, faults: Callable[[World], None]) -> None:
    """Run a world with faults, then without them until all is quiet."""
    loop = asyncio.get_running_loop()
    for name in NAMES:
        world.hosts[name] = Host(world.network, name)
        world.start(name)
    faults(world)
    await asyncio.sleep(FAULTY_SECONDS)
    world.network.heal()
    end = loop.time() + HEALING_SECONDS
    while not world.is_quiet():
        assert loop.time() < end, "not live: messages are missing although all faults are over"
        await asyncio.sleep(1)
    for host in world.hosts.values():
        if host.is_running:
            host.crash()
        await host.wait()
    world.check()
    check_log(world)


def check_log(world: World) -> None:
    """Ask the oracle about the event log: causal order, and nothing missing."""
    rejected: list[Rejected] = []
    rows = list(events.read(world.log, rejected=rejected))
    assert not rejected, rejected
    streams = {
        name: [row for row in sorted(rows, key=lambda row: row.seq) if row.process == name]
        for name in NAMES
    }
    for name, stream in streams.items():
        assert [row.seq for row in stream] == list(range(1, len(stream) + 1)), f"{name}: gaps"
        delivered = [row.message for row in stream if row.kind == "deliver"]
        order = [str(event.message) for _, event in sorted(world.events[name].items())]
        assert delivered == order, f"{name}: handed out in another order than logged"
    history = merged(streams)
    assert not causal_violations(history), causal_violations(history)[0].sentence
    assert not undelivered(history)
    assert set(world.dests) <= set(history.messages), "a send returned and is not in the log"


def merged(streams: dict[str, list[events.Event]]) -> History:
    """Return one history of all processes, in a possible order of events."""
    history, sent = History(tuple(streams)), set[str]()
    left = {name: list(reversed(stream)) for name, stream in streams.items()}
    while any(left.values()):
        ready = [
            name
            for name, stream in left.items()
            if stream and (stream[-1].kind == "send" or stream[-1].message in sent)
        ]
        assert ready, "a delivery without a send"
        row = left[ready[0]].pop()
        assert row.message is not None
        sender, _, seq = row.message.rpartition(":")
        message = MessageId(sender, int(seq))
        if row.kind == "send":
            sent.add(row.message)
            history.send(row.process, message, row.dests or ())
        else:
            history.deliver(row.process, message)
    return history


def random_faults(world: World) -> None:
    """Crash and partition at random until the faulty time is over."""
    loop, chance = asyncio.get_running_loop(), world.network.random
    for _ in range(chance.randint(0, 8)):
        when = chance.uniform(0, FAULTY_SECONDS - 4)
        loop.call_later(when, world.crash, chance.choice(NAMES))
    for _ in range(chance.randint(0, 3)):
        alone = chance.choice(NAMES)
        others = [name for name in NAMES if name != alone]
        when = chance.uniform(0, FAULTY_SECONDS - 4)
        loop.call_later(when, world.network.partition, [alone], others)
        loop.call_later(when + chance.uniform(0, 5), world.network.partition)


def world_of(seed: int, folder: Path, messages: int = 8) -> World:
    """Return a world whose network, limits and protocol follow from the seed."""
    chance = random.Random(seed)
    network = Network(
        seed=seed,
        delay=(0.001, chance.choice((0.01, 0.5, 2.0))),
        loss=chance.choice((0.0, 0.1, 0.4)),
        duplication=chance.choice((0.0, 0.3)),
        fifo=chance.random() < 0.3,
    )
    limits = Limits(
        outbox_count=chance.choice((2, 10, 1000)),
        inbox_count=chance.choice((2, 10, 1000)),
        journal_bytes=chance.choice((1, 1000, 1 << 20)),
    )
    protocol = chance.choice((*ASKED, "direct", "pruned", "history"))
    log = folder / f"events-{seed}.jsonl"
    return World(network, log, protocol, limits, messages)


def try_seed(seed: int, folder: Path) -> int:
    """Run the schedule of a seed; return how often a host crashed."""
    world = world_of(seed, folder)
    run(live(world, random_faults))
    world.log.unlink()
    return sum(host.crashes for host in world.hosts.values()) - len(NAMES)


def crash_at(step: int, folder: Path, protocol: str = "optimal", seed: int = 1) -> bool:
    """Crash one host at a step of a fixed run; return whether the run got to that step."""
    world = World(
        Network(seed=seed, delay=(0.001, 0.05)),
        folder / f"events-step-{step}.jsonl",
        protocol,
        Limits(journal_bytes=300),
        messages=2,
    )
    loop, struck = VirtualLoop(), []

    def faults(world: World) -> None:
        def strike() -> None:
            struck.append(loop.time())
            world.crash(NAMES[step % len(NAMES)])

        loop.at_step(loop.steps + step, strike)

    run(live(world, faults), loop=loop)
    world.log.unlink()
    return bool(struck) and struck[0] < FAULTY_SECONDS


def alternate(
    try_seed: Callable[[int, Path], int],
    crash_at: Callable[[int, Path, str, int], bool],
    steps: int,
) -> Callable[[int, Path], int]:
    """Return a function that alternates random faults with crashes at each step and protocol."""

    def try_one(number: int, folder: Path) -> int:
        if number % 2 == 0:
            return try_seed(number // 2, folder)
        step, place = divmod(number // 2, len(ASKED))
        return crash_at(1 + step % steps, folder, ASKED[place], 1 + step // steps)

    return try_one


def try_seeds(try_one: Callable[[int, Path], int], what: str) -> int:
    """Try seeds until the time is over; ``try_one`` returns the count of ``what``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--schedules", type=int, help="try so many, however long it takes")
    asked = parser.parse_args()
    end, seed, count = time.monotonic() + asked.seconds, asked.seed, 0
    last = sys.maxsize if asked.schedules is None else asked.seed + asked.schedules
    with tempfile.TemporaryDirectory() as folder:
        while seed < last and (asked.schedules or time.monotonic() < end):
            try:
                count += try_one(seed, Path(folder))
            except BaseException:
                print(f"seed {seed} failed; run again with --seed {seed}", file=sys.stderr)
                raise
            seed += 1
    print(f"{seed - asked.seed} schedules with {count} {what}: safe and live")
    return 0


if __name__ == "__main__":
    sys.exit(try_seeds(alternate(try_seed, crash_at, STEPS), "crashes"))
