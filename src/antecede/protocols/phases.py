"""One integer per group, and questions to silent members: after Mostefaoui and Raynal [MR93]_.

A message carries a stamp and, for each group, the highest stamp sent to that group in its causal
past. A receiver waits until it has heard from every member of its groups up to those stamps. It
asks members that are silent; they promise to send no later message with a lower stamp.

Differences from the paper
--------------------------
Only the abstract was available to us. This is a reconstruction with the costs that the abstract
names, not the authors' protocol: do not quote measurements of it as theirs. According to [KS98]_
section 1 theirs assumes synchronous execution in phases; ours runs on any network and asks instead.
A single logical clock for all groups rules out cycles of waiting: a message waits only for stamps
lower than its own. What was heard from a process counts for all groups, because its stamps only
grow and its channel keeps order. Questions and answers also have the number of their sender's last
message to that process, so that the two can go on if that message is lost.

References
----------
.. [MR93] A. Mostefaoui and M. Raynal. "Causal multicasts in overlapping groups: towards a low cost
   approach". 4th IEEE Workshop on Future Trends of Distributed Computing Systems:136-142, 1993.
   https://inria.hal.science/inria-00074802
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from bisect import insort
from typing import ClassVar, Final, cast

from antecede.endpoint.arguments import GROUPS, Groups
from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.messages import CLOCK_BYTES, COUNT_MAX, FREE, Message, Need, Packet
from antecede.endpoint.numbers import read_count, read_varint, varint
from antecede.endpoint.rules import ALIKE, Own, Rules, Saved, View, Wire
from antecede.errors import PeerError

Stamps = tuple[int, list[int]]
"""The control of a message: its own stamp, and the highest in its past for each group."""
Word = tuple[bool, int, int]
"""A question or a promise: which of them, the stamp, and the last message before it."""
JUMP_MAX: Final = 1 << 32
"""How far a stamp may be ahead of our clock; a higher one would use up the clock at once."""


class PhasesWire(Wire):
    """The stamps of a message, by group sorted by name, or a word."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        groups = cast("Groups", view.options["groups"])
        self.masks = [view.mask(groups[name]) for name in sorted(groups)]
        """The groups, each as a mask."""
        self.groups = {mask: group for group, mask in reversed(list(enumerate(self.masks)))}

    def group(self, message: Message) -> int:
        """Return the number of the group that a message is for."""
        return self.groups[message.dests | 1 << message.sender]

    def put(self, message: Message) -> bytes:
        """Return the stamp, and how far the groups' stamps are below it (0 for none); or a word."""
        if not message.seq:
            is_promise, stamp, last = message.control
            return varint(stamp << 1 | is_promise) + varint(last)
        stamp, stamps = message.control
        return varint(stamp) + b"".join([varint(stamp - s if s else 0) for s in stamps])

    def get(self, data: bytes, at: int, message: Message) -> tuple[Stamps | Word, int]:
        if not message.seq:
            code, at = read_varint(data, at)
            last, at = read_count(data, at)
            if code >> 1 > COUNT_MAX:
                raise PeerError("has a stamp that is too high")
            return (bool(code & 1), code >> 1, last), at
        stamp, at = read_count(data, at, 1)
        stamps = []
        for _ in self.masks:
            code, at = read_varint(data, at)
            stamps.append(stamp - code if code else 0)
            if code >= stamp:
                raise PeerError("has a stamp that is not above those of its past")
        if message.dests | 1 << message.sender not in self.groups:
            raise PeerError("is for processes that are not a group")
        return (stamp, stamps), at

    def spell(self, packet: Packet) -> object:
        if not packet.content.seq:
            is_promise, stamp, last = packet.content.control
            return ("promise" if is_promise else "ask"), stamp, last
        stamp, stamps = packet.content.control
        return stamp, tuple(stamps)

    def entries(self, packet: Packet) -> int:
        return 1 + len(self.masks) if packet.content.seq else 1


