"""The least information that causal order needs: Kshemkalyani and Singhal [KS98]_.

For each earlier message that someone might still have to wait for, a message names the destinations
where it is neither known to be delivered nor certain to be delivered in order. Knowledge shows as
absence: a destination missing from an entry, or an entry missing although its sender has a newer
one, means "no longer relevant".

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing; after every event the
explicit information kept is exactly what the Propagation Constraints require ([KS98] 3.4).

Assumes
-------
Every packet arrives eventually; the network may reorder and duplicate packets ([KS98] assumes FIFO
channels, but the algorithm does not need them). Processes may join and leave.

Cost
----
At most ``n * n`` units per copy, usually far fewer: one entry per relevant message and one id per
remaining destination. ``O(n * n)`` time per send and delivery, because the part of SND(2) that all
destinations share is computed once.

Names
-----
=================  =======================================================
paper              here
=================  =======================================================
``LOG_j``          ``Optimal._known``, by names ``Optimal._log``
``SR_j``           ``Optimal._reached``, by names ``Optimal._newest``
``clock_j``        ``MessageId.seq``
``O_M``            ``Packet.control``: sorted (sender, clock, destinations)
=================  =======================================================

Differences from the paper
--------------------------
The initial entries (i, 0, {}) are left out: an absent sender means the same. RCV(4) and RCV(5) wait
for the next send: a delivery only notes what its message carried, the newest is merged first, and
what its sender already knew is passed over. The log is the same whenever it is looked at.
``lookahead`` merges a message's control on arrival (RCV(4)-(5) early). The paper's remark lets the
receiver purge by a message that it has not delivered. That alone loses order, because the guarantee
holds only in the causal future of a send; so the message's own entries are merged as well, and
messages may then wait longer than necessary. ``hardware_multicast`` sends the log as it was, and
the receiver applies SND(2) with its own name. ``differential`` (3.5) sends, on each channel, the
changes to the control sent there before; packets of a channel are then handled in order. This
delays nothing, because causal order requires it between two messages on one channel anyway. It
costs the last control sent and received on each channel as state. Entries stay in the log even if
all channels have carried them, because their absence would mean something.

The paper does not say how processes leave. Here a removed process is dropped from every destination
set. Its messages that are held are still delivered; nothing waits for the others, which are lost.
Every message between the processes that remain is delivered, and two messages on one channel stay
in order. A message may overtake another only if a third message between the two, to the same
process, was lost with a removed process: everyone who knew of the third had stopped carrying the
first. The delivery then names what is lost in ``unmet``, and so do the deliveries of messages that
depend on it. Packets say whom their sender has removed. Once all processes have said so on
channels without gaps, and have delivered what they held, the removed one is forgotten, so that
state and packets depend on the processes that are there. A group that first lets everything under
way arrive (a flush) loses nothing.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from antecede.core.differences import Difference, applied, difference, is_difference, measured
from antecede.core.entries import Entries, Log, is_entries, restricted
from antecede.core.groups import as_flag
from antecede.core.info import Option, ProtocolInfo, Variant
from antecede.core.kinds import ANY, LOG, NAME, NUMBERED
from antecede.core.logs import NOTED_MAX, CausalLog
from antecede.core.messages import (
    PAIR_BYTES,
    ControlSize,
    Effects,
    MessageId,
    Packet,
    numbered_packet,
)
from antecede.core.numbered import FREE, Numbered
from antecede.core.registry import register
from antecede.core.roster import Roster
from antecede.core.stamps import Stamp, Translation, are_known, stamp_of
from antecede.core.validation import malformed
from antecede.errors import UsageError

if TYPE_CHECKING:
    from antecede.core.casts import Targets

_LOST_BY_LOOKAHEAD = frozenset({"no_overblocking", "necessity"})


class OptimalStamp(Stamp):
    """O_M of [KS98], shared by all copies of a message."""

    __slots__ = ()

    PROTOCOL: ClassVar = "optimal"
    IS_LOG: ClassVar = True

    def control(self, roster: Roster, dest: int, needs: list[int]) -> Entries:
        """Return O_M for one copy: sorted entries (sender, clock, destinations)."""
        return self.entries(roster, dest, needs)

    @classmethod
    def of_control(
        cls, control: object, roster: Roster, dest: int
    ) -> tuple[Stamp, list[int]] | None:
        """Return the stamp and the needs of O_M, or None if it is malformed."""
        if not is_entries(control) or not are_known(control, roster):
            return None
        return stamp_of(OptimalStamp, control, roster, dest)


@register
class Optimal(Numbered):
    """One process's log of messages whose delivery is not yet certain."""

    INFO: ClassVar = ProtocolInfo(
        name="optimal",
        idea="exactly the necessary and sufficient information",
        paper="Kshemkalyani, Singhal 1998",
        guarantee="causal order with the least explicit information",
        assumptions="every packet arrives eventually; processes may join and leave",
        cost="one entry per message not yet certain, one id per remaining destination; at most n*n",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking", "necessity"}),
        options={
            "hardware_multicast": Option(
                default=False, doc="one identical packet to all destinations ([KS98] 4.5)"
            ),
            "lookahead": Option(
                default=False, doc="merge a message's control on arrival ([KS98] 4.5)"
            ),
            "differential": Option(
                default=False, doc="send only what changed on that channel ([KS98] 3.5)"
            ),
        },
        dynamic=True,
        short_name="KS",
        wire_number=1,
        bytes_per_entry=PAIR_BYTES,
        names_only=True,
        variants=(
            Variant("hardware", lambda _: {"hardware_multicast": True}),
            Variant("lookahead", lambda _: {"lookahead": True}, _LOST_BY_LOOKAHEAD),
            Variant(
                "both",
                lambda _: {"hardware_multicast": True, "lookahead": True},
                _LOST_BY_LOOKAHEAD,
            ),
            Variant("differential", lambda _: {"differential": True}),
        ),
    )
    STATE: ClassVar = {
        **dict.fromkeys(Numbered.STATE, ANY),
        **NUMBERED,
        "_log": LOG,
        "_last_sent": {NAME: ((str, int, (str, ...)), ...)},
        "_last_received": {NAME: ((str, int, (str, ...)), ...)},
    }
    STAMP: ClassVar = OptimalStamp

    def _start(self) -> None:
        self._hardware = as_flag("hardware_multicast", self.options["hardware_multicast"])
        self._lookahead = as_flag("lookahead", self.options["lookahead"])
        self._fifo = self._is_differential = as_flag("differential", self.options["differential"])
        if self._hardware and self._is_differential:
            msg = "hardware_multicast sends all the same packet, differential does not; choose one"
            raise UsageError(msg)
        if self._fifo:
            self._kind = Stamp  # receive() takes no packet as it is
        self._looks_ahead = self._lookahead or self._is_differential
        self._find_bounds()
        self._known = CausalLog(self._roster, self._me)
        self._last_sent: dict[str, Entries] = {}
        self._last_received: dict[str, Entries] = {}

    @property
    def _log(self) -> Log:
        """LOG_j of [KS98] by names."""
        return self._known.spelt()

    @_log.setter
    def _log(self, log: Log) -> None:
        self._known.read(log)

    def _check_state(self) -> None:
        super()._check_state()
        if self._known.tops[self._me] >> self._roster.shift > self._seq:
            msg = f"a log that knows more messages of {self.process!r} than the {self._seq} it sent"
            raise ValueError(msg)

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the explicit part of the log."""
        return self._known.explicit()

    def kept_entries(self) -> int:
        """Return the entries of the log."""
        return self._known.count()

    # Send.

    def _stamped(self, to: Targets, payload: bytes) -> tuple[Packet, ...]:
        """SND(2) to SND(5). SND(2) carries to all what SND(3) keeps: it is computed once."""
        known, numbers, roster, me = self._known, to.numbers, self._roster, self._me
        seq, sent = self._seq, self._links.sent
        key = seq << roster.shift | me
        if len(numbers) == 1 and not self._hardware:
            (dest,) = numbers
            sent[dest] = n = sent.get(dest, 0) + 1
            own = known.take_one(to.others_mask)
            stamp = known.stamp(OptimalStamp, key, to.others_mask, is_plain=not self._rough)
            packet = numbered_packet(roster, me, dest, n, seq, to.mask, payload, stamp, own)
            return (packet if not self._is_differential else self._shortened(packet),)
        packets = []
        before = known.log.copy() if self._hardware else {}
        needs, nothing = known.take(to.others_mask), list[int]()
        stamp = known.stamp(OptimalStamp, key, to.others_mask, is_plain=not self._rough)
        for dest in numbers:
            sent[dest] = n = sent.get(dest, 0) + 1
            own = needs.get(dest, nothing)
            packets.append(numbered_packet(roster, me, dest, n, seq, to.mask, payload, stamp, own))
        if self._hardware:
            for packet in packets:
                log = _without(before, roster.bits[packet.dest_no])
                packet.stamp = OptimalStamp(stamp.tops, log)
        return tuple(map(self._shortened, packets) if self._is_differential else packets)

    def _shortened(self, packet: Packet) -> Packet:
        """Return a packet with only what differs from the one before on its channel."""
        control = cast("Entries", packet.control)
        before = self._last_sent.get(packet.dest, ())
        self._last_sent[packet.dest] = control
        return replace(packet, control=difference(before, control))

    # Receive.

    def _receive_in_order(self, packet: Packet) -> Effects:
        """Accept a packet that brings what changed since the one before on its channel."""
        self._check_packet(packet)
        links, source, n = self._links, self._roster.numbers[packet.source], packet.n
        if links.is_seen(source, n):
            return self._flush()
        if not links.is_next(source, n):
            if not self._tally.is_low(self, packet):
                self._check_space(packet, is_blocked=True)
            links.accept(source, n)
            links.park(source, packet)
            return self._flush()
        full = self._in_full(packet)
        need = self._blocker(full)
        if need != FREE or self.pull:
            self._hold_back(full, need)
        else:
            links.accept(source, n)
            self._on_arrival(full)
            self._deliver(full)
        for due in links.unpark(source, n):
            full = self._in_full(due)
            self._on_arrival(full)
            self._file(self._hold.take_in(full), full, self._blocker(full))
        self._drain()
        return self._flush()

    def _in_full(self, packet: Packet) -> Packet:
        """Return the packet with all of O_M, by numbers."""
        before = self._last_received.get(packet.source, ())
        control = applied(before, cast("Entries | Difference", packet.control))
        return self._numbered(replace(packet, control=control))

    def _check(self, packet: Packet) -> None:
        control = packet.control
        if self._is_differential and is_difference(control):
            self._check_names(packet, (sender for sender, _ in control[1]))
            control = control[2]
        if packet.kind != "data" or not is_entries(control):
            raise malformed(packet, "sorted entries (sender, clock, destinations)")
        for sender, clock, dests in control:
            self._check_names(packet, (sender, *dests))
            if sender == packet.source and clock >= packet.message_id.seq:
                raise malformed(packet, f"messages of {sender!r} before {packet.message}")
            if sender == self.process and clock > self._seq:
                raise malformed(packet, f"at most {self._seq} messages of {sender!r}")

    def _numbered(self, packet: Packet) -> Packet:
        roster = self._roster
        entries, dests = cast("Entries", packet.control), packet.dests
        if self._forgotten:  # nobody needs to know about them any more
            entries = restricted(entries, roster.numbers)
            dests = tuple(name for name in dests if name in roster.numbers)
        stamp, needs = stamp_of(OptimalStamp, entries, roster, self._me)
        return numbered_packet(
            roster,
            roster.numbers[packet.source],
            self._me,
            packet.n,
            packet.message_id.seq,
            roster.mask_of(dests),
            packet.payload,
            stamp,
            needs,
        )

    def _on_arrival(self, packet: Packet) -> None:
        if self._is_differential:
            self._last_received[packet.source] = cast("Entries", packet.control)
        if self._lookahead:
            self._merge_early(packet)

    def _merge(self, packet: Packet, key: int) -> None:
        """RCV(3) to RCV(5); RCV(3) drops this process, which a packet names only in its needs."""
        if self._lookahead:
            self._drop_delivered()
        elif self._rough or self._hardware:
            bits = self._roster.bits
            targets = packet.dest_set & ~(bits[packet.source_no] | bits[self._me] | self._gone)
            self._known.merge(self._carried(packet), key, targets)
        else:
            noted = self._known.noted
            noted.append((packet.stamp, key, packet.dest_set))
            if len(noted) > NOTED_MAX:
                self._known.settle()

    def _carried(self, packet: Packet) -> Stamp:
        """Return O_M without those who left, and after SND(2) if the sender left that to us."""
        drop = self._gone
        if self._hardware:
            drop |= packet.dest_set & ~self._roster.bits[packet.source_no]
        return OptimalStamp(packet.stamp.tops, _without(packet.stamp.log, drop))

    def _merge_early(self, packet: Packet) -> None:
        """RCV(4) and RCV(5) for a message that has just arrived."""
        roster, bit = self._roster, self._roster.bits[self._me]
        stamp = self._carried(packet)
        for key in packet.needs:
            stamp.log[key] = stamp.log.get(key, 0) | bit
        key = packet.seq << roster.shift | packet.source_no
        targets = packet.dest_set & ~(roster.bits[packet.source_no] | self._gone)
        self._known.merge(stamp, key, targets)
        self._drop_delivered()

    def _drop_delivered(self) -> None:
        """Drop this process from the entries of messages it has delivered (for ``lookahead``)."""
        bit, reached, low = self._roster.bits[self._me], self._reached, self._roster.low
        late = self._departures.late
        self._known.log = {
            key: rest
            for key, mask in self._known.log.items()
            if (rest := mask & ~bit if key <= reached[key & low] or key in late else mask)
        }

    # Membership.

    def _left(self, process: str) -> None:
        self._known.drop(self._gone)
        self._last_sent.pop(process, None)
        self._last_received.pop(process, None)

    def _move(self, by: Translation) -> None:
        self._known.move(by, by.after.numbers[self.process])

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return the entries carried and the destinations left in them."""
        if packet.roster is not None:
            return packet.stamp.size(packet.roster, packet.needs)
        return measured(cast("Entries | Difference", packet.control))


def _without(log: dict[int, int], gone: int) -> dict[int, int]:
    return {key: rest for key, mask in log.items() if (rest := mask & ~gone)}
