"""Causal order by direct predecessors: Prakash, Raynal and Singhal [PRS97]_.

For every process, a message names only the messages that directly precede it there; what those wait
for in turn need not be repeated. One more set, in the sender's own slot, names the direct
predecessors of the message and so tells what the sender has delivered.

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.

Cost
----
At most one pair (process, number) per process in each of ``n`` sets: ``O(n * n)`` at worst.

Names
-----
=================  ====================================================
paper              here
=================  ====================================================
``SENT_i``         ``MessageId.seq``
``DELIVERED_i``    ``Direct._known`` (row: who delivered, then of whom)
``CB_i``           ``Direct._barriers``
``CB_M``           ``Packet.control``: a set of pairs for each member
=================  ====================================================

Differences from the paper
--------------------------
Only the abstract was available to us, so this is a reconstruction. The structures are those that
others describe. Two steps are uncertain, and each has an option:

- ``prune`` says what a delivery prunes from a destination's set. ``literal`` prunes what the
  message carries; ``direct`` also prunes what is kept, and is the default because two independent
  accounts and the claim of optimality for broadcast agree with it; ``full`` also drops what the
  message itself implies.
- ``own_slot`` says what a send does to the sender's own set. ``emptied`` leaves only the message
  just sent, and is the default because broadcasts then carry the least; ``kept`` adds the message
  to what is there. Only ``kept`` agrees with what [JPCY97]_ measured: more bytes than a matrix from
  about 25 processes on, and two thirds of ``n * n`` pairs.

All six readings deliver the same messages at the same moments and differ only in the number of
pairs. The sender's slot is never merged as a constraint. The variant for broadcasts only, with a
single set per message, is left out.

References
----------
.. [PRS97] R. Prakash, M. Raynal and M. Singhal. "An adaptive causal ordering algorithm suited to
   mobile computing environments". Journal of Parallel and Distributed Computing 41(2):190-204,
   1997. https://doi.org/10.1006/jpdc.1996.1300
.. [JPCY97] I. Jang, J. Park, J. W. Cho and H. Yoon. "An efficient causal order algorithm for
   message delivery in distributed system". 6th IEEE Workshop on Future Trends of Distributed
   Computing Systems, 1997. https://doi.org/10.1109/FTDCS.1997.644737
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_choice
from antecede.core.info import Formula, Option, ProtocolInfo, Variant
from antecede.core.kinds import NAME
from antecede.core.messages import PAIR_BYTES, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import check_claim, is_counts, malformed

Pairs = dict[str, int]
Sets = tuple[tuple[tuple[str, int], ...], ...]
PRUNES = ("literal", "direct", "full")
OWN_SLOTS = ("emptied", "kept")


@register
class Direct(Endpoint):
    """One process's barriers: what its next message must wait for at each destination."""

    INFO: ClassVar = ProtocolInfo(
        name="direct",
        idea="direct predecessors per destination",
        paper="Prakash, Raynal, Singhal 1997",
        cost="one pair per direct predecessor and destination; at most n*n",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        options={
            "prune": Option(
                "direct",
                "what a delivery prunes: 'literal', 'direct' or 'full' (same deliveries)",
                PRUNES,
            ),
            "own_slot": Option(
                "emptied",
                "the sender's own set at a send: 'emptied' or 'kept' (same deliveries)",
                OWN_SLOTS,
            ),
        },
        reconstruction=True,
        short_name="PRS",
        fixed_because=(
            "a message stands for those it follows; if it is lost, later ones do not show that "
            "they rest on it"
        ),
        wire_number=7,
        bytes_per_entry=PAIR_BYTES,
        formula=Formula(
            lambda n: n * n, lambda n: 6 * n * n, lambda n: 6 * n * n, most=True, cubic=True
        ),
        variants=(
            Variant("literal", lambda _: {"prune": "literal"}),
            Variant("full", lambda _: {"prune": "full"}),
            Variant("kept", lambda _: {"own_slot": "kept"}),
        ),
    )
    STATE: ClassVar = {"_known": {NAME: {NAME: int}}, "_barriers": {NAME: {NAME: int}}}

    def _start(self) -> None:
        self._prune = as_choice("prune", self.options["prune"], PRUNES)
        self._own_slot = as_choice("own_slot", self.options["own_slot"], OWN_SLOTS)
        self._known: dict[str, Pairs] = {member: {} for member in self.members}
        self._barriers: dict[str, Pairs] = {member: {} for member in self.members}
        self._read: tuple[object, list[Pairs]] = (None, [])
        """The control that was checked last, and its sets; mostly it is absorbed at once."""

    def _stamp(self, sending: Sending) -> dict[str, object]:
        before = tuple(tuple(sorted(self._barriers[member].items())) for member in self.members)
        own, me = self._barriers[self.process], self.process
        for dest in sending.others:
            kept = {} if self._prune == "full" else minus(self._barriers[dest], own)
            self._barriers[dest] = kept | {me: sending.message.seq}
        kept = own if self._own_slot == "kept" else {}
        self._barriers[me] = kept | {me: sending.message.seq}
        return dict.fromkeys(sending.others, before)

    def kept_entries(self) -> int:
        """Return the pairs in all barriers."""
        return sum(map(len, self._barriers.values()))

    @staticmethod
    def _entry_count(control: object) -> int:
        return sum(map(len, cast("Sets", control)))

    def _check(self, packet: Packet) -> None:
        sets, n = packet.control, len(self.members)
        carried = _carried(sets) if type(sets) is tuple and len(sets) == n else None
        if packet.kind != "data" or carried is None:
            raise malformed(packet, f"{n} sorted sets of pairs (process, number)")
        self._read = sets, carried
        names = set().union(*carried)
        if not self._positions.keys() >= names:
            self._check_names(packet, sorted(names))
        mine = carried[self._positions[self.process]]
        if mine.get(packet.source, 0) >= packet.message_id.seq:
            raise malformed(packet, f"messages of {packet.source!r} before {packet.message}")
        if self.process in names:
            claimed = max([pairs.get(self.process, 0) for pairs in carried])
            check_claim(self, packet, claimed, self._seq)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        mine = self._known[self.process]
        for process, seq in cast("Sets", packet.control)[self._positions[self.process]]:
            if mine.get(process, 0) < seq:
                yield Need(process, seq)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        me, source, seq = self.process, packet.source, packet.message_id.seq
        sets, dests = self._read[1], packet.dests
        if packet.control is not self._read[0]:
            sets = list(map(dict, cast("Sets", packet.control)))
        before = sets[self._positions[source]]  # the direct predecessors of this message
        self._known[me][source] = seq
        self._known[source] = union_max(self._known[source], before)
        newest, barriers, known = {source: seq}, self._barriers, self._known
        for member, pairs in zip(self.members, sets, strict=True):
            if member == me:
                continue
            kept = barriers[member]
            if member in dests and member != source:
                if self._prune == "direct":
                    barriers[member] = _renewed(kept, pairs, before, newest, known[member])
                    continue
                kept = union_max(self._pruned(kept, pairs, before), newest)
            elif pairs and member != source:
                kept = union_max(kept, pairs)
            # Drop what is known to be delivered there.
            barriers[member] = minus(kept, known[member])
        barriers[me] = union_max(minus(barriers[me], before), newest)
        return (Need(source, seq),)

    def _pruned(self, mine: Pairs, theirs: Pairs, before: Pairs) -> Pairs:
        """Return what ``prune`` leaves of a barrier at a destination, unless it is "direct"."""
        if self._prune == "literal":
            return union_max(mine, minus(theirs, before))
        return minus(minus(mine, before), theirs)


