"""What protocols that count messages share: rules, counts by process, and their form as bytes."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

from antecede.endpoint.numbers import get_vector, put_vector
from antecede.endpoint.rules import NOBODY, Message, Packet, Rules, View, Wire
from antecede.errors import PeerError

Row = tuple[int, ...]
"""How many messages one process sent to each process."""
Vector = list[int]
"""By process, the key of a message."""
LATER = "knows of later messages of its sender"
Count = TypeVar("Count", int, tuple[int, int])


class Counted(Rules):
    """Rules that know a message by its place on the channel from its sender: keys are places."""

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._newest = [0] * view.n
        """By sender, the number of the last message delivered without a gap."""

    def key(self, packet: Packet) -> int:
        return packet.n << self.shift | packet.source_no

    def newest(self, sender: int) -> int:
        return self._newest[sender]


class InOrder(Rules):
    """Rules that deliver the messages of a channel in order: keys are places, as in ``Counted``."""

    def needs(self, packet: Packet) -> list[int]:
        """Return a message's previous place on the channel; acknowledgements wait for nothing."""
        return [self.key(packet) - self.low - 1] if packet.content.seq else NOBODY

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return the number up to which all messages must be here first; 0 if none is missing."""
        source = packet.source_no
        return source, packet.content.seq - 1 if key > self.reached[source] else 0

    def newest(self, sender: int) -> int:
        """Return 0: places are not message numbers, and :meth:`wanted` says what is missing."""
        return 0


def misplaced(packet: Packet, before: int) -> str:
    """Return what is wrong if a packet miscounts the packets before it on its channel."""
    if before == packet.n - 1:
        return ""
    return f"says that {before} packets came before it, but it is number {packet.n}"


def counted(row: Row, dests: Iterable[int]) -> Row:
    """Return a row that counts one more message to each of ``dests``."""
    counts = list(row)
    for dest in dests:
        counts[dest] += 1
    return tuple(counts)


def larger(one: dict[int, Count], two: dict[int, Count]) -> dict[int, Count]:
    """Return the union with the larger count of each process; change neither argument."""
    if not one or not two:
        return one or two
    result = dict(one)
    for k, count in two.items():
        if k not in result or count > result[k]:
            result[k] = count
    return result


def without_own(rows: list[Row]) -> list[int]:
    """Return the counts of all rows, without the counts of messages to oneself, which are 0."""
    return [count for k, row in enumerate(rows) for count in (*row[:k], *row[k + 1 :])]


def with_own(counts: Sequence[int], n: int) -> list[Row]:
    """Return rows from the counts that :func:`without_own` returned."""
    parts = [counts[k * (n - 1) : (k + 1) * (n - 1)] for k in range(n)]
    return [(*part[:k], 0, *part[k:]) for k, part in enumerate(parts)]


class VectorWire(Wire):
    """By sender, the key of its last message before this one."""

    def put(self, message: Message) -> bytes:
        return put_vector(message.control, self.view, message.seq)

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        vector, at = get_vector(data, at, self.view, message.seq)
        if vector[message.sender] >> self.view.shift >= message.seq:
            raise PeerError(LATER)
        return vector, at

    def spell(self, packet: Packet) -> object:
        return self.numbers(packet.content.control)

    def numbers(self, vector: object) -> tuple[int, ...]:
        """Return the numbers of the messages in a vector."""
        return tuple([key >> self.view.shift for key in cast("Vector", vector)])
