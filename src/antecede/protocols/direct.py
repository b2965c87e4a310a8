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
``SENT_i``         ``Message.seq``
``DELIVERED_i``    ``Direct._known`` (row: who delivered, then of whom)
``CB_i``           ``Direct._barriers``
``CB_M``           ``Message.control``: a set of keys for each member
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

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, cast

from antecede.endpoint.arguments import as_choice
from antecede.endpoint.fields import Fields
from antecede.endpoint.info import Formula, Option, ProtocolInfo, Variant
from antecede.endpoint.messages import COUNT_MAX, PAIR_BYTES, ControlSize, Message, Packet
from antecede.endpoint.numbers import get_block, put_block
from antecede.endpoint.registry import register
from antecede.endpoint.rules import ALIKE, Own, Rules, State, Wire, knows_too_much
from antecede.endpoint.view import View
from antecede.errors import PeerError

Barrier = dict[int, int]
"""Messages to wait for: the key of at most one of each sender."""
Control = tuple[Barrier, ...]
PRUNES = ("literal", "direct", "full")
OWN_SLOTS = ("emptied", "kept")


class DirectWire(Wire):
    """CB_M: how many keys each set has; their senders; and their distances from this message."""

    def put(self, message: Message) -> bytes:
        """Return CB_M."""
        shift, seq = self.view.shift, message.seq
        sizes: list[int] = []
        senders: list[int] = []
        steps: list[int] = []
        for barrier in cast("Control", message.control):
            sizes.append(len(barrier))
            last = -1
            for sender in sorted(barrier):
                senders.append(sender - last - 1)
                step = seq - (barrier[sender] >> shift)
                steps.append(2 * step if step >= 0 else -2 * step - 1)
                last = sender
        if not senders:
            return put_block(sizes)
        return b"".join((put_block(sizes), put_block(senders), put_block(steps)))

    def get(self, data: bytes, at: int, message: Message) -> tuple[object, int]:
        """Read CB_M."""
        n, shift, seq = self.view.n, self.view.shift, message.seq
        sizes, at = get_block(data, at, n)
        total = sum(sizes)
        if max(sizes) > n or total > 8 * len(data):
            raise PeerError(_STRANGE)
        senders: Sequence[int] = ()
        steps: Sequence[int] = ()
        if total:
            senders, at = get_block(data, at, total)
            steps, at = get_block(data, at, total)
        barriers, place = [], 0
        for size in sizes:
            barrier: Barrier = {}
            sender = -1
            for gap, step in zip(senders[place : place + size], steps[place : place + size]):  # noqa: B905
                sender += gap + 1
                number = seq + (step + 1 >> 1) if step & 1 else seq - (step >> 1)
                if sender >= n or not 0 < number <= COUNT_MAX:
                    raise PeerError(_STRANGE)
                barrier[sender] = number << shift | sender
            place += size
            if barrier.get(message.sender, 0) >> shift >= seq:
                msg = "knows of later messages of its sender"
                raise PeerError(msg)
            barriers.append(barrier)
        return tuple(barriers), at

    def spell(self, packet: Packet) -> object:
        """Return CB_M: for each member, sorted pairs (process, number)."""
        return tuple([named(self.view, one) for one in cast("Control", packet.content.control)])

    def measure(self, packet: Packet) -> ControlSize:
        """Return the pairs in all sets."""
        pairs = sum(map(len, cast("Control", packet.content.control)))
        return ControlSize(pairs, 0, PAIR_BYTES * pairs)


_STRANGE: Final = "has sets of messages that nobody sent"


