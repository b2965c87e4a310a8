"""Causal order with four kinds of redundant information pruned: Jang, Park, Cho and Yoon [JPCY97]_.

A process keeps, for each message it knows of, the destinations that might still have to wait for
it, and prunes a destination as soon as waiting there has become pointless: the message was
delivered (*just* here, or *already* elsewhere) or a later message to the same destination stands in
for it (*just* sent here, or *already* by someone else).

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing; after every event the
explicit information kept is exactly what the Propagation Constraints of Kshemkalyani and Singhal
require.

Assumes
-------
A fixed membership, and a network that brings every packet eventually. It may reorder and
duplicate.

Cost
----
One entry for each message in question, with an id for each remaining destination, and one pair for
each message that the receiver must have delivered; at most ``O(n * n)``. At least one entry is kept
for each sender known.

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
is left out: it removes a destination from an older entry when a newer one of the same sender names
it too, but by S2 the sender itself never lets both stand, and R5 and R6 spread that, so R8 never
finds anything (tested). ``pruned`` counts what was pruned, one for each destination of an entry:
``just_replaced`` in S2, ``just_delivered`` in R4, ``already`` in R5 and R6. Whether the latter had
been delivered or replaced the receiver cannot tell, because both show as absence.

References
----------
.. [JPCY97] I. Jang, J. Park, J. W. Cho and H. Yoon. "An efficient causal order algorithm for message
   delivery in distributed system". 6th IEEE Workshop on Future Trends of Distributed Computing
   Systems, 1997. https://doi.org/10.1109/FTDCS.1997.644737
.. [JCY98] I. H. Jang, J. W. Cho and H. Yoon. "An efficient causal multicast algorithm for distributed
   system". IEICE Transactions on Information and Systems E81-D(1):27-36, 1998. The journal form.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.info import MULTICAST, Citation, ProtocolInfo
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Entry = tuple[str, int, tuple[str, ...]]
Constraint = tuple[str, int]
Control = tuple[tuple[Entry, ...], tuple[Constraint, ...]]
Info = dict[str, dict[int, frozenset[str]]]

KINDS = ("just_delivered", "just_replaced", "already")


@register
class Pruned(Endpoint):
    """One process's control information."""

    INFO: ClassVar = ProtocolInfo(
        name="pruned",
        idea="prune four kinds of redundant information",
        paper="Jang, Park, Cho, Yoon 1997 (journal form: Jang, Cho, Yoon 1998)",
        citation=Citation(
            tag="JPCY97",
            authors=("I. Jang", "J. Park", "J. W. Cho", "H. Yoon"),
            title="An efficient causal order algorithm for message delivery in distributed system",
            venue="6th IEEE Workshop on Future Trends of Distributed Computing Systems",
            year=1997,
            url="https://doi.org/10.1109/FTDCS.1997.644737",
        ),
        casts=MULTICAST,
        guarantee="causal order with the least explicit information",
        assumptions="fixed membership; any network that brings every packet eventually",
        cost="one entry per message not yet certain, one id per remaining destination; at most n*n",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking", "necessity"}),
        wire_number=2,
        bytes_per_entry=PAIR_BYTES,
        bytes_per_destination=ID_BYTES,
        names_only=True,
    )
    STATE: ClassVar = ("_info", "_newest", "_pruned")

    def _start(self) -> None:
        self._info: Info = {}
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
        return {
            MessageId(sender, clock): dests
            for sender, entries in sorted(self._info.items())
            for clock, dests in sorted(entries.items())
            if dests
        }

    def _stamp(self, sending: Sending) -> dict[str, object]:
        targets = frozenset(sending.others)
        constraints: dict[str, list[Constraint]] = {dest: [] for dest in sending.others}
        info: Info = {}
        for sender, entries in sorted(self._info.items()):  # S2
            info[sender] = {clock: dests - targets for clock, dests in entries.items()}
            for clock, dests in sorted(entries.items()):
                for dest in dests & targets:
                    constraints[dest].append((sender, clock))
                    self._pruned["just_replaced"] += 1
        self._info = without_empty(info)  # S3
        carried = as_entries(self._info)  # S4
        self._info.setdefault(self.process, {})[sending.message.seq] = targets  # S5
        return {dest: (carried, tuple(constraints[dest])) for dest in sending.others}

    def _check(self, packet: Packet) -> None:
        if packet.kind != "data" or not is_control(packet.control):
            raise malformed(
                packet, "sorted entries (sender, clock, destinations) and pairs (sender, clock)"
            )
        entries, constraints = cast("Control", packet.control)
        for sender, _, dests in entries:
            self._check_names(packet, (sender, *dests))
            if self.process in dests:
                raise malformed(packet, f"constraints on {self.process!r} apart from the entries")
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
        assert packet.message is not None
        source, clock = packet.message
        self._newest[source] = clock  # R3
        carried: Info = {}
        for sender, number, dests in cast("Control", packet.control)[0]:
            carried.setdefault(sender, {})[number] = frozenset(dests)
        remaining = frozenset(packet.dests) - {source, self.process}
        carried.setdefault(source, {})[clock] = remaining  # R4
        self._pruned["just_delivered"] += 1
        merged, already = merge(self._info, carried)
        self._pruned["already"] += already
        self._info = without_empty(merged)  # R9
        return (Need(source, clock),)

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return CI entries and DC pairs, and the destinations left in the entries."""
        entries, constraints = cast("Control", packet.control)
        count = len(entries) + len(constraints)
        dests = sum(len(dests) for _, _, dests in entries)
        return cls._sized(count, dests)


def merge(mine: Info, theirs: Info) -> tuple[Info, int]:
    """R5 to R7: what one side lacks although it knows a newer message, it has seen pruned.

    Returns also how many destinations that pruned, each counted once although both sides name it.
    """
    result: Info = {}
    pruned = 0
    for sender in mine.keys() | theirs.keys():
        ours, carried = mine.get(sender, {}), theirs.get(sender, {})
        newest_ours, newest_carried = max(ours, default=0), max(carried, default=0)
        kept: dict[int, frozenset[str]] = {}
        for clock in ours.keys() | carried.keys():
            if clock in ours and clock in carried:  # R6
                kept[clock] = ours[clock] & carried[clock]
                pruned += len(ours[clock] ^ carried[clock])
                continue
            dests = ours[clock] if clock in ours else carried[clock]
            if clock > (newest_carried if clock in ours else newest_ours):  # R7
                kept[clock] = dests
            else:  # R5
                pruned += len(dests)
        result[sender] = kept
    return result, pruned


def without_empty(info: Info) -> Info:
    """S3 and R9: drop entries without destinations, but keep the newest of each sender."""
    result: Info = {}
    for sender, entries in info.items():
        newest = max(entries)
        result[sender] = {c: dests for c, dests in entries.items() if dests or c == newest}
    return result


def as_entries(info: Info) -> tuple[Entry, ...]:
    """Return control information as it travels: everything sorted."""
    return tuple(
        (sender, clock, tuple(sorted(dests)))
        for sender, entries in sorted(info.items())
        for clock, dests in sorted(entries.items())
    )


def is_control(control: object) -> bool:
    """Tell whether ``control`` is sorted entries and sorted constraints."""
    if type(control) is not tuple or len(control) != 2:
        return False
    entries, constraints = control
    return _is_sorted_keys(entries, 3) and _is_sorted_keys(constraints, 2) and _are_dests(entries)


def _is_sorted_keys(rows: object, width: int) -> bool:
    if type(rows) is not tuple:
        return False
    for row in rows:
        if type(row) is not tuple or len(row) != width:
            return False
        if type(row[0]) is not str or not is_count(row[1], 1):
            return False
    return all(a[:2] < b[:2] for a, b in itertools.pairwise(rows))


def _are_dests(entries: tuple[tuple[object, ...], ...]) -> bool:
    return all(
        type(dests) is tuple
        and all(type(dest) is str for dest in dests)
        and all(a < b for a, b in itertools.pairwise(dests))
        for _, _, dests in entries
    )
