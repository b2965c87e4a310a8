"""Causal broadcast by the ids of direct predecessors: the context graph of Psync [PBS89]_.

A conversation is a graph: a message is attached to those messages its sender had seen that no other
seen message followed. It carries their ids and waits for them, and for nothing else.

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing.

Assumes
-------
A fixed membership in which every message goes to all. Every packet arrives eventually; the network may
reorder and duplicate packets.

Cost
----
One id per direct predecessor: at most ``n``, usually far fewer.

Names
-----
==================  ====================================================
paper               here
==================  ====================================================
context graph       ``Rules.reached``: what is in it, by sender
leaves              ``Context._leaves``, as keys
predecessors        ``Message.control``, ascending keys
==================  ====================================================

Differences from the paper
--------------------------
Written from descriptions of Psync. The graph is kept as one number per sender, because the messages
of a sender enter it in order. Requesting missing predecessors is unnecessary here: it is for
networks that lose packets.

References
----------
.. [PBS89] L. L. Peterson, N. C. Buchholz and R. D. Schlichting. "Preserving and using context
   information in interprocess communication". ACM Transactions on Computer Systems 7(3):217-246,
   1989. https://doi.org/10.1145/65000.65001
"""

from __future__ import annotations

from typing import ClassVar, cast

from antecede.endpoint.fields import Fields
from antecede.endpoint.info import Formula, ProtocolInfo
from antecede.endpoint.messages import COUNT_MAX, PAIR_BYTES, ControlSize, Message, Packet
from antecede.endpoint.numbers import get_column, put_column, read_varint, varint
from antecede.endpoint.registry import register
from antecede.endpoint.rules import ALIKE, Own, Rules, State, Wire, knows_too_much
from antecede.endpoint.view import View
from antecede.errors import PeerError


class ContextWire(Wire):
    """The ids of predecessors, at most one of each sender."""

    def put(self, message: Message) -> bytes:
        """Return how many there are, the gaps between their senders, and how far each is from us.

        Distances forwards are odd, those backwards even.
        """
        shift, low, seq = self.view.shift, self.view.low, message.seq
        keys = cast("list[int]", message.control)
        senders = [key & low for key in keys]
        ahead = [(key >> shift) - seq for key in keys]
        gaps = [sender - before - 1 for before, sender in zip([-1, *senders], senders)]  # noqa: B905
        one, names = put_column(gaps)
        two, numbers = put_column([2 * far - 1 if far > 0 else -2 * far for far in ahead])
        return b"".join((varint(len(keys) << 4 | one << 2 | two), names, numbers))

    def get(self, data: bytes, at: int, message: Message) -> tuple[object, int]:
        """Read them."""
        view = self.view
        code, at = read_varint(data, at)
        gaps, at = get_column(data, at, code >> 4, code >> 2 & 3)
        codes, at = get_column(data, at, code >> 4, code & 3)
        keys: list[int] = []
        sender = -1
        for gap, far in zip(gaps, codes, strict=True):
            sender += gap + 1
            seq = message.seq + (far + 1 >> 1) if far & 1 else message.seq - (far >> 1)
            if sender >= view.n or not 1 <= seq <= COUNT_MAX:
                msg = "names messages that nobody sent"
                raise PeerError(msg)
            if sender == message.sender and seq >= message.seq:
                msg = "knows of later messages of its sender"
                raise PeerError(msg)
            keys.append(seq << view.shift | sender)
        return keys, at

    def spell(self, packet: Packet) -> object:
        """Return sorted pairs (process, number)."""
        members, shift, low = self.view.members, self.view.shift, self.view.low
        keys = cast("list[int]", packet.content.control)
        return tuple(sorted([(members[key & low], key >> shift) for key in keys]))

    def measure(self, packet: Packet) -> ControlSize:
        """Return one pair for each predecessor."""
        count = len(cast("list[int]", packet.content.control))
        return ControlSize(count, 0, PAIR_BYTES * count)


class Context(Rules):
    """One process's view of the conversation."""

    INFO: ClassVar = ProtocolInfo(
        name="context",
        idea="ids of direct predecessors",
        paper="Peterson, Buchholz, Schlichting 1989 (Psync)",
        casts=("broadcast",),
        assumptions="one fixed group; every packet arrives eventually",
        cost="one id per direct predecessor; at most n",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        lost_by_skip=(
            "a message names only its direct predecessors, so one that is lost takes the names of "
            "those before it along"
        ),
        bytes_per_entry=PAIR_BYTES,
        formula=Formula(lambda n: n, lambda n: 6 * n, lambda n: 6 * n, most=True),
    )
    WIRE: ClassVar = ContextWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._leaves: dict[int, int] = {}
        """By sender, the key of a message that no other one here followed."""

    def stamp(
        self, message: Message, others: tuple[int, ...], event: int, after: int
    ) -> Own | None:
        """Attach the message to all leaves; then it is the only one."""
        message.control = [key for _, key in sorted(self._leaves.items())]
        self._leaves = {self.me: message.seq << self.view.shift | self.me}
        return ALIKE

    def check(self, packet: Packet) -> str:
        """Refuse to hear of messages that this process has not sent."""
        for key in cast("list[int]", packet.content.control):
            if key & self.low == self.me and key >> self.view.shift > self.made:
                return "" if self.is_stale else knows_too_much(self.made)
        return ""

    def needs(self, packet: Packet) -> list[int]:
        """Return the predecessors, except one of our own: that is here."""
        low, me = self.low, self.me
        return [key for key in cast("list[int]", packet.content.control) if key & low != me]

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Add the message to the graph: it is a leaf, and its predecessors no longer are."""
        sender, leaves, low = packet.content.sender, self._leaves, self.low
        for key in cast("list[int]", packet.content.control):
            if leaves.get(key & low) == key:
                del leaves[key & low]
        self.reached[sender] = leaves[sender] = packet.content.seq << self.view.shift | sender
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Tell whether a predecessor is this message, or a later one of its sender."""
        low, shift = self.low, self.view.shift
        keys = cast("list[int]", packet.content.control)
        return any(key & low == sender and key >> shift >= seq for key in keys)

    def state(self) -> State:
        """Return the leaves."""
        return {"leaves": sorted(self._leaves.values())}

    def load(self, state: Fields) -> None:
        """Take over the leaves."""
        view = self.view
        for key in state.numbers("leaves"):
            sender = key & view.low
            newest = self.made << view.shift | sender if sender == self.me else 0
            if (
                sender >= view.n
                or sender in self._leaves
                or key > max(newest, self.reached[sender])
            ):
                raise state.wrong("leaves", key, "one message of each sender, delivered here")
            self._leaves[sender] = key


register(Context)
