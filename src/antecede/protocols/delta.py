"""Causal order with deadlines, where messages get lost: delta-causal broadcast [BMR96]_.

A message is useful for its *lifetime* after its send; later nobody wants it. It carries its time,
and for each process the time of the last message from it that the sender had delivered. A receiver
holds it until it has delivered these, or until their lifetimes are over, and drops what comes too
late. So whatever is delivered is in causal order and on time, and nobody waits for lost messages.
It is meant for media and telemetry, where an old message is worth nothing.

The application says what time it is, by :meth:`antecede.endpoint.endpoint.Endpoint.tick`, in any
unit, before it sends or hands over packets and whenever a lifetime may have run out.

Why this is safe: let m be a cause of m'. What m' carries names m, or a later message of the same
process that names m in turn, and so on. So when m' is delivered, m is delivered or its lifetime is
over here, and then it is never delivered. A cause has an earlier time than its effects, so nothing
runs out while it waits for a message that has run out.

Differences from the paper
--------------------------
Only the abstract was available to us: the rules are a reconstruction, for broadcast. A lifetime is
over when the time is past its end, not at the end: otherwise a message that arrives at that moment
is delivered after its effects, which did not wait. A message's time is that of its send, or just
after the latest that it depends on: two messages of a process never share a time, and order does
not depend on whether clocks agree. That decides only what comes too late. If nobody tells the time,
nothing ever runs out, and this is a causal broadcast that tolerates no loss.

References
----------
.. [BMR96] R. Baldoni, A. Mostéfaoui and M. Raynal. "Causal delivery of messages with real-time data
   in unreliable networks". Real-Time Systems 10(3):245-262, 1996.
   https://doi.org/10.1007/BF00383387
"""

from typing import ClassVar, cast

from antecede.endpoint.arguments import as_number
from antecede.endpoint.info import Formula, Option, ProtocolInfo, Variant
from antecede.endpoint.messages import CLOCK_BYTES, Message, Need, Packet
from antecede.endpoint.numbers import get_vector, put_vector, read_count, varint
from antecede.endpoint.rules import ALIKE, Own, Rules, View, Wire
from antecede.endpoint.saved import SAVED_MAX, Saved
from antecede.errors import PeerError

Control = tuple[int, list[int]]
"""A message's time; and, as a key, the time of each process's last message before it."""


class DeltaWire(Wire):
    """A message's time, and the n times before it."""

    def put(self, message: Message) -> bytes:
        time, before = cast("Control", message.control)
        return varint(time) + put_vector(before, self.view, time)

    def get(self, data: bytes, at: int, message: Message) -> tuple[object, int]:
        time, at = read_count(data, at, 1)
        before, at = get_vector(data, at, self.view, time)
        if not message.seq or max(before) >> self.view.shift >= time:
            raise PeerError("is no message, or has an earlier time than what it follows")
        return (time, before), at

    def spell(self, packet: Packet) -> object:
        """Return the message's time, and the times before it by name."""
        time, before = cast("Control", packet.content.control)
        return time, tuple(sorted(map(self.view.id, before)))


class Delta(Rules):
    """One process's last deliveries, by time.

    ``reached`` is, by process, the time up to which all its messages are delivered or too late.
    """

    INFO: ClassVar = ProtocolInfo(
        idea="order within deadlines; what is late or lost is not waited for",
        paper="Baldoni, Mostéfaoui, Raynal 1996 (reconstructed from its abstract)",
        casts=("broadcast",),
        guarantee="causal order of what is delivered, and nothing after its lifetime",
        assumptions="fixed membership; somebody tells the time, and clocks agree better than "
        "lifetimes; packets may get lost",
        cost="n + 1 times per copy; a message may wait for a lost one until that one's deadline",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking", "deadlines"}),
        options={
            "lifetime": Option(
                1000,
                "how long a message is of use, in the unit of tick()",
                check=as_number(1, SAVED_MAX),
            )
        },
        lost_by_skip="times do not tell which messages are lost",
        unmarked_by_skip="times do not tell which messages are lost",
        research=True,
        reconstruction=True,
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: n + 1, lambda n: 4 * n + 4, lambda n: 4 * n),
        timed=True,
        variants=(Variant("short", lambda _members: {"lifetime": 12}),),
    )
    WIRE: ClassVar = DeltaWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._lifetime = cast("int", view.options["lifetime"])
        self._last = list(range(view.n))
        """The time of each process's last message here, and of our own, as keys."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Give the message its time, and the times of what came before."""
        time = max(self.now, (max(self._last) >> self.shift) + 1)
        message.control = time, self._last.copy()
        self._last[self.me] = time << self.shift | self.me
        return ALIKE

    def check(self, packet: Packet) -> str:
        message = packet.content
        if message.dests | 1 << message.sender != self.view.everyone:
            return "is not for all members"
        _, before = cast("Control", message.control)
        if before[self.me] > self._last[self.me] and not self.is_stale:
            return "knows of a later message of this process than it has sent"
        return ""

    def key(self, packet: Packet) -> int:
        time, _ = cast("Control", packet.content.control)
        return time << self.shift | packet.content.sender

    def needs(self, packet: Packet) -> list[int]:
        """Return the times before the message's, except our own."""
        _, before = cast("Control", packet.content.control)
        return [key for place, key in enumerate(before) if place != self.me]

    def drops(self, packet: Packet) -> bool:
        """Return whether a message comes too late: its lifetime is over."""
        time, _ = cast("Control", packet.content.control)
        return self.now > time + self._lifetime

    def taken(self, packet: Packet) -> tuple[int, ...]:
        sender, key = packet.content.sender, self.key(packet)
        if not self.drops(packet):
            self._last[sender] = key
            self.reached[sender] = max(key, self.reached[sender])
        return self.places[sender]

    def tick(self, now: int) -> tuple[int, ...]:
        """Wait no longer for messages whose lifetime is over."""
        self.now = now
        over = now - self._lifetime - 1
        risen = [place for place, key in enumerate(self.reached) if key >> self.shift < over]
        for place in risen:
            self.reached[place] = over << self.shift | place
        return tuple(risen)

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return all messages of the sender if one is missing: times are not message numbers."""
        sender = key & self.low
        return sender, SAVED_MAX if key > self.reached[sender] else 0

    def need(self, packet: Packet, key: int) -> Need:
        return Need(self.view.members[key & self.low], key >> self.shift, "stamp")

    def follows(self, packet: Packet, other: Packet) -> bool:
        _, before = cast("Control", packet.content.control)
        return before[other.content.sender] >= self.key(other)

    def newest(self, sender: int) -> int:
        """Return 0: times are not message numbers, and :meth:`wanted` says what is missing."""
        return 0

    def kept(self) -> object:
        return tuple(sorted(map(self.view.id, self._last)))

    def keep(self, saved: Saved) -> None:
        self.now = saved.number("now", self.now)
        self._last = saved.keys("last", self._last, self.shift)
