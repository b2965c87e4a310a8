"""pruned against [JPCY97]: figure 1, the four kinds of redundancy, and exactness."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast

import pytest

from antecede import (
    Endpoint,
    MessageId,
    Packet,
    endpoint,
    size,
)
from antecede.check import World
from antecede.check.scripts import run_step
from antecede.endpoint.logs import Entries, Log, Tops
from antecede.endpoint.messages import FREE, Message
from antecede.endpoint.rules import Own
from antecede.protocols.pruned import Pruned
from tests.protocols.support import (
    assert_goes_on_equal,
    assert_refused,
    promise_broken_by,
    run,
    scripts,
)
from tests.support.rounds import some

if TYPE_CHECKING:
    from antecede.endpoint.info import Cast

Control = tuple[Entries, tuple[tuple[str, int], ...]]
ALL_CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")


def pruned_at(world: World, process: str) -> dict[str, int]:
    return world.endpoints[process].notes()


def control_of(world: World, message: MessageId, dest: str) -> Control:
    packet = next(p for p in world.packets if p.message == message and p.dest == dest)
    return cast("Control", packet.control)


# Figure 1: what k knows of m1, a message from i to j. World checks necessity after every step.


def test_type_1_nothing_known_of_the_delivery_so_it_is_carried() -> None:
    world = World("pruned", "ijk")
    m1 = world.send("i", ["j"])
    world.send("i", ["k"])
    world.arrive_packet("i", "k")
    assert world.endpoints["k"].dependencies() == {m1: {"j"}}
    m2 = world.send("k", ["j"])
    assert control_of(world, m2, "j")[1] == (("i", 1),)
    world.arrive_packet("k", "j")
    assert world.endpoints["j"].held == 1


def test_type_2_just_delivered() -> None:
    world = World("pruned", "ij")
    world.send("i", ["j"])
    world.arrive_packet("i", "j")
    assert world.endpoints["j"].dependencies() == {}
    assert pruned_at(world, "j") == {"just_delivered": 1, "just_replaced": 0, "already": 0}
    m2 = world.send("j", ["i"])
    assert control_of(world, m2, "i") == ((("i", 1, ()),), ())


def test_type_3_already_delivered() -> None:
    world = World("pruned", "ijk")
    m1 = world.send("i", ["j"])
    world.send("i", ["k"])
    world.arrive_packet("i", "k")
    world.arrive_packet("i", "j")
    world.send("j", ["k"])
    assert world.endpoints["k"].dependencies() == {m1: {"j"}}
    world.arrive_packet("j", "k")
    assert m1 not in world.endpoints["k"].dependencies()
    assert pruned_at(world, "k") == {"just_delivered": 2, "just_replaced": 0, "already": 1}


def test_type_4_just_replaced() -> None:
    world = World("pruned", "ijk")
    world.send("i", ["j"])
    world.send("i", ["k"])
    world.arrive_packet("i", "k")
    m4 = world.send("k", ["j"])
    assert control_of(world, m4, "j")[1] == (("i", 1),)
    assert world.endpoints["k"].dependencies() == {m4: {"j"}}
    assert pruned_at(world, "k")["just_replaced"] == 1
    m2 = world.send("k", ["j"])
    assert control_of(world, m2, "j")[1] == (("k", 1),)


def test_type_5_already_replaced() -> None:
    world = World("pruned", "ijkl")
    m1 = world.send("i", ["j"])
    world.send("i", ["k"])
    world.send("i", ["l"])
    world.arrive_packet("i", "k")
    world.arrive_packet("i", "l")
    m5 = world.send("l", ["j"])
    world.send("l", ["k"])
    assert m1 in world.endpoints["k"].dependencies()
    world.arrive_packet("l", "k")
    assert world.endpoints["k"].dependencies()[m5] == {"j"}
    assert m1 not in world.endpoints["k"].dependencies()
    m2 = world.send("k", ["j"])
    assert control_of(world, m2, "j")[1] == (("l", 1),)


# Random scripts: World checks safety, over-blocking and necessity at every step.


@pytest.mark.parametrize("cast_name", ALL_CASTS)
def test_promises_hold_and_copies_carry_exactly_what_they_must(cast_name: Cast) -> None:
    for script in scripts(some(60), (cast_name,)):
        world = run(script, "pruned")
        for packet in world.packets:
            assert packet.message is not None
            assert named(packet) == world.history.carried(packet.message, packet.dest)


def named(packet: Packet) -> dict[MessageId, frozenset[str]]:
    """Return what a packet says explicitly, constraints on its receiver among it."""
    entries, constraints = cast("Control", packet.control)
    result = {MessageId(sender, clock): set(dests) for sender, clock, dests in entries if dests}
    for sender, clock in constraints:
        result.setdefault(MessageId(sender, clock), set()).add(packet.dest)
    return {message: frozenset(dests) for message, dests in result.items()}


def test_it_keeps_and_delivers_what_optimal_does() -> None:
    for script in scripts(25, ALL_CASTS, first=500):
        one, other = (World(p, script.members, fifo=script.fifo) for p in ("pruned", "optimal"))
        for step in script.steps:
            run_step(one, step)
            run_step(other, step)
            for name in script.members:
                ours, theirs = one.endpoints[name], other.endpoints[name]
                assert ours.dependencies() == theirs.dependencies()
        assert one.history.events == other.history.events


def test_step_r8_never_has_anything_to_do() -> None:
    for script in scripts(25, ALL_CASTS, first=700):
        world = World("pruned", script.members, fifo=script.fifo)
        for step in script.steps:
            run_step(world, step)
            for ep in world.endpoints.values():
                entries = cast("Entries", ep.kept())
                dests = [(sender, dest) for sender, _, names in entries for dest in names]
                assert len(dests) == len(set(dests))


def test_one_entry_for_each_known_sender_stays() -> None:
    for script in scripts(20, ALL_CASTS, first=800):
        world = run(script, "pruned")
        for packet in world.packets:
            senders = {sender for sender, _, _ in cast("Control", packet.control)[0]}
            assert packet.message is not None
            causes = {
                m.sender for m in world.history.causes(packet.message) if not is_self(world, m)
            }
            assert senders == causes


def is_self(world: World, message: MessageId) -> bool:
    return world.history.dests(message) == (message.sender,)


# What was pruned: the endpoint counts, the oracle says which kind it was.

units: list[tuple[str, set[tuple[MessageId, str]]]] = []


class Watched(Pruned):
    """Notes what each delivery prunes from the union of both sides."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        entries, _ = cast("Control", packet.control)
        assert packet.message is not None
        me = self.view.members[self.me]
        before = {(m, d) for m, dests in self.dependencies().items() for d in dests}
        before |= {(MessageId(s, c), d) for s, c, dests in entries for d in dests}
        before |= {(packet.message, d) for d in packet.dests if d != packet.source}
        before.discard((packet.message, me))
        places = super().taken(packet)
        after = {(m, d) for m, dests in self.dependencies().items() for d in dests}
        units.append((me, before - after))
        return places


