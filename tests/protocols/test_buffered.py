"""buffered against the oracle, its buffers' bounds, lies, snapshots and mutants."""

from __future__ import annotations

from typing import Any

import pytest

from antecede import (
    Endpoint,
    HoldFullError,
    MessageId,
    Packet,
    QueueFullError,
    UsageError,
    endpoint,
    size,
)
from antecede.endpoint.messages import Message
from antecede.protocols.buffered import Buffered, Pipelined
from tests.protocols.support import (
    assert_goes_on_equal,
    assert_refused,
    promise_broken_by,
    run,
    scripts,
)
from tests.support.rounds import some

MEMBERS = ("a", "b", "c")
BOTH = pytest.mark.parametrize("pipelined", [False, True])


def group(**options: Any) -> dict[str, Endpoint]:
    return {
        name: endpoint("buffered", process=name, members=MEMBERS, **options) for name in MEMBERS
    }


@BOTH
@pytest.mark.parametrize("pull", [False, True])
def test_promises_hold_on_any_network(pipelined: bool, pull: bool) -> None:
    for script in scripts(some(120), ("unicast",), pull=pull, steps=80):
        world = run(script, "buffered", options={"pipelined": pipelined})
        data = [packet for packet in world.packets if packet.kind == "data"]
        assert len(world.packets) == 2 * len(data), "one acknowledgement for each message"
        assert all(size(packet) == (0, 0, 0) for packet in world.packets)


def test_it_never_holds_at_the_receiver_unless_the_application_is_slow() -> None:
    for script in scripts(30, ("unicast",), first=300):
        world = run(script, "buffered")
        assert all(ep.held == 0 for ep in world.endpoints.values())


def test_options_are_checked() -> None:
    with pytest.raises(UsageError, match="pipelined='yes' is neither True nor False"):
        endpoint("buffered", process="a", members=MEMBERS, pipelined="yes")
    with pytest.raises(UsageError, match="buffered does not send to b, c from 'a'"):
        group()["a"].send(["b", "c"])


# The output buffer.


@BOTH
def test_a_message_waits_for_the_acknowledgement_of_the_one_before(pipelined: bool) -> None:
    ends = group(pipelined=pipelined)
    first = ends["a"].send(["b"], b"1").packets
    assert len(first) == 1
    same = ends["a"].send(["b"], b"2").packets
    assert len(same) == (1 if pipelined else 0)
    other = ends["a"].send(["c"], b"3").packets
    assert other == ()
    assert ends["a"].queued == (1 if pipelined else 2)
    acks = [ack for packet in (*first, *same) for ack in ends["b"].receive(packet).packets]
    posted = [p for ack in acks for p in ends["a"].receive(ack).packets]
    assert [(p.dest, p.payload) for p in posted] == ([("c", b"3")] if pipelined else [("b", b"2")])


def test_pipelining_puts_packets_back_in_channel_order() -> None:
    ends = group(pipelined=True)
    first, second = (ends["a"].send(["b"], text).packets[0] for text in (b"1", b"2"))
    assert ends["b"].receive(second).packets == (), "an early packet is not acknowledged"
    assert ends["b"].held == 1
    effects = ends["b"].receive(first)
    assert [delivery.payload for delivery in effects.deliveries] == [b"1", b"2"]
    assert len(effects.packets) == 2


def test_the_queue_is_bounded_and_a_refused_send_leaves_no_trace() -> None:
    ends = group(queue_max=1)
    (first,) = ends["a"].send(["b"]).packets
    ends["a"].send(["b"])
    before = ends["a"].state()
    with pytest.raises(QueueFullError, match="1 messages wait to be sent already"):
        ends["a"].send(["c"])
    assert ends["a"].state() == before
    assert ends["a"].send(["a"], b"to myself").deliveries[0].payload == b"to myself"
    (ack,) = ends["b"].receive(first).packets
    assert len(ends["a"].receive(ack).packets) == 1
    ends["a"].send(["c"])
    assert ends["a"].queued == 1


def test_without_a_queue_only_what_can_go_at_once_is_taken() -> None:
    ends = group(queue_max=0)
    (first,) = ends["a"].send(["b"]).packets
    with pytest.raises(QueueFullError):
        ends["a"].send(["b"])
    (ack,) = ends["b"].receive(first).packets
    ends["a"].receive(ack)
    assert len(ends["a"].send(["b"]).packets) == 1


# The input buffer.


def test_a_packet_refused_for_want_of_room_is_not_acknowledged() -> None:
    ends = group(pull=True, held_max=1)
    (one,) = ends["a"].send(["b"], b"1").packets
    (two,) = ends["c"].send(["b"], b"2").packets
    assert len(ends["b"].receive(one).packets) == 1
    before = ends["b"].state()
    with pytest.raises(HoldFullError):
        ends["b"].receive(two)
    assert ends["b"].state() == before
    assert ends["b"].take().deliveries[0].payload == b"1"
    assert len(ends["b"].receive(two).packets) == 1


