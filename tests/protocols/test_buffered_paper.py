"""buffered against [MF95]: lemmas 2 to 4, figures 1 and 3 to 8, selective receive."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, ClassVar

import pytest

from antecede.check import BrokenPromiseError, World, run_script
from antecede.protocols.buffered import Buffered
from tests.protocols.support import scripts

if TYPE_CHECKING:
    from antecede import MessageId, Packet
    from antecede.endpoint.messages import Message

Place = tuple[str, str]
"""A line of events: the process (P), its output buffer (OB) or its input buffer (IB)."""
Event = tuple[str, object]
"""What happened (s, p, g, a or r, as in the paper) to which message."""

record: list[tuple[Place, Event]] = []


class Recorded(Buffered):
    """Notes send, post, get, acknowledge and receive events in the order of their occurrence."""

    def _note(self, line: str, kind: str, message: MessageId | None) -> None:
        record.append(((line, self.view.members[self.me]), (kind, message)))

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        self._note("P", "s", message.id)
        super().stamp(message, others, event, after)

    def _post(self) -> None:
        before = len(self.outbox)
        super()._post()
        for dest, message, _ in self.outbox[before:]:
            self._note("OB", "p", message.id)
            channel = self.view.members[self.me], self.view.members[dest]
            posted.setdefault(channel, []).append(message.id)

    def taken(self, packet: Packet) -> tuple[int, ...]:
        if packet.content.seq:
            self._note("IB", "g", packet.message)
            self._note("P", "r", packet.message)
        else:
            # Acknowledgements name nothing; the oldest unacknowledged message is meant.
            channel = self.view.members[self.me], packet.source
            self._note("OB", "a", posted[channel].pop(0))
        return super().taken(packet)


posted: dict[tuple[str, str], list[MessageId]] = {}


def pasts() -> dict[Event, set[Event]]:
    """Return, for each recorded event, the events that happened before it."""
    before: dict[Event, set[Event]] = {}
    last: dict[Place, Event] = {}
    cause = {"p": "s", "g": "p", "a": "g", "r": "g"}
    for place, event in record:
        kind, message = event
        direct = [last[place]] if place in last else []
        if kind in cause:
            direct.append((cause[kind], message))
        before[event] = set(direct).union(*(before[e] for e in direct))
        last[place] = event
    return before


@pytest.mark.parametrize("pipelined", [False, True])
def test_lemmas_2_to_4(pipelined: bool) -> None:
    compared = 0
    for script in scripts(25, ("unicast",), pull=True, self_share=0.0):
        record.clear()
        posted.clear()
        run_script(
            script,
            "buffered",
            options={"pipelined": pipelined},
            rules=Recorded,
            drain=Random(1),
        )
        before = pasts()
        for line, first, then in (("OB", "p", "g"), ("P", "s", "g"), ("IB", "g", "r")):
            for (place, one), (other, two) in combinations(record, 2):
                if place == other and place[0] == line and one[0] == two[0] == first:
                    assert (then, one[1]) in before[then, two[1]]
                    compared += 1
    assert compared > 1000


@pytest.mark.parametrize("pull", [False, True])
def test_figures_1_and_3_an_exchange_does_not_deadlock(pull: bool) -> None:
    world = World("buffered", ["P1", "P2"], pull=pull)
    one = world.send("P1", ["P2"])
    two = world.send("P2", ["P1"])
    world.drain()
    assert world.history.deliveries("P1") == [two]
    assert world.history.deliveries("P2") == [one]
    world.check()


def test_figure_5_matrix_delays_the_last_message_at_the_receiver() -> None:
    world = World("matrix", ["P1", "P2", "P3"])
    x = world.send("P1", ["P3"])
    world.send("P1", ["P2"])
    world.arrive_packet("P1", "P2")
    z = world.send("P2", ["P3"])
    world.arrive_packet("P2", "P3")
    assert world.endpoints["P3"].held == 1
    world.arrive_packet("P1", "P3")
    assert world.history.deliveries("P3") == [x, z]


def test_figure_6_buffered_delays_the_first_message_at_the_sender() -> None:
    world = World("buffered", ["P1", "P2", "P3"])
    x = world.send("P1", ["P3"])
    world.send("P1", ["P2"])
    assert world.endpoints["P1"].queued == 1
    assert [p.dest for p in world.in_flight] == ["P3"], "figure 4's overtaking cannot begin"
    world.arrive_packet("P1", "P3")
    world.arrive_packet("P3", "P1")
    world.arrive_packet("P1", "P2")
    z = world.send("P2", ["P3"])
    world.drain()
    assert world.history.deliveries("P3") == [x, z]


def first_program(protocol: str, endpoint_class: type[Buffered] | None = None) -> World:
    world = World(protocol, ["P1", "P2", "P3"], pull=True, rules=endpoint_class)
    world.send("P1", ["P3"], b"x")
    world.send("P1", ["P2"], b"y")
    while world.in_flight:
        world.arrive(0)
    assert world.take("P2")
    world.send("P2", ["P3"], b"z")
    while world.in_flight:
        world.arrive(0)
    return world


@pytest.mark.parametrize("protocol", ["buffered", "matrix"])
def test_selective_receive_against_causal_order_blocks_under_both(protocol: str) -> None:
    world = first_program(protocol)
    assert world.take("P3", "P2") is None
    assert world.take("P3", "P1")
    assert world.take("P3", "P2")


class LooksBehind(Buffered):
    """A mutant: take(source) does not stop at the oldest message."""

    IS_EAGER: ClassVar = False

    def arrived(self, packet: Packet) -> None:
        if packet.content.seq:
            self.outbox.append((packet.source_no, self._ack, None))

    def taken(self, packet: Packet) -> tuple[int, ...]:
        return () if packet.content.seq else super().taken(packet)


def test_an_input_buffer_that_looks_behind_its_oldest_message_loses_order() -> None:
    world = first_program("buffered", LooksBehind)
    with pytest.raises(BrokenPromiseError, match="P1 sent P1:1 before it sent P1:2"):
        world.take("P3", "P2")


def crowns(protocol: str, *, nested: bool) -> list[str]:
    """Run the second program with the receives of figure 7 or 8; return the messages received.

    Every process sends to the others and only then receives; a round of receives is tried over and
    over while packets arrive oldest first.
    """
    world = World(protocol, ["P1", "P2", "P3"], pull=True)
    plan = [
        ("P1", "P2", b"e"),
        ("P2", "P3", b"c"),
        ("P3", "P1", b"a"),
        ("P1", "P3", b"d"),
        ("P2", "P1", b"b"),
        ("P3", "P2", b"f"),
    ]
    for sender, dest, payload in plan:
        world.send(sender, [dest], payload)
    wanted = {"P1": ["P3", "P2"], "P2": ["P1", "P3"], "P3": ["P2", "P1"]}
    if nested:
        wanted = {name: sources[::-1] for name, sources in wanted.items()}
    received = []
    while world.in_flight:
        world.arrive(0)
    for _ in range(2):
        for name, sources in wanted.items():
            if sources and (delivery := world.take(name, sources[0])):
                sources.pop(0)
                received.append(delivery.payload.decode())
    return sorted(received)


@pytest.mark.parametrize("protocol", ["buffered", "matrix"])
def test_figure_7_overlapping_crowns_run_under_both(protocol: str) -> None:
    assert crowns(protocol, nested=False) == list("abcdef")


def test_figure_8_nested_crowns_run_under_matrix_only() -> None:
    assert crowns("matrix", nested=True) == list("abcdef")
    assert crowns("buffered", nested=True) == []


@pytest.mark.parametrize(
    ("protocol", "first", "blocks"),
    [("buffered", "P1", False), ("buffered", "P3", True), ("matrix", "P3", False)],
)
def test_the_third_program_blocks_by_chance_and_only_under_buffered(
    protocol: str, first: str, blocks: bool
) -> None:
    world = World(protocol, ["P1", "P2", "P3"], pull=True)
    world.send("P1", ["P2"], b"x")
    world.send("P3", ["P2"], b"y")
    world.arrive_packet(first, "P2")
    world.arrive_packet("P3" if first == "P1" else "P1", "P2")
    assert (world.take("P2", "P1") is None) is blocks


def test_nested_crowns_cannot_be_generated_whatever_the_network_does() -> None:
    """The cyclic dependency of section 4.2, tried on a thousand networks."""
    nested = {"P1": ["P2", "P3"], "P2": ["P3", "P1"], "P3": ["P1", "P2"]}
    seen = set()
    for seed in range(1000):
        world = World("buffered", nested, promises=())
        for sender, dest in ("12", "23", "31", "13", "21", "32"):
            world.send(f"P{sender}", [f"P{dest}"])
        world.drain(Random(seed))
        orders = {
            name: [message.sender for message in world.history.deliveries(name)] for name in nested
        }
        assert orders != nested
        seen.add(str(orders))
    assert len(seen) > 3
