"""Causal order with four kinds of redundant information pruned: Jang, Park, Cho and Yoon [JPCY97]_.

A process keeps, for each message it knows of, the destinations that might still have to wait for
it. It prunes a destination as soon as waiting there has become pointless: the message was
delivered (*just* here, or *already* elsewhere), or a later message to the same destination
replaces it (*just* sent here, or *already* by another process).

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing; after every event the
explicit information kept is exactly what the Propagation Constraints of Kshemkalyani and Singhal
require.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.

Cost
----
One entry per relevant message, with an id for each remaining destination, and one pair for each
message that the receiver must have delivered; at most ``O(n * n)``. At least one entry is kept per
known sender.

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
is left out. It removes a destination from an older entry if a newer one of the same sender names
it too; but by S2 the sender itself never keeps both, and R5 and R6 spread this, so R8 never finds
anything (tested). ``notes()`` counts what was pruned, one per destination of an entry:
``just_replaced`` in S2, ``just_delivered`` in R4, ``already`` in R5 and R6. The receiver cannot
tell whether the latter were delivered or replaced, because both show as absence.

:mod:`antecede.protocols.specs.pruned` is the algorithm as printed, by names, with R8.

References
----------
.. [JPCY97] I. Jang, J. Park, J. W. Cho and H. Yoon. "An efficient causal order algorithm for
   message delivery in distributed system". 6th IEEE Workshop on Future Trends of Distributed
   Computing Systems, 1997. https://doi.org/10.1109/FTDCS.1997.644737
.. [JCY98] I. H. Jang, J. W. Cho and H. Yoon. "An efficient causal multicast algorithm for
   distributed system". IEICE Transactions on Information and Systems E81-D(1):27-36, 1998. The
   journal form.
"""

from __future__ import annotations

from typing import ClassVar, cast

from antecede.endpoint.fields import Fields
from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.logs import (
    Control,
    Log,
    LogWire,
    Tops,
    count,
    explicit,
    load_log,
    saved,
    spelt,
    take,
)
from antecede.endpoint.messages import (
    FREE,
    ID_BYTES,
    PAIR_BYTES,
    ControlSize,
    Message,
    MessageId,
    Packet,
)
from antecede.endpoint.registry import register
from antecede.endpoint.rules import NOBODY, Own, Rules, State, knows_too_much
from antecede.endpoint.view import View


class PrunedWire(LogWire):
    """CI_m, which all copies share, and DC, which one copy adds."""

    def spell(self, packet: Packet) -> object:
        """Return sorted entries (sender, clock, destinations), and sorted pairs (sender, clock)."""
        view = self.view
        needs = cast("list[int] | None", packet.own) or NOBODY
        pairs = [(view.members[key & view.low], key >> view.shift) for key in needs]
        return spelt(view, *cast("Control", packet.content.control)), tuple(sorted(pairs))

    def measure(self, packet: Packet) -> ControlSize:
        """Return CI entries and DC pairs, and the destinations left in the entries."""
        tops, log = cast("Control", packet.content.control)
        entries = count(self.view, tops, log) + len(cast("list[int] | None", packet.own) or NOBODY)
        dests = sum(map(int.bit_count, log.values()))
        return ControlSize(entries, dests, PAIR_BYTES * entries + ID_BYTES * dests)


