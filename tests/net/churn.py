"""Seeded fault schedules for groups that change: joins, removals, crashes, partitions, loss.

``python -m tests.net.churn --seconds 600`` tries new seeds; a failure prints its seed. Every second
schedule crashes a host at the next step of a join and a removal, under each protocol in turn.
"""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import antecede
from antecede import MessageId, events
from antecede.check import causal_violations
from antecede.errors import AntecedeError, NodeClosedError, StoreError, UsageError
from antecede.events import Rejected
from antecede.net import Limits, Node
from antecede.net.machine import VIEW_STEP
from antecede.testing import Host, Network, VirtualLoop, run
from tests.net.schedules import alternate, merged, try_seeds
from tests.support.casts import dests_among

FOUNDERS = ("a", "b", "c", "d")
NEWCOMERS = ("e", "f")
PROTOCOLS = sorted(
    name
    for name, info in antecede.PROTOCOLS.items()
    if {"safety", "liveness"} <= info.promises and name not in ("server", "two_hop")
)
"""The protocols that keep any traffic in order."""
RELAYED = [name for name, info in antecede.PROTOCOLS.items() if info.relays]
"""Protocols whose messages pass through other members: if such a relay is removed, messages in
transit through it are lost."""
STEPS = 300
"""The approximate number of steps of a join and a removal."""
FAULTY_SECONDS = 30.0
HEALING_SECONDS = 7200.0


