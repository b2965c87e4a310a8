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
Every packet arrives eventually; the network may reorder and duplicate packets. Processes may join
and leave.

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
tell whether the latter were delivered or replaced, because both show as absence. Processes that
join and leave are our extension: one that left is dropped from every entry, and nothing waits for
its undelivered messages.

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

from typing import TYPE_CHECKING, ClassVar, cast

from antecede.core.entries import Entries, Log, is_entries, is_keys, restricted, size_of
from antecede.core.info import ProtocolInfo
from antecede.core.kinds import ANY, LOG, NUMBERED
from antecede.core.logs import CausalLog
from antecede.core.messages import PAIR_BYTES, ControlSize, MessageId, Packet, numbered_packet
from antecede.core.numbered import Numbered
from antecede.core.registry import register
from antecede.core.stamps import Stamp, Translation, are_known, stamp_of
from antecede.core.validation import are_names, check_claim, malformed

if TYPE_CHECKING:
    from antecede.core.casts import Targets
    from antecede.core.roster import Roster

Constraint = tuple[str, int]
Control = tuple[Entries, tuple[Constraint, ...]]
Names = tuple[str, ...]

KINDS = ("just_delivered", "just_replaced", "already")


class PrunedStamp(Stamp):
    """CI_m of [JPCY97], shared by all copies of a message; DC is what a copy adds."""

    __slots__ = ()

    PROTOCOL: ClassVar = "pruned"
    IS_LOG: ClassVar = True

    def control(
        self, roster: Roster, dest: int, needs: list[int]
    ) -> Control | tuple[Control, Names, Names]:
        """Return CI_m as sorted entries, and DC as sorted pairs (sender, clock).

        While someone who left is not forgotten, they are followed by who left and who is done.
        """
        names, low, shift = roster.names, roster.low, roster.shift
        constraints = sorted([(names[key & low], key >> shift) for key in needs])
        control = self.entries(roster, dest, []), tuple(constraints)
        if self.news is None:
            return control
        return control, roster.sorted_names(self.news[0]), roster.sorted_names(self.news[1])

    @classmethod
    def of_control(
        cls, control: object, roster: Roster, dest: int
    ) -> tuple[Stamp, list[int]] | None:
        """Return the stamp and the needs of CI_m and DC, or None if they are malformed."""
        control, left, done = parts(control)
        if not is_control(control) or not is_news(left, done):
            return None
        entries, constraints = cast("Control", control)
        pairs = tuple((*pair, ()) for pair in constraints)
        numbers = roster.numbers
        if not are_known(entries + pairs, roster) or not numbers.keys() >= {*left}:
            return None
        stamp, _ = stamp_of(PrunedStamp, entries, roster, dest)
        if left:
            stamp.news = roster.mask_of(left), roster.mask_of(done)
        needs = [clock << roster.shift | numbers[sender] for sender, clock in constraints]
        is_past = all(key <= stamp.tops[key & roster.low] for key in needs)
        return (stamp, needs) if is_past else None


