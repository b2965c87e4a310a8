"""Causal broadcast with few counters, in order almost always: after Mostéfaoui and Weiss [MW17]_.

A usual vector has an entry for each process. This one has only R counters, whatever the number of
processes; each process counts its messages in K of them, which others share. A message is delivered
when all counters are as high as its sender's were, not counting itself. If other messages have
raised the counters in place of a missing one, order is lost. The fewer messages travel at the same
time, the less likely that is.

Differences from the paper
--------------------------
Only the abstract and the rules as others cite them were available to us: this is a reconstruction.
A process's counters are drawn by a hash of its position, so all know them without being told.

References
----------
.. [MW17] A. Mostéfaoui and S. Weiss. "Probabilistic causal message ordering". Parallel Computing
   Technologies, LNCS 10421:315-326, 2017. https://doi.org/10.1007/978-3-319-62932-2_31
"""

from hashlib import blake2b
from typing import ClassVar, Final, cast

from antecede.endpoint import kinds
from antecede.endpoint.arguments import as_number
from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.messages import CLOCK_BYTES, Message, Need, Packet
from antecede.endpoint.numbers import BYTE, get_column, put_column, read_count, varint
from antecede.endpoint.rules import ALIKE, Own, Rules, View, Wire
from antecede.endpoint.saved import SAVED_MAX, Saved
from antecede.errors import PeerError, UsageError

_CHECK: Final = as_number(1, 1 << 16)


def counters_of(place: int, counters: int, own: int) -> tuple[int, ...]:
    """Return the counters of the process at a place among the members, in ascending order."""
    rest, drawn = list(range(counters)), []
    for turn in range(own):
        digest = blake2b(b"%d %d" % (place, turn), digest_size=8).digest()
        drawn.append(rest.pop(int.from_bytes(digest, "big") % len(rest)))
    return tuple(sorted(drawn))


class ProbabilisticWire(Wire):
    """The highest counter, and how far the others are below it."""

    def put(self, message: Message) -> bytes:
        counts = cast("list[int]", message.control)
        most = max(counts)
        width, column = put_column([most - count for count in counts])
        return b"".join((BYTE[width], varint(most), column))

    def get(self, data: bytes, at: int, message: Message) -> tuple[object, int]:
        width = data[at]
        most, at = read_count(data, at + 1, 1)
        below, at = get_column(data, at, cast("int", self.view.options["counters"]), width)
        if not message.seq or min(below) or max(below) > most:
            raise PeerError("has counters below 0, none that is the highest, or no message")
        return [most - count for count in below], at

    def spell(self, packet: Packet) -> object:
        return tuple(cast("list[int]", packet.content.control))

    def entries(self, packet: Packet) -> int:
        return len(cast("list[int]", packet.content.control))


class Probabilistic(Rules):
    """One process's counters: each is a place whose keys are counts; places for senders follow."""

    INFO: ClassVar = ProtocolInfo(
        idea="few counters that processes share; order is lost by chance",
        paper="Mostéfaoui, Weiss 2017 (reconstructed from its abstract)",
        casts=("broadcast",),
        guarantee="causal order, except by chance: the more messages cross, the more often",
        cost="R integers per copy, whatever the number of processes",
        promises=frozenset({"liveness", "quiescence"}),
        missing_promises={
            "safety": "messages of others may raise a counter in place of the one that is missing"
        },
        options={
            "counters": Option(100, "R, how many counters there are", check=_CHECK),
            "own": Option(4, "K, how many of them each process raises", check=_CHECK),
        },
        lost_by_skip="counters do not tell which messages are lost",
        unmarked_by_skip="counters do not tell which messages are lost",
        research=True,
        reconstruction=True,
        bytes_per_entry=CLOCK_BYTES,
        has_roles=True,
        variants=(Variant("few", lambda _members: {"counters": 5, "own": 2}),),
    )
    WIRE: ClassVar = ProbabilisticWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        counters, own = cast("int", view.options["counters"]), cast("int", view.options["own"])
        self.widen(counters + view.n)
        self._counters = counters
        self._raised = [counters_of(place, counters, own) for place in range(view.n)]
        """By process, the counters that its messages raise."""
        self._uncounted = 0
        """Own messages that the counters do not include yet; they do once something arrives."""
        self._gone = 0

    @classmethod
    def check_options(cls, options: dict[str, object], members: tuple[str, ...]) -> None:
        own, counters = cast("int", options["own"]), cast("int", options["counters"])
        if own > counters:
            msg = f"own={own} is more than counters={counters}; each process raises some of them"
            raise UsageError(msg)

    def _raise(self, sender: int, count: int) -> tuple[int, ...]:
        for place in self._raised[sender]:
            self.reached[place] += count << self.shift
        return self._raised[sender]

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Send all counters along, with our own raised."""
        self._uncounted += 1
        counts = [key >> self.shift for key in self.reached[: self._counters]]
        for place in self._raised[self.me]:
            counts[place] += self._uncounted
        message.control = counts
        return ALIKE

    def check(self, packet: Packet) -> str:
        message = packet.content
        if message.dests | 1 << message.sender != self.view.everyone:
            return "is not for all members"
        counts = cast("list[int]", message.control)
        if not all(counts[place] for place in self._raised[message.sender]):
            return "has not raised the counters of its sender"
        return ""

    def arrived(self, packet: Packet) -> tuple[int, ...] | None:
        """Add our own messages to the counters."""
        count, self._uncounted = self._uncounted, 0
        return self._raise(self.me, count) if count else None

    def frees(self, packet: Packet) -> bool:
        reached, low, mine = self.reached, self.low, self._raised[self.me]
        more = self._uncounted << self.shift
        return all(
            key <= reached[key & low] + more * (key & low in mine) for key in self.needs(packet)
        )

    def needs(self, packet: Packet) -> list[int]:
        """Return the counters, without this message's own share."""
        own = self._raised[packet.content.sender]
        counts, shift = cast("list[int]", packet.content.control), self.shift
        return [count - (place in own) << shift | place for place, count in enumerate(counts)]

    def key(self, packet: Packet) -> int:
        message = packet.content
        return message.seq << self.shift | self._counters + message.sender

    def taken(self, packet: Packet) -> tuple[int, ...]:
        return self._raise(packet.content.sender, 1)

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return all messages of a process that raises the counter, preferably one that is gone."""
        place = key & self.low
        raisers = [number for number, own in enumerate(self._raised) if place in own]
        gone = [number for number in raisers if self._gone >> number & 1]
        who = (gone or raisers or [packet.content.sender])[0]
        return who, SAVED_MAX if key > self.reached[place] else 0

    def need(self, packet: Packet, key: int) -> Need:
        """Return the count waited for, from the process that :meth:`wanted` chooses."""
        return Need(self.view.members[self.wanted(packet, key)[0]], key >> self.shift, "count")

    def gone(self, source: int) -> None:
        """Remember who is gone: missing counts are attributed to it."""
        self._gone |= 1 << source

    def follows(self, packet: Packet, other: Packet) -> bool:
        return False

    def newest(self, sender: int) -> int:
        """Return 0: counts are not message numbers."""
        return 0

    def keep(self, saved: Saved) -> None:
        """Save or restore what the endpoint does not, and check the counters."""
        self._gone = saved.field("gone", self._gone, kinds.mask(self.view.n))
        self._uncounted = saved.number("uncounted", self._uncounted, 0, self.made)
        is_right = not any(key >> self.shift for key in self.reached[self._counters :])
        saved.require(is_right, "reached", self.reached, f"{self._counters} counters")