def test_take_sees_only_the_oldest() -> None:
    ends = group(pull=True)
    ends["b"].receive(ends["a"].send(["b"], b"1").packets[0])
    ends["b"].receive(ends["c"].send(["b"], b"2").packets[0])
    assert ends["b"].waiting() == {MessageId("a", 1): (), MessageId("c", 1): ()}
    assert ends["b"].take("c").deliveries == ()
    assert ends["b"].take("a").deliveries[0].payload == b"1"
    assert ends["b"].take("c").deliveries[0].payload == b"2"
    assert ends["b"].take().deliveries == ()


def exchange(count: int, queue_max: int, held_max: int) -> int:
    """Let two processes send ``count`` messages each and only then receive; return what was done.

    A full output buffer blocks the sender, a full input buffer the network.
    """
    ends = {
        name: endpoint(
            "buffered",
            process=name,
            members=("a", "b"),
            pull=True,
            queue_max=queue_max,
            held_max=held_max,
        )
        for name in ("a", "b")
    }
    todo = {name: ["send"] * count + ["take"] * count for name in ends}
    network: list[Packet] = []
    done, before = 0, -1
    while done != before:
        before = done
        for name, program in todo.items():
            if program and step(ends[name], program[0], network):
                program.pop(0)
                done += 1
        for packet in list(network):
            try:
                network += ends[packet.dest].receive(packet).packets
            except HoldFullError:
                continue
            network.remove(packet)
            done += 1
    return sum(map(len, todo.values()))


def step(ep: Endpoint, action: str, network: list[Packet]) -> bool:
    if action == "take":
        effects = ep.take()
        network += effects.packets
        return bool(effects.deliveries)
    try:
        network += ep.send(["b" if ep.process == "a" else "a"]).packets
    except QueueFullError:
        return False
    return True


@pytest.mark.parametrize(
    ("count", "queue_max", "held_max", "left"),
    [(1, 0, 1, 0), (4, 0, 4, 0), (4, 2, 1, 0), (4, 0, 2, 2 * 5), (4, 1, 1, 2 * 5)],
)
def test_buffers_that_are_too_small_block_an_exchange_for_good(
    count: int, queue_max: int, held_max: int, left: int
) -> None:
    """[MF95] footnote 2: room for all (in the buffers and one on its way), or a deadlock."""
    assert exchange(count, queue_max, held_max) == left


# Bad packets and snapshots.


@BOTH
def test_an_acknowledgement_of_nothing_is_refused(pipelined: bool) -> None:
    ends, others = group(pipelined=pipelined), group(pipelined=pipelined)
    (packet,) = others["a"].send(["b"]).packets
    (ack,) = others["b"].receive(packet).packets
    assert_refused(ends["a"], ack, match="none to 'b' awaits")
    ends["a"].send(["b"])
    early = Packet(ack.content, ack.source_no, ack.dest_no, 2, None)
    ends["a"].receive(early)
    assert_refused(ends["a"], ack, match="none to 'b' awaits")
    assert ends["a"].receive(early).packets == (), "a duplicate is dropped"


def test_a_multicast_from_a_peer_is_refused() -> None:
    ends = group()
    (packet,) = ends["a"].send(["b"]).packets
    both = Message(packet.view, 0, 1, 0b110, b"", None)
    assert_refused(ends["b"], Packet(both, 0, 1, 1, None), match="buffered is unicast")


@BOTH
@pytest.mark.parametrize("pull", [False, True])
def test_a_snapshot_goes_on_as_if_nothing_happened(pipelined: bool, pull: bool) -> None:
    for script in scripts(4, ("unicast",), first=30, pull=pull):
        assert_goes_on_equal(script, "buffered", options={"pipelined": pipelined})


# Mutants: each breaks one rule; the oracle must notice.


class WithoutWaiting(Buffered):
    """Posts at once."""

    def _can_post(self, dest: int) -> bool:
        return True

    def check(self, packet: Packet) -> str:
        return ""


class NewestFirst(Buffered):
    """The output buffer is a stack."""

    def _post(self) -> None:
        self._output.reverse()
        super()._post()
        self._output.reverse()


class WithoutOrder(Pipelined):
    """Pipelining without channel order."""

    def needs(self, packet: Packet) -> list[int]:
        return []


@pytest.mark.parametrize(
    ("mutant", "pipelined"),
    [(WithoutWaiting, False), (NewestFirst, False), (WithoutOrder, True)],
)
def test_a_broken_rule_is_noticed(mutant: type[Buffered], pipelined: bool) -> None:
    options = {"pipelined": pipelined}
    assert promise_broken_by(mutant, ("unicast",), options=options) == "safety"