class Pruned(Rules):
    """One process's control information."""

    INFO: ClassVar = ProtocolInfo(
        name="pruned",
        idea="prune four kinds of redundant information",
        paper="Jang, Park, Cho, Yoon 1997 (journal form: Jang, Cho, Yoon 1998)",
        guarantee="causal order with the least explicit information",
        cost="one entry per message not yet certain, one id per remaining destination; at most n*n",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking", "necessity"}),
        bytes_per_entry=PAIR_BYTES,
    )
    WIRE: ClassVar = PrunedWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._tops: Tops = list(range(view.n))
        self._log: Log = {}
        self._stale = 0
        """An empty entry of our own that S5 leaves to the next S3 or R9, or 0."""
        self._replaced = self._delivered = self._already = 0

    def stamp(
        self, message: Message, others: tuple[int, ...], event: int, after: int
    ) -> Own | None:
        """S1 to S5."""
        dests = message.dests & ~(1 << self.me)
        needs = take(self._log, dests)  # S2: just replaced; S3 is done by the form of the log
        for keys in needs.values():
            self._replaced += len(keys)
        message.control = tops, log = self._tops, self._log  # S4
        last = tops[self.me]
        self._stale = last if last > self.low and last not in log else 0
        key = message.seq << self.view.shift | self.me
        self._tops = tops.copy()  # S5
        self._tops[self.me] = key
        self._log = log.copy()
        self._log[key] = dests
        return needs

    def check(self, packet: Packet) -> str:
        """Refuse to hear of messages that this process has not sent."""
        tops = cast("Control", packet.content.control)[0]
        if tops[self.me] >> self.view.shift > self.made and not self.is_stale:
            return knows_too_much(self.made)
        return ""

    def needs(self, packet: Packet) -> list[int]:
        """Return DC."""
        return cast("list[int] | None", packet.own) or NOBODY

    def blocker(self, packet: Packet) -> int:
        """R1: DLV has each message in DC."""
        own = cast("list[int] | None", packet.own)
        if own:
            reached, low = self.reached, self.low
            for key in own:
                if key > reached[key & low]:
                    return key
        return FREE

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """R3 to R9."""
        message = packet.content
        sender = message.sender
        self.reached[sender] = key = message.seq << self.view.shift | sender  # R3
        tops, theirs = cast("Control", message.control)
        tops = tops.copy()
        tops[sender] = key
        rest = message.dests & ~(1 << sender | 1 << self.me)  # R4: just delivered
        self._delivered += 1
        if rest or key in self._log:
            theirs = {**theirs, key: rest}
        self._stale = 0
        self._merge(tops, theirs)
        return self.places[sender]

    def _merge(self, their_tops: Tops, theirs: Log) -> None:
        """R5 to R7; R8 never finds anything, and R9 is done by the form of the log."""
        tops, mine, low = self._tops, self._log, self.low
        log: Log = {}
        already = 0
        for key, mask in mine.items():
            other = theirs.get(key)
            if other is not None:  # R6: what both name stays
                if both := mask & other:
                    log[key] = both
                already += (mask ^ other).bit_count()
            elif key > their_tops[key & low]:
                log[key] = mask
            else:  # R5: missing there, although something newer is known
                already += mask.bit_count()
        for key, mask in theirs.items():
            if key not in mine:
                if key > tops[key & low]:
                    log[key] = mask
                else:  # R5
                    already += mask.bit_count()
        self._tops = [a if a > b else b for a, b in zip(tops, their_tops)]  # noqa: B905, FURB136 - hot
        self._log = log
        self._already += already

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Tell whether the sender of a packet knew of a message."""
        return cast("Control", packet.content.control)[0][sender] >> self.view.shift >= seq

    def kept(self) -> object:
        """Return CI: sorted entries (sender, clock, destinations)."""
        log = self._log | {self._stale: 0} if self._stale else self._log
        return spelt(self.view, self._tops, log)

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the entries that still name a destination."""
        return explicit(self.view, self._log)

    def kept_entries(self) -> int:
        """Return the entries of CI."""
        return count(self.view, self._tops, self._log) + (self._stale > 0)

    def notes(self) -> dict[str, int]:
        """Return how many destinations were pruned from entries, by kind of redundancy."""
        return {
            "just_delivered": self._delivered,
            "just_replaced": self._replaced,
            "already": self._already,
        }

    def state(self) -> State:
        """Return CI, and what was counted."""
        return {
            "tops": list(self._tops),
            "log": saved(self._log),
            "stale": self._stale,
            **self.notes(),
        }

    def load(self, state: Fields) -> None:
        """Take over both."""
        view = self.view
        self._tops = state.keys("tops", view.n, view.shift)
        self._log = load_log(state, "log", view, self._tops)
        last = self._tops[self.me]
        if last >> view.shift > self.made:
            raise state.wrong("tops", self._tops, f"at most {self.made} messages of its own")
        self._stale = stale = state.number("stale", 0, last)
        if stale and (stale & self.low != self.me or stale in self._log or stale == last):
            raise state.wrong("stale", stale, "an older message of its own that names nobody")
        self._delivered = state.number("just_delivered")
        self._replaced = state.number("just_replaced")
        self._already = state.number("already")


register(Pruned)
