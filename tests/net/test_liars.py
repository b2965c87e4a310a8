"""A member that lies, or has lost its memory, is refused and counted, and stops no other."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import time
import tracemalloc
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

import antecede
from antecede.net import Limits, Node, frames
from antecede.net.group.flush import ENDING, OVER, Answer, Report
from antecede.net.group.joining import REMOVED
from antecede.net.group.paxos import ACCEPT, ACCEPTED, DECIDED, PREPARE, PROMISE, REFUSED, Vote
from antecede.net.group.views import Ballot, Change
from antecede.net.parcels import ALONE
from antecede.net.settings import Setup
from antecede.testing import Network, run
from tests.net.test_hostile_members import Deaf
from tests.net.test_membership import enter_all
from tests.net.test_node import NAMES, node_on, take

LIMITS = Limits(linger_seconds=0)
RELAYED = ("server", "central", "hierarchy", "serial", "tree")
"""Protocols in which the first packet of a message to b goes to a."""
PLAIN = sorted(
    name
    for name, info in antecede.PROTOCOLS.items()
    if "unicast" in info.casts and not info.blocking and name not in RELAYED
)


def head_of(protocol: str) -> frames.Head:
    return frames.Head(Setup("c", NAMES, protocol, {}).digest, b"identity")


async def is_well(a: Node, b: Node) -> bool:
    """Return whether two nodes still serve each other."""
    await a.send(["b"], b"question")
    return await take(b, 1) == [b"question"] and a._driver is not None and a._driver.failure is None


@pytest.mark.parametrize("protocol", PLAIN)
def test_a_packet_for_another_process_is_refused(protocol: str) -> None:
    end = antecede.endpoint(protocol, process="c", members=NAMES)
    for_b = ALONE + antecede.Codec(end).encode(end.send(["b"], b"x").packets[0])

    async def main() -> None:
        network = Network(seed=1)
        given: Any = {"limits": LIMITS, "protocol": protocol}
        async with node_on(network, "a", **given) as a, node_on(network, "b", **given) as b:
            mallory = network.transport("c")
            await mallory.start(Deaf())
            mallory.send("a", frames.encode(head_of(protocol), 0, (), [(1, for_b)]))
            await asyncio.sleep(1)
            assert a._driver is not None
            assert a._driver.counts["refused"] == 1
            assert await is_well(a, b)

    run(main())


CHANGE = Change(1, leaves=("b",)).encoded()
NOTES = {
    "a decision": Vote(DECIDED, 1, value=CHANGE).encoded(),
    "that we were removed": bytes((REMOVED, 9)),
    "that it accepts": Vote(ACCEPTED, 1, Ballot(1, "c"), value=CHANGE).encoded(),
    "a promise to nobody": Vote(PROMISE, 1, Ballot(1, "a"), Ballot(7, "c"), CHANGE).encoded(),
    "a refusal": Vote(REFUSED, 1, Ballot((1 << 62), "c")).encoded(),
    "a round far away": Vote(PREPARE, 1, Ballot((1 << 63) - 1, "c")).encoded(),
    "an impossible change": Vote(ACCEPT, 1, Ballot(1, "c"), value=b"nonsense").encoded(),
    "that a view is over": Report(0, 1, OVER).encoded(),
    "a view that nobody knows": Report(
        77, 99, ENDING, {"a": 5}, {"z": 1}, {"q": (1, [3])}
    ).encoded(),
    "copies that nobody asked for": Answer(0, 1, is_whole=True, copies=[("b", 1, b"x")]).encoded(),
    "nothing": b"",
    "a word": b"?",
    "a torn vote": Vote(DECIDED, 1, value=CHANGE).encoded()[:-3],
    "a torn report": Report(0, 1, OVER).encoded()[:-1],
}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_no_note_of_one_member_changes_the_group_or_stops_a_node(note: bytes) -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with (
            node_on(network, "a", limits=LIMITS) as a,
            node_on(network, "b", limits=LIMITS) as b,
        ):
            mallory = network.transport("c")
            await mallory.start(Deaf())
            for _ in range(3):
                for name in "ab":
                    mallory.send(name, frames.encode(head_of("optimal"), 0, (), [], [note]))
            await asyncio.sleep(60)
            assert (a.members, b.members) == (NAMES, NAMES)
            assert await is_well(a, b)

    run(main())


def test_no_member_accepts_its_own_removal() -> None:
    """c asks a alone, and says that it has accepted: with the word of a that would be a quorum."""
    ballot, change = Ballot(1, "c"), Change(1, leaves=("a",)).encoded()
    votes = [Vote(PREPARE, 1, ballot)]
    votes += [Vote(kind, 1, ballot, value=change) for kind in (ACCEPT, ACCEPTED, DECIDED)]

    async def main() -> None:
        network = Network(seed=1)
        async with (
            node_on(network, "a", limits=LIMITS) as a,
            node_on(network, "b", limits=LIMITS) as b,
        ):
            assert await is_well(a, b)
            mallory = network.transport("c")
            await mallory.start(Deaf())
            for vote in votes * 3:
                note = vote.encoded()
                mallory.send("a", frames.encode(head_of("optimal"), 0, (), [], [note]))
                await asyncio.sleep(1)
            await asyncio.sleep(60)
            assert a.members == NAMES
            assert await is_well(a, b)

    run(main())


def test_a_process_that_lost_its_memory_has_no_vote() -> None:
    """c votes for one change, forgets that, and would vote for another."""

    async def main() -> None:
        network = Network(seed=1)
        names = ("a", "b", "c")
        async with AsyncExitStack() as stack:
            nodes = await enter_all(stack, network, names)
            network.partition(["a"], ["b"])
            given: Any = {"peers": names, "limits": LIMITS, "seed": 7}
            again = Node("c", transport=network.transport("c"), **given)
            await stack.enter_async_context(again)
            removing = [
                asyncio.create_task(nodes["a"].remove("b")),
                asyncio.create_task(nodes["b"].remove("a")),
            ]
            await asyncio.sleep(300)
            assert (nodes["a"].view, nodes["b"].view, again.view) == (0, 0, 0)
            for task in removing:
                task.cancel()
            await asyncio.gather(*removing, return_exceptions=True)

    run(main())


@pytest.mark.parametrize("size", [4_000, 400_000])
def test_a_frame_costs_memory_and_time_in_proportion_to_its_bytes(size: int) -> None:
    filler = b"\x01" * size
    worst = [
        frames.encode(head_of("optimal"), 0, (), [], [kind + filler])
        for kind in (b"F\x00\x01\x00", b"N\x00\x01\x00", b"C\x01\x01", b"W\x01", b"P", b"X", b"")
    ]
    worst += [frames.encode(head_of("optimal"), 0, (), [(1, filler)]), bytes([4]) + filler]

    async def main() -> None:
        network = Network(seed=1)
        async with (
            node_on(network, "a", limits=LIMITS) as a,
            node_on(network, "b", limits=LIMITS) as b,
        ):
            assert a._driver is not None
            for data in worst:
                tracemalloc.start()
                begin = time.process_time()
                a._driver.received("c", data)
                seconds = time.process_time() - begin
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert peak < 20 * len(data) + 200_000, (data[60:90], peak)
                assert seconds < 1.0 + 0.01 * len(data) / 1000, (data[60:90], seconds)
            assert await is_well(a, b)

    run(main())


def test_a_liar_can_pass_on_messages_in_the_name_of_one_that_is_being_removed() -> None:
    """Only senders' signatures would prevent it: see docs/threat-model.md."""
    names = ("a", "b", "c", "d")
    end = antecede.endpoint("optimal", process="d", members=names)
    (packet,) = end.send(["a"], b"forged").packets
    forged = ALONE + antecede.Codec(end).encode(packet)
    lie = Answer(0, 1, is_whole=True, copies=[("d", 1, forged)]).encoded()
    head = frames.Head(Setup("c", names, "optimal", {}).digest, b"identity")

    async def main() -> None:
        network = Network(seed=1)
        a = Node("a", peers=names, transport=network.transport("a"), limits=LIMITS)
        async with a:
            mallory = network.transport("c")
            await mallory.start(Deaf())
            assert a._driver is not None
            a._driver.members._learn(Change(1, leaves=("d",)).encoded())
            a._driver.received("c", frames.encode(head, 0, (), [], [lie]))
            delivery = await anext(a)
            assert (delivery.source, delivery.payload) == ("d", b"forged")

    run(main())


