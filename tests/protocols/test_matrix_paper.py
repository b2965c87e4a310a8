"""[RST91]: the worked examples, with the matrices that the messages carry."""

from collections.abc import Iterable
from typing import cast

import pytest

import antecede
from antecede import MessageId, Need, Packet
from antecede.check import BrokenPromiseError, World
from antecede.protocols.matrix import Control, Matrix
from tests.check.mutants import OwnColumnOnly

P = ("P0", "P1", "P2")


def matrix(packet: Packet) -> object:
    """Return the rows that a packet carries, which are sorted by name."""
    names, rows = zip(*cast("Control", packet.control), strict=True)
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
    assert world.endpoints["P2"].waiting() == {c: (Need("P0", 1, "count"),)}
    world.arrive_packet("P0", "P2")
    world.check()
    assert world.history.deliveries("P2") == [a, c]
    assert control(world, a) == ((0, 0, 0), (0, 0, 0), (0, 0, 0))
    assert control(world, b) == ((0, 0, 1), (0, 0, 0), (0, 0, 0))
    assert control(world, c) == ((0, 1, 1), (0, 0, 0), (0, 0, 0))


class Literal(Matrix):
    """The paper's rule to the letter for messages to oneself: the delivery counts them again.

    The base delivers them at once, so the network's part is played by hand in the test.
    """

    def post_to_self(self) -> Packet:
        before = tuple(zip(self._names, self._sent, strict=True))
        self._count_own()
        self._seq += 1
        message = MessageId(self.process, self._seq)
        return Packet(
            self.process, self.process, self._seq, "data", message, P[:1], b"", before, "matrix"
        )

    def is_deliverable(self, packet: Packet) -> bool:
        return not any(True for _ in self._unmet(packet))

    def deliver_own(self, packet: Packet) -> Iterable[Need]:
        self._count_own()
        self._counts[self._me] += 1
        return ()

    def _count_own(self) -> None:
        me = self._me
        row = list(self._sent[me])
        row[me] += 1
        self._sent[me] = tuple(row)


def test_the_literal_rule_blocks_on_messages_to_oneself() -> None:
    one = Literal(process="P0", members=("P0", "P1"), options={})
    a = one.post_to_self()
    assert one.is_deliverable(a)
    one.deliver_own(a)
    b = one.post_to_self()
    assert matrix(b) == ((2, 0), (0, 0))  # 1 would be right
    assert not one.is_deliverable(b)


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
    world = World("matrix", P, endpoint_class=OwnColumnOnly)
    with pytest.raises(BrokenPromiseError, match="P0:1 comes before P1:1"):
        multicast_triangle(world)
    b = MessageId("P1", 1)
    assert control(world, b) == ((0, 1, 0), (0, 0, 0), (0, 0, 0))


def test_the_overhead_is_the_whole_matrix() -> None:
    world = World("matrix", ("a", "b", "c", "d", "e"))
    world.send("a", ["b", "c"])
    assert antecede.size(world.packets[0]) == (25, 0, 100)