class Phases(Rules):
    """One process's clock, the stamps it knows, and how far it has heard from the others.

    ``reached`` has places for senders, then for the stamps heard from each member, then for
    channels, whose keys count packets. Keys have two more bits to tell these apart.
    """

    INFO: ClassVar = ProtocolInfo(
        idea="one integer per group; silent members are asked",
        paper="Mostefaoui, Raynal 1993 (reconstructed from its abstract)",
        casts=("broadcast", "groups"),
        guarantee="causal order across overlapping groups; messages may wait for silent members",
        assumptions="fixed, closed groups; every packet arrives eventually; a holding buffer that "
        "does not fill: an answer is waited for forever if a packet before it is refused",
        cost="one integer per group and one more; questions and answers when members are silent",
        options={"groups": GROUPS},
        unmarked_by_skip="a stamp does not say which messages its sender knew of",
        research=True,
        reconstruction=True,
        bytes_per_entry=CLOCK_BYTES,
    )
    WIRE: ClassVar = PhasesWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        n, self._heard = view.n, view.low + 1
        self._channel = 2 * self._heard
        """Where the places of the stamps heard begin, and those of the channels."""
        self.widen(2 * self._channel)
        self._wire = cast("PhasesWire", view.forms)
        masks = self._wire.masks
        others = [view.list(mask & ~(1 << me)) if mask >> me & 1 else () for mask in masks]
        self._others = [[self._heard + member for member in members] for members in others]
        """By group, if this process is in it, the places of the stamps heard from its others."""
        self._clock = 0
        self._stamps = [0] * len(masks)
        """The vector of the paper: an integer for each group."""
        self._pending: list[list[tuple[int, int]]] = [[] for _ in masks]
        """By group, messages here that are not delivered: (stamp, key), ascending."""
        self._ahead: list[dict[int, Packet]] = [{} for _ in range(n)]
        """By source, packets that came too early on its channel."""
        self._asked, self._lost, self._last = [0] * n, [0] * n, [0] * n
        """By process: the stamp asked for; the number up to which all messages not here are lost;
        and our last message to it."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Take the next stamp, and carry the highest stamp sent to each group."""
        self._clock += 1
        message.control = self._clock, self._stamps.copy()
        self._stamps[self._wire.group(message)] = self._clock
        for dest in others:
            self._last[dest] = message.seq
        return ALIKE

    def check(self, packet: Packet) -> str:
        is_late = packet.content.seq and not self._is_early(packet)
        return "comes after what followed it" if is_late else self._fault(packet)

    def _is_early(self, packet: Packet) -> bool:
        return packet.n > self.reached[self._channel + packet.source_no] >> self.shift

    def _fault(self, packet: Packet) -> str:
        message, most = packet.content, self._clock + JUMP_MAX
        if _stamp_of(message) > most:
            return f"has a stamp above {most}, far ahead of all others"
        if message.dests >> self.me & 1 != (message.seq > 0):
            return "is for a group without this process"
        return ""

    def readmit(self, packet: Packet) -> str:
        """Note again that a held packet came too early, or that its message is not delivered."""
        lost = self._lost[packet.source_no]
        if self._is_early(packet) and not (lost and self._before(packet) <= lost):
            self._ahead[packet.source_no][packet.n] = packet
        elif packet.content.seq:
            self._note(packet.content)
        return self._fault(packet)

    def _note(self, message: Message) -> None:
        entry = _stamp_of(message), message.seq << self.shift | message.sender
        insort(self._pending[self._wire.group(message)], entry)

    def arrived(self, packet: Packet) -> tuple[int, ...]:
        """Process packets in the order of their channel."""
        self._ahead[packet.source_no][packet.n] = packet
        return self._hear(packet.source_no)

    def _hear(self, source: int) -> tuple[int, ...]:
        """Process the packets of a channel whose turn it is, or that only lost messages precede.

        A packet that follows a question waits until the question is answered.
        """
        ahead, place, shift = self._ahead[source], self._channel + source, self.shift
        passed = self.reached[place] >> shift
        while passed + 1 in ahead and not _is_question(ahead[passed + 1]):
            passed += 1
            self._hear_one(ahead.pop(passed))
        if self._lost[source]:
            for n in sorted(ahead):
                if self._before(ahead[n]) <= self._lost[source] and not _is_question(ahead[n]):
                    self._hear_one(ahead.pop(n))
        self.reached[place] = passed << shift | place
        return self._heard + source, place

    def _hear_one(self, packet: Packet) -> None:
        message, place = packet.content, self._heard + packet.source_no
        if message.seq:
            self._note(message)
            if self.blocker(packet) != FREE:
                self._ask(packet)
        self.reached[place] = max(self.reached[place], _stamp_of(message) << self.shift | place)

    def _before(self, packet: Packet) -> int:
        """Return a bound on the number of the message before a packet on its channel."""
        message = packet.content
        return message.seq - 1 if message.seq else message.control[2]

    def _ask(self, packet: Packet) -> None:
        """Ask the members whose stamps a message waits for, each only once for a stamp."""
        for key in self.missing(packet):
            member, stamp = (key & self.low) - self._heard, key >> self.shift
            if 0 <= member < self._heard and stamp > self._asked[member]:
                self._asked[member] = stamp
                self.say(member, (False, stamp, self._last[member]))

    def needs(self, packet: Packet) -> list[int]:
        """Return the previous packet on the channel, and what must be heard and delivered first."""
        message, shift, own = packet.content, self.shift, self._heard + packet.source_no
        keys = [packet.n - 1 << shift | self._channel + packet.source_no]
        stamps = message.control[1] if message.seq else ()
        for stamp, others, pending in zip(stamps, self._others, self._pending):
            if stamp and others:
                level = stamp << shift
                keys += [level | place for place in others if place != own]
                if pending and pending[0][0] <= stamp:
                    keys.append(pending[0][1])
        return keys

    def blocker(self, packet: Packet) -> int:
        """Return the first need that is missing; hot, so it builds no list."""
        source, shift, reached = packet.source_no, self.shift, self.reached
        own, channel = self._heard + source, self._channel + source
        if packet.n - 1 > reached[channel] >> shift:
            return packet.n - 1 << shift | channel
        stamps = packet.content.control[1] if packet.content.seq else ()
        for stamp, others, pending in zip(stamps, self._others, self._pending):
            if stamp and others:
                level = stamp << shift
                for place in others:
                    if reached[place] < level and place != own:
                        return level | place
                if pending and pending[0][0] <= stamp:
                    return pending[0][1]
        return FREE

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Answer a question, or merge what a delivered message's sender knew."""
        message, source = packet.content, packet.source_no
        places: tuple[int, ...] = ()
        if _is_question(packet):
            self._clock = max(self._clock, _stamp_of(message))
            self.say(source, (True, self._clock, self._last[source]))
            self._ahead[source].pop(packet.n, None)
        if self._is_early(packet):  # a question, or a message after lost ones
            channel = self._channel + source
            self.reached[channel] = packet.n << self.shift | channel
            places = self._hear(source)
        if not message.seq:
            return places
        stamp, stamps = message.control
        group, key = self._wire.group(message), message.seq << self.shift | source
        self._pending[group].remove((stamp, key))
        self._clock = max(self._clock, stamp)
        self._stamps[:] = map(max, self._stamps, stamps)
        self._stamps[group] = max(self._stamps[group], stamp)
        self.reached[source] = key
        return source, *places

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return COUNT_MAX for a stamp, because no message number is certain to bring it."""
        place = key & self.low
        if place >= self._channel:
            return packet.source_no, self._before(packet)
        return place % self._heard, COUNT_MAX if place >= self._heard else key >> self.shift

    def need(self, packet: Packet, key: int) -> Need:
        place = key & self.low
        if self._heard <= place < self._channel:
            return Need(self.view.members[place - self._heard], key >> self.shift, "stamp")
        return super().need(packet, key)

    def lost(self, source: int, seq: int) -> None:
        """Process what came after lost messages, and ask for the stamps that it waits for."""
        self._lost[source] = max(seq, self._lost[source])
        self._hear(source)

    def gone(self, source: int) -> None:
        """Wait for no promise from a process that is gone."""
        place = self._heard + source
        self.reached[place] = COUNT_MAX << self.shift | place

    def keep(self, saved: Saved) -> None:
        self._clock = saved.number("clock", self._clock)
        self._stamps = saved.numbers("stamps", self._stamps, most=self._clock)
        self._asked = saved.numbers("asked", self._asked)
        self._last = saved.numbers("last", self._last, most=self.made)
        self._lost = saved.numbers("lost", self._lost)


def _stamp_of(message: Message) -> int:
    return message.control[not message.seq]


def _is_question(packet: Packet) -> bool:
    return not packet.content.seq and not packet.content.control[0]
