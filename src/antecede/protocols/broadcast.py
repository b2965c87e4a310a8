"""Causal broadcast by vectors of counts: Birman, Schiper and Stephenson [BSS91]_.

Every message carries, for each group and member, the last message of that member to that group that
its sender knows of. A receiver holds it until it has delivered these in each of its own groups.

Differences from the paper
--------------------------
Vectors hold the numbers of messages, not counts. With one group both are the same, unless a process
sends to itself alone: such a message has a number, but goes to nobody else.

``groups`` is our reading of the extension to overlapping groups: all vectors travel, also those of
groups without the sender; with only its own, order is lost if groups form a ring. The destinations
of a message determine its group. Vectors are in the order of the groups' names, and of the members
as the group lists them.

References
----------
.. [BSS91] K. Birman, A. Schiper and P. Stephenson. "Lightweight causal and atomic group multicast".
   ACM Transactions on Computer Systems 9(3):272-314, 1991. https://doi.org/10.1145/128738.128742
"""

from itertools import islice
from typing import Any, ClassVar, cast

from antecede.endpoint.arguments import GROUPS, Groups
from antecede.endpoint.counts import LATER, Vector, VectorWire
from antecede.endpoint.info import Formula, ProtocolInfo
from antecede.endpoint.messages import CLOCK_BYTES, COUNT_MAX, Message, Packet
from antecede.endpoint.numbers import get_block, put_block, read_varint, varint
from antecede.endpoint.rules import ALIKE, Own, Rules, Saved, View, knows_too_much
from antecede.errors import PeerError

NO_GROUP = "is not for a group of its sender"


class BroadcastWire(VectorWire):
    """VT(m), without the message itself."""

    def spell(self, packet: Packet) -> object:
        """Return VT(m): sorted pairs (process, number), with the message itself."""
        message, vector = packet.content, packet.content.control.copy()
        vector[message.sender] = message.seq << self.view.shift | message.sender
        return tuple(sorted(map(self.view.id, vector)))


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
        return cls if len(groups) == 1 and len(*groups.values()) == view.n else Grouped

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
        """Step 2: wait until VT(p) has reached VT(m), which lacks the message itself."""
        vector: Vector = packet.content.control
        return [*vector[: self.me], *vector[self.me + 1 :]] if self.is_stale else vector

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Step 3: enter the message into VT(p), which has already reached the rest of VT(m)."""
        sender = packet.content.sender
        self.reached[sender] = packet.content.seq << self.view.shift | sender
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        return packet.content.control[sender] >> self.view.shift >= seq

    def kept(self) -> object:
        return tuple(sorted(map(self.view.id, self.reached)))

    def keep(self, saved: Saved) -> None:
        """Check VT(p), which the endpoint keeps."""
        self.require_own(saved, "reached", self.reached[self.me] >> self.view.shift)


# Overlapping groups: a vector for each.


class GroupedWire(VectorWire):
    """VT(m): a key for each member of each group."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        groups = [group for _, group in sorted(cast("Groups", view.options["groups"]).items())]
        places = [(view.mask(group), view.numbers[one]) for group in groups for one in group]
        self.sizes = [len(group) for group in groups]
        self.members = [member for _, member in places]
        self.slots = {place: slot for slot, place in reversed(list(enumerate(places)))}
        """The slot of each (group, member) in a vector of all groups; a group is a mask."""

    def slot(self, message: Message) -> int:
        """Return the slot of a message's sender in its group; -1 if it has none."""
        return self.slots.get((message.dests | 1 << message.sender, message.sender), -1)

    def newest(self, vector: Vector, member: int) -> int:
        """Return the number of a member's newest message to any group."""
        low = self.view.low
        return max([key for key in vector if key & low == member], default=0) >> self.view.shift

    def by_group(self, vector: Vector) -> object:
        """Return the numbers for each group, sorted by name."""
        numbers = iter(self.numbers(vector))
        return tuple([tuple(islice(numbers, size)) for size in self.sizes])

    def put(self, message: Message) -> bytes:
        shift = self.view.shift
        numbers = [key >> shift for key in message.control]
        base = min(numbers)
        return varint(base) + put_block([number - base for number in numbers])

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        shift = self.view.shift
        base, at = read_varint(data, at)
        values, at = get_block(data, at, len(self.members))
        if 0 not in values or base + max(values) > COUNT_MAX:
            raise PeerError("has vectors in another form than it should have")
        vector = [base + value << shift | k for k, value in zip(self.members, values)]
        if self.newest(vector, message.sender) >= message.seq:
            raise PeerError(LATER)
        if self.slot(message) < 0:
            raise PeerError(NO_GROUP)
        return vector, at

    def entries(self, packet: Packet) -> int:
        return len(self.members)

    def spell(self, packet: Packet) -> object:
        message, vector = packet.content, packet.content.control.copy()
        vector[self.slot(message)] = message.seq << self.view.shift
        return self.by_group(vector)


class Grouped(Broadcast):
    """One process's vectors, one per group.

    A message waits for each member's last message to a group of this process; if the two share
    several groups, the newest message to any of them counts.
    """

    WIRE: ClassVar = GroupedWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._wire = cast("GroupedWire", view.forms)
        self._vector: Vector = self._wire.members.copy()
        """``VT(p)``, for all groups."""
        slots = self._wire.slots.items()
        self._mine = sorted([slot for (group, k), slot in slots if group >> me & 1 and k != me])
        """The slots of the others in this process's groups."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Step 1: count the message in its group, and stamp it with all vectors from before."""
        message.control = self._vector.copy()
        self._vector[self._wire.slot(message)] = message.seq << self.shift | self.me
        return ALIKE

    def check(self, packet: Packet) -> str:
        return NO_GROUP if self._wire.slot(packet.content) < 0 else Rules.check(self, packet)

    def needs(self, packet: Packet) -> list[int]:
        """Return the entries of VT(m) for the groups of this process."""
        vector = packet.content.control
        return [vector[slot] for slot in self._mine]

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Step 3: merge the message's vectors, and enter the message itself."""
        self._vector = list(map(max, self._vector, packet.content.control))
        self._vector[self._wire.slot(packet.content)] = self.key(packet)
        return super().taken(packet)

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        return self._wire.newest(packet.content.control, sender) >= seq

    def kept(self) -> object:
        return self._wire.by_group(self._vector)

    def keep(self, saved: Saved) -> None:
        numbers = saved.numbers("vectors", [*self._wire.numbers(self._vector)])
        self._vector = [n << self.shift | k for k, n in zip(self._wire.members, numbers)]
        self.require_own(saved, "vectors", self._wire.newest(self._vector, self.me))
