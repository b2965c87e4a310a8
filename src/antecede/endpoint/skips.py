"""Messages that are declared lost: what no longer waits for them, and what depends on them.

From its first skip on, an endpoint asks this instead of its rules whether a packet is refused and
what it waits for. A lost message's own needs are lost with it, so a message that needed it also
waits for every held message that its sender knew of. Deliveries that depend on a lost message say
so: those that waited for it, and those whose senders knew of one of these.
"""

from typing import Any, Final

from antecede.endpoint.hold import Hold
from antecede.endpoint.messages import FREE, Need, Packet
from antecede.endpoint.rules import Rules
from antecede.endpoint.saved import SAVED_MAX, Saved

GONE: Final = SAVED_MAX
"""All messages of a process that is gone are lost: their numbers are at most this."""


class Skips:
    """The messages that one process will never get, and what depends on them."""

    def __init__(self, rules: Rules, hold: Hold) -> None:
        self._rules, self._hold, self._view = rules, hold, rules.view
        self._limits: dict[int, int] = {}
        """By sender, the number up to which all messages that have not arrived are lost."""
        self._gaps: list[tuple[int, int, int]] = []
        """(sender, after, upto): the sender's messages between these numbers are lost."""
        self._marks: dict[Need, dict[int, int]] = {}
        """By lost message, the first message of each sender that depends on it."""
        self._here: set[tuple[int, int]] = set()
        """Messages (sender, number) within a skip that had arrived before it."""

    def skip(self, sender: int, seq: int | None) -> None:
        """Declare lost a sender's messages up to this number; None for all, as it is gone."""
        if seq is None:
            seq = GONE
            self._rules.gone(sender)
        self._rules.lost(sender, seq)
        limit = self._limits.get(sender, 0)
        self._limits[sender] = max(seq, limit)
        held = [one.content for one in self._hold.packets.values() if one.content.sender == sender]
        here = [one.seq for one in held if one.seq <= seq] + self._rules.ahead(sender)
        self._here.update([(sender, number) for number in here if number > limit])
        newest = self._rules.newest(sender)
        if newest < seq:
            self._gaps.append((sender, newest, seq))

    def drops(self, packet: Packet) -> bool:
        """Return whether a message that a relay brought was declared lost before.

        It still takes effect for what follows it, and is passed on, but is not delivered.
        """
        if not self.is_lost(packet):
            return False
        sender, seq = packet.content.sender, packet.content.seq
        lost = Need(self._view.members[sender], seq)
        self._marks.setdefault(lost, {}).setdefault(sender, seq)
        return True

    def is_lost(self, packet: Packet) -> bool:
        """Return whether a packet's message was declared lost before it was here."""
        sender, seq = packet.content.sender, packet.content.seq
        return seq <= self._limits.get(sender, 0) and (sender, seq) not in self._here

    def unmet(self, packet: Packet) -> tuple[Need, ...]:
        """Return the lost messages that a packet's message depends on, and remember that."""
        rules, sender, seq = self._rules, packet.content.sender, packet.content.seq
        missing = set(rules.missing(packet))
        found = {
            rules.need(packet, key)
            for key in rules.needs(packet)
            if self._is_in_gap(*rules.wanted(packet, key))
            or (key in missing and self._is_lost(packet, key))
        }
        for lost, firsts in self._marks.items():
            for who, first in firsts.items() if lost not in found else ():
                if seq >= first if who == sender else rules.knows(packet, who, first):
                    found.add(lost)
                    break
        for lost in found:
            firsts = self._marks.setdefault(lost, {})
            firsts[sender] = min(seq, firsts.get(sender, seq))
            if lost.message is not None:  # so does whoever knew of the lost one itself
                firsts.setdefault(self._view.numbers[lost.process], lost.number)
        return tuple(sorted(found))

    def own_unmet(self) -> tuple[Need, ...]:
        """Return the lost messages that this process's own next message depends on."""
        return tuple(sorted(self._marks))

    def present(self, others: tuple[int, ...]) -> tuple[int, ...]:
        """Return the members that are not gone."""
        limits = self._limits
        return tuple([other for other in others if limits.get(other) != GONE])

    def _is_lost(self, packet: Packet, key: int) -> bool:
        sender, seq = self._rules.wanted(packet, key)
        return sender in self._limits and seq <= self._limits[sender]

    def _is_named(self, sender: int, seq: int) -> bool:
        """Return whether a message was declared lost by its number, not with all of its sender."""
        return any(who == sender and seq <= upto < GONE for who, _, upto in self._gaps)

    def _is_in_gap(self, sender: int, seq: int) -> bool:
        """Return whether a message was lost, even if later ones of its sender have arrived."""
        return any(
            who == sender and after < seq <= upto and (sender, seq) not in self._here
            for who, after, upto in self._gaps
        )

    # What the endpoint asks instead of its rules.

    def check(self, packet: Packet) -> str:
        """Refuse a message that was declared lost."""
        content, limit = packet.content, self._limits.get(packet.source_no, 0)
        is_late = packet.source_no == content.sender and 0 < content.seq <= limit
        return "was declared lost" if is_late or limit >= GONE else self._rules.check(packet)

    def blocker(self, packet: Packet) -> int:
        """Return a key that a packet waits for: no lost message, but perhaps a held one."""
        rules = self._rules
        lost = [k for k in rules.needs(packet) if self._is_in_gap(*rules.wanted(packet, k))]
        for key in rules.missing(packet):
            if self._is_lost(packet, key):
                lost.append(key)
            elif not rules.IS_JOINT:
                return key
        if not lost:
            return rules.blocker(packet)
        for other in self._hold.packets.values():
            if other is not packet and self._precedes(other, packet):
                return rules.key(other)
        is_named = all(self._is_named(*rules.wanted(packet, key)) for key in lost)
        return FREE if is_named else rules.gap(packet)

    def _precedes(self, other: Packet, packet: Packet) -> bool:
        """Return whether a held message is a cause of one that depends on a lost message."""
        one, two = other.content, packet.content
        if not one.seq or not two.seq:
            return False
        if one.sender == two.sender and (one.seq > two.seq or self._rules.INFO.is_fifo):
            is_relayed = other.source_no == packet.source_no and other.n != packet.n
            return other.n < packet.n if is_relayed else one.seq < two.seq
        return self._rules.follows(packet, other)

    def missing(self, packet: Packet) -> list[int]:
        """Return the keys that a packet waits for and that may still be reached."""
        key = self.blocker(packet)
        if key == FREE:
            return []
        found = [key for key in self._rules.missing(packet) if not self._is_lost(packet, key)]
        return found or [key]

    # What the endpoint tells it.

    def sent(self, seq: int) -> None:
        """Note a message of our own: whoever knows of it depends on the lost messages we do."""
        for firsts in self._marks.values():
            firsts.setdefault(self._rules.me, seq)

    def taken(self, packet: Packet) -> None:
        """Wake packets that wait for this one, though ``reached`` is lower, or passed it before."""
        for arrival in self._hold.wake_for(self._rules.key(packet)):
            self._hold.file(arrival, self.blocker(self._hold.packets[arrival]))

    def keep(self, saved: Saved) -> None:
        """Save or restore what is lost, and what depends on it."""
        n, members, numbers = self._view.n, self._view.members, self._view.numbers
        self._limits = saved.field("limits", self._limits, {n: int})
        self._gaps = saved.field("gaps", self._gaps, [(range(n), int, int)])
        lost = sorted(self._marks)
        marks: Any = [(numbers[one.process], *one[1:], self._marks[one]) for one in lost]
        marks = saved.field("marks", marks, [(range(n), int, str, {n: int})])
        self._marks = {Need(members[k], seq, unit): firsts for k, seq, unit, firsts in marks}
        self._here = set(saved.field("here", sorted(self._here), [(int, int)]))