def split(world: World, process: str, gone: set[tuple[MessageId, str]]) -> Counter[str]:
    """Tell already delivered from already replaced, by the whole history."""
    past = world.history._local_of(process)[-1]
    kinds: Counter[str] = Counter()
    for message, dest in gone:
        bit = world.history._copies[world.history._number[message], dest]
        if past.delivered & bit:
            kinds["already_delivered"] += 1
        else:
            assert past.replaced & bit, f"{message} to {dest} was pruned at {process} for no reason"
            kinds["already_replaced"] += 1
    return kinds


def test_what_is_pruned_was_delivered_or_replaced_and_is_counted() -> None:
    totals: Counter[str] = Counter()
    for script in scripts(40, ALL_CASTS, first=900, self_share=0.0):
        world = World("pruned", script.members, rules=Watched, fifo=script.fifo)
        already: Counter[str] = Counter()
        for step in script.steps:
            units.clear()
            run_step(world, step)
            for process, gone in units:
                already[process] += len(gone)
                totals += split(world, process, gone)
        for name in script.members:
            counts = pruned_at(world, name)
            assert counts["already"] == already[name]
            assert counts["just_delivered"] == len(world.history.deliveries(name))
        totals["just_replaced"] += sum(pruned_at(world, n)["just_replaced"] for n in script.members)
    assert min(totals[k] for k in ("already_delivered", "already_replaced", "just_replaced")) > 50


# Size, bad packets, snapshots.


def test_size_counts_entries_pairs_and_remaining_destinations() -> None:
    world = World("pruned", "abc")
    world.send("a", ("b", "c"))
    message = world.send("a", ["b"])
    packet = next(p for p in world.packets if p.message == message)
    assert packet.control == ((("a", 1, ("c",)),), (("a", 1),))
    assert size(packet) == (2, 1, 6 + 2 + 6)


