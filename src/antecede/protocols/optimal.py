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
``LOG_j``          ``Optimal._log``: sender -> clock -> destinations
``SR_j``           ``Optimal._newest``
``clock_j``        ``MessageId.seq``
``O_M``            ``Packet.control``: sorted (sender, clock, destinations)
=================  =======================================================

Differences from the paper
--------------------------
The initial entries (i, 0, {}) are left out: an absent sender means the same. ``lookahead`` merges a
message's control on arrival (RCV(4)-(5) early). The paper's remark lets the receiver purge by a
message that it has not delivered. That alone loses order, because the guarantee holds only in the
causal future of a send; so the message's own entries are merged as well, and messages may then wait
longer than necessary. ``hardware_multicast`` sends the log as it was, and the receiver applies
SND(2) with its own name. ``differential`` (3.5) sends, on each channel, the changes to the control
sent there before; packets of a channel are then handled in order. This delays nothing, because
causal order requires it between two messages on one channel anyway. It costs the last control sent
and received on each channel as state. Entries stay in the log even if all channels have carried
them, because their absence would mean something. A process that left is dropped from every
destination set, and nothing waits for its undelivered messages.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import ClassVar, cast

from antecede.core.differences import Difference, applied, difference, is_difference, measured
from antecede.core.endpoint import Endpoint
from antecede.core.entries import Entries, Log, as_entries, as_log, explicit, is_entries, purged
from antecede.core.groups import as_flag
from antecede.core.info import Option, ProtocolInfo, Variant
from antecede.core.messages import PAIR_BYTES, ControlSize, MessageId, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import malformed
from antecede.errors import UsageError

_LOST_BY_LOOKAHEAD = frozenset({"no_overblocking", "necessity"})


@register
class Optimal(Endpoint):
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
    STATE: ClassVar = ("_log", "_newest", "_last_sent", "_last_received")

    def _start(self) -> None:
        self._hardware = as_flag("hardware_multicast", self.options["hardware_multicast"])
        self._lookahead = as_flag("lookahead", self.options["lookahead"])
        self._fifo = self._is_differential = as_flag("differential", self.options["differential"])
        if self._hardware and self._is_differential:
            msg = "hardware_multicast sends all the same packet, differential does not; choose one"
            raise UsageError(msg)
        self._log: Log = {}
        self._newest: dict[str, int] = {}
        self._last_sent: dict[str, Entries] = {}
        self._last_received: dict[str, Entries] = {}

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the explicit part of the log."""
        return explicit(self._log)

    def _stamp(self, sending: Sending) -> dict[str, object]:
        before = self._log
        targets = frozenset(sending.others)
        # SND(2) carries to all what SND(3) keeps, so it is computed once; the copy for d differs
        # only in the entries that named d.
        after: Log = {
            sender: {clock: dests - targets for clock, dests in entries.items()}
            for sender, entries in before.items()
        }
        if self._hardware:
            controls = dict.fromkeys(sending.others, as_entries(before))
        else:
            common = purged(after)
            controls = {
                dest: as_entries(_copy_for(dest, before, common)) for dest in sending.others
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
        """Return O_M in full; an arriving packet may bring only a difference."""
        control = cast("Entries | Difference", packet.control)
        return applied(self._last_received.get(packet.source, ()), control)

    def _check(self, packet: Packet) -> None:
        control = packet.control
        if self._is_differential and is_difference(control):
            self._check_names(packet, (sender for sender, _ in control[1]))
            control = control[2]
        if packet.kind != "data" or not is_entries(control):
            raise malformed(packet, "sorted entries (sender, clock, destinations)")
        for sender, _, dests in control:
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
        self._newest[packet.source] = packet.message_id.seq  # RCV(2)
        if self._lookahead:
            self._drop_delivered()
        else:
            self._merge(packet)
        return (Need(packet.source, packet.message_id.seq),)

    def _merge(self, packet: Packet) -> None:
        """RCV(3) to RCV(5)."""
        carried = self._carried(packet)
        everyone = frozenset(packet.dests) - {packet.source} - self._removed
        carried.setdefault(packet.source, {})[packet.message_id.seq] = everyone
        if not self._lookahead:  # RCV(3): all of this is delivered here by now
            carried = _without(carried, frozenset({self.process}))
        self._log = purged(merged(self._log, carried))
        if self._lookahead:
            self._drop_delivered()

    def _carried(self, packet: Packet) -> Log:
        """Return O_M, after SND(2) if the sender left that to us."""
        carried = as_log(cast("Entries", packet.control))
        if self._removed:
            carried = _without(carried, frozenset(self._removed))
        if self._hardware:
            others = frozenset(packet.dests) - {packet.source}
            common = purged(_without(carried, others))
            carried = _copy_for(self.process, carried, common)
        return carried

    def _drop_delivered(self) -> None:
        """Drop this process from the entries of messages it has delivered (for ``lookahead``)."""
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
        return measured(cast("Entries | Difference", packet.control))


def merged(log: Log, carried: Log) -> Log:
    """RCV(4): keep what neither side knows to be irrelevant.

    An entry that one side lacks although it has a newer one of the same sender was purged there in
    the causal past, so it goes. Entries that both have keep the destinations that both have.
    """
    result: Log = {}
    for sender in dict.fromkeys([*log, *carried]):  # the same order in every run
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


def _without(log: Log, gone: frozenset[str]) -> Log:
    return {
        sender: {clock: dests - gone for clock, dests in entries.items()}
        for sender, entries in log.items()
    }


def _copy_for(dest: str, before: Log, common: Log) -> Log:
    """SND(2) for one destination: the common part, with ``dest`` restored where it was named.

    An entry that names only ``dest`` was purged from the common part, unless it is its sender's
    newest; it is restored here.
    """
    copy = {sender: dict(entries) for sender, entries in common.items()}
    for sender, entries in before.items():
        for clock, dests in entries.items():
            if dest in dests:
                rest = common.get(sender, {}).get(clock, frozenset())
                copy.setdefault(sender, {})[clock] = rest | {dest}
    return copy