@dataclass
class Churn:
    """A changing group, seen from outside."""

    network: Network
    log: Path
    protocol: str
    limits: Limits
    messages: int = 6
    hosts: dict[str, Host] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    """Processes whose nodes have said that they were removed, or whose removal has returned."""
    promised: dict[MessageId, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """The messages whose sends returned, and the labels of their senders and destinations.

    A label is a process's name, with the view in which it joined if it was no founder.
    """
    done: dict[str, list[MessageId]] = field(default_factory=dict)
    handed: dict[str, dict[int, MessageId]] = field(default_factory=dict)
    """The deliveries by event number, by label."""
    views: dict[int, set[tuple[str, ...]]] = field(default_factory=dict)
    """The labels of the members by view number, as nodes have seen them."""
    unmet: set[tuple[str, MessageId]] = field(default_factory=set)
    comebacks: list[Host] = field(default_factory=list)
    """Hosts of processes that were removed, with new disks."""
    lonely: dict[str, str] = field(default_factory=dict)
    """Newcomers that name one process, since it was the only member: see the lobby's words."""
    failures: list[str] = field(default_factory=list)
    """The errors that ended programs without a crash or removal."""
    changes: int = 0
    is_over: bool = False

    async def program(self, host: Host) -> None:
        """Send and consume, each time the host is started."""
        name = host.name
        try:
            async with Node(
                name,
                peers=[self.lonely[name]] if name in self.lonely else FOUNDERS,
                protocol=self.protocol,
                transport=host.transport,
                store=host.store,
                limits=self.limits,
                events=self.log,
                joining=self.is_joining(host),
                seed=self.network.random.getrandbits(32),
            ) as node:
                self.nodes[name] = node
                await self.take_part(node)
        except (NodeClosedError, StoreError) as error:
            if "was removed" in str(error):
                self.removed.add(name)
            elif not host.store.is_dead:
                self.failures.append(f"{name}: {error!r}")
        except Exception as error:
            self.failures.append(f"{name}: {error!r}")
            raise
        finally:
            if not host.store.is_dead:
                self.nodes.pop(name, None)

    def is_joining(self, host: Host) -> bool:
        return host.name not in FOUNDERS or host in self.comebacks

    def name_only_member(self, name: str, members: tuple[str, ...]) -> None:
        """Start a newcomer again, once, that cannot believe the only member, as its log says."""
        others = [other for other in members if other != name]
        host = self.hosts.get(name)
        if host is None or name in self.nodes or name in self.lonely or len(others) != 1:
            return
        if host.is_running and self.is_joining(host):
            self.lonely[name] = others[0]
            host.crash()
            self.start(name)

    async def take_part(self, node: Node) -> None:
        label = label_of(node)
        sender = asyncio.get_running_loop().create_task(self.send_all(node, label))
        done = self.done.setdefault(label, [])
        try:
            async for delivery in node:
                assert delivery.message not in done, f"{label}: {delivery.message} came again"
                handed = self.handed.setdefault(label, {})
                assert handed.setdefault(delivery.event, delivery.message) == delivery.message
                if delivery.unmet:
                    self.unmet.add((label, delivery.message))
                if self.network.random.random() < 0.2:
                    await asyncio.sleep(0.1)
                await delivery.done()
                done.append(delivery.message)
                self.see(node)
        finally:
            sender.cancel()

    async def send_all(self, node: Node, label: str) -> None:
        """Send some messages to the members that this node knows, with pauses."""
        chance = self.network.random
        while sum(sender == label for sender, _ in self.promised.values()) < self.messages:
            self.see(node)
            members = node.members
            dests = dests_among(members, self.protocol, chance)
            try:
                message = await node.send(dests, b"x" * chance.randrange(50))
            except NodeClosedError:
                return
            except UsageError:  # one of them has just been removed, or has not answered yet
                await asyncio.sleep(0.1)
                continue
            labels = self.labels(message, dests)
            self.promised[message] = label, labels
            await asyncio.sleep(chance.uniform(0, 3))

    def see(self, node: Node) -> None:
        """Note the members of a node's view; all nodes in that view must agree."""
        labels = tuple(labels_of(node, list(node.members)))
        self.views.setdefault(node.view, set()).add(labels)

    def labels(self, message: MessageId, names: Iterable[str]) -> tuple[str, ...]:
        """Return the labels of a message's destinations, in the view of that message."""
        (members,) = self.views[message.seq // VIEW_STEP]
        found = {label.partition("#")[0]: label for label in members}
        return tuple(found[name] for name in names)

    def labelled(self, message: MessageId) -> MessageId:
        """Return a message's id with the label of its sender."""
        return message._replace(sender=self.labels(message, [message.sender])[0])

    def may_lack(self, message: MessageId) -> bool:
        """Return whether a message may have been in transit through a removed relay."""
        number = message.seq // VIEW_STEP
        later = [each for each in self.views if each > number]
        if self.protocol not in RELAYED or not later:
            return False
        (before,) = self.views[number]
        # A view may not be over yet when further processes are removed.
        return any(not set(before) <= set(after) for each in later for after in self.views[each])

    def crash(self, name: str) -> None:
        """Crash a host if it runs; start it again soon."""
        host = self.hosts.get(name)
        if host is not None and host.is_running and not self.is_over:
            self.nodes.pop(name, None)
            host.crash()
            self.network_later(self.network.random.uniform(0.01, 5), lambda: self.start(name))

    def network_later(self, seconds: float, action: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_later(seconds, action)

    def start(self, name: str) -> None:
        """Start a host unless it runs."""
        if name not in self.hosts:
            self.hosts[name] = Host(self.network, name)
        if not self.hosts[name].is_running:
            self.hosts[name].start(self.program)

    def ask(self, is_add: bool, name: str) -> None:
        """Let some node add or remove a process; it may crash meanwhile."""
        if is_add:
            self.renew(name)
        able = [node for other, node in self.nodes.items() if other != name]
        if able:
            node = self.network.random.choice(sorted(able, key=lambda one: one.process))
            task = asyncio.get_running_loop().create_task(self.change(node, name, is_add=is_add))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.start(name)

    def renew(self, name: str) -> None:
        """Give a process that was removed a new disk."""
        if name in self.removed and not self.hosts[name].is_running:
            self.removed.discard(name)
            self.hosts[name] = Host(self.network, name)
            self.comebacks.append(self.hosts[name])

    async def change(self, node: Node, name: str, *, is_add: bool) -> None:
        try:
            await (node.add(name) if is_add else node.remove(name))
            self.changes += 1
        except AntecedeError:
            return


def label_of(node: Node) -> str:
    return labels_of(node, [node.process])[0]


def labels_of(node: Node, names: list[str]) -> list[str]:
    assert node._driver is not None
    members = node._driver.machine.group.members
    return [
        f"{name}#{members[name].joined}" if members[name].joined else name
        for name in names
        if name in members
    ]


async def live(world: Churn, faults: Callable[[Churn], None]) -> None:
    """Run a group with faults and changes, then without them until all is quiet."""
    loop = asyncio.get_running_loop()
    for name in FOUNDERS:
        world.start(name)
    faults(world)
    await asyncio.sleep(FAULTY_SECONDS)
    world.is_over = True
    world.network.heal()
    for name in world.hosts:
        if name not in world.removed:
            world.start(name)
    end = loop.time() + HEALING_SECONDS
    while (missing := world_lacks(world)) is not None:
        assert loop.time() < end, f"not live: {missing}"
        for name in sorted({name for node in world.nodes.values() for name in node.members}):
            world.renew(name)  # it was added again before it knew that it had been removed
            world.start(name)
        await asyncio.sleep(5)
        for node in list(world.nodes.values()):
            for name in node.members:
                world.name_only_member(name, node.members)
    check(world)
    for host in world.hosts.values():
        host.crash()
        await host.wait()


def final_members(world: Churn) -> dict[str, Node]:
    """Return the members in the end by label, according to the newest view."""
    newest = max(world.nodes.values(), key=lambda node: node.view)
    return {
        label: world.nodes[name]
        for name, label in zip(newest.members, labels_of(newest, list(newest.members)), strict=True)
        if name in world.nodes
    }


def world_lacks(world: Churn) -> str | None:
    """Return what is still wrong at the end; None if all is quiet."""
    assert not world.failures, world.failures[0]
    if not world.nodes:
        return "no node is up"
    for node in world.nodes.values():
        world.see(node)
    for number, seen in world.views.items():
        assert len(seen) == 1, f"not agreed: view {number} is {sorted(seen)}"
    newest = max(world.nodes.values(), key=lambda node: node.view)
    for name in newest.members:
        found = world.nodes.get(name)
        if found is None or found.members != newest.members:
            return f"{name} is not up, or not in view {newest.view}"
        assert found._driver is not None
        machine = found._driver.machine
        if machine.group.wishes or machine.flush or machine.group.value:
            return f"{name} still changes: {machine.group.wishes} {machine.flush} {found.missing}"
        if found.waiting():
            return f"{name} holds {found.waiting()[0]}"
    members = final_members(world)
    owed = [
        f"{label} lacks {message}"
        for message, (sender, dests) in world.promised.items()
        for label in dests
        if sender in members and label in members and not world.may_lack(message)
        if message not in world.handed.get(label, {}).values()
    ]
    return owed[0] if owed else None


def check(world: Churn) -> None:
    """Check order, and that each message of a removed process reached all or none.

    Copies that still wait at a removed sender are lost.
    """
    rows = [relabelled(world, row) for row in events.read(world.log)]
    streams: dict[str, list[events.Event]] = {}
    for row in rows:
        streams.setdefault(row.process, []).append(row)
    members = final_members(world)
    for label, stream in streams.items():
        first = stream[0].seq
        assert first % VIEW_STEP == 1, f"{label}: begins with {first}"
        seqs = list(range(first, first + len(stream)))
        assert [row.seq for row in stream] == seqs, f"{label}: gaps"
        logged = {row.seq: row.message for row in stream if row.kind == "deliver"}
        for event, message in world.handed.get(label, {}).items():
            assert logged[event] == str(world.labelled(message)), (
                f"{label}: another order than in the log"
            )
    history = merged(streams)
    for violation in causal_violations(history):
        sender = violation.message.sender
        is_lost = violation.lateness is None and (
            world.may_lack(violation.message)
            or not (violation.process in members and sender in members)
        )
        assert is_lost, violation.sentence
    delivered = {(row.process, row.message) for row in rows if row.kind == "deliver"}
    for row in rows:
        if row.kind == "send" and row.process not in members:
            dests = [label for label in row.dests or () if label in members]
            got = [label for label in dests if (label, row.message) in delivered]
            is_whole = not got or got == dests or antecede.PROTOCOLS[world.protocol].queueing
            is_whole |= world.may_lack(message_of(row))
            assert is_whole, f"{row.message} reached {got}, but not all of {dests}"


def relabelled(world: Churn, row: events.Event | Rejected) -> events.Event:
    """Return an event with labels for names, so that each life of a process is a separate one."""
    assert not isinstance(row, Rejected)
    message = message_of(row)
    life = row.seq // VIEW_STEP
    label = f"{row.process}#{life}" if life else row.process
    dests = None if row.dests is None else world.labels(message, row.dests)
    made = str(world.labelled(message))
    return dataclasses.replace(row, process=label, message=made, dests=dests)


def message_of(row: events.Event) -> MessageId:
    assert row.message is not None
    name, _, number = row.message.rpartition(":")
    return MessageId(name, int(number))


def random_faults(world: Churn) -> None:
    """Crash, partition, add and remove at random until the faulty time is over."""
    chance, everyone = world.network.random, FOUNDERS + NEWCOMERS
    last = FAULTY_SECONDS - 6
    for _ in range(chance.randint(1, 5)):
        name, is_add = chance.choice(everyone), chance.random() < 0.5
        world.network_later(chance.uniform(0, last), partial(world.ask, is_add, name))
    for _ in range(chance.randint(0, 8)):
        name = chance.choice(everyone)
        world.network_later(chance.uniform(0, last), partial(world.crash, name))
    for _ in range(chance.randint(0, 3)):
        alone = chance.sample(everyone, chance.randint(1, 3))
        others = [name for name in everyone if name not in alone]
        when = chance.uniform(0, last)
        world.network_later(when, partial(world.network.partition, alone, others))
        world.network_later(when + chance.uniform(0, 6), world.network.partition)


def world_of(seed: int, folder: Path) -> Churn:
    """Return a world whose network, limits and protocol follow from the seed."""
    chance = random.Random(seed)
    network = Network(
        seed=seed,
        delay=(0.001, chance.choice((0.01, 0.5, 2.0))),
        loss=chance.choice((0.0, 0.1, 0.4)),
        duplication=chance.choice((0.0, 0.3)),
    )
    limits = Limits(
        outbox_count=chance.choice((10, 1000)),
        inbox_count=chance.choice((10, 1000)),
        journal_bytes=chance.choice((1, 1000, 1 << 20)),
        linger_seconds=0,
    )
    protocol = chance.choice(("optimal", *PROTOCOLS))
    return Churn(network, folder / f"churn-{seed}.jsonl", protocol, limits)


def try_seed(seed: int, folder: Path, protocol: str = "") -> int:
    """Run the schedule of a seed; return how many changes were made."""
    world = world_of(seed, folder)
    world.protocol = protocol or world.protocol
    run(live(world, random_faults))
    world.log.unlink(missing_ok=True)
    return world.changes


def crash_at(step: int, folder: Path, protocol: str = "optimal", seed: int = 1) -> bool:
    """Crash a host at a step of a fixed run with a join and a removal; False if it has ended."""
    world = Churn(
        Network(seed=seed, delay=(0.001, 0.05)),
        folder / f"churn-step-{step}.jsonl",
        protocol,
        Limits(journal_bytes=300, linger_seconds=0),
        messages=2,
    )
    loop, struck = VirtualLoop(), []

    def faults(world: Churn) -> None:
        def strike() -> None:
            struck.append(loop.time())
            world.crash(FOUNDERS[step % len(FOUNDERS)])

        world.network_later(1.0, lambda: loop.at_step(loop.steps + step, strike))
        world.network_later(1.0, lambda: world.ask(is_add=True, name="e"))
        world.network_later(1.5, lambda: world.ask(is_add=False, name="d"))

    run(live(world, faults), loop=loop)
    world.log.unlink()
    return bool(struck) and struck[0] < FAULTY_SECONDS


if __name__ == "__main__":
    logging.getLogger("antecede.net").setLevel(logging.CRITICAL)  # that members leave is no news
    sys.exit(try_seeds(alternate(try_seed, crash_at, STEPS), "changes or crashes"))
