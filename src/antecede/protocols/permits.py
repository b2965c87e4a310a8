"""Buffers for multicast and broadcast, with two numbers per message: an answer to [MF95]_.

[MF95] sends one message at a time, to one destination, and asks for buffers that serve broadcast.
Here messages are delivered as soon as they arrive, in channel order. What may have to wait is what
their receiver sends afterwards: it leaves only when the sender of each message delivered before has
given its *permit*, which says that all its messages up to that one have been delivered everywhere.
A process that only answers those from whom it got messages never waits.

Differences from the paper
--------------------------
The paper describes buffers for unicast only. The rules here are:

- A process's *mark* is the largest number such that all its messages up to it are acknowledged by
  all destinations; copies that still wait count as not acknowledged. All packets carry the mark.
- A message carries its place on the channel, and is delivered in channel order. Its delivery is
  acknowledged. From then on the receiver needs the sender's permit up to this message, or, if it
  went to the receiver alone, up to the previous one. A mark at least that high is the permit.
- A copy to d waits until every permit that its sender needed at the send has come, except d's own.
  The copies to one destination leave in order.
- When the mark rises, a permit goes to those destinations that need it and have not heard of it.

Why this is safe: let m, sent by i, be a cause of another message to the same destination d. The
chain from m leaves i by some message x, sent at or after m. The receiver of x sends to anyone but i
only when all of i's messages up to x are delivered, including m at d. If it sends to i, the chain
leaves i once more, and the last time counts. If the chain never leaves i, channel order decides.

We found this rule independently. [Alm26]_, of which we could read the abstract only, has one like
it: a sender's permission to send, together with FIFO channels, implies causal order. It has buffers
at both ends, and metadata and work that are effectively constant per message. [TLK26]_ (Cykas) also
sends eagerly and constrains what recipients send on; [Alm26] finds it conservative. Ours serves
multicast: one mark stands for the permits of all copies of all messages up to it. The
acknowledgement means *delivered*, so in pull mode ``take`` sends it; sent on arrival, it would lose
order.

References
----------
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938:197-213, 1995.
   https://doi.org/10.1007/3-540-60042-6_14
.. [Alm26] P. S. Almeida. "Space-optimal, computation-optimal, topology-agnostic,
   throughput-scalable causal delivery through hybrid buffering". arXiv:2601.11487, 2026.
   https://arxiv.org/abs/2601.11487
.. [TLK26] Y. Tong, N. Liittschwager and L. Kuper. "Can you keep a secret? A new protocol for
   sender-side enforcement of causal message delivery". arXiv:2603.14690, 2026.
   https://arxiv.org/abs/2603.14690
"""

from typing import ClassVar

from antecede.endpoint.counts import InOrder
from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.messages import CLOCK_BYTES, Message, Packet
from antecede.endpoint.numbers import read_count, varint
from antecede.endpoint.rules import Wire, knows_too_much, own_message
from antecede.endpoint.saved import SAVED_MAX, Saved
from antecede.endpoint.view import View
from antecede.errors import PeerError

Levels = dict[int, int]
"""Permits: by process, the number of its message up to which they hold."""
Copies = list[tuple[Levels, Message]]
"""Waiting copies to one destination, each with the permits that it still needs."""
Marked = tuple[int, int]
"""The place on the channel, or the number acknowledged (0 in a mere permit); and the mark."""


class PermitsWire(Wire):
    """Two numbers for each copy; a message gives its mark as a distance."""

    def put_own(self, packet: Packet) -> bytes:
        (first, mark), seq = packet.own, packet.content.seq
        return varint(first) + varint(seq - 1 - mark if seq else mark)

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Marked, int]:
        seq = packet.content.seq
        first, at = read_count(data, at, 1 if seq else 0)
        mark, at = read_count(data, at)
        if seq:
            mark = seq - 1 - mark
            if mark < 0 or first > packet.n:
                raise PeerError("has a place beyond its number, or a mark below 0")
        return (first, mark), at

    def spell(self, packet: Packet) -> object:
        """Return (place, mark), (number acknowledged, mark), or (mark,)."""
        return packet.own if packet.own[0] else packet.own[1:]

    def entries(self, packet: Packet) -> int:
        return 2 if packet.own[0] else 1


