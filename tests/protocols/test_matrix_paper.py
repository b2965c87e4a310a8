"""[RST91]: the worked examples, with the matrices that the messages carry."""

from typing import cast

import pytest

import antecede
from antecede import MessageId, Need, Packet
from antecede.check import BrokenPromiseError, World
from antecede.protocols.specs import Copy
from antecede.protocols.specs.matrix import Process, Rows
from tests.support.mutants import OwnColumnOnly

P = ("P0", "P1", "P2")


def matrix(packet: Packet) -> object:
    """Return the rows that a packet carries, which are sorted by name."""
    names, rows = zip(*cast("Rows", packet.control), strict=True)
    assert names == tuple(sorted(names))
    return rows


def control(world: World, message: MessageId) -> object:
    return next(matrix(packet) for packet in world.packets if packet.message == message)


def test_the_triangle() -> None:
    world = World("matrix", P)
    a = world.send("P0", ["P2"])
    b = world.send("P0", ["P1"])
    world.arrive_packet("P0", "P1")
    c = world.send("P1", ["P2"])
    world.arrive_packet("P1", "P2")
    assert world.endpoints["P2"].waiting() == {c: (Need("P0", 2),)}  # up to 2: a count cannot tell
    world.arrive_packet("P0", "P2")
    world.check()
    assert world.history.deliveries("P2") == [a, c]
    assert control(world, a) == ((0, 0, 0), (0, 0, 0), (0, 0, 0))
    assert control(world, b) == ((0, 0, 1), (0, 0, 0), (0, 0, 0))
    assert control(world, c) == ((0, 1, 1), (0, 0, 0), (0, 0, 0))


class Literal(Process):
    """The paper's rule to the letter: the delivery counts a message to oneself again."""

    def deliver(self, copy: Copy) -> None:
        super().deliver(copy)
        self.sent[copy.source][self.i] += 1


def test_the_literal_rule_blocks_on_messages_to_oneself() -> None:
    """The specification, with the network's part for messages to oneself played by hand."""
    one = Literal("P0", ("P0", "P1"))
    one.send(frozenset(["P0"]))
    assert one.receive(one.outbox.pop())
    one.send(frozenset(["P0"]))
    second = one.outbox.pop()
    assert second.control == (("P0", (2, 0)), ("P1", (0, 0)))  # 1 would be right
    assert not one.receive(second)


def test_messages_to_oneself_are_delivered_in_order_here() -> None:
    world = World("matrix", ("P0", "P1"))
    sent = [world.send("P0", ["P0"]) for _ in range(3)]
    world.check()
    assert world.history.deliveries("P0") == sent
    assert not world.packets


def multicast_triangle(world: World) -> tuple[MessageId, MessageId]:
    a = world.send("P0", ["P1", "P2"])
    world.arrive_packet("P0", "P1")
    b = world.send("P1", ["P2"])
    world.arrive_packet("P1", "P2")
    world.arrive_packet("P0", "P2")
    return a, b


def test_multicast_counts_all_destinations() -> None:
    world = World("matrix", P)
    a, b = multicast_triangle(world)
    world.check()
    assert world.history.deliveries("P2") == [a, b]
    assert control(world, b) == ((0, 1, 1), (0, 0, 0), (0, 0, 0))


def test_counting_only_ones_own_column_is_unsafe() -> None:
    world = World("matrix", P, rules=OwnColumnOnly)
    with pytest.raises(BrokenPromiseError, match="P0:1 comes before P1:1"):
        multicast_triangle(world)
    b = MessageId("P1", 1)
    assert control(world, b) == ((0, 1, 0), (0, 0, 0), (0, 0, 0))


def test_the_overhead_is_the_whole_matrix() -> None:
    world = World("matrix", ("a", "b", "c", "d", "e"))
    world.send("a", ["b", "c"])
    assert antecede.size(world.packets[0]) == (25, 0, 100)
