"""Messages that are declared lost: what no longer waits for them, and what depends on them.

An endpoint has this from its first skip on, and asks it instead of its rules whether a packet is
refused and what it waits for. A lost message took its own needs with it, so whoever needed it also
waits for everything held that it knew of. Deliveries that rest on a lost message say so: those that
asked for it, and those whose senders knew of one of these.
"""

from operator import itemgetter
from typing import Final

from antecede.endpoint.hold import Hold
from antecede.endpoint.messages import FREE, Need, Packet
from antecede.endpoint.rules import Rules
from antecede.endpoint.saved import SAVED_MAX, Saved, in_pairs

GONE: Final = SAVED_MAX
"""Up to this number everything of a process is lost: it is gone."""


class Skips:
    """What one process will never get, and what depends on it."""

    def __init__(self, rules: Rules, hold: Hold) -> None:
        self._rules, self._hold, self._view = rules, hold, rules.view
        self._limits: dict[int, int] = {}
        """By sender, the number up to which all that has not arrived is lost."""
        self._gaps: list[tuple[int, int, int]] = []
        """Senders, each with the numbers after and up to which messages of it are lost."""
        self._marks: dict[Need, dict[int, int]] = {}
        """By lost message, the first message of each sender that depends on it."""
        self._here: set[tuple[int, int]] = set()
        """Messages (sender, number) that were here when they would have been declared lost."""

    def skip(self, sender: int, seq: int | None) -> None:
        """Declare messages of a sender up to this number to be lost, or all: it is gone."""
        if seq is None:
            seq = GONE
            self._rules.gone(sender)
        self._rules.lost(sender, seq)
        self._limits[sender] = max(seq, self._limits.get(sender, 0))
        held = [one.content for one in self._hold.packets.values() if one.content.sender == sender]
        here = [one.seq for one in held if 0 < one.seq <= seq] + self._rules.ahead(sender)
        self._here.update([(sender, number) for number in here])
        newest = self._rules.newest(sender)
        if newest < seq:
            self._gaps.append((sender, newest, seq))

    def drops(self, packet: Packet) -> bool:
        """Return whether a message that someone else brought was declared lost before.

        It takes its turn, for what follows it, and is passed on, but is not delivered.
        """
        sender, seq = packet.content.sender, packet.content.seq
        if seq > self._limits.get(sender, 0) or (sender, seq) in self._here:
            return False
        lost = Need(self._view.members[sender], seq)
        self._marks.setdefault(lost, {}).setdefault(sender, seq)
        return True

    def unmet(self, packet: Packet) -> tuple[Need, ...]:
        """Return the lost messages that a packet's message depends on, and note that it does."""
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
            firsts.setdefault(sender, seq)
            if lost.message is not None:  # who knew of it depends on it, even without asking for it
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

    def _is_in_gap(self, sender: int, seq: int) -> bool:
        """Return whether a message was lost, also if later ones of its sender have come."""
        return any(
            who == sender and after < seq <= upto and (sender, seq) not in self._here
            for who, after, upto in self._gaps
        )

    # What changes.

    def check(self, packet: Packet) -> str:
        """Refuse what was declared lost."""
        content, limit = packet.content, self._limits.get(packet.source_no, 0)
        is_late = packet.source_no == content.sender and 0 < content.seq <= limit
        return "was declared lost" if is_late or limit >= GONE else self._rules.check(packet)

    def blocker(self, packet: Packet) -> int:
        """Return what a packet waits for: what is lost is not waited for, but what is held is."""
        rules, is_resting = self._rules, False
        for key in rules.missing(packet):
            if self._is_lost(packet, key):
                is_resting = True
            elif not rules.IS_JOINT:
                return key
        if not is_resting:
            return rules.blocker(packet)
        for other in self._hold.packets.values():
            if other is not packet and self._precedes(other, packet):
                return rules.key(other)
        return FREE

    def _precedes(self, other: Packet, packet: Packet) -> bool:
        """Return whether a held message is a cause of another that depends on a lost one."""
        one, two = other.content, packet.content
        if not one.seq or not two.seq:
            return False
        if one.sender == two.sender and (one.seq > two.seq or self._rules.INFO.is_fifo):
            return one.seq < two.seq
        return self._rules.follows(packet, other)

    def missing(self, packet: Packet) -> list[int]:
        """Return what may still come."""
        key = self.blocker(packet)
        if key == FREE:
            return []
        found = [key for key in self._rules.missing(packet) if not self._is_lost(packet, key)]
        return found or [key]

    # What the endpoint tells it.

    def sent(self, seq: int) -> None:
        """Note a message of our own: who knows of it depends on what we depend on."""
        for firsts in self._marks.values():
            firsts.setdefault(self._rules.me, seq)

    def taken(self, packet: Packet) -> None:
        """Wake what waits for a message that was taken although some before it are lost."""
        key = self._rules.key(packet)
        if key > self._rules.reached[key & self._rules.low]:
            for arrival in self._hold.wake_for(key):
                self._hold.file(arrival, self.blocker(self._hold.packets[arrival]))

    def keep(self, saved: Saved) -> None:
        """Keep what is lost, and what depends on it."""
        n, members, numbers = self._view.n, self._view.members, self._view.numbers
        self._limits = saved.by_number("limits", self._limits, n)

        def as_mark(mark: object) -> tuple[Need, dict[int, int]]:
            process, number, unit, firsts = saved.as_list("marks", mark, 4)
            saved.as_numbers("marks", [process], most=n - 1)
            saved.as_numbers("marks", [number])
            saved.require(type(unit) is str, "marks", unit, "str")
            return Need(members[process], number, unit), saved.as_by_number("marks", firsts, n)

        def put(mark: tuple[Need, dict[int, int]]) -> list[object]:
            (process, number, unit), firsts = mark
            return [numbers[process], number, unit, in_pairs(firsts)]

        self._gaps = saved.tuples("gaps", self._gaps, 3)
        for gap in self._gaps:
            saved.require(gap[0] < n, "gaps", gap, f"a member below {n}")
        marks = sorted(self._marks.items(), key=itemgetter(0))
        self._marks = dict(saved.each("marks", marks, put, as_mark, is_open=True))
        self._here = set(saved.tuples("here", sorted(self._here), 2))
