"""A node at its limits, and one that fails."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from antecede import events as eventlog
from antecede.errors import NodeClosedError, StoreError
from antecede.net import Limits, Node, frames
from antecede.net.driver import Driver
from antecede.net.machine import Machine
from antecede.net.peers import FRAME_BYTES, Link, Peer
from antecede.net.settings import Setup
from antecede.testing import Network, run
from tests.net.test_hostile_members import HEAD, Deaf
from tests.net.test_node import NAMES, node_on, take, three

HASTY = Limits(linger_seconds=0)
SETUP = Setup("a", NAMES, "optimal", {})


class Heard(Deaf):
    """A receiver that keeps the frames."""

    def __init__(self) -> None:
        self.frames: list[frames.Frame] = []

    def received(self, peer: str, frame: bytes) -> None:
        self.frames.append(frames.decode(frame))


def driver_of(node: Node) -> Driver:
    assert node._driver is not None
    return node._driver


def test_large_packets_are_spread_over_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    payloads = [bytes((number,)) * (FRAME_BYTES // 2) for number in range(5)]

    async def main() -> None:
        network = Network(seed=1)
        async with node_on(network, "a") as a, node_on(network, "b") as b:
            send = a._transport.send

            def watch(peer: str, frame: bytes) -> bool:
                sizes.append(len(frames.decode(frame).packets))
                return send(peer, frame)

            monkeypatch.setattr(a._transport, "send", watch)
            await asyncio.gather(*(a.send(["b"], payload) for payload in payloads))
            assert await take(b, 5) == payloads

    run(main())
    assert [size for size in sizes if size][:5] == [1] * 5


def test_a_full_queue_holds_up_the_sender() -> None:
    async def main() -> None:
        network = Network(seed=1, delay=(0.1, 0.2))
        given: Any = {"protocol": "buffered", "options": {"queue_max": 1}}
        async with node_on(network, "a", **given) as a, node_on(network, "b", **given) as b:
            for number in range(6):
                await a.send(["b"], b"%d" % number)
            assert await take(b, 6) == [b"%d" % number for number in range(6)]

    run(main())


def test_what_cannot_be_held_comes_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with three(network, options={"held_max": 1}) as nodes:
            network.partition(["a"], ["c"])
            await nodes["a"].send(["b", "c"], b"question")
            assert await take(nodes["b"], 1) == [b"question"]
            for text in (b"one", b"two", b"three"):
                await nodes["b"].send(["c"], text)
            await asyncio.sleep(20)
            assert len(nodes["c"].waiting()) == 1
            assert driver_of(nodes["c"]).counts["refused"] >= 2
            network.heal()
            assert await take(nodes["c"], 4) == [b"question", b"one", b"two", b"three"]

    run(main())
    assert len([text for text in caplog.messages if text.startswith("c: from b: ")]) == 1


@pytest.mark.parametrize(
    ("place", "name"), [("machine", "arrive"), ("outgoing", "transmit")], ids=["in", "out"]
)
def test_a_node_does_not_go_on_after_an_error_of_its_own(
    place: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        msg = "a bug"
        raise RuntimeError(msg)

    async def program(network: Network) -> None:
        async with node_on(network, "a", limits=HASTY) as a, node_on(network, "b") as b:
            monkeypatch.setattr(getattr(driver_of(a), place), name, fail)
            await b.send(["a"], b"x")
            if place == "outgoing":
                await a.send(["b"], b"y")
            with pytest.raises(NodeClosedError, match="the node has stopped: a bug"):
                await anext(a)
            monkeypatch.undo()
            with pytest.raises(NodeClosedError, match="the node has stopped: a bug"):
                await a.send(["b"], b"z")

    async def main() -> None:
        with pytest.raises(RuntimeError, match="a bug"):
            await program(Network(seed=1))

    run(main())


def test_nothing_is_saved_or_let_out_after_a_failure() -> None:
    async def program() -> None:
        async with node_on(Network(seed=1), "a") as a:
            driver = driver_of(a)
            driver.machine.send(("b",), b"x", None)
            driver.fail(StoreError("no disk"))
            driver.fail(StoreError("another reason, which nobody hears"))
            driver.saving.schedule_arrivals()
            assert [channel.name for channel in driver.saving.batch.packets] == ["b"]
            with pytest.raises(StoreError, match="no disk"):
                await driver.saving.saved()

    async def main() -> None:
        with pytest.raises(StoreError, match="no disk"):
            await program()

    run(main())


def test_no_timer_is_left_behind_by_a_node_that_owes_an_acknowledgement() -> None:
    async def main() -> None:
        network, heard = Network(seed=1), Heard()
        peer = network.transport("b")
        await peer.start(heard)
        async with node_on(network, "a", limits=HASTY) as a:
            driver = driver_of(a)
            driver.outgoing.owe(driver.peers["b"].newest)
            timer = driver.outgoing._owing
            assert timer is not None
            frames_before = driver.outgoing.frames
        assert timer.cancelled()
        assert driver.outgoing.frames == frames_before + 1

    run(main())


@pytest.mark.parametrize("note", [b"", b"?", b"?something"])
def test_a_note_that_nobody_knows_is_turned_away(
    note: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with node_on(network, "a", limits=HASTY) as a:
            mallory = network.transport("c")
            await mallory.start(Deaf())
            mallory.send("a", frames.encode(HEAD, 0, (), [], [note]))
            await asyncio.sleep(1)
            assert driver_of(a).counts["refused"] == 1

    run(main())
    assert "is not known; run the same version of antecede everywhere" in caplog.text


def test_events_of_a_message_to_a_group_name_its_members(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    given: Any = {"protocol": "broadcast", "options": {"groups": {"g": ("a", "b")}}}

    async def main() -> None:
        network = Network(seed=1)
        a = node_on(network, "a", events=path, **given)
        async with a, node_on(network, "b", **given) as b:
            await a.send("g", b"hello")
            assert await take(b, 1) == [b"hello"]

    run(main())
    sent = [event for event in eventlog.read(path) if event.kind == "send"]
    assert [event.dests for event in sent] == [("a", "b")]


def link_to(machine: Machine, name: str, limits: Limits) -> Link:
    side = machine.sides[0]
    return Link(Peer(name), side, side.channels[name], limits)


def test_packets_that_wait_for_room_are_limited_too() -> None:
    link = link_to(Machine(SETUP, bytes(8)), "b", Limits(outbox_count=2))
    assert [link.put_aside(n, b"x") for n in (1, 2, 3, 1)] == [True, True, False, True]
    assert [link.take_pending()[0] for _ in range(2)] == [1, 2]
    assert not link.pending_bytes


def test_senders_wait_until_the_outbox_has_room_again() -> None:
    async def main() -> None:
        machine = Machine(SETUP, bytes(8))
        link = link_to(machine, "b", Limits(outbox_count=2))
        for _ in range(4):
            machine.send(("b",), b"x", None)
        link.released = 4
        link.waiters.append(waiter := asyncio.get_running_loop().create_future())
        link.acknowledge(machine, 1, (), 0.0)
        assert link.is_full
        assert not waiter.done()
        link.acknowledge(machine, 3, (), 0.0)
        assert waiter.done()

    asyncio.run(main())
