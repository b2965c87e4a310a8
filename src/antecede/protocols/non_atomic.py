"""Order only between different non-atomic events: an answer to a question of [KS98]_.

Some applications see a group of sends as one event: the parts of a document, the writes of a
transaction. Parts of one such *non-atomic event* need no order among themselves; between different
ones causal order holds. [KS98] leaves open what information this takes.

A non-atomic event is an interval of one process's sends. ``send(..., after=NOTHING)`` continues the
one that the process's last send belongs to; a send without ``after`` begins another. In general, a
send continues it if ``after`` names an event before the first send of the interval.

Guarantee
---------
If the send of m happened before the send of M, and the two belong to different non-atomic events,
every process that gets both gets m first; a message waits for nothing else. A message to oneself is
delivered at once. Without ``after`` this is causal order.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.

Cost
----
As ``optimal``, and one clock per copy. Longer non-atomic events carry *more*, not less: their parts
do not replace each other, so more messages stay relevant.

Names
-----
==================  =======================================================================
paper               here
==================  =======================================================================
``LOG_j``           ``NonAtomic._log``
``SR_j``            ``NonAtomic._reached`` and ``NonAtomic._ahead``
``O_M``             second part of ``Packet.control``: sorted (sender, clock, destinations)
non-atomic event    its first message's number, the first part of ``Packet.control``
==================  =======================================================================

Differences from the paper
--------------------------
The paper asks the question and describes no algorithm. The definition above is not transitive: with
m outside and y, M inside one non-atomic event, m before y does not put m before M at a process that
gets m and M, so M itself must say so. SND and RCV change as follows:

- A message does not replace the earlier ones of its own non-atomic event; their entries keep all
  their destinations. Others it replaces as in SND(3).
- For later messages of the same non-atomic event it replaces nothing. So what SND(3) drops for a
  destination is set aside until the non-atomic event ends, and copies to that destination carry it.
  What a message from others leaves out does not change what is set aside: they may have left it
  out because they rely on this very event.
- A message waits for the entries that name its receiver, except those of its own non-atomic event.
  Parts are delivered in any order, so a process keeps which messages of a channel it has delivered.
- RCV(3) drops the receiver only from entries of messages that it has delivered.

Not reached: non-atomic events that span several processes, and the least information: what is set
aside is carried although it may be known to be delivered.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.entries import (
    Entries,
    Log,
    as_entries,
    as_log,
    explicit,
    is_entries,
    merged,
    purged,
    size_of,
)
from antecede.core.info import ProtocolInfo
from antecede.core.kinds import EVENT, LOG, NAME
from antecede.core.messages import CLOCK_BYTES, ControlSize, MessageId, Need, Packet, Sending
from antecede.core.reached import Ahead, Reached, count_delivery, is_delivered
from antecede.core.registry import register
from antecede.core.validation import check_entry, is_count, malformed

Control = tuple[int, Entries]


@register
class NonAtomic(Endpoint):
    """One process's log, and what its open non-atomic event has set aside."""

    INFO: ClassVar = ProtocolInfo(
        name="non_atomic",
        idea="no order among the parts of a non-atomic event",
        paper="Kshemkalyani, Singhal 1998 (their question; our algorithm)",
        guarantee="causal order between different non-atomic events",
        cost="one entry per message not yet certain, one id per remaining destination, one clock",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        fixed_because="messages of a process that left would never be known to be done",
        wire_number=23,
        names_only=True,
        bytes_per_entry=None,
        orders_by_after=True,
        groups_by_after=True,
    )
    STATE: ClassVar = {
        "_log": LOG,
        "_aside": {NAME: {(NAME, int)}},
        "_start_event": EVENT,
        "_first": int,
        "_reached": {NAME: [int, int]},
        "_ahead": {NAME: {int: int}},
    }

    def _start(self) -> None:
        self._log: Log = {}
        # By destination: messages that only the open non-atomic event replaces there.
        self._aside: dict[str, set[tuple[str, int]]] = {}
        self._start_event = -1  # the last local event before the open non-atomic event
        self._first = 0  # its first message
        self._reached: Reached = {}
        self._ahead: Ahead = {}

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the entries that still name a destination."""
        return explicit(self._log)

    def kept_entries(self) -> int:
        """Return the entries of the log, and what is set aside."""
        return sum(map(len, self._log.values())) + sum(map(len, self._aside.values()))

    # Send.

    def _stamp(self, sending: Sending) -> dict[str, object]:
        seq, others = sending.message.seq, frozenset(sending.others)
        if sending.basis > self._start_event:
            self._start_event, self._first = self._events - 1, seq
            self._aside.clear()
        controls: dict[str, object] = {
            dest: (self._first, as_entries(purged(self._for(dest, others))))
            for dest in sending.others
        }
        for sender, clock, dests in as_entries(self._log):
            if not self._is_part(sender, clock):
                for dest in others.intersection(dests):
                    self._aside.setdefault(dest, set()).add((sender, clock))
        log = self._without(others)
        log.setdefault(self.process, {})[seq] = others
        self._log = purged(log)
        return controls

    def _is_part(self, sender: str, clock: int) -> bool:
        """Tell whether a message belongs to the open non-atomic event."""
        return sender == self.process and clock >= self._first

    def _without(self, dests: frozenset[str]) -> Log:
        """SND(3): drop destinations, but not from parts of the open non-atomic event."""
        return {
            sender: {
                clock: names if self._is_part(sender, clock) else names - dests
                for clock, names in entries.items()
            }
            for sender, entries in self._log.items()
        }

    def _for(self, dest: str, dests: frozenset[str]) -> Log:
        """SND(2): the log for a copy, with what is set aside for its destination."""
        log = self._without(dests - {dest})
        for sender, clock in self._aside.get(dest, ()):
            entries = log.setdefault(sender, {})
            entries[clock] = entries.get(clock, frozenset()) | {dest}
        return log

    # Receive.

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        first, entries = cast("Control", packet.control)
        for sender, clock, dests in entries:
            if self.process not in dests or (sender == packet.source and clock >= first):
                continue
            if not is_delivered(self._reached, self._ahead, sender, clock):
                yield Need(sender, clock)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        """RCV(3) to RCV(5). Every packet is a message, so its number is its place."""
        source, seq = packet.source, packet.message_id.seq
        count_delivery(self._reached, self._ahead, source, packet.n, seq)
        brought = as_log(cast("Control", packet.control)[1])
        brought.setdefault(source, {})[seq] = frozenset(packet.dests) - {source}
        self._log = purged(self._without_delivered(self._merged(brought)))
        return (Need(source, seq),)

    def _merged(self, brought: Log) -> Log:
        return merged(self._log, brought)

    def _without_delivered(self, log: Log) -> Log:
        """Drop this process from the entries of the messages that it has delivered."""
        me = frozenset((self.process,))
        return {
            sender: {
                clock: dests - me
                if self.process in dests and is_delivered(self._reached, self._ahead, sender, clock)
                else dests
                for clock, dests in entries.items()
            }
            for sender, entries in log.items()
        }

    # What peers may send.

    def _check(self, packet: Packet) -> None:
        control = packet.control
        if packet.kind != "data" or type(control) is not tuple or len(control) != 2:
            raise malformed(packet, "a number and sorted entries (sender, clock, destinations)")
        first, entries = control
        if not is_count(first, 1) or not is_entries(entries):
            raise malformed(packet, "a number and sorted entries (sender, clock, destinations)")
        if first > packet.message_id.seq:
            raise malformed(packet, f"a first message not after {packet.message}")
        for entry in entries:
            check_entry(self, packet, *entry)

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return the entries with their destinations, and the number of the first message."""
        entries, dests, model_bytes = size_of(cast("Control", packet.control)[1])
        return ControlSize(entries, dests, model_bytes + CLOCK_BYTES)
