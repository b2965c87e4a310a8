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
=================  ==============================================================
paper              here
=================  ==============================================================
``CI_i``           ``Pruned._info``: sender -> clock -> remaining destinations
``DC_i[j]``        second part of ``Packet.control``: sorted (sender, clock)
``CI_m``           first part of ``Packet.control``: sorted (sender, clock, dests)
``DLV_i``          ``Pruned._newest`` (the paper's steps also spell it ``DVL``)
``tau_i``          ``MessageId.seq``
``m.D``            the destinations other than the sender
=================  ==============================================================

Differences from the paper
--------------------------
The message is sent before step S5 enters it into CI, as R4 requires: the receiver adds it. Step R8
is left out. It removes a destination from an older entry if a newer one of the same sender names
it too; but by S2 the sender itself never keeps both, and R5 and R6 spread this, so R8 never finds
anything (tested). ``notes()`` counts what was pruned, one per destination of an entry:
``just_replaced`` in S2, ``just_delivered`` in R4, ``already`` in R5 and R6. The receiver cannot
tell whether the latter were delivered or replaced, because both show as absence.

References
----------
.. [JPCY97] I. Jang, J. Park, J. W. Cho and H. Yoon. "An efficient causal order algorithm for
   message delivery in distributed system". 6th IEEE Workshop on Future Trends of Distributed
   Computing Systems, 1997. https://doi.org/10.1109/FTDCS.1997.644737
.. [JCY98] I. H. Jang, J. W. Cho and H. Yoon. "An efficient causal multicast algorithm for
   distributed system". IEICE Transactions on Information and Systems E81-D(1):27-36, 1998. The
   journal form.
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
    is_keys,
    purged,
    size_of,
)
from antecede.core.info import ProtocolInfo
from antecede.core.messages import PAIR_BYTES, ControlSize, MessageId, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import check_claim, malformed

Constraint = tuple[str, int]
Control = tuple[Entries, tuple[Constraint, ...]]

KINDS = ("just_delivered", "just_replaced", "already")


@register
class Pruned(Endpoint):
    """One process's control information."""

    INFO: ClassVar = ProtocolInfo(
        name="pruned",
        idea="prune four kinds of redundant information",
        paper="Jang, Park, Cho, Yoon 1997 (journal form: Jang, Cho, Yoon 1998)",
        guarantee="causal order with the least explicit information",
        cost="one entry per message not yet certain, one id per remaining destination; at most n*n",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking", "necessity"}),
        wire_number=2,
        bytes_per_entry=PAIR_BYTES,
        names_only=True,
    )
    STATE: ClassVar = ("_info", "_newest", "_pruned")

    def _start(self) -> None:
        self._info: Log = {}
        self._newest: dict[str, int] = {}
        self._pruned = dict.fromkeys(KINDS, 0)

    def kept_entries(self) -> int:
        """Return the entries of CI."""
        return sum(map(len, self._info.values()))

    def notes(self) -> dict[str, int]:
        """Return how many destinations were pruned from entries, by kind of redundancy."""
        return dict(self._pruned)

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the entries that still name a destination."""
        return explicit(self._info)

    def _stamp(self, sending: Sending) -> dict[str, object]:
        targets = frozenset(sending.others)
        constraints: dict[str, list[Constraint]] = {dest: [] for dest in sending.others}
        info: Log = {}
        for sender, entries in sorted(self._info.items()):  # S2
            info[sender] = {clock: dests - targets for clock, dests in entries.items()}
            for clock, dests in sorted(entries.items()):
                for dest in dests & targets:
                    constraints[dest].append((sender, clock))
                    self._pruned["just_replaced"] += 1
        self._info = purged(info)  # S3
        carried = as_entries(self._info)  # S4
        self._info.setdefault(self.process, {})[sending.message.seq] = targets  # S5
        return {dest: (carried, tuple(constraints[dest])) for dest in sending.others}

    def _check(self, packet: Packet) -> None:
        if packet.kind != "data" or not is_control(packet.control):
            raise malformed(
                packet, "sorted entries (sender, clock, destinations) and pairs (sender, clock)"
            )
        entries, constraints = cast("Control", packet.control)
        for sender, clock, dests in entries:
            self._check_names(packet, (sender, *dests))
            if self.process in dests:
                raise malformed(packet, f"constraints on {self.process!r} apart from the entries")
            if sender == self.process:
                check_claim(self, packet, clock, self._seq)
        self._check_names(packet, (sender for sender, _ in constraints))
        if any(sender == self.process for sender, _ in constraints):
            raise malformed(packet, f"no constraint on {self.process!r} by its own messages")

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        """R1, the delivery condition."""
        _, constraints = cast("Control", packet.control)
        for sender, clock in constraints:
            if clock > self._newest.get(sender, 0):
                yield Need(sender, clock)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        source, clock = packet.message_id
        self._newest[source] = clock  # R3
        carried = as_log(cast("Control", packet.control)[0])
        remaining = frozenset(packet.dests) - {source, self.process}
        carried.setdefault(source, {})[clock] = remaining  # R4
        self._pruned["just_delivered"] += 1
        merged, already = merge(self._info, carried)
        self._pruned["already"] += already
        self._info = purged(merged)  # R9
        return (Need(source, clock),)

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return CI entries and DC pairs, and the destinations left in the entries."""
        entries, constraints = cast("Control", packet.control)
        return size_of(entries, len(constraints))


def merge(mine: Log, theirs: Log) -> tuple[Log, int]:
    """R5 to R7: drop what one side lacks although it knows a newer message of that sender.

    Also return how many destinations this pruned, each counted once even if both sides name it.
    """
    result: Log = {}
    pruned = 0
    for sender in dict.fromkeys([*mine, *theirs]):  # the same order in every run
        ours, carried = mine.get(sender, {}), theirs.get(sender, {})
        newest_ours, newest_carried = max(ours, default=0), max(carried, default=0)
        kept: dict[int, frozenset[str]] = {}
        for clock, dests in ours.items():
            if clock in carried:  # R6
                kept[clock] = dests & carried[clock]
                pruned += len(dests ^ carried[clock])
            elif clock > newest_carried:  # R7
                kept[clock] = dests
            else:  # R5
                pruned += len(dests)
        for clock, dests in carried.items():
            if clock > newest_ours:  # R7
                kept[clock] = dests
            elif clock not in ours:  # R5
                pruned += len(dests)
        result[sender] = kept
    return result, pruned


def is_control(control: object) -> bool:
    """Tell whether ``control`` consists of sorted entries and sorted constraints."""
    if type(control) is not tuple or len(control) != 2:
        return False
    entries, constraints = control
    return is_entries(entries) and is_keys(constraints)