@register
class Pruned(Numbered):
    """One process's control information."""

    INFO: ClassVar = ProtocolInfo(
        name="pruned",
        idea="prune four kinds of redundant information",
        paper="Jang, Park, Cho, Yoon 1997 (journal form: Jang, Cho, Yoon 1998)",
        guarantee="causal order with the least explicit information",
        assumptions="every packet arrives eventually; processes may join and leave",
        cost="one entry per message not yet certain, one id per remaining destination; at most n*n",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking", "necessity"}),
        dynamic=True,
        wire_number=2,
        bytes_per_entry=PAIR_BYTES,
        names_only=True,
    )
    STATE: ClassVar = {
        **dict.fromkeys(Numbered.STATE, ANY),
        **NUMBERED,
        "_info": LOG,
        "_pruned": {str: int},
        "_stale": int,
    }
    STAMP: ClassVar = PrunedStamp

    def _start(self) -> None:
        self._known = CausalLog(self._roster, self._me)
        self._pruned = dict.fromkeys(KINDS, 0)
        self._stale = 0  # an empty entry of our own that S5 leaves to the next S3 or R9

    @property
    def _info(self) -> Log:
        """CI_i of [JPCY97] by names."""
        return self._known.spelt()

    @_info.setter
    def _info(self, log: Log) -> None:
        self._known.read(log)

    def _check_state(self) -> None:
        super()._check_state()
        if self._known.tops[self._me] >> self._roster.shift > self._seq:
            msg = f"a log that knows more messages of {self.process!r} than the {self._seq} it sent"
            raise ValueError(msg)

    def kept_entries(self) -> int:
        """Return the entries of CI."""
        return self._known.count() + self._stale

    def notes(self) -> dict[str, int]:
        """Return how many destinations were pruned from entries, by kind of redundancy."""
        return dict(self._pruned)

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the entries that still name a destination."""
        return self._known.explicit()

    def _stamped(self, to: Targets, payload: bytes) -> tuple[Packet, ...]:
        known, roster = self._known, self._roster
        needs = known.take(to.others_mask)  # S2; S3 is what CausalLog leaves out
        self._pruned["just_replaced"] += sum(map(len, needs.values()))
        last = known.tops[self._me]
        self._stale = int(last > roster.low and last not in known.log)
        key = self._seq << roster.shift | self._me
        stamp = known.stamp(PrunedStamp, key, to.others_mask, is_plain=not self._rough)  # S4 and S5
        packets = []
        sent, nothing = self._links.sent, list[int]()
        for dest in to.numbers:
            sent[dest] = n = sent.get(dest, 0) + 1
            own = needs.get(dest, nothing)
            packets.append(
                numbered_packet(roster, self._me, dest, n, self._seq, to.mask, payload, stamp, own)
            )
        return tuple(packets)

    def _check(self, packet: Packet) -> None:
        control, left, done = parts(packet.control)
        if packet.kind != "data" or not is_control(control) or not is_news(left, done):
            raise malformed(
                packet, "sorted entries (sender, clock, destinations) and pairs (sender, clock)"
            )
        entries, constraints = cast("Control", control)
        if done:  # what concerns those with whom the sender is done does not matter
            known = frozenset(self._roster.names).union(_named(entries, constraints)) - {*done}
            entries = restricted(entries, known)
            constraints = tuple(pair for pair in constraints if pair[0] in known)
        for sender, clock, dests in entries:
            self._check_names(packet, (sender, *dests))
            if self.process in dests:
                raise malformed(packet, f"constraints on {self.process!r} apart from the entries")
            if sender in dests:
                raise malformed(packet, f"that {sender!r} is not to wait for its own message")
            self._check_clock(packet, sender, clock)
        self._check_names(packet, (sender for sender, _ in constraints))
        for sender, clock in constraints:
            if sender == self.process:
                raise malformed(packet, f"no constraint on {self.process!r} by its own messages")
            self._check_clock(packet, sender, clock)

    def _check_clock(self, packet: Packet, sender: str, clock: int) -> None:
        if sender == packet.source and clock >= packet.message_id.seq:
            raise malformed(packet, f"messages of {sender!r} before {packet.message}")
        if sender == self.process:
            check_claim(self, packet, clock, self._seq)

    def _numbered(self, packet: Packet) -> Packet:
        roster = self._roster
        numbers, shift = roster.numbers, roster.shift
        control, left, done = parts(packet.control)
        entries, constraints = cast("Control", control)
        all_dests = packet.dests
        if self._forgotten or done:  # nobody needs to know about them any more
            entries = restricted(entries, numbers)
            constraints = tuple(pair for pair in constraints if pair[0] in numbers)
            all_dests = tuple(name for name in all_dests if name in numbers)
        known = CausalLog(roster, self._me)
        for sender, clock, dests in entries:
            key = clock << shift | numbers[sender]
            known.tops[numbers[sender]] = key
            if dests:
                known.log[key] = roster.mask_of(dests)
        needs = [clock << shift | numbers[sender] for sender, clock in constraints]
        for key in needs:  # a constraint is at most its sender's newest message
            known.tops[key & roster.low] = max(key, known.tops[key & roster.low])
        stamp = PrunedStamp(known.tops, known.log)
        if left:
            gone, over = ([n for n in some if n in numbers] for some in (left, done))
            if gone:
                stamp.news = roster.mask_of(tuple(gone)), roster.mask_of(tuple(over))
        return numbered_packet(
            roster,
            numbers[packet.source],
            self._me,
            packet.n,
            packet.message_id.seq,
            roster.mask_of(all_dests),
            packet.payload,
            stamp,
            needs,
        )

    def _merge(self, packet: Packet, key: int) -> None:
        """R4 to R9, without those who left."""
        roster, stamp = self._roster, packet.stamp
        if self._gone:
            keep = ~self._gone
            log = {k: rest for k, mask in stamp.log.items() if (rest := mask & keep)}
            stamp = PrunedStamp(stamp.tops, log)
        remaining = packet.dest_set & ~(
            roster.bits[packet.source_no] | roster.bits[self._me] | self._gone
        )
        self._stale = 0
        self._pruned["just_delivered"] += 1
        self._pruned["already"] += already_pruned(self._known, stamp, key, remaining)
        self._known.merge(stamp, key, remaining)

    def _left(self, _: str) -> None:
        self._known.drop(self._gone)

    def _move(self, by: Translation) -> None:
        self._known.move(by, by.after.numbers[self.process])

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return CI entries and DC pairs, and the destinations left in the entries."""
        if packet.roster is not None:
            entries, dests, model_bytes = packet.stamp.size(packet.roster, [])
            pairs = len(packet.needs)
            return ControlSize(entries + pairs, dests, model_bytes + PAIR_BYTES * pairs)
        control, constraints = cast("Control", parts(packet.control)[0])
        return size_of(control, len(constraints))


def already_pruned(known: CausalLog, stamp: Stamp, key: int, remaining: int) -> int:
    """Return how many destinations R5 and R6 prune when a message is merged.

    A destination that both sides name is kept; one that only one side names is counted, if the
    other side knows of that message or of a newer one of its sender.
    """
    low = known.roster.low
    mine, theirs = known.log, stamp.log | {key: remaining}
    count = 0
    for k, mask in mine.items():
        if k in theirs or k <= stamp.tops[k & low] or (k & low == key & low and k < key):
            count += (mask & ~theirs.get(k, 0)).bit_count()
    for k, mask in theirs.items():
        if k <= known.tops[k & low]:
            count += (mask & ~mine.get(k, 0)).bit_count()
    return count


def parts(control: object) -> tuple[object, Names, Names]:
    """Return a control, and who left and who is done, if it is followed by that."""
    if type(control) is tuple and len(control) == 3:
        return control
    return control, (), ()


def is_news(left: Names, done: Names) -> bool:
    """Tell whether these are sorted names, and the second among the first."""
    return are_names(left) and are_names(done) and set(done) <= set(left)


def _named(entries: Entries, constraints: tuple[Constraint, ...]) -> set[str]:
    """Return all processes that a control names."""
    return {name for sender, _, dests in entries for name in (sender, *dests)} | {
        sender for sender, _ in constraints
    }


def is_control(control: object) -> bool:
    """Tell whether ``control`` consists of sorted entries and sorted constraints."""
    if type(control) is not tuple or len(control) != 2:
        return False
    entries, constraints = control
    return is_entries(entries) and is_keys(constraints)
