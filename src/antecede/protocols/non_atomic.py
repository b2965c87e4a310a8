"""Order only between different non-atomic events: an answer in part to [KS98]_.

Some applications see a group of sends as one event, such as the writes of a transaction. Parts of
one *non-atomic event* need no order among themselves; between different ones causal order holds.
[KS98] leaves open what information this takes.

A non-atomic event is an interval of one process's sends. ``send(..., after=NOTHING)`` continues the
process's current one, as does any ``after`` before the first send of the interval; a send without
``after`` begins another.

Guarantee
---------
If the send of m happened before the send of M, and the two belong to different non-atomic events,
every process that gets both gets m first; a message waits for nothing else. A message to oneself is
delivered at once. Without ``after`` this is causal order.

Cost
----
Longer non-atomic events carry *more* than ``optimal``: their parts do not replace each other, so
more messages stay relevant.

Differences from the paper
--------------------------
The paper describes no algorithm. The definition above is not transitive: with m outside and y, M
inside one non-atomic event, m before y does not put m before M at a process that gets m and M, so M
itself must say so. SND and RCV change as follows:

- A message does not replace the earlier ones of its own non-atomic event; their entries keep all
  their destinations. Others it replaces as in SND(3).
- For later messages of the same event it replaces nothing. So what SND(3) drops for a destination
  is set aside until the event ends, and copies to that destination carry it. What a message from
  others leaves out does not change that: they may rely on this very event.
- A message waits for the entries that name its receiver, except those of its own event. Parts are
  delivered in any order, so a process keeps which messages of a channel it has delivered.
- RCV(3) drops the receiver only from entries of messages that it has delivered.

Not achieved: non-atomic events that span several processes, and the least information: entries
set aside are carried even when they are known to be delivered.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from typing import Any, ClassVar, cast

from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.logs import Log, Logged, LogWire, Tops, Unordered, entered
from antecede.endpoint.messages import CLOCK_BYTES, ControlSize, Message, Packet
from antecede.endpoint.numbers import read_count, varint
from antecede.endpoint.rules import NOBODY, Own, Saved, View
from antecede.errors import PeerError

Data = tuple[Tops, Log, int]
"""What the copies of a message share: tops, log, and the first message of its event."""


class NonAtomicWire(LogWire):
    """How far back the non-atomic event began, and O_M; ``get`` checks whom its entries name."""

    names_dests = True
    stands_for_earlier = False  # the parts of an event do not stand for one another

    def put(self, message: Message) -> bytes:
        return varint(message.seq - message.control[2]) + super().put(message)

    def get(self, data: bytes, at: int, message: Message) -> tuple[Data, int]:
        """Read both; only entries of the same event may name the message's destinations."""
        gap, at = read_count(data, at)
        (tops, log), at = super().get(data, at, message)
        first, dests = message.seq - gap, message.dests & ~(1 << message.sender)
        for key, mask in log.items():
            if mask & dests and not _is_part(self.view, key, message.sender, first):
                raise PeerError("names its own destinations for a message of another event")
        if first < 1:
            raise PeerError("begins before its sender's first message")
        return (tops, log, first), at

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Any, int]:
        """Read the needs of a copy: none is a part of the same event."""
        own, at = super().get_own(data, at, packet)
        sender, first = packet.source_no, packet.content.control[2]
        needs = cast("list[int] | None", own) or NOBODY
        if any(_is_part(self.view, key, sender, first) for key in needs):
            raise PeerError("asks for a part of its own event")
        return own, at

    def spell(self, packet: Packet) -> object:
        """Return the number of the event's first message, and sorted entries."""
        return packet.content.control[2], super().spell(packet)

    def measure(self, packet: Packet) -> ControlSize:
        entries, dests, size = super().measure(packet)
        return ControlSize(entries, dests, size + CLOCK_BYTES)


class NonAtomic(Unordered, Logged):
    """One process's log, and what its open non-atomic event has set aside."""

    INFO: ClassVar = ProtocolInfo(
        idea="no order among the parts of a non-atomic event",
        paper="Kshemkalyani, Singhal 1998 (their question, answered in part)",
        guarantee="causal order between different non-atomic events",
        cost="one entry per message not yet certain, one id per remaining destination, one clock",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        bytes_per_entry=None,
        orders_by_after=True,
        groups_by_after=True,
    )
    WIRE: ClassVar = NonAtomicWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._aside: list[set[int]] = [set() for _ in range(view.n)]
        """By destination, messages that only the open non-atomic event replaces there."""
        self._start = -1
        """The last local event before the open non-atomic event, and its first message."""
        self._first = 0

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """SND(2) to SND(5); entries of the open non-atomic event keep their destinations."""
        if after > self._start:
            self._start, self._first = event - 1, message.seq
            self._aside = [set() for _ in self._aside]
        view, dests, log = self.view, message.dests & ~(1 << self.me), Log()
        for key, mask in self._log.items():
            rest = mask
            if mask & dests and not _is_part(view, key, self.me, self._first):
                for dest in view.list(mask & dests):
                    self._aside[dest].add(key)
                rest &= ~dests
            if rest:
                log[key] = rest
        message.control = self._tops, log, self._first
        key = message.seq << self.shift | self.me
        self._tops, self._log = entered(self._tops, log, key, dests, self.low)
        return {dest: sorted(self._aside[dest]) for dest in others if self._aside[dest]}

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """RCV(2) to RCV(5)."""
        tops, log, _ = packet.content.control
        self.merge(packet.content, self.deliver(packet), tops, log)
        mine = 1 << self.me
        for key in [k for k, mask in self._log.items() if mask & mine and self.is_delivered(k)]:
            self._log[key] &= ~mine
            if not self._log[key]:
                del self._log[key]
        return self.places[packet.source_no]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Return whether the sender of a packet knew of a message of another event."""
        if sender == packet.content.sender:
            return seq < packet.content.control[2]
        return super().knows(packet, sender, seq)

    def kept_entries(self) -> int:
        """Return how many entries the log has, with those set aside."""
        return super().kept_entries() + sum(map(len, self._aside))

    def keep(self, saved: Saved) -> None:
        super().keep(saved)
        tops, low = self._tops, self.view.low
        self._aside = saved.rows("aside", self._aside, most=max(tops))
        for keys in self._aside:
            is_right = all(key & low < self.view.n and key <= tops[key & low] for key in keys)
            saved.require(is_right, "aside", keys, "messages that are known of")
        self._start = saved.number("start", self._start + 1) - 1
        self._first = saved.number("first", self._first, 0, self.made)
        saved.part("delivered", self.keep_delivered)


def _is_part(view: View, key: int, sender: int, first: int) -> bool:
    """Return whether a message is part of a sender's event that began with ``first``."""
    return key & view.low == sender and key >> view.shift >= first
