"""Buffers for multicast and broadcast, with two numbers per message: an answer to [MF95]_.

[MF95] sends one message at a time, to one destination, and asks for buffers that serve broadcast.
Here messages are delivered as soon as they arrive, in channel order. What may have to wait is what
their receiver sends afterwards: it leaves only when the sender of each message delivered before has
given its *permit*, which says that all its messages up to that one have been delivered everywhere.

Guarantee
---------
Causal order. At its receiver a message waits only for earlier messages of the same channel; at its
sender it may wait for permits, also of unrelated messages.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.

Cost
----
Two integers per copy, whatever the number of processes; an acknowledgement per copy, and at most
one permit per copy. A process that only answers whom it heard from never waits.

Names
-----
==================  ======================================================================
paper               here
==================  ======================================================================
``OB_i``            ``Permits._output``: copies that wait, by destination
``IB_i``            the holding buffer of the base, in channel order
acknowledge         a control packet (number delivered, own mark)
permit              a control packet (own mark)
==================  ======================================================================

Differences from the paper
--------------------------
The paper describes buffers for unicast only. The rules here are:

- A process's *mark* is the largest number such that all its messages up to it are acknowledged by
  all destinations; copies that still wait count as not acknowledged. All packets carry the mark.
- A message carries its place on the channel, and is delivered in channel order. Its delivery is
  acknowledged. From then on the receiver needs a permit of the sender up to this message, or, if
  it went to the receiver alone, up to the one before. A mark that is as high permits it.
- A copy to d waits until every permit that its sender needed at the send has come, except d's own.
  The copies to one destination leave in order.
- When the mark rises, a permit goes to those destinations that need it and have not heard of it.

Why this is safe: let m, sent by i, be a cause of another message to the same destination d. The
chain from m leaves i by some message x, sent at or after m. The receiver of x sends to anyone but i
only when all of i's messages up to x are delivered, m at d among them. If it sends to i, the chain
leaves i once more, and the last time counts. If the chain never leaves i, channel order decides.

The acknowledgement means *delivered*, so in pull mode it is sent by ``take``. With acknowledgements
on arrival and an own queue per source, order would be lost.

References
----------
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938:197-213, 1995.
   https://doi.org/10.1007/3-540-60042-6_14
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.info import ProtocolInfo
from antecede.core.kinds import NAME
from antecede.core.messages import CLOCK_BYTES, MessageId, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import check_claim, is_count, malformed
from antecede.errors import QueueFullError

Pairs = tuple[tuple[str, int], ...]
Posting = tuple[Pairs, MessageId, tuple[str, ...], bytes]
"""A copy that waits: the permits it needs, by process and number, and the message."""


@register
class Permits(Endpoint):
    """One process's copies that wait for permits, and the permits that others wait for."""

    INFO: ClassVar = ProtocolInfo(
        name="permits",
        idea="deliver at once, send on by permit",
        paper="Mattern, Fünfrocken 1995 (their question; our algorithm)",
        cost="two integers per copy; an acknowledgement per copy, permits, and the wait for them",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        fixed_because="a permit needs the acknowledgements of all destinations",
        wire_number=21,
        bytes_per_entry=CLOCK_BYTES,
        queueing=True,
    )
    STATE: ClassVar = {
        "_output": {NAME: [(((NAME, int), ...), MessageId, (str, ...), bytes)]},
        **{name: {NAME: int} for name in ("_needs", "_permits", "_places", "_counts", "_last")},
        **{name: {NAME: [int]} for name in ("_open", "_owed")},
        "_mark": int,
    }

    def _start(self) -> None:
        # What waits here: copies by destination, permits needed and had, by process.
        self._output: dict[str, list[Posting]] = {}
        self._needs: dict[str, int] = {}
        self._permits: dict[str, int] = {}
        # Messages put on the channel to, and delivered of the channel from, each process.
        self._places: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        # By destination: own messages not acknowledged, the last one that left, and the permits
        # that it waits for.
        self._open: dict[str, list[int]] = {}
        self._last: dict[str, int] = {}
        self._owed: dict[str, list[int]] = {}
        self._mark = 0

    def kept_entries(self) -> int:
        """Return how many permits this process needs or owes."""
        return len(self._needs) + sum(map(len, self._owed.values()))

    @property
    def queued(self) -> int:
        """The number of copies that wait for permits."""
        return sum(map(len, self._output.values()))

    # Send.

    def _admit(self, targets: tuple[str, ...]) -> None:
        waiting = [d for d in targets if d != self.process and not self._is_free(d)]
        if self.queued + len(waiting) > self.queue_max:
            owing = ", ".join(sorted(self._needs.keys() | self._awaited()))
            msg = (
                f"{self.queued} copies wait for permits already (queue_max={self.queue_max}), and "
                f"{len(waiting)} more would; send again after permits of {owing} have come"
            )
            raise QueueFullError(msg, queued=self.queued, queue_max=self.queue_max)

    def _is_free(self, dest: str) -> bool:
        """Tell whether a copy to ``dest`` would leave at once."""
        return dest not in self._output and not self._needs.keys() - {dest}

    def _awaited(self) -> set[str]:
        return {name for queue in self._output.values() for needs, *_ in queue for name, _ in needs}

    def _post(self, sending: Sending) -> None:
        seq = sending.message.seq
        for dest in sending.others:
            self._open.setdefault(dest, []).append(seq)
        self._raise_mark()
        for dest in sending.others:
            needs = tuple(pair for pair in sorted(self._needs.items()) if pair[0] != dest)
            posting = (needs, sending.message, sending.dests, sending.payload)
            self._output.setdefault(dest, []).append(posting)
            self._post_due(dest)

    def _post_due(self, dest: str) -> None:
        """Let the copies to ``dest`` leave, in order, that need no more permits."""
        queue = self._output[dest]
        while queue and not queue[0][0]:
            _, message, dests, payload = queue.pop(0)
            self._places[dest] = place = self._places.get(dest, 0) + 1
            self._last[dest] = message.seq
            self._emit(dest, (place, self._mark), Sending(message, dests, payload))
            level = _level(message, dests)
            if level > self._mark:
                self._owed.setdefault(dest, []).append(level)
            self._tell(dest)
        if not queue:
            del self._output[dest]

    def _hear(self, source: str, mark: int) -> None:
        """Take a permit, and let go what waited for it."""
        if mark <= self._permits.get(source, 0):
            return
        self._permits[source] = mark
        if self._needs.get(source, mark + 1) <= mark:
            del self._needs[source]
        for dest, queue in list(self._output.items()):
            self._output[dest] = [
                (_unmet_by(needs, source, mark), message, dests, payload)
                for needs, message, dests, payload in queue
            ]
            self._post_due(dest)

    # Receive.

    def _on_data(self, packet: Packet) -> None:
        self._hear(packet.source, cast("tuple[int, int]", packet.control)[1])
        self._arrive(packet)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        place, _ = cast("tuple[int, int]", packet.control)
        if self._counts.get(packet.source, 0) < place - 1:
            yield Need(packet.source, place - 1, "count")

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        source = packet.source
        self._counts[source] = count = self._counts.get(source, 0) + 1
        level = _level(packet.message_id, packet.dests)
        if level > self._permits.get(source, 0):
            self._needs[source] = level
        self._emit_control(source, (packet.message_id.seq, self._mark))
        self._tell(source)
        return (Need(source, count, "count"),)

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        *delivered, mark = cast("tuple[int, ...]", packet.control)
        for seq in delivered:
            left = [number for number in self._open.pop(packet.source, ()) if number > seq]
            if left:
                self._open[packet.source] = left
            self._raise_mark()
        self._hear(packet.source, mark)
        return ()

    def _raise_mark(self) -> None:
        """Find out up to which number all own messages are acknowledged; permit what waits."""
        mark = min((numbers[0] for numbers in self._open.values()), default=self._seq + 1) - 1
        if mark <= self._mark:
            return
        self._mark = mark
        due = [dest for dest, owed in self._owed.items() if owed[0] <= mark]
        for dest in sorted(due, key=self._positions.__getitem__):
            self._emit_control(dest, (mark,))
            self._tell(dest)

    def _tell(self, dest: str) -> None:
        """Note that a packet brings the mark to ``dest``."""
        left = [level for level in self._owed.pop(dest, ()) if level > self._mark]
        if left:
            self._owed[dest] = left

    # What peers may send.

    def _check(self, packet: Packet) -> None:
        control = packet.control
        lengths = (2,) if packet.kind == "data" else (1, 2)
        if type(control) is not tuple or len(control) not in lengths:
            raise malformed(packet, f"{' or '.join(map(str, lengths))} numbers")
        if not all(map(is_count, control)):
            raise malformed(packet, "numbers from 0")
        if packet.kind == "control":
            if len(control) == 2:
                check_claim(self, packet, control[0], self._last.get(packet.source, 0))
            return
        place, mark = control
        if not 1 <= place <= packet.n:
            raise malformed(packet, f"a place on the channel from 1 to {packet.n}")
        if mark >= packet.message_id.seq:
            raise malformed(packet, f"a mark below the number of {packet.message}")


def _level(message: MessageId, dests: tuple[str, ...]) -> int:
    """Return up to which of the sender's messages the receiver needs a permit."""
    return message.seq - (len(set(dests) - {message.sender}) == 1)


def _unmet_by(needs: Pairs, source: str, mark: int) -> Pairs:
    """Return the permits that are still needed after this one."""
    return tuple(pair for pair in needs if pair[0] != source or pair[1] > mark)
