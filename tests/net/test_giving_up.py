"""What a node gives up under protocols in which members pass on or count each other's messages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antecede import Need, UsageError
from antecede.net import Limits, Node
from antecede.net.machine import Machine
from antecede.net.settings import Setup
from antecede.testing import Host, Network, run
from tests.net.test_driver import driver_of

FOUR = ("a", "b", "c", "d")


def machines(protocol: str, **options: Any) -> dict[str, Machine]:
    return {name: Machine(Setup(name, FOUR, protocol, options), bytes(8)) for name in FOUR}


def carry(group: dict[str, Machine], source: str, dest: str, *numbers: int) -> None:
    """Let packets arrive; by default all that the source has for the destination."""
    outbox = group[source].sides[0].channels[dest].outbox
    for n in numbers or tuple(outbox):
        group[dest].arrive(source, n, outbox[n])


def payloads(machine: Machine) -> list[bytes]:
    return [one.payload for one in machine.inbox.values()]


def restored(machine: Machine) -> Machine:
    return Machine.restored(machine.setup, machine.checkpoint(), [])[0]


@pytest.mark.parametrize("protocol", ["central", "tree", "hierarchy"])
def test_what_a_relay_sent_before_a_message_given_up_is_taken_when_it_comes_after_all(
    protocol: str,
) -> None:
    """Otherwise the relay sends it again for ever: its flush never ends, nor does the view."""
    options: dict[str, dict[str, Any]] = {
        "central": {"relay": "a"},
        "tree": {"links": (("a", "b"), ("a", "c"), ("a", "d"))},
        "hierarchy": {"clusters": (FOUR,)},
    }
    group = machines(protocol, **options[protocol])
    for sender, payload in (("b", b"1"), ("d", b"2"), ("d", b"3")):
        group[sender].send(("c",), payload, None)
        carry(group, sender, "a", *list(group[sender].sides[0].channels["a"].outbox)[-1:])
    a, c = group["a"], group["c"]
    assert len(a.sides[0].channels["c"].outbox) == 3
    carry(group, "a", "c", 3)
    assert c.waiting() == {("d", 2): (Need("d", 1),)}
    c.skip("d", 1)
    assert payloads(c) == [b"3"]
    group["c"] = c = restored(c)
    carry(group, "a", "c", 1, 2)
    assert c.sides[0].channels["a"].prefix == 3
    assert payloads(c) == [b"3"]
    a.send(("c",), b"4", None)
    carry(group, "a", "c", 4)
    assert payloads(c) == [b"3", b"4"]


def test_a_number_that_counts_no_messages_cannot_be_skipped() -> None:
    """Messages with these numbers are still to be sent, and would be dropped."""

    async def main() -> None:
        options = {"zones": (("a", "b", "c"), ("c", "d"))}
        network = Network(seed=1)
        group = machines("zones", **options)
        async with Node(
            "d",
            peers=FOUR,
            protocol="zones",
            options=options,
            transport=network.transport("d"),
            limits=Limits(linger_seconds=0),
        ) as d:
            group["d"] = driver_of(d).machine
            for _ in range(3):
                group["a"].send(FOUR, b"to all", None)
            carry(group, "a", "c")
            carry(group, "c", "d", 3)
            assert group["d"].waiting() == {("a", 3): (Need("c", 2, "relayed"),)}
            with pytest.raises(UsageError, match="nothing waits for that"):
                await d.skip("c", 2)
            carry(group, "c", "d", 1, 2)
            group["c"].send(FOUR, b"later", None)
            carry(group, "c", "d", 4)
            assert payloads(group["d"]) == [b"to all"] * 3 + [b"later"]

    run(main())


def test_a_node_never_gives_up_its_own_messages() -> None:
    """Under flooding they come back, and others may wait until they do."""
    names, errors = ("a", "b", "c", "d", "e"), list[dict[str, Any]]()
    limits = Limits(held_seconds_max=0.05, on_lost="mark", linger_seconds=0)

    async def program(host: Host) -> None:
        async with Node(
            host.name, peers=names, protocol="flooding", transport=host.transport, limits=limits
        ) as node:
            for _ in range(5):
                await node.send(names, b"x")
                await asyncio.sleep(0.1)
            async for delivery in node:
                await delivery.done()

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, found: errors.append(found))
        network = Network(seed=1, delay=(0.001, 0.5))
        hosts = [Host(network, name) for name in names]
        for host in hosts:
            host.start(program)
        await asyncio.sleep(60)
        for host in hosts:
            host.crash()

    run(main())
    assert not errors


def test_an_invented_past_is_given_up_with_messages_still_to_be_sent() -> None:
    """d says that a has sent two messages to b; with on_lost="mark" b drops two when they come."""
    group = machines("optimal")
    for _ in range(2):
        group["a"].send(("b",), b"never sent", None)
    group["a"].send(("d",), b"", None)
    carry(group, "a", "d")
    group["d"].send(("b",), b"invented past", None)

    def node(name: str, **limits: Any) -> Node:
        given = Limits(linger_seconds=0, **limits)
        return Node(name, peers=FOUR, transport=network.transport(name), limits=given)

    async def main() -> None:
        async with node("a") as a, node("b", held_seconds_max=5, on_lost="mark") as b, node("d"):
            group["b"] = driver_of(b).machine
            carry(group, "d", "b")
            driver_of(b).saving.schedule()
            assert (await anext(b)).unmet == (Need("a", 2),)
            for number in range(1, 5):
                await a.send(["b"], b"%d" % number)
            await a.flush()
            assert [(await anext(b)).payload for _ in range(2)] == [b"3", b"4"]

    network = Network(seed=1)
    run(main())


def test_copies_that_waited_for_permits_leave_alike_after_a_restart() -> None:
    """Each has the bytes that make the other copies, under the same ticket."""
    group = machines("permits")
    a, b = group["a"], group["b"]
    a.send(("b", "c"), b"first", None)
    carry(group, "a", "b")
    b.send(("c", "d"), b"second", None)
    assert b.sides[0].endpoint.queued == 2
    carry(group, "a", "c")
    carry(group, "c", "a")
    carry(group, "b", "a")
    again = restored(b)
    made = []
    for one in (b, again):
        group["b"] = one
        carry(group, "a", "b", 2)
        assert not one.sides[0].endpoint.queued
        made.append(one.checkpoint())
    assert made[0] == made[1]
    assert b.sides[0].tickets == 1
