"""A node at its limits, and one that gets what a good peer does not send."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import events as eventlog
from antecede.errors import NodeClosedError, PeerError, StoreError
from antecede.net import Limits, Node, frames, members, records
from antecede.net.agreement import PREPARE, Ballot, Vote
from antecede.net.bursts import received
from antecede.net.changing import Changing
from antecede.net.channels import Channel
from antecede.net.copies import ALONE
from antecede.net.engine import Engine
from antecede.net.groups import founding
from antecede.net.lobby import Lobby
from antecede.net.outgoing import FRAME_BYTES
from antecede.net.peers import Peer
from antecede.net.records import Input
from antecede.net.setups import Setup
from antecede.net.views import Change
from antecede.testing import Network, run
from tests.net.test_hostile_members import HEAD, Deaf
from tests.net.test_node import NAMES, node_on, take, three
from tests.net.test_voting import World

HASTY = Limits(linger_seconds=0)
SETUP = Setup("a", NAMES, "optimal", {})


class Heard(Deaf):
    """A receiver that keeps the frames."""

    def __init__(self) -> None:
        self.frames: list[frames.Frame] = []

    def received(self, peer: str, frame: bytes) -> None:
        self.frames.append(frames.decode(frame))


def engine_of(node: Node) -> Engine:
    assert node._engine is not None
    return node._engine


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
            assert engine_of(nodes["c"]).counts["refused"] >= 2
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
            monkeypatch.setattr(getattr(engine_of(a), place), name, fail)
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
            engine = engine_of(a)
            engine.machine.send(("b",), b"x", None)
            engine.fail(StoreError("no disk"))
            engine.fail(StoreError("another reason, which nobody hears"))
            engine.saving.schedule_arrivals()
            assert list(engine.saving.batch.packets) == ["b"]
            with pytest.raises(StoreError, match="no disk"):
                await engine.saving.saved()

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
            engine = engine_of(a)
            engine.outgoing.owe(engine.peers["b"])
            timer = engine.outgoing._owing
            assert timer is not None
            frames_before = engine.outgoing.frames
        assert timer.cancelled()
        assert engine.outgoing.frames == frames_before + 1

    run(main())


def test_a_frame_of_an_earlier_incarnation_is_told_that_it_was_removed() -> None:
    async def main() -> None:
        network, heard = Network(seed=1), Heard()
        async with node_on(network, "a", limits=HASTY) as a:
            machine = engine_of(a).machine
            machine.channels["c"].joined = 2
            machine.group.past["c"] = "c"
            late = network.transport("c")
            await late.start(heard)
            late.send("a", frames.encode(HEAD, 0, (), []))
            await asyncio.sleep(1)
            notes = [note for frame in heard.frames for note in frame.notes]
            assert bytes((members.REMOVED,)) in [note[:1] for note in notes]

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
            assert engine_of(a).counts["refused"] == 1

    run(main())
    assert "is not known; run the same version of antecede everywhere" in caplog.text


def test_packets_that_wait_for_room_are_limited_too() -> None:
    peer = Peer("b", Channel("b"), Limits(outbox_count=2))
    assert [peer.put_aside(n, b"x") for n in (1, 2, 3, 1)] == [True, True, False, True]
    assert [peer.take_pending()[0] for _ in range(2)] == [1, 2]
    assert not peer.pending_bytes


def test_senders_wait_until_the_outbox_has_room_again() -> None:
    async def main() -> None:
        machine = Changing(SETUP, bytes(8))
        peer = Peer("b", machine.channels["b"], Limits(outbox_count=2))
        for _ in range(4):
            machine.send(("b",), b"x", None)
        peer.released = 4
        peer.waiters.append(waiter := asyncio.get_running_loop().create_future())
        peer.acknowledge(machine, 1, (), 0.0)
        assert peer.is_full
        assert not waiter.done()
        peer.acknowledge(machine, 3, (), 0.0)
        assert waiter.done()

    asyncio.run(main())


def test_a_run_of_messages_ends_when_a_process_joins() -> None:
    machine = Changing(SETUP, bytes(8))
    machine.keeps_log = False
    machine.send(("b",), b"1", None)
    burst = machine.found_burst()
    assert burst is not None
    assert machine.send_on(burst, b"2")
    machine.endpoint.add("d")
    assert not machine.send_on(burst, b"3")
    assert machine.sends == 2


def test_only_optimal_knows_the_short_cut() -> None:
    other = antecede.endpoint("matrix", process="a", members=NAMES)
    sender = antecede.endpoint("matrix", process="b", members=NAMES)
    packet = sender.send(["a"], b"x").packets[0]
    other.receive(packet)
    before = other.state()
    assert received(other, packet, 1) == 0
    assert other.state() == before
    assert received(Changing(SETUP, bytes(8)).endpoint, None, 1) == 0


def test_a_newcomer_waits_for_a_welcome_that_is_meant_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def frame(*notes: bytes, dest: bytes = b"") -> bytes:
        return frames.encode(frames.Head(bytes(8), b"identity", dest), 0, (), (), notes)

    def welcome(setup: Setup) -> bytes:
        start = founding(setup.digest, setup.rules, setup.members)
        return bytes((members.WELCOME,)) + start.encoded()

    async def main() -> None:
        lobby = Lobby(SETUP, b"myself..")
        good = welcome(SETUP)
        for data in (
            b"garbage",
            frame(b"?another note"),
            frame(good, dest=b"another."),
            frame(welcome(Setup("z", ("y", "z"), "optimal", {}))),
        ):
            lobby.received("b", data)
            assert not lobby.welcome.done()
        lobby.received("b", frame(b"?another note", good))
        assert (await lobby.welcome).members.keys() == set(NAMES)
        lobby.received("b", b"garbage that nobody looks at")

    asyncio.run(main())
    told = [text.partition("what b sent: ")[2] for text in caplog.messages]
    assert len(told) == 2
    assert told[0].startswith("a frame of 7 bytes is too short")
    assert told[1] == "the welcome is for another process"


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


def test_a_vote_in_the_name_of_another_is_refused() -> None:
    voter = World().voters["a"]
    with pytest.raises(PeerError, match="'c' proposes in the name of 'b'"):
        voter.voting.take("c", Vote(PREPARE, 1, Ballot(1, "b")))
    assert voter.machine.group.promised == Ballot()


def test_a_copy_that_is_passed_on_twice_is_delivered_once() -> None:
    one = Changing(SETUP, bytes(8))
    sender = antecede.endpoint("optimal", process="c", members=NAMES)
    parcel = ALONE + one.codec.encode(sender.send(["a"], b"from c").packets[0])
    one.change(Input(records.LEARN, data=Change(1, False, "c", "c").encoded()))
    for _ in range(2):
        one.change(Input(records.RELAY, "c", 1, 0, parcel))
    assert [delivery.payload for delivery in one.inbox.values()] == [b"from c"]
