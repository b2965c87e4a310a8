"""Causal order by what messages really depend on: Gambhire and Kshemkalyani [GK00]_.

A matrix protocol orders a message after everything that happened before it, although the
application often knows better. Here each send names the last local event that the message depends
on (``send(..., after=)``). Two matrices travel: one of the messages that later ones must follow,
and one of those sent in the meantime on which nothing depends yet. The second joins the first only
when a send depends on something new.

Unrelated messages may arrive in any order, even from one sender. A message waits only for messages
in the prefix ``MC`` of definition 5. With the default ``after`` this is causal order.

Differences from the paper
--------------------------
If a send moves MCV to itself, E7 counts the message as sent after that, although definition 5 and
lemma 3 place it before; a later message that depends on it is then not ordered after it. Here it is
counted in SENT_PREV. (Testing ``p >= MCV[i]`` instead is also safe, but orders the later message
after everything since.) At the receiver the message enters SENT_CONC, by R3; this is less than
lemma 3 says and orders less. Multicast: a send counts once per destination, and so does R3; with
the receiver's cell alone, as printed, order is lost. DELIV counts the unbroken beginning of each
channel: on networks that are not FIFO, messages of one channel may be delivered out of order, and
the number of deliveries would confuse them. Figure 3 carries no MCV, so definition 5.3 takes its
maximum over what the message shows: which of the receiver's sends the sender's prefix covers.

A count does not say which message it stands for. So two vectors travel too: for each process, the
number of its last message in the prefix, and of its last known message. ``waiting()`` and ``skip``
need the first: a missing message is no later than that.

References
----------
.. [GK00] P. Gambhire and A. D. Kshemkalyani. "Reducing false causality in causal message ordering".
   High Performance Computing, HiPC 2000, LNCS 1970:61-72, 2000.
   https://doi.org/10.1007/3-540-44467-X_6
"""

from operator import add, gt, le, sub
from typing import ClassVar

from antecede.endpoint import numbers
from antecede.endpoint.counts import Counted, Row, counted, misplaced, with_own, without_own
from antecede.endpoint.info import Formula, ProtocolInfo
from antecede.endpoint.messages import CLOCK_BYTES, COUNT_MAX, Message, Packet
from antecede.endpoint.rules import ALIKE, Own, View, Wire, knows_too_much
from antecede.endpoint.saved import SAVED_MAX, Saved
from antecede.errors import PeerError

Rows = list[Row]
Control = tuple[Rows, Rows, list[int], list[int]]
"""SP_M, SC_M, the keys of the last messages in the prefix, and of the last known messages."""


class SemanticWire(Wire):
    """The last known messages, how far before them the prefix ends, and both matrices' cells."""

    def put(self, message: Message) -> bytes:
        prev, conc, first, last = message.control
        shift = self.view.shift
        gaps = [mine - key >> shift for mine, key in zip(last, first, strict=True)]
        counts = without_own(prev)
        least = min(counts)
        above, after = (
            numbers.put_block([count - least for count in counts]),
            numbers.put_block(without_own(conc)),
        )
        ends = numbers.put_vector(last, self.view, message.seq)
        return b"".join((ends, numbers.put_block(gaps), numbers.varint(least), above, after))

    def get(self, data: bytes, at: int, message: Message) -> tuple[Control, int]:
        n, shift = self.view.n, self.view.shift
        last, at = numbers.get_vector(data, at, self.view, message.seq)
        gaps, at = numbers.get_block(data, at, n)
        least, at = numbers.read_varint(data, at)
        above, at = numbers.get_block(data, at, n * (n - 1))
        after, at = numbers.get_block(data, at, n * (n - 1))
        first = [mine - (gap << shift) for mine, gap in zip(last, gaps, strict=True)]
        if 0 not in above or min(first) < 0:
            raise PeerError("has matrices in another form than it should have")
        counts = [least + count for count in above] if least else above
        prev, conc = with_own(counts, n), with_own(after, n)
        for k in range(n):
            both = max(map(add, prev[k], conc[k]))
            if max(prev[k]) > first[k] >> shift or both > last[k] >> shift or both > COUNT_MAX:
                raise PeerError("counts more messages of a process than its last one says")
        if last[message.sender] >> shift >= message.seq:
            raise PeerError("knows of later messages of its sender")
        return (prev, conc, first, last), at

    def spell(self, packet: Packet) -> object:
        """Return SP_M and SC_M: rows in the order of members."""
        return tuple(map(tuple, packet.content.control[:2]))


