"""Causal order with four kinds of redundant information pruned: Jang, Park, Cho and Yoon [JPCY97]_.

A process keeps, for each message it knows of, the destinations that might still have to wait for
it. It prunes a destination as soon as waiting there has become pointless: the message was
delivered (*just* here, or *already* elsewhere), or a later message to the same destination
replaces it (*just* sent here, or *already* by another process).

Names
-----
=================  =======================================================================
paper              here
=================  =======================================================================
``CI_i``           ``Pruned._tops`` and ``Pruned._log``: see :mod:`antecede.endpoint.logs`
``DC_i[j]``        ``Packet.own``: the keys of what one copy asks for
``CI_m``           ``Message.control``: (tops, log), which all copies share
``DLV_i``          ``Rules.reached`` (the paper's steps also spell it ``DVL``)
``tau_i``          ``Message.seq``
``m.D``            ``Message.dests``, a mask; the sender itself is left out
=================  =======================================================================

Differences from the paper
--------------------------
The message is sent before step S5 enters it into CI, as R4 requires: the receiver adds it. Step R8
is left out: it removes a destination from an older entry if a newer one of the same sender names it
too, but by S2 the sender never keeps both, and R5 and R6 spread this, so it never finds anything
(tested). ``notes()`` counts what was pruned, one per destination of an entry: ``just_replaced`` in
S2, ``just_delivered`` in R4, ``already`` in R5 and R6, where delivered and replaced look alike.

:mod:`antecede.protocols.specs.pruned` is the algorithm as printed, with names and R8.

References
----------
.. [JPCY97] I. Jang, J. Park, J. W. Cho and H. Yoon. "An efficient causal order algorithm for
   message delivery in distributed system". 6th IEEE Workshop on Future Trends of Distributed
   Computing Systems, 1997. https://doi.org/10.1109/FTDCS.1997.644737
.. [JCY98] I. H. Jang, J. W. Cho and H. Yoon. "An efficient causal multicast algorithm for
   distributed system". IEICE Transactions on Information and Systems E81-D(1):27-36, 1998. The
   journal form.
"""

from typing import ClassVar

from antecede.endpoint import logs
from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.logs import Log, Logged, LogWire, Tops
from antecede.endpoint.messages import PAIR_BYTES, ControlSize, Message, Packet
from antecede.endpoint.rules import NOBODY, Own, Saved, View


class PrunedWire(LogWire):
    """CI_m, which all copies share, and DC, which each copy adds."""

    def spell(self, packet: Packet) -> object:
        """Return sorted entries (sender, clock, destinations), and sorted pairs (sender, clock)."""
        needs = packet.own or NOBODY
        entries = logs.spelt(self.view, *packet.content.control)
        return entries, tuple(sorted(map(self.view.id, needs)))

    def measure(self, packet: Packet) -> ControlSize:
        tops, log = packet.content.control
        pairs = len(packet.own or NOBODY)
        return logs.size(len(logs.entries(self.view, tops, log)) + pairs, log)


class Pruned(Logged):
    """One process's control information."""

    INFO: ClassVar = ProtocolInfo(
        idea="prune four kinds of redundant information",
        paper="Jang, Park, Cho, Yoon 1997 (journal form: Jang, Cho, Yoon 1998)",
        guarantee="causal order; the log names exactly the destinations that the Propagation "
        "Constraints require",
        cost="one entry per message not yet certain, one id per remaining destination; at most n*n",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking", "necessity"}),
        bytes_per_entry=PAIR_BYTES,
    )
    WIRE: ClassVar = PrunedWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._stale = 0
        """An empty entry of our own that S5 leaves to the next S3 or R9, or 0."""
        self._replaced = self._delivered = self._already = 0

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """S1 to S5; the form of the log does S3."""
        before = logs.named(self._log)
        needs = super().stamp(message, others, event, after)
        tops, log = message.control  # S4
        self._replaced += before - logs.named(log)  # S2: just replaced
        last = tops[self.me]
        self._stale = last if last > self.low and last not in log else 0
        return needs

    def merge(self, message: Message, key: int, tops: Tops, log: Log) -> None:
        """R4 to R7, after R1 to R3; R8 never finds anything, and the log's form does R9.

        Destinations that either side names and that do not stay count as pruned *already*.
        """
        rest = message.dests & ~(1 << message.sender | 1 << self.me)  # R4: just delivered
        self._delivered += 1
        self._stale = 0
        mine, theirs = self._log, logs.entered(tops, log, key, rest, self.low)[1]
        super().merge(message, key, tops, log)  # R5 to R7
        common = {key: mask for key, mask in self._log.items() if key in mine and key in theirs}
        # Subtract what stays, once for each side that named it.
        self._already += logs.named(mine) + logs.named(theirs)
        self._already -= logs.named(self._log) + logs.named(common)

    def kept(self) -> object:
        """Return CI: sorted entries (sender, clock, destinations)."""
        log = self._log | {self._stale: 0} if self._stale else self._log
        return logs.spelt(self.view, self._tops, log)

    def kept_entries(self) -> int:
        return super().kept_entries() + (self._stale > 0)

    def notes(self) -> dict[str, int]:
        """Return how many destinations were pruned from entries, by kind of redundancy."""
        return {
            "just_delivered": self._delivered,
            "just_replaced": self._replaced,
            "already": self._already,
        }

    def keep(self, saved: Saved) -> None:
        super().keep(saved)
        last = self._tops[self.me]
        self._stale = stale = saved.number("stale", self._stale, 0, last)
        is_old = stale & self.low == self.me and stale not in self._log and stale != last
        saved.require(
            not stale or is_old, "stale", stale, "an older message of its own that names nobody"
        )
        self._delivered = saved.number("just_delivered", self._delivered)
        self._replaced = saved.number("just_replaced", self._replaced)
        self._already = saved.number("already", self._already)