@pytest.mark.parametrize(
    ("protocol", "options"), [("semantic_optimal", {}), ("optimal", {"lookahead": True})]
)
def test_an_invented_past_rides_along(protocol: str, options: dict[str, Any]) -> None:
    """There one message does not stand for earlier ones, so no log is too long to be true."""
    names, count = ("a", "b", "c", "d"), 2_000
    end = antecede.endpoint(protocol, process="c", members=names, **options)
    (packet,) = end.send(["b"], b"x").packets
    log = {number << packet.view.shift | 3: 1 << 2 for number in range(1, count + 1)}
    before = cast("tuple[Any, ...]", packet.content.control)
    if protocol == "optimal":
        packet.content.control = ([*before[0][:3], max(log)], log)
    else:
        packet.content.control = (log, before[1])
    lie = ALONE + antecede.Codec(end).encode(packet)
    head = frames.Head(Setup("c", names, protocol, options).digest, b"identity")

    async def main() -> None:
        network = Network(seed=1)
        given: Any = {"limits": LIMITS, "protocol": protocol, "options": options, "peers": names}
        a, b = (Node(name, transport=network.transport(name), **given) for name in "ab")
        async with a, b:
            mallory = network.transport("c")
            await mallory.start(Deaf())
            mallory.send("b", frames.encode(head, 0, (), [(1, lie)]))
            assert await take(b, 1) == [b"x"]
            await b.send(["a"], b"short")
            assert await take(a, 1) == [b"short"]
            assert b._driver is not None
            assert count < b._driver.counts["packet_bytes"] < 2 * len(lie)

    run(main())