class Permits(InOrder):
    """One process's copies that wait for permits, and the permits that others wait for."""

    INFO: ClassVar = ProtocolInfo(
        idea="deliver at once, send on by permit",
        paper="Mattern, Fünfrocken 1995 (their question); Almeida 2026 (a rule like it)",
        guarantee="causal order; a message waits at its receiver for its channel only, and at its "
        "sender for permits, also of unrelated messages",
        cost="two integers per copy; an acknowledgement per copy, permits, and the wait for them",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        lost_by_skip="what a skip lets go may overtake copies that others still get",
        unmarked_by_skip="messages do not tell what their senders knew",
        bytes_per_entry=CLOCK_BYTES,
        queueing=True,
    )
    WIRE: ClassVar = PermitsWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        n = view.n
        self._output: list[Copies] = [[] for _ in range(n)]
        self._needs: Levels = {}
        """The permits that a send needs now, and those that have arrived."""
        self._permits = [0] * n
        self._mark = 0
        """The number up to which all own messages are acknowledged by all destinations."""
        self._places, self._last = [0] * n, [0] * n
        """By destination, how many messages were sent on the channel, and the last one's number."""
        self._open: list[list[int]] = [[] for _ in range(n)]
        self._owed: list[list[int]] = [[] for _ in range(n)]
        """By destination, messages it has not acknowledged, and the permits that it waits for."""
        self._word = Message(view, me, 0, 0, b"", None)

    def admit(self, others: tuple[int, ...]) -> None:
        needs, output = self._needs, self._output
        if needs or self.queued:
            self._check_queue(sum([bool(output[d]) or len(needs) > (d in needs) for d in others]))

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        """Queue a copy for each destination, with the permits that it needs now."""
        for dest in others:
            self._open[dest].append(message.seq)
        self._raise_mark()
        for dest in others:
            needs = self._needs.copy()
            needs.pop(dest, None)
            self._output[dest].append((needs, message))
            self.queued += 1
            self._post(dest)

    def _post(self, dest: int) -> None:
        """Send copies in order, up to the first that still needs a permit."""
        queue = self._output[dest]
        while queue and not queue[0][0]:
            _, message = queue.pop(0)
            self.queued -= 1
            self._places[dest] += 1
            self._last[dest] = message.seq
            level = _level(message)
            if level > self._mark:
                self._owed[dest].append(level)
            self._tell(dest, self._places[dest], message)

    def _tell(self, dest: int, first: int, message: Message) -> None:
        """Send a message or a word, and with it the mark."""
        mark, owed = self._mark, self._owed[dest]
        self.outbox.append((dest, message, (first, mark)))
        if owed and owed[0] <= mark:
            self._owed[dest] = [level for level in owed if level > mark]

    def check(self, packet: Packet) -> str:
        """Refuse an acknowledgement of a message that was not sent."""
        first, last = packet.own[0], self._last[packet.source_no]
        is_unsent = not packet.content.seq and first > last and not self.is_stale
        return knows_too_much(last) if is_unsent else ""

    def arrived(self, packet: Packet) -> tuple[int, ...] | None:
        """Note the permit that every message brings."""
        if packet.content.seq:
            self._hear(packet.source_no, packet.own[1])
        return None

    def key(self, packet: Packet) -> int:
        """Return the place on the channel: packets wait for nothing else."""
        return packet.own[0] << self.shift | packet.source_no

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Acknowledge a message, and note the permit that sends need from now on."""
        message, source = packet.content, packet.source_no
        if message.seq:
            self.reached[source] = self.key(packet)
            level = _level(message)
            if level > self._permits[source]:
                self._needs[source] = level
            self._tell(source, message.seq, self._word)
            return self.places[source]
        first, mark = packet.own
        if first:
            self._open[source] = [seq for seq in self._open[source] if seq > first]
            self._raise_mark()
        self._hear(source, mark)
        return ()

    def _hear(self, source: int, mark: int) -> None:
        """Note a permit, and send what waited for it."""
        if mark <= self._permits[source]:
            return
        self._permits[source] = mark
        waiting = [needs for queue in self._output for needs, _ in queue] if self.queued else []
        for needs in (self._needs, *waiting):
            if needs.get(source, mark + 1) <= mark:
                del needs[source]
        if self.queued:
            for dest in range(self.view.n):
                self._post(dest)

    def _raise_mark(self) -> None:
        """Raise the mark if more of our messages are acknowledged by all, and send permits."""
        mark = min([numbers[0] for numbers in self._open if numbers], default=self.made + 1) - 1
        if mark > self._mark:
            self._mark = mark
            for dest, owed in enumerate(self._owed):
                if owed and owed[0] <= mark:
                    self._tell(dest, 0, self._word)

    def gone(self, source: int) -> None:
        """Count all sent to a process that is gone as delivered; need no permit from it."""
        self.queued -= len(self._output[source])
        self._output[source], self._open[source], self._owed[source] = [], [], []
        self._hear(source, SAVED_MAX)
        self._raise_mark()

    def kept_entries(self) -> int:
        """Return how many permits this process needs or owes."""
        return len(self._needs) + sum(map(len, self._owed))

    def keep(self, saved: Saved) -> None:
        n = self.view.n
        copies = [({n: int}, own_message(self))]
        self._output = saved.field("output", self._output, [copies, n])
        for dest, queue in enumerate(self._output):
            is_right = not queue or (queue[0][0] and all(one.dests >> dest & 1 for _, one in queue))
            saved.require(is_right, "output", dest, "copies for this member that wait for permits")
        self.queued = sum(map(len, self._output))
        self._needs = saved.field("needs", self._needs, {n: int})
        self._permits = saved.numbers("permits", self._permits)
        self._mark = saved.number("mark", self._mark, 0, self.made)
        self._places = saved.numbers("places", self._places, most=self.made)
        self._last = saved.numbers("last", self._last, most=self.made)
        leasts = [self._mark + 1] * n
        self._open = saved.rows("open", self._open, most=self.made, leasts=leasts)
        self._owed = saved.rows("owed", self._owed, most=self.made, leasts=leasts, has_repeats=True)


def _level(message: Message) -> int:
    """Return up to which of the sender's messages the receiver needs a permit."""
    others = message.dests & ~(1 << message.sender)
    return message.seq - (others & others - 1 == 0)