def _carried(sets: tuple[object, ...]) -> list[Pairs] | None:
    """Return the sets, or None unless all are sorted pairs (name, from 1), each name once."""
    if set(map(type, sets)) != {tuple}:
        return None
    pairs = list(chain.from_iterable(cast("Sets", sets)))
    if pairs:
        if set(map(type, pairs)) != {tuple} or set(map(len, pairs)) != {2}:
            return None
        names, numbers = zip(*pairs, strict=True)
        if set(map(type, names)) != {str} or not is_counts(numbers, len(pairs)) or min(numbers) < 1:
            return None
    carried: list[Pairs] = list(map(dict, cast("Sets", sets)))
    are_sorted = list(map(tuple, map(sorted, cast("Sets", sets)))) == list(sets)
    return carried if are_sorted and sum(map(len, carried)) == len(pairs) else None


def _renewed(mine: Pairs, theirs: Pairs, before: Pairs, newest: Pairs, known: Pairs) -> Pairs:
    """Return (mine - before) + (theirs - before) + newest - known; most of the time goes here."""
    kept = {p: seq for p, seq in mine.items() if seq > before.get(p, 0) and seq > known.get(p, 0)}
    for p, seq in theirs.items():
        if seq > kept.get(p, 0) and seq > before.get(p, 0) and seq > known.get(p, 0):
            kept[p] = seq
    for p, seq in newest.items():
        if seq > kept.get(p, 0) and seq > known.get(p, 0):
            kept[p] = seq
    return kept


def union_max(left: Pairs, right: Pairs) -> Pairs:
    """Return the pairs of both, with the larger number for each process; change neither."""
    if not left or not right:
        return left or right
    result = dict(left)
    for process, seq in right.items():
        if process not in result or seq > result[process]:
            result[process] = seq
    return result


def minus(left: Pairs, right: Pairs) -> Pairs:
    """Return the pairs of ``left`` that are newer than those of ``right``, process by process."""
    if not left or not right:
        return left
    return {p: seq for p, seq in left.items() if p not in right or seq > right[p]}
