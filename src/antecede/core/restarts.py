"""Processes that come back from an old snapshot: a new incarnation with higher numbers.

A snapshot may be older than its process's last send. If the process went on from it as if nothing
had happened, it would use numbers twice, and the others would drop its new messages as duplicates.
So it begins a new incarnation: see :data:`antecede.core.messages.INCARNATION_SHIFT`. Whoever hears
of that takes the previous incarnation for removed: what has arrived of it is delivered, the rest is
lost, and the deliveries that rest on what is lost say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from antecede.core.channels import Channels
from antecede.core.groups import distinct_names
from antecede.core.hooks import Hooks
from antecede.core.messages import INCARNATION_SHIFT, Packet, incarnation_of
from antecede.errors import PeerError

FORGOTTEN_MAX: Final = 1024
"""How many names are remembered after they were forgotten, for packets of those who join late."""
Closed = dict[str, dict[int, int]]
"""For each process that restarted: the last seq delivered of each incarnation that has ended."""


def outdated(packet: Packet, known: int) -> PeerError:
    """Return the error for a packet of an incarnation that has ended."""
    return PeerError(
        f"packet {packet.n} is of incarnation {packet.incarnation} of {packet.source!r}, which "
        f"has restarted since (incarnation {known}); drop it"
    )


def check_incarnation(packet: Packet, known: int, protocol: str) -> None:
    """Refuse a packet of another incarnation than the one that we know."""
    if packet.incarnation < known:
        raise outdated(packet, known)
    if packet.incarnation > known:
        msg = (
            f"packet {packet.n} shows that {packet.source!r} was restored from an old snapshot; "
            f"{protocol} cannot go on after that: make new endpoints, and save before packets are "
            "released, so that resumed=True can be said"
        )
        raise PeerError(msg)


def is_closed_and_lost(closed: Closed, process: str, seq: int) -> bool:
    """Tell whether a message is of an incarnation that has ended and was not delivered then."""
    ended = closed.get(process)
    if ended is None or incarnation_of(seq) > max(ended):
        return False
    return seq > ended.get(incarnation_of(seq), 0)


def missing_count(prefix: int, ahead: list[tuple[int, int]]) -> int:
    """Return how many packets of a channel have not arrived although later ones have."""
    if not ahead:
        return 0
    arrived = sum(last - first + 1 for first, last in ahead)
    return ahead[-1][1] - prefix - arrived


class Restarting(Hooks):
    """The part of an endpoint that knows of incarnations, its own and those of others."""

    # What Endpoint sets. Python finds attributes slower in objects with more than 30 others.
    __slots__ = (
        "_channels",
        "_delivered",
        "_events",
        "_fifo",
        "_forgotten",
        "_hold",
        "_out",
        "_positions",
        "_removed",
        "_restarted",
        "_seq",
        "_tally",
        "_targets",
        "held_bytes_max",
        "held_max",
        "members",
        "options",
        "process",
        "pull",
        "queue_max",
    )

    process: str
    members: tuple[str, ...]
    _forgotten: dict[str, None]
    _positions: dict[str, int]
    _removed: set[str]
    _seq: int
    _channels: Channels[str]

    @property
    def incarnation(self) -> int:
        """How often this endpoint was restored without proof that nothing was sent since."""
        return incarnation_of(self._seq)

    def restart(self) -> None:
        """Begin a new incarnation: the state may be older than the last send.

        Numbers of messages and packets go on far above all that may have been used, so the others
        do not take new messages for old ones. ``Codec.restore`` calls this unless told otherwise.
        """
        self._seq = self.incarnation + 1 << INCARNATION_SHIFT
        self._number_from(self._seq)

    def recall(self, names: Iterable[str]) -> None:
        """Tell a restored endpoint who has left for good, those who left first first.

        A state does not name those whom the endpoint has forgotten. But packets of processes that
        joined later may still name them, and would be refused as packets that name strangers.
        Those whom this endpoint has yet to add must not be named; names of members, and of those
        who are not forgotten, change nothing.
        """
        gone = [n for n in distinct_names("names", names) if n not in self._positions]
        gone = [name for name in gone if name not in self._removed]
        if gone:
            self._check_dynamic()
            self._forgotten = dict.fromkeys([*gone, *self._forgotten][-FORGOTTEN_MAX:])

    def _not_a_member(self, process: object) -> str:
        return f"process {process!r} is not a member; the members are {', '.join(self.members)}"

    def _check_incarnation(self, packet: Packet) -> None:
        known = self._channels.prefix.get(packet.source, 0)
        if (packet.n ^ known) >> INCARNATION_SHIFT:
            check_incarnation(packet, incarnation_of(known), self.INFO.name)

    def _number_from(self, base: int) -> None:
        """Begin the numbers of every channel at ``base + 1``."""
        for member in self.members:
            if member != self.process:
                self._number_channel(member, base)

    def _number_channel(self, dest: str, base: int) -> None:
        self._channels.sent[dest] = base
