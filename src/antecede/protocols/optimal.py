"""The least information that causal order needs: Kshemkalyani and Singhal [KS98]_.

A message names, for each earlier message that someone might still have to wait for, the
destinations for which it is neither known to be delivered nor certain to be delivered in order.
What is known is tracked by absence: a destination that is missing from an entry, or an entry that
is missing although its sender has a newer one, says "no longer of concern".

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing; after every event the
explicit information kept is exactly what the Propagation Constraints require ([KS98] 3.4).

Assumes
-------
A network that brings every packet eventually. It may reorder and duplicate; [KS98] assumes FIFO
channels, the algorithm does not need them. Processes may join and leave.

Cost
----
At most ``n * n`` units per copy, usually far fewer: one entry for each message in question and one
id for each remaining destination. ``O(n * n)`` time per send and delivery: the part of SND(2) that
all destinations share is computed once.

Names
-----
=================  =======================================================
paper              here
=================  =======================================================
``LOG_j``          ``Optimal._log``: sender -> clock -> destinations
``SR_j``           ``Optimal._newest``
``clock_j``        ``MessageId.seq``
``O_M``            ``Packet.control``: sorted (sender, clock, destinations)
=================  =======================================================

Differences from the paper
--------------------------
The initial entries (i, 0, {}) are left out: an absent sender means the same. ``lookahead`` merges
a message's control when it arrives (RCV(4)-(5) early). The paper's remark lets the receiver purge
by the word of a message that it has not delivered; that alone loses order, because the guarantee
holds only in the causal future of a send. So what the message says is merged as well, and messages
may then wait longer than they need. ``hardware_multicast`` sends the log as it was, and the
receiver applies SND(2) with its own name. ``differential`` (3.5) sends, on each channel, what has
changed against the control sent there before, and packets of a channel are then treated in order.
That delays nothing: causal order asks for it between two messages on one channel anyway. It costs
the last control sent and received on each channel as state; entries stay in the log although all
channels may have carried them, because their absence would mean something. A process that left is
dropped from every destination set; nothing waits for its undelivered messages.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from antecede.core.differences import (
    Difference,
    Entries,
    applied,
    difference,
    is_difference,
    size_of,
)
from antecede.core.endpoint import Endpoint
from antecede.core.info import KS98, MULTICAST, Option, ProtocolInfo, Variant
from antecede.core.messages import (
    ID_BYTES,
    PAIR_BYTES,
    ControlSize,
    MessageId,
    Need,
    Packet,
    Sending,
)
from antecede.core.plain import is_count, malformed
from antecede.core.registry import register
from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Log = dict[str, dict[int, frozenset[str]]]
_LOST_BY_LOOKAHEAD = frozenset({"no_overblocking", "necessity"})


@register
class Optimal(Endpoint):
    """One process's log of what is not yet certain."""

    INFO: ClassVar = ProtocolInfo(
        name="optimal",
        idea="exactly the necessary and sufficient information",
        paper="Kshemkalyani, Singhal 1998",
        citation=KS98,
        casts=MULTICAST,
        guarantee="causal order with the least explicit information",
        assumptions="any network that brings every packet eventually; processes may join and leave",
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
        bytes_per_destination=ID_BYTES,
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
    STATE: ClassVar = ("_log", "_newest", "_last_sent", "_last_received")

    def _start(self) -> None:
        for name in ("hardware_multicast", "lookahead", "differential"):
            if type(self.options[name]) is not bool:
                msg = f"{name}={self.options[name]!r} is neither True nor False"
                raise UsageError(msg)
        if self.options["hardware_multicast"] and self.options["differential"]:
            msg = "hardware_multicast sends all the same, differential to each its own; choose one"
            raise UsageError(msg)
        self._hardware = self.options["hardware_multicast"]
        self._fifo = self._is_differential = bool(self.options["differential"])
        self._lookahead = self.options["lookahead"]
        self._log: Log = {}
        self._newest: dict[str, int] = {}
        self._last_sent: dict[str, Entries] = {}
        self._last_received: dict[str, Entries] = {}

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the explicit part of the log."""
        return {
            MessageId(sender, clock): dests
            for sender, entries in sorted(self._log.items())
            for clock, dests in sorted(entries.items())
            if dests
        }

    def _stamp(self, sending: Sending) -> dict[str, object]:
        before = self._log
        targets = frozenset(sending.others)
        # SND(3) is also what SND(2) carries to all, so it is computed once; a copy for d differs
        # only in the entries that named d.
        after: Log = {
            sender: {clock: dests - targets for clock, dests in entries.items()}
            for sender, entries in before.items()
        }
        if self._hardware:
            controls = dict.fromkeys(sending.others, as_control(before))
        else:
            common = purged(after)
            controls = {
                dest: as_control(_copy_for(dest, before, common)) for dest in sending.others
            }
        after.setdefault(self.process, {})[sending.message.seq] = targets  # SND(4)
        self._log = purged(after)  # SND(5)
        return {dest: self._outgoing(dest, control) for dest, control in controls.items()}

    def kept_entries(self) -> int:
        """Return the entries of the log."""
        return sum(map(len, self._log.values()))

    def _outgoing(self, dest: str, control: Entries) -> object:
        if not self._is_differential:
            return control
        before = self._last_sent.get(dest, ())
        self._last_sent[dest] = control
        return difference(before, control)

    def _entries(self, packet: Packet) -> Entries:
        """Return O_M in full; a held packet has it, an arriving one may bring a difference."""
        control = cast("Entries | Difference", packet.control)
        return applied(self._last_received.get(packet.source, ()), control)

    def _check(self, packet: Packet) -> None:
        control = packet.control
        if self._is_differential and is_difference(control):
            self._check_names(packet, (sender for sender, _ in control[1]))
            control = control[2]
        if packet.kind != "data" or not is_log(control):
            raise malformed(packet, "sorted entries (sender, clock, destinations)")
        for sender, _, dests in cast("Entries", control):
            self._check_names(packet, (sender, *dests))

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        """RCV(1), the Delivery Condition."""
        for sender, clock, dests in self._entries(packet):
            if self.process in dests and clock > self._newest.get(sender, 0):
                yield Need(sender, clock)

    def _on_data(self, packet: Packet) -> None:
        if self._is_differential:
            packet = replace(packet, control=self._entries(packet))
            self._last_received[packet.source] = cast("Entries", packet.control)
        if self._lookahead:
            self._merge(packet)
        super()._on_data(packet)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        assert packet.message is not None
        self._newest[packet.source] = packet.message.seq  # RCV(2)
        if self._lookahead:
            self._drop_delivered()
        else:
            self._merge(packet)
        return (Need(packet.source, packet.message.seq),)

    def _merge(self, packet: Packet) -> None:
        """RCV(3) to RCV(5)."""
        assert packet.message is not None
        carried = self._carried(packet)
        everyone = frozenset(packet.dests) - {packet.source} - self._removed
        carried.setdefault(packet.source, {})[packet.message.seq] = everyone
        if not self._lookahead:  # RCV(3): all of this is delivered here by now
            carried = _without(carried, frozenset({self.process}))
        self._log = purged(merged(self._log, carried))
        if self._lookahead:
            self._drop_delivered()

    def _carried(self, packet: Packet) -> Log:
        """Return O_M, after SND(2) where the sender left that to us."""
        carried: Log = {}
        for sender, clock, dests in cast("Entries", packet.control):
            carried.setdefault(sender, {})[clock] = frozenset(dests) - self._removed
        if self._hardware:
            others = frozenset(packet.dests) - {packet.source}
            common = purged(_without(carried, others))
            carried = _copy_for(self.process, carried, common)
        return carried

    def _drop_delivered(self) -> None:
        """Drop this process from the entries of what it has delivered (for ``lookahead``)."""
        me = frozenset({self.process})
        self._log = purged(
            {
                sender: {
                    clock: dests - me if clock <= self._newest.get(sender, 0) else dests
                    for clock, dests in entries.items()
                }
                for sender, entries in self._log.items()
            }
        )

    def _left(self, process: str) -> None:
        self._log = purged(_without(self._log, frozenset({process})))
        self._last_sent.pop(process, None)
        self._last_received.pop(process, None)

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return the entries carried and the destinations left in them."""
        control = cast("Entries | Difference", packet.control)
        return cls._sized(*size_of(control))


def merged(log: Log, carried: Log) -> Log:
    """RCV(4): keep what neither side knows to be of no more concern.

    An entry that one side lacks although it has a newer one of the same sender was purged there in
    the causal past, so it goes. Entries that both have keep the destinations that both have.
    """
    result: Log = {}
    for sender in dict.fromkeys([*log, *carried]):  # in an order that every run has
        mine, theirs = log.get(sender, {}), carried.get(sender, {})
        newest_mine, newest_theirs = max(mine, default=0), max(theirs, default=0)
        kept = {clock: dests & theirs[clock] for clock, dests in mine.items() if clock in theirs}
        kept.update(
            (clock, dests)
            for clock, dests in mine.items()
            if clock not in theirs and clock > newest_theirs
        )
        kept.update(
            (clock, dests)
            for clock, dests in theirs.items()
            if clock not in mine and clock > newest_mine
        )
        result[sender] = kept
    return result


def purged(log: Log) -> Log:
    """PURGE_NULL_ENTRIES: drop empty entries that a newer one of the same sender implies."""
    result: Log = {}
    for sender, entries in log.items():
        newest = max(entries, default=0)
        kept = {clock: dests for clock, dests in entries.items() if dests or clock == newest}
        if kept:
            result[sender] = kept
    return result


def as_control(log: Log) -> Entries:
    """Return a log as it travels: sorted by sender and clock, destinations sorted."""
    return tuple(
        (sender, clock, tuple(sorted(dests)))
        for sender, entries in sorted(log.items())
        for clock, dests in sorted(entries.items())
    )


def is_log(control: object) -> bool:
    """Tell whether ``control`` has the form that :func:`as_control` gives."""
    if type(control) is not tuple:
        return False
    last = ("", 0)
    for entry in control:
        if type(entry) is not tuple or len(entry) != 3:
            return False
        sender, clock, dests = entry
        if type(sender) is not str or not is_count(clock, 1) or (sender, clock) <= last:
            return False
        if type(dests) is not tuple or any(type(dest) is not str for dest in dests):
            return False
        if any(a >= b for a, b in itertools.pairwise(dests)):
            return False
        last = (sender, clock)
    return True


def _without(log: Log, gone: frozenset[str]) -> Log:
    return {
        sender: {clock: dests - gone for clock, dests in entries.items()}
        for sender, entries in log.items()
    }


def _copy_for(dest: str, before: Log, common: Log) -> Log:
    """SND(2) for one destination: the common part, and ``dest`` back where it was named.

    An entry that is empty but for ``dest`` was purged from the common part, unless it is its
    sender's newest; it comes back here.
    """
    copy = {sender: dict(entries) for sender, entries in common.items()}
    for sender, entries in before.items():
        for clock, dests in entries.items():
            if dest in dests:
                rest = common.get(sender, {}).get(clock, frozenset())
                copy.setdefault(sender, {})[clock] = rest | {dest}
    return copy
