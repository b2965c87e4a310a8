"""Causal order by direct predecessors: Prakash, Raynal and Singhal [PRS97]_.

For every process, a message names only the messages that directly precede it there; it need not
repeat what those wait for in turn. One more set, in the sender's own slot, names the direct
predecessors of the message and so shows what the sender has delivered.

Differences from the paper
--------------------------
Only the abstract was available to us: this is a reconstruction, with the structures that others
describe. Two steps are uncertain, and each has an option:

- ``prune``, what a delivery prunes from a destination's set: ``literal`` what the message carries;
  ``direct`` also what is kept (the default, as two independent accounts and the claim of optimality
  for broadcast agree with it); ``full`` also what the message itself implies.
- ``own_slot``, what a send does to the sender's own set: ``emptied`` leaves only the message just
  sent (the default, as broadcasts then carry the least); ``kept`` adds it. Only ``kept`` agrees
  with what [JPCY97]_ measured: more bytes than a matrix from about 25 processes on, and two thirds
  of ``n * n`` pairs.

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

from itertools import accumulate
from typing import ClassVar

from antecede.endpoint import kinds
from antecede.endpoint.counts import larger
from antecede.endpoint.info import Formula, Option, ProtocolInfo, Variant
from antecede.endpoint.messages import COUNT_MAX, PAIR_BYTES, Message, Packet
from antecede.endpoint.numbers import get_block, put_block
from antecede.endpoint.rules import ALIKE, Own, Rules, Saved, View, Wire
from antecede.endpoint.series import ascending, gaps, stepped, steps
from antecede.errors import PeerError

Barrier = dict[int, int]
"""The keys of the messages to wait for, at most one of each sender."""
Control = tuple[Barrier, ...]
"""CB_M: a barrier for each member."""
PRUNES = ("literal", "direct", "full")
OWN_SLOTS = ("emptied", "kept")


class DirectWire(Wire):
    """CB_M: how many keys each set has; their senders; and their distances from this message."""

    def put(self, message: Message) -> bytes:
        shift, barriers = self.view.shift, message.control
        parts, sorts = [list(map(len, barriers))], list(map(sorted, barriers))
        numbers = [b[k] >> shift for b, senders in zip(barriers, sorts) for k in senders]
        if numbers:
            parts += (
                [gap for senders in sorts for gap in gaps(senders)],
                steps(numbers, message.seq),
            )
        return b"".join(map(put_block, parts))

    def get(self, data: bytes, at: int, message: Message) -> tuple[Control, int]:
        n, shift, seq = self.view.n, self.view.shift, message.seq
        sizes, at = get_block(data, at, n)
        total = sum(sizes)
        if max(sizes) > n or total > 8 * len(data):
            raise PeerError("has sets of messages that nobody sent")
        senders, at = get_block(data, at, total) if total else ((), at)
        codes, at = get_block(data, at, total) if total else ((), at)
        numbers, first, barriers = stepped(codes, seq), 0, list[Barrier]()
        for end in accumulate(sizes):
            whose = ascending(senders[first:end])
            if whose and whose[-1] >= n:
                raise PeerError("has sets of strangers")
            barrier = {k: number << shift | k for k, number in zip(whose, numbers[first:end])}
            if barrier.get(message.sender, 0) >> shift >= seq:
                raise PeerError("knows of later messages of its sender")
            barriers.append(barrier)
            first = end
        if total and not 0 < min(numbers) <= max(numbers) <= COUNT_MAX:
            raise PeerError("has sets of messages that nobody sent")
        return tuple(barriers), at

    def spell(self, packet: Packet) -> object:
        """Return CB_M: for each member, sorted pairs (process, number)."""
        return spelt(self.view, packet.content.control)

    def entries(self, packet: Packet) -> int:
        return sum(map(len, packet.content.control))


class Direct(Rules):
    """What a process's next message must wait for, by destination; barriers are never modified."""

    INFO: ClassVar = ProtocolInfo(
        idea="direct predecessors per destination",
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
        lost_by_skip="a message stands for those that it follows; if it is lost, later ones do "
        "not show what it followed",
        unmarked_by_skip="later messages do not show that they follow a lost one",
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
    WIRE: ClassVar = DirectWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._prune = view.options["prune"]
        self._keeps_own = view.options["own_slot"] == "kept"
        self._barriers: list[Barrier] = [{} for _ in range(view.n)]
        """CB_i; and DELIVERED_i: by member, each sender's last message known delivered there."""
        self._known: list[Barrier] = [{} for _ in range(view.n)]

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Send CB as it was; then let the message replace what it follows."""
        barriers, me = self._barriers, self.me
        message.control = tuple(barriers)
        newest, own = {me: message.seq << self.shift | me}, barriers[me]
        for dest in others:
            left = {} if self._prune == "full" else minus(barriers[dest], own)
            barriers[dest] = left | newest
        barriers[me] = own | newest if self._keeps_own else newest
        return ALIKE

    def needs(self, packet: Packet) -> list[int]:
        return list(packet.content.control[self.me].values())

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Prune from each barrier what the message replaces and what is known to be delivered."""
        message, me, barriers, known = packet.content, self.me, self._barriers, self._known
        sender, sets = message.sender, message.control
        before = sets[sender]  # the direct predecessors of this message
        self.reached[sender] = key = message.seq << self.shift | sender
        newest = {sender: key}
        known[me] = known[me] | newest
        known[sender] = larger(known[sender], before)
        for dest, theirs in enumerate(sets):
            if dest in (me, sender):
                continue
            kept = barriers[dest]
            if not message.dests >> dest & 1:
                kept = larger(kept, theirs)
            elif self._prune == "direct":
                kept = larger(larger(minus(kept, before), minus(theirs, before)), newest)
            elif self._prune == "literal":
                kept = larger(larger(kept, minus(theirs, before)), newest)
            else:
                kept = larger(minus(minus(kept, before), theirs), newest)
            barriers[dest] = minus(kept, known[dest])
        barriers[sender] = minus(barriers[sender], known[sender])
        barriers[me] = larger(minus(barriers[me], before), newest)
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Return whether a packet names this message, or a later one of its sender."""
        sets: Control = packet.content.control
        return any(barrier.get(sender, 0) >> self.shift >= seq for barrier in sets)

    def kept(self) -> object:
        """Return CB."""
        return spelt(self.view, tuple(self._barriers))

    def kept_entries(self) -> int:
        return sum(map(len, self._barriers))

    def keep(self, saved: Saved) -> None:
        self._barriers = self._keep(saved, "barriers", self._barriers)
        self._known = self._keep(saved, "known", self._known)

    def _keep(self, saved: Saved, name: str, barriers: list[Barrier]) -> list[Barrier]:
        written = [sorted(barrier.values()) for barrier in barriers]
        rows = saved.field(name, written, [[kinds.key(self.view)], self.view.n])
        found = [{key & self.low: key for key in keys} for keys in rows]
        for keys, barrier in zip(rows, found, strict=True):
            is_right = len(barrier) == len(keys)
            saved.require(is_right, name, keys, "one message of each process")
            self.require_own(saved, name, barrier.get(self.me, 0) >> self.shift)
        return found


def minus(left: Barrier, right: Barrier) -> Barrier:
    """Return the messages of ``left`` that are newer than the same sender's in ``right``."""
    if not left or not right:
        return left
    return {sender: key for sender, key in left.items() if key > right.get(sender, 0)}


def spelt(view: View, barriers: Control) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Return the sets with names: sorted pairs (process, number)."""
    return tuple([tuple(sorted(map(view.id, barrier.values()))) for barrier in barriers])
