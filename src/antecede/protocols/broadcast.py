"""Causal broadcast by vectors of counts: Birman, Schiper and Stephenson [BSS91]_.

Every message carries, for each group and member, the last message of that member to that group that
its sender knows of. A receiver holds it until it has delivered these in each of its own groups.

Differences from the paper
--------------------------
Vectors hold the numbers of messages, not counts. With one group both are the same, unless a process
sends to itself alone: such a message has a number, but goes to nobody else.

``groups`` is our reading of the extension to overlapping groups: all vectors travel, including
those of groups to which the sender does not belong. Carrying only the sender's own loses order if
groups form a ring. The destinations of a message determine its group. Vectors are in the order of
the groups' names, and of the members as the group lists them.

References
----------
.. [BSS91] K. Birman, A. Schiper and P. Stephenson. "Lightweight causal and atomic group multicast".
   ACM Transactions on Computer Systems 9(3):272-314, 1991. https://doi.org/10.1145/128738.128742
"""

from typing import Any, ClassVar, cast

from antecede.endpoint.arguments import GROUPS, Groups
from antecede.endpoint.info import Formula, ProtocolInfo
from antecede.endpoint.messages import CLOCK_BYTES, COUNT_MAX, FREE, Message, Packet
from antecede.endpoint.numbers import get_block, put_block, read_varint, varint
from antecede.endpoint.rules import ALIKE, Own, Rules, knows_too_much
from antecede.endpoint.saved import Saved
from antecede.endpoint.vectors import LATER, Vector, VectorWire
from antecede.endpoint.view import View
from antecede.errors import PeerError

NO_GROUP = "is not for a group of its sender"


class BroadcastWire(VectorWire):
    """VT(m), without the message itself."""

    def spell(self, packet: Packet) -> object:
        """Return VT(m): sorted pairs (process, number), with the message itself."""
        message = packet.content
        vector = message.control.copy()
        vector[message.sender] = message.seq << self.view.shift
        return named(self.view, vector)


class Broadcast(Rules):
    """One process's vector, with one group of all: ``VT(p)`` is ``reached``."""

    INFO: ClassVar = ProtocolInfo(
        idea="a vector of broadcasts delivered, one per group",
        casts=("broadcast", "groups"),
        guarantee="causal order, also across groups; a message waits only for real causes",
        assumptions="fixed membership; closed groups; every packet arrives eventually",
        cost="one integer for each member of each group; n with one group of all",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        options={"groups": GROUPS},
        short_name="BSS",
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: n, lambda n: 4 * n, lambda n: 4 * n),
    )
    WIRE: ClassVar[type[VectorWire]] = BroadcastWire

    @classmethod
    def of(cls, view: View) -> type[Rules]:
        groups = cast("Groups", view.options["groups"])
        is_whole = len(groups) == 1 and len(*groups.values()) == view.n
        return cls if is_whole else Grouped

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Step 1: count the message, and stamp it with VT as it was before."""
        message.control = self.reached.copy()
        self.reached[self.me] = message.seq << self.view.shift | self.me
        return ALIKE

    def check(self, packet: Packet) -> str:
        message = packet.content
        if message.dests | 1 << message.sender != self.view.everyone:
            return "is not for all members"
        is_later = message.control[self.me] > self.reached[self.me]
        return knows_too_much(self.made) if is_later and not self.is_stale else ""

    def needs(self, packet: Packet) -> list[int]:
        """Return VT(m): what the sender had delivered, and its own earlier messages."""
        return packet.content.control

    def blocker(self, packet: Packet) -> int:
        """Step 2: wait until VT(p) has come as far as VT(m)."""
        vector: Vector = packet.content.control
        for key, mine in zip(vector, self.reached):
            if key > mine:
                return key
        return FREE

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Step 3: VT(p) takes in the message; the rest of VT(m) it has reached already."""
        sender = packet.content.sender
        self.reached[sender] = packet.content.seq << self.view.shift | sender
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        return packet.content.control[sender] >> self.view.shift >= seq

    def kept(self) -> object:
        return named(self.view, self.reached)

    def keep(self, saved: Saved) -> None:
        """Check VT(p), which the endpoint keeps."""
        self.require_own(saved, "reached", self.reached[self.me] >> self.view.shift)


# Overlapping groups: a vector for each.


