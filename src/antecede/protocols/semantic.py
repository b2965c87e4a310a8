"""Causal order by what messages really depend on: Gambhire and Kshemkalyani [GK00]_.

A matrix protocol orders a message after everything that happened before it, although the
application often knows better. Here each send names the last local event that the message depends
on (``send(..., after=)``). Two matrices travel: one of the messages that later ones must follow,
and one of those sent in the meantime on which nothing depends yet. The second joins the first only
when a send depends on something new.

Guarantee
---------
Semantic causal order: if a message depends on another, directly or indirectly, every process that
gets both gets them in that order. Unrelated messages may arrive in any order, even from one sender.
A message waits only for messages in the prefix ``MC`` of definition 5. With the default ``after``
this is causal order.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets
([GK00] assumes FIFO channels).

Cost
----
``2 * n * n`` integers per packet. The state is ``2 * n * n + n`` integers, the numbers of messages
delivered out of channel order, and a pair of integers for each send on which nothing depends yet.

Names
-----
================================  ============================================================
paper                             here
================================  ============================================================
``SENT_PREV``                     ``Semantic._prev`` (row: sender, column: destination)
``SENT_CONC``                     ``Semantic._conc``
``DELIV``                         ``Semantic._counts``, of each channel's unbroken beginning
``MCV(e)[i]``                     ``Semantic._covered``
``should_Semantically_Precede``   ``basis > self._covered``
``SP_M``, ``SC_M``                ``Packet.control``, both before this send
================================  ============================================================

Differences from the paper
--------------------------
If a send moves MCV to itself, E7 counts the message as sent after that, although definition 5 and
lemma 3 place it before; a later message that depends on it is then not ordered after it. Here it is
counted in SENT_PREV. (Testing ``p >= MCV[i]`` instead is also safe, but orders the later message
after everything since.) At the receiver the message enters SENT_CONC, by R3; this is less than
lemma 3 says and orders less. Multicast: a send counts once per destination, and so does R3; with
the receiver's cell alone, as printed, order is lost. DELIV counts the unbroken beginning of each
channel, not the number of deliveries: on networks that are not FIFO, messages of one channel may be
delivered out of order, and a count would confuse them. Figure 3 carries no MCV, so the maximum in
definition 5.3 is taken over what the matrices tell: the receiver's row in SP_M says which of its
sends the sender's prefix has covered.

References
----------
.. [GK00] P. Gambhire and A. D. Kshemkalyani. "Reducing false causality in causal message ordering".
   High Performance Computing, HiPC 2000, LNCS 1970:61-72, 2000.
   https://doi.org/10.1007/3-540-44467-X_6
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, cast

from antecede.core.counts import larger
from antecede.core.endpoint import Endpoint
from antecede.core.info import Formula, ProtocolInfo
from antecede.core.kinds import PLACE
from antecede.core.messages import CLOCK_BYTES, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import COUNT_MAX, check_claim, is_counts, malformed

Rows = tuple[tuple[int, ...], ...]
Matrix = list[list[int]]


@register
class Semantic(Endpoint):
    """One process's two matrices, and how far its own events are covered."""

    INFO: ClassVar = ProtocolInfo(
        name="semantic",
        idea="only the dependencies that sends declare",
        paper="Gambhire, Kshemkalyani 2000",
        guarantee="semantic causal order: by the dependencies that each send declares",
        cost="2*n*n integers per copy",
        promises=frozenset({"safety", "liveness", "quiescence"}),
        fixed_because="counts are told apart by the positions of members, on which all must agree",
        wire_number=3,
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: 2 * n * n, lambda n: 8 * n * n, lambda n: 8 * n * n, cubic=True),
        orders_by_after=True,
    )
    STATE: ClassVar = {
        "_prev": [[int]],
        "_conc": [[int]],
        "_counts": [int],
        "_ahead": {PLACE: {int}},
        "_covered": int,
        "_open": [(int, int)],
        "_copies": int,
    }

    def _start(self) -> None:
        n = len(self.members)
        self._prev: Matrix = [[0] * n for _ in range(n)]
        self._conc: Matrix = [[0] * n for _ in range(n)]
        self._counts = [0] * n
        self._ahead: dict[int, set[int]] = {}
        self._covered = 0
        # Own sends after _covered, oldest first: (event, copies sent so far, including these).
        self._open: list[tuple[int, int]] = []
        self._copies = 0
        self._last: tuple[Packet | None, list[Sequence[int]]] = None, []
        """The packet checked last, and the sums of its matrices."""

    def _stamp(self, sending: Sending) -> dict[str, object]:
        is_dependent = sending.basis > self._covered  # E1, by definition 5.2
        if is_dependent:
            for prev, conc in zip(self._prev, self._conc, strict=True):  # E2 to E5
                prev[:] = map(int.__add__, prev, conc)
                conc[:] = [0] * len(conc)
        control = (tuple(map(tuple, self._prev)), tuple(map(tuple, self._conc)))
        me = self._positions[self.process]
        row = self._prev[me] if is_dependent else self._conc[me]
        for dest in sending.others:  # E7
            row[self._positions[dest]] += 1
        self._copies += len(sending.others)
        if is_dependent:
            self._covered = self._events
            self._open.clear()
        else:
            self._open.append((self._events, self._copies))
        return dict.fromkeys(sending.others, control)

    def kept_entries(self) -> int:
        """Return the size of both matrices."""
        return 2 * len(self.members) ** 2

    def notes(self) -> dict[str, int]:
        """Return ``covered``: the number of the last own event in MCV."""
        return {"covered": self._covered}

    @staticmethod
    def _entry_count(control: object) -> int:
        return 2 * len(cast("tuple[Rows, Rows]", control)[0]) ** 2

    def _check(self, packet: Packet) -> None:
        n, control = len(self.members), packet.control
        if packet.kind != "data" or not _is_pair(control, n):
            raise malformed(packet, f"two matrices of {n} rows of {n} counts")
        prev, conc = cast("tuple[Rows, Rows]", control)
        source, me = self._positions[packet.source], self._positions[self.process]
        self._last = packet, (sums := _sums(prev, conc))
        if max(map(max, sums)) > COUNT_MAX or max(sums[source]) >= packet.message_id.seq:
            raise malformed(packet, f"counts of {packet.source!r} below the number of its message")
        if sums[source][me] + 1 != packet.n:
            raise malformed(
                packet,
                f"{packet.n - 1} messages before it on this channel, not {sums[source][me]}",
            )
        mine = map(int.__add__, self._prev[me], self._conc[me])
        for claimed, made in zip(sums[me], mine, strict=True):
            check_claim(self, packet, claimed, made)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        """R1, for the messages that this one must follow."""
        prev, _ = cast("tuple[Rows, Rows]", packet.control)
        me = self._positions[self.process]
        for k, member in enumerate(self.members):
            if self._counts[k] < prev[k][me]:
                yield Need(member, prev[k][me], "count")

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        source = self._positions[packet.source]
        before = self._counts[source]
        self._count(source, packet.n)  # R4
        prev, conc = cast("tuple[Rows, Rows]", packet.control)
        sent = self._last[1] if self._last[0] is packet else _sums(prev, conc)
        sent[source] = row = list(sent[source])
        for dest in packet.dests:  # R3
            if dest != packet.source:
                row[self._positions[dest]] += 1
        for k, mine in enumerate(self._prev):  # R5 to R8
            if k != source and not any(conc[k]) and not any(self._conc[k]):
                mine[:] = larger(mine, prev[k])  # nothing is concurrent before or after
                continue
            known = list(map(max, map(int.__add__, mine, self._conc[k]), sent[k]))
            mine[:] = larger(mine, prev[k])
            self._conc[k] = list(map(int.__sub__, known, mine))
        self._last = None, []
        self._cover()
        if self._counts[source] == before:
            return ()
        return (Need(packet.source, self._counts[source], "count"),)

    def _count(self, source: int, number: int) -> None:
        """Count a delivery. Every packet is a message, so its number is that of the message."""
        ahead = self._ahead.setdefault(source, set())
        ahead.add(number)
        while self._counts[source] + 1 in ahead:
            self._counts[source] += 1
            ahead.remove(self._counts[source])
        if not ahead:
            del self._ahead[source]

    def _cover(self) -> None:
        """Definition 5.3 for this process's own events: those that a peer's prefix covers.

        A peer knows of our events only through our sends, so the events covered end with one.
        """
        copies = sum(self._prev[self._positions[self.process]])
        while self._open and self._open[0][1] <= copies:
            self._covered = self._open.pop(0)[0]


def _sums(prev: Rows, conc: Rows) -> list[Sequence[int]]:
    return [list(map(int.__add__, p, c)) if any(c) else p for p, c in zip(prev, conc, strict=True)]


def _is_pair(control: object, n: int) -> bool:
    if type(control) is not tuple or len(control) != 2:
        return False
    return all(
        type(rows) is tuple and len(rows) == n and all(is_counts(row, n) for row in rows)
        for rows in control
    )