class Direct(Rules):
    """One process's barriers: what its next message must wait for at each destination.

    Barriers are replaced, never changed, so messages share them.
    """

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
        lost_by_skip=(
            "a message stands for those that it follows; if it is lost, later ones do not show "
            "what it followed"
        ),
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
        self._known: list[Barrier] = [{} for _ in range(view.n)]
        """By member, the last message of each that is known to be delivered there."""

    @classmethod
    def check_options(cls, options: dict[str, object], members: tuple[str, ...]) -> None:
        """Refuse unknown choices."""
        as_choice("prune", options["prune"], PRUNES)
        as_choice("own_slot", options["own_slot"], OWN_SLOTS)

    def stamp(
        self, message: Message, others: tuple[int, ...], event: int, after: int
    ) -> Own | None:
        """Send CB as it was; the message then stands for what it follows."""
        barriers, me = self._barriers, self.me
        message.control = tuple(barriers)
        newest = {me: message.seq << self.view.shift | me}
        own = barriers[me]
        for dest in others:
            barriers[dest] = (
                newest if self._prune == "full" else minus(barriers[dest], own) | newest
            )
        barriers[me] = own | newest if self._keeps_own else newest
        return ALIKE

    def check(self, packet: Packet) -> str:
        """Refuse to hear of messages that this process has not sent."""
        me, made = self.me, (self.made + 1) << self.view.shift
        for barrier in cast("Control", packet.content.control):
            if barrier.get(me, 0) >= made and not self.is_stale:
                return knows_too_much(self.made)
        return ""

    def needs(self, packet: Packet) -> list[int]:
        """Return the barrier for this process."""
        return list(cast("Control", packet.content.control)[self.me].values())

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Prune each barrier by what the message stands for, and by what is known delivered."""
        message, me, barriers, known = packet.content, self.me, self._barriers, self._known
        sender, sets, dests = message.sender, cast("Control", message.control), message.dests
        before = sets[sender]  # the direct predecessors of this message
        key = message.seq << self.view.shift | sender
        self.reached[sender] = key
        known[me] = known[me] | {sender: key}
        known[sender] = larger(known[sender], before)
        newest = {sender: key}
        for dest, theirs in enumerate(sets):
            if dest == me:
                continue
            kept = barriers[dest]
            if dest != sender and dests >> dest & 1:
                if self._prune == "direct":
                    barriers[dest] = _renewed(kept, theirs, before, newest, known[dest])
                    continue
                kept = larger(self._pruned(kept, theirs, before), newest)
            elif theirs and dest != sender:
                kept = larger(kept, theirs)
            barriers[dest] = minus(kept, known[dest])
        barriers[me] = larger(minus(barriers[me], before), newest)
        return self.places[sender]

    def _pruned(self, mine: Barrier, theirs: Barrier, before: Barrier) -> Barrier:
        """Return what ``prune`` leaves of a barrier at a destination, unless it is "direct"."""
        if self._prune == "literal":
            return larger(mine, minus(theirs, before))
        return minus(minus(mine, before), theirs)

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Tell whether a packet names this message, or a later one of its sender."""
        return any(
            barrier.get(sender, 0) >> self.view.shift >= seq
            for barrier in cast("Control", packet.content.control)
        )

    def kept(self) -> object:
        """Return CB."""
        return tuple([named(self.view, barrier) for barrier in self._barriers])

    def kept_entries(self) -> int:
        """Return the pairs in all barriers."""
        return sum(map(len, self._barriers))

    def state(self) -> State:
        """Return CB and DELIVERED, as keys."""
        return {
            "barriers": [sorted(one.values()) for one in self._barriers],
            "known": [sorted(one.values()) for one in self._known],
        }

    def load(self, state: Fields) -> None:
        """Take over both."""
        self._barriers, self._known = self._loaded(state, "barriers"), self._loaded(state, "known")

    def _loaded(self, state: Fields, name: str) -> list[Barrier]:
        low, n, most = self.view.low, self.view.n, self.made + 1 << self.view.shift
        barriers = []
        for keys in state.rows(name, n):
            barrier = {key & low: key for key in keys}
            if len(barrier) < len(keys) or any(
                key <= low or k >= n or (k == self.me and key >= most) for k, key in barrier.items()
            ):
                raise state.wrong(name, keys, "one message of each process, and none to come")
            barriers.append(barrier)
        return barriers


def _renewed(
    mine: Barrier, theirs: Barrier, before: Barrier, newest: Barrier, known: Barrier
) -> Barrier:
    """Return (mine - before) + (theirs - before) + newest - known; most of the time goes here."""
    kept = {p: key for p, key in mine.items() if key > before.get(p, 0) and key > known.get(p, 0)}
    for p, key in theirs.items():
        if key > kept.get(p, 0) and key > before.get(p, 0) and key > known.get(p, 0):
            kept[p] = key
    for p, key in newest.items():
        if key > kept.get(p, 0) and key > known.get(p, 0):
            kept[p] = key
    return kept


def larger(left: Barrier, right: Barrier) -> Barrier:
    """Return both, with the newer message of each sender; change neither."""
    if not left or not right:
        return left or right
    result = dict(left)
    for sender, key in right.items():
        if key > result.get(sender, 0):
            result[sender] = key
    return result


def minus(left: Barrier, right: Barrier) -> Barrier:
    """Return those of ``left`` that are newer than those of ``right``, sender by sender."""
    if not left or not right:
        return left
    return {sender: key for sender, key in left.items() if key > right.get(sender, 0)}


def named(view: View, barrier: Barrier) -> tuple[tuple[str, int], ...]:
    """Return sorted pairs (process, number)."""
    return tuple(sorted([(view.members[k], key >> view.shift) for k, key in barrier.items()]))


register(Direct)