class Semantic(Counted):
    """One process's two matrices, and how many of its own events are in MCV."""

    INFO: ClassVar = ProtocolInfo(
        idea="only the dependencies that sends declare",
        guarantee="semantic causal order: by the dependencies that each send declares",
        cost="2*n*n integers per copy",
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: 2 * n * n, lambda n: 8 * n * n, lambda n: 8 * n * n, cubic=True),
        orders_by_after=True,
    )
    WIRE: ClassVar = SemanticWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        n = view.n
        self._prev: Rows = [(0,) * n] * n
        self._conc: Rows = [(0,) * n] * n
        """SENT_PREV and SENT_CONC (row: sender); ``reached`` is DELIV."""
        self._first, self._last = list(range(n)), list(range(n))
        """The keys of the last messages that ``_prev`` counts, and that either counts."""
        self._ahead: list[dict[int, int]] = [{} for _ in range(n)]
        """Messages delivered after a gap: place on the channel -> number."""
        self._covered = 0
        """MCV(e)[i]."""
        self._open: list[tuple[int, int]] = []
        """Own sends after ``_covered``, oldest first: (event, number)."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """E1 to E7."""
        me, key = self.me, message.seq << self.shift | self.me
        is_dependent = after > self._covered  # E1, by definition 5.2
        if is_dependent:  # E2 to E5: add SENT_CONC to SENT_PREV and empty it
            nothing = (0,) * self.view.n
            for k, conc in enumerate(self._conc):
                if any(conc):
                    self._prev[k] = tuple(map(add, self._prev[k], conc))
                    self._conc[k] = nothing
            self._first = self._last.copy()
        known = self._prev, self._conc, self._first, self._last
        message.control = tuple([part.copy() for part in known])  # E6: send SP_M and SC_M
        rows = self._prev if is_dependent else self._conc
        rows[me] = counted(rows[me], others)  # E7
        self._last[me] = key
        if is_dependent:
            self._first[me], self._covered = key, event
            self._open.clear()
        else:
            self._open.append((event, message.seq))
        return ALIKE

    def check(self, packet: Packet) -> str:
        prev, conc, _, last = packet.content.control
        me, source = self.me, packet.source_no
        if fault := misplaced(packet, prev[source][me] + conc[source][me]):
            return fault
        theirs, ours = map(add, prev[me], conc[me]), map(add, self._prev[me], self._conc[me])
        is_too_new = last[me] >> self.shift > self.made or any(map(gt, theirs, ours))
        return knows_too_much(self.made) if is_too_new and not self.is_stale else ""

    def needs(self, packet: Packet) -> list[int]:
        """R1: wait until DELIV[k] >= SP_M[k, me] for all k."""
        me, shift = self.me, self.shift
        return [row[me] << shift | k for k, row in enumerate(packet.content.control[0])]

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return a process's last message in the prefix: the missing one is no later than that."""
        sender = key & self.low
        return sender, packet.content.control[2][sender] >> self.shift

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """R3 to R8."""
        message, sender = packet.content, packet.content.sender
        prev, conc, first, last = message.control
        places = self._count(sender, packet.n, message.seq)  # R4
        row = counted(conc[sender], self.view.list(message.dests & ~(1 << sender)))  # R3: SC_M
        for k, (mine, theirs) in enumerate(zip(self._prev, prev, strict=True)):  # R5 to R8
            more = row if k == sender else conc[k]
            if mine == theirs and not any(more) and not any(self._conc[k]):
                continue
            known = map(max, map(add, mine, self._conc[k]), map(add, theirs, more))
            self._prev[k] = both = tuple(map(max, mine, theirs))
            self._conc[k] = tuple(map(sub, known, both))
        self._first = list(map(max, self._first, first))
        self._last = list(map(max, self._last, last))
        self._last[sender] = max(self._last[sender], message.seq << self.shift | sender)
        # Definition 5.3 for our own events: those that a peer's prefix covers. A peer knows of
        # our events only through our sends, so the last event covered is a send.
        while self._open and self._open[0][1] <= self._first[self.me] >> self.shift:
            self._covered = self._open.pop(0)[0]
        return places

    def _count(self, sender: int, n: int, seq: int) -> tuple[int, ...]:
        """Count a delivery in the unbroken beginning of its channel; return what rose."""
        ahead, count = self._ahead[sender], self.reached[sender] >> self.shift
        ahead[n] = seq
        if n != count + 1:
            return ()
        while n in ahead:
            self._newest[sender] = ahead.pop(n)
            n += 1
        self.reached[sender] = n - 1 << self.shift | sender
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Return whether a message is in the prefix that a packet's message follows."""
        return packet.content.control[2][sender] >> self.shift >= seq

    def kept(self) -> object:
        return tuple(self._prev), tuple(self._conc)

    def kept_entries(self) -> int:
        return 2 * self.view.n**2

    def notes(self) -> dict[str, int]:
        """Return ``covered``: the number of the last own event in MCV."""
        return {"covered": self._covered}

    def keep(self, saved: Saved) -> None:
        n, shift, most = self.view.n, self.shift, SAVED_MAX + 1
        self._prev = saved.rows("prev", self._prev, n)
        self._conc = saved.rows("conc", self._conc, n)
        self._first = saved.keys("first", self._first, shift)
        self._last = saved.keys("last", self._last, shift)
        self._newest = saved.numbers("newest", self._newest)
        self._ahead = saved.field("ahead", self._ahead, [{most: int}, n])
        for k, ahead in enumerate(self._ahead):
            is_beyond = min(ahead, default=SAVED_MAX) > (self.reached[k] >> shift) + 1
            saved.require(is_beyond, "ahead", ahead, "messages after a gap")
        self._covered = saved.number("covered", self._covered)
        self._open = saved.field("open", self._open, [(int, int)])
        self.require_own(saved, "last", self._last[self.me] >> shift)
        is_right = all(map(le, self._first, self._last))
        saved.require(is_right, "last", self._last, "nothing before the first")
        is_sorted = self._open == sorted(set(self._open))
        saved.require(is_sorted, "open", self._open, "sends in order")