def test_nobody_ends_a_view_for_others_by_saying_that_it_is_over() -> None:
    """What b has sent to a is still under way when c says so."""

    async def main() -> None:
        network, names = Network(seed=1), ("a", "b", "c", "d")
        async with AsyncExitStack() as stack:
            nodes = await enter_all(stack, network, names)
            a, b, c = (nodes[name] for name in "abc")
            await asyncio.sleep(1)
            network.partition("a", "b")
            await b.send(["a"], b"under way")
            network.partition("d")
            carry, driver = network.carry, c._driver
            assert driver is not None

            def slow(source: str, dest: str, frame: bytes) -> None:
                if (source, dest) != ("b", "a") or not frames.decode(frame).packets:
                    carry(source, dest, frame)

            network.carry = slow  # type: ignore[method-assign]
            removing = asyncio.create_task(a.remove("d"))
            await asyncio.sleep(3)
            assert (a.view, b.view) == (1, 1)
            over, machine = Report(0, 1, OVER).encoded(), driver.machine
            head = frames.Head(machine.group.digest, machine.identity, mark=driver.outgoing.mark)
            for name in "ab":
                carry("c", name, frames.encode(head, 0, (), [], [over]))
            await asyncio.sleep(20)
            assert not removing.done()
            network.carry = carry  # type: ignore[method-assign]
            assert await take(a, 1) == [b"under way"]
            await removing
            stack.pop_all()

    run(main())


def test_flush_returns_when_the_last_peer_is_removed() -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with AsyncExitStack() as stack:
            nodes = await enter_all(stack, network, ("a", "b"))
            a = nodes["a"]
            network.partition(["a"], ["b"])
            await a.send(["b"], b"never")
            flushing = asyncio.create_task(a.flush())
            await asyncio.sleep(5)
            assert not flushing.done()
            await a.remove("b")
            async with asyncio.timeout(60):
                await flushing

    run(main())


@pytest.mark.parametrize("protocol", ["central", "hierarchy"])
def test_a_relay_with_a_slow_consumer_passes_on_what_is_for_others(protocol: str) -> None:
    """a is the relay, and its inbox is full; b sends to c."""

    async def main() -> None:
        network = Network(seed=1)
        limits = Limits(inbox_count=1, linger_seconds=0)
        async with AsyncExitStack() as stack:
            nodes = await enter_all(stack, network, NAMES, limits=limits, protocol=protocol)
            await nodes["b"].send(["a"], b"fills the inbox")
            await asyncio.sleep(10)
            for text in (b"1", b"2", b"3"):
                await nodes["b"].send(["c"], text)
                async with asyncio.timeout(600):
                    assert await take(nodes["c"], 1) == [text]
            assert await take(nodes["a"], 1) == [b"fills the inbox"]

    run(main())


@pytest.mark.parametrize(
    "protocol", [name for name in ("buffered", "permits", "serial") if name in antecede.PROTOCOLS]
)
def test_a_slow_consumer_holds_up_nobody_else(protocol: str) -> None:
    """b has a full inbox; a's messages to c need nothing of b but acknowledgements."""

    async def main() -> None:
        network = Network(seed=1)
        limits = Limits(inbox_count=1, linger_seconds=0)
        async with AsyncExitStack() as stack:
            nodes = await enter_all(stack, network, NAMES, limits=limits, protocol=protocol)
            await nodes["a"].send(["b"], b"fills the inbox")
            await asyncio.sleep(10)
            await nodes["b"].send(["c"], b"1")
            await asyncio.sleep(10)
            await nodes["b"].send(["c"], b"2")
            async with asyncio.timeout(600):
                assert await take(nodes["c"], 2) == [b"1", b"2"]

    run(main())


@pytest.mark.parametrize("protocol", ["optimal", "pruned", "acknowledged"])
def test_a_long_invented_past_is_refused_and_rides_along_with_nobody(protocol: str) -> None:
    """c tells b of 20,000 messages of a to c: each packet of b would repeat them."""
    end = antecede.endpoint(protocol, process="c", members=NAMES)
    (packet,) = end.send(["b"], b"x").packets
    view, count = packet.view, 20_000
    top = count << view.shift
    log = {top - (ahead << view.shift): 1 << 2 for ahead in range(count)}
    tops, _, *rest = cast("tuple[Any, ...]", packet.content.control)
    packet.content.control = ([top, *tops[1:]], log, *rest)
    lie = ALONE + antecede.Codec(end).encode(packet)

    async def main() -> None:
        network = Network(seed=1)
        given: Any = {"limits": LIMITS, "protocol": protocol}
        async with node_on(network, "a", **given) as a, node_on(network, "b", **given) as b:
            mallory = network.transport("c")
            await mallory.start(Deaf())
            mallory.send("b", frames.encode(head_of(protocol), 0, (), [(1, lie)]))
            await asyncio.sleep(1)
            assert b._driver is not None
            assert b._driver.counts["refused"] == 1
            await b.send(["a"], b"short")
            assert await take(a, 1) == [b"short"]
            assert 0 < b._driver.counts["packet_bytes"] < 100
            assert await is_well(a, b)

    run(main())