class GroupedWire(VectorWire):
    """VT(m): a key for each member of each group."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.slots = slots_of(view)

    def put(self, message: Message) -> bytes:
        shift = self.view.shift
        numbers = [key >> shift for key in message.control]
        base = min(numbers)
        return varint(base) + put_block([number - base for number in numbers])

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        shift = self.view.shift
        base, at = read_varint(data, at)
        values, at = get_block(data, at, len(self.slots))
        if 0 not in values or base + max(values) > COUNT_MAX:
            raise PeerError("has vectors in another form than it should have")
        vector = [
            base + value << shift | k for (_, k), value in zip(self.slots, values, strict=True)
        ]
        if newest(vector, message.sender, self.view) >= message.seq:
            raise PeerError(LATER)
        if (group_of(self.view, message), message.sender) not in self.slots:
            raise PeerError(NO_GROUP)
        return vector, at

    def spell(self, packet: Packet) -> object:
        message, shift = packet.content, self.view.shift
        vector = message.control.copy()
        vector[self.slots[group_of(self.view, message), message.sender]] = message.seq << shift
        return by_group(self.view, vector)


class Grouped(Broadcast):
    """One process's vectors, one per group.

    A message asks for the last one of each member to a group of this process: of all groups that
    the two share, the newest counts.
    """

    WIRE: ClassVar = GroupedWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._slots = slots_of(view)
        self._vector: Vector = [k for _, k in self._slots]
        """``VT(p)``, of all groups."""
        groups = {group for group, k in self._slots if k == me}
        self._mine = [slot for (group, _), slot in self._slots.items() if group in groups]
        """The slots of this process's groups."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Step 1: count the message in its group, and stamp it with all vectors before that."""
        message.control = self._vector.copy()
        slot = self._slots[group_of(self.view, message), self.me]
        self._vector[slot] = message.seq << self.view.shift | self.me
        return ALIKE

    def check(self, packet: Packet) -> str:
        message = packet.content
        if (group_of(self.view, message), message.sender) not in self._slots:
            return NO_GROUP
        return Rules.check(self, packet)

    def needs(self, packet: Packet) -> list[int]:
        """Return what VT(m) says of the groups of this process."""
        vector, me = packet.content.control, self.me
        return [key for slot in self._mine if (key := vector[slot]) & self.low != me]

    def blocker(self, packet: Packet) -> int:
        """Step 2."""
        return Rules.blocker(self, packet)

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Step 3: all vectors take in those of the message, and the message itself."""
        message = packet.content
        self._vector = list(map(max, self._vector, message.control))
        slot = self._slots[group_of(self.view, message), message.sender]
        self._vector[slot] = self.reached[message.sender] = self.key(packet)
        return self.places[message.sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        return newest(packet.content.control, sender, self.view) >= seq

    def kept(self) -> object:
        return by_group(self.view, self._vector)

    def keep(self, saved: Saved) -> None:
        numbers = saved.numbers("vectors", [key >> self.view.shift for key in self._vector])
        for (_, k), slot in self._slots.items():
            self._vector[slot] = numbers[slot] << self.view.shift | k
        self.require_own(saved, "vectors", newest(self._vector, self.me, self.view))


def slots_of(view: View) -> dict[tuple[str, int], int]:
    """Return the place of each member of each group in a vector of all."""
    groups = cast("Groups", view.options["groups"])
    pairs = [(name, view.numbers[one]) for name in sorted(groups) for one in groups[name]]
    return {pair: slot for slot, pair in enumerate(pairs)}


def group_of(view: View, message: Message) -> str:
    """Return the group that a sender and its destinations form together, or nothing."""
    groups, wanted = cast("Groups", view.options["groups"]), message.dests | 1 << message.sender
    return next((name for name in sorted(groups) if view.mask(groups[name]) == wanted), "")


def newest(vector: Vector, member: int, view: View) -> int:
    """Return the number of a member's newest message to any group."""
    return max([key for key in vector if key & view.low == member], default=0) >> view.shift


def named(view: View, vector: Vector) -> tuple[tuple[str, int], ...]:
    """Return sorted pairs (process, number)."""
    numbers = [key >> view.shift for key in vector]
    return tuple(sorted(zip(view.members, numbers, strict=True)))


def by_group(view: View, vector: Vector) -> tuple[tuple[int, ...], ...]:
    """Return the numbers for each group, in the order of names."""
    groups, rest = cast("Groups", view.options["groups"]), [key >> view.shift for key in vector]
    return tuple([tuple([rest.pop(0) for _ in groups[name]]) for name in sorted(groups)])