def test_at_most_one_entry_for_each_sender_and_destination() -> None:
    for script in scripts(20, ALL_CASTS, first=1000, steps=120):
        n = len(script.members)
        for packet in run(script, "pruned").packets:
            counted = size(packet)
            assert counted.entries <= n * n
            assert counted.destinations <= n * (n - 1)


def pair() -> tuple[Endpoint, Packet]:
    a, b = (endpoint("pruned", process=name, members=("a", "b", "c")) for name in "ab")
    a.send(["c"])
    return b, a.send(["b"]).packets[0]


def test_knowledge_of_what_was_not_sent_is_refused() -> None:
    b, packet = pair()
    b.receive(packet)
    (answer,) = b.send(["a"]).packets
    fresh = endpoint("pruned", process="a", members=("a", "b", "c"))
    assert_refused(fresh, answer, match="more messages of this process than the 0")


@pytest.mark.parametrize("pull", [False, True])
def test_a_snapshot_goes_on_as_if_nothing_happened(pull: bool) -> None:
    for script in scripts(6, ALL_CASTS, first=40, pull=pull):
        assert_goes_on_equal(script, "pruned")


# Mutants: each breaks one step; the oracle must notice.


class WithoutConstraints(Pruned):
    """R1 left out."""

    def blocker(self, packet: Packet) -> int:
        return FREE


class WithoutEntering(Pruned):
    """S5 left out: the sender forgets what it sent."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        own = super().stamp(message, others, event, after)
        self._tops, self._log = cast("tuple[Tops, Log]", message.control)
        self._log = self._log.copy()
        return own


class WithoutReceived(Pruned):
    """R4 forgets the other destinations of a multicast."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        places = super().taken(packet)
        self._log.pop(self.key(packet), None)
        return places


class WithoutReplacing(Pruned):
    """S2 carries the constraints, but the sender does not prune them."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        before = self._log.copy()
        own = super().stamp(message, others, event, after)
        self._log = before | self._log | before
        return own


class WithoutComparing(Pruned):
    """R5 and R6 left out: both sides are simply united."""

    def merge(self, message: Message, key: int, tops: Tops, log: Log) -> None:
        before = self._log
        super().merge(message, key, tops, log)
        for old, mask in before.items():
            self._log[old] = self._log.get(old, 0) | mask


class WithoutNewest(Pruned):
    """R9 also drops the newest entry when it is empty, and absence loses its meaning."""

    def merge(self, message: Message, key: int, tops: Tops, log: Log) -> None:
        super().merge(message, key, tops, log)
        newest = list(range(self.view.n))
        for one in self._log:
            newest[one & self.low] = max(one, newest[one & self.low])
        self._tops = newest


@pytest.mark.parametrize(
    ("mutant", "promises"),
    [
        (WithoutConstraints, {"safety"}),
        (WithoutEntering, {"safety"}),
        (WithoutReceived, {"safety"}),
        (WithoutReplacing, {"necessity"}),
        (WithoutComparing, {"necessity"}),
        (WithoutNewest, {"necessity"}),
    ],
)
def test_a_broken_step_is_noticed(mutant: type[Pruned], promises: set[str]) -> None:
    assert promise_broken_by(mutant, promises=promises) in promises


@pytest.mark.parametrize("n", [5, 10])
def test_the_worst_case_is_quadratic(n: int) -> None:
    """Theorem 8 of [KS98]: all send to all one by one, and one process hears of everything."""
    names = [f"p{number}" for number in range(n)]
    world = World("pruned", names)
    hub, *others = names
    for sender in others:
        for other in others:
            if other != sender:
                world.send(sender, [other])
        world.send(sender, [hub])
        world.arrive_packet(sender, hub)
    world.send(hub, [others[0]])
    found = size(world.packets[-1])
    assert found.destinations >= (n - 1) * (n - 2) - (n - 2)  # those of others[0] are in DC
    assert found.entries >= (n - 1) * (n - 2)


@pytest.mark.parametrize("protocol", ["pruned", "optimal"])
def test_the_worst_case_of_the_paper(protocol: str) -> None:
    """Everybody unicasts to everybody, concurrently; then one process hears of it all."""
    n = 7
    first, *others = (f"p{number}" for number in range(n))
    members = (first, *others)
    ends = {name: endpoint(protocol, process=name, members=members) for name in members}
    for sender in others:
        for dest in others:
            if dest != sender:
                ends[sender].send([dest])
        (packet,) = ends[sender].send([first]).packets
        assert ends[first].receive(packet).deliveries
    kept = ends[first].dependencies()
    assert sum(map(len, kept.values())) == len(kept) == (n - 1) * (n - 2)
