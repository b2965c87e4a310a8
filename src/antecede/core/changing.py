"""Endpoints by numbers whose members come, go and restart.

When the members change, an endpoint counts by another roster from then on; so do the packets that
it holds. A removed process keeps its number while others may speak of it. A process that restarts
keeps its number too, but what has not arrived of its previous incarnation is lost.
"""

from __future__ import annotations

from antecede.core.messages import (
    INCARNATION_SHIFT,
    Need,
    Packet,
    Restart,
    incarnation_of,
)
from antecede.core.numbered_state import OWN, NumberedState
from antecede.core.restarts import (
    check_incarnation,
    is_closed_and_lost,
    missing_count,
    outdated,
)
from antecede.core.roster import UNKNOWN, Roster, roster_of
from antecede.core.stamps import Translation


class Changing(NumberedState):
    """The part of an endpoint by numbers that changes with its members."""

    # What the rest of the endpoint defines.

    def _blocker(self, packet: Packet) -> int:
        """Return the key of a message that the packet waits for, or what stands for none."""
        raise NotImplementedError

    def _file(self, arrival: int, packet: Packet, need: int) -> None:
        """Register a held packet under what it waits for."""
        raise NotImplementedError

    def _translated(self, packet: Packet, roster: Roster, *, forgets: bool = False) -> Packet:
        """Return a packet of another roster by our numbers."""
        raise NotImplementedError

    def _move(self, by: Translation) -> None:
        """Count by another roster from now on."""
        raise NotImplementedError

    def _need(self, key: int) -> Need:
        roster = self._roster
        return Need(roster.names[key & roster.low], key >> roster.shift)

    # Restarts.

    def _find_bounds(self) -> None:
        """Set what tells the usual case from the others quickly."""
        self._rough = bool(self._gone or self._closed or self.incarnation)
        """Whether messages may have been lost, with a process or an incarnation, or forgotten."""
        self._bound = 1 << INCARNATION_SHIFT + self._roster.shift
        """Keys above it are of processes that have restarted."""

    def _incarnation_of(self, number: int) -> int:
        return incarnation_of(self._links.prefix.get(number, 0))

    def _is_departed(self, packet: Packet) -> bool:
        """Tell whether a packet's source was removed, or has restarted since."""
        source = packet.source_no
        is_gone = self._gone >> source & 1
        return bool(is_gone) or incarnation_of(packet.n) < self._incarnation_of(source)

    def _is_lost(self, key: int) -> bool:
        roster = self._roster
        return is_closed_and_lost(self._closed, roster.names[key & roster.low], key >> roster.shift)

    def _check_incarnation(self, packet: Packet) -> None:
        """Do nothing, since ``receive`` does it, unless a channel's order forbids to go on."""
        if self._fifo:
            number = self._roster.numbers[packet.source]
            check_incarnation(packet, self._incarnation_of(number), self.INFO.name)

    def _check_past(self, packet: Packet, known: int) -> None:
        if incarnation_of(packet.n) < known:
            raise outdated(packet, known)

    def _notice(self, packet: Packet) -> None:
        """End the previous incarnations of the processes that a packet shows to have restarted."""
        shift, source = self._roster.shift, packet.source_no
        found = [incarnation_of(top >> shift) for top in packet.stamp.tops]
        found[source] = max(found[source], incarnation_of(packet.n))
        for number, incarnation in enumerate(found):
            known = self._incarnation_of(number)
            if incarnation > known and number != self._me and not self._gone >> number & 1:
                self._close(number, incarnation)

    def _close(self, number: int, incarnation: int) -> None:
        """Take the previous incarnation of a process for removed."""
        links, roster = self._links, self._roster
        name = roster.names[number]
        missing = missing_count(links.prefix.get(number, 0), links.ahead.pop(number, []))
        self._restarted.append(Restart(name, incarnation, missing))
        delivered = self._reached[number] >> roster.shift
        self._closed.setdefault(name, {})[self._incarnation_of(number)] = delivered
        self._closed[name].setdefault(incarnation - 1, 0)
        links.prefix[number] = self._turns[number] = incarnation << INCARNATION_SHIFT
        links.drop_parked(number)
        self._find_bounds()
        self._note_departed()
        self._file_all()

    def _number_from(self, base: int) -> None:
        super()._number_from(base)
        self._find_bounds()

    def _number_channel(self, dest: str, base: int) -> None:
        self._links.sent[self._roster.numbers[dest]] = base

    # Membership.

    def _joined(self, process: str) -> None:
        self._renumber(roster_of((*self._roster.names, process)))

    def _renumber(self, roster: Roster) -> None:
        """Count by another roster from now on; packets that are held too."""
        by = Translation(self._roster, roster)
        self._departures.move(by)
        self._gone = self._departures.gone
        self._reached[self._me] = self._me
        self._reached = by.tops(self._reached)
        self._reached[roster.numbers[self.process]] = OWN
        table = self._roster.table_to(roster)
        turns = [0] * len(roster)
        for number, turn in enumerate(self._turns):
            if table[number] != UNKNOWN:
                turns[table[number]] = turn
        self._turns = turns
        for name in ("sent", "prefix", "ahead", "parked"):
            old: dict[int, object] = getattr(self._links, name)
            moved = {table[k]: value for k, value in old.items() if table[k] != UNKNOWN}
            setattr(self._links, name, moved)
        self._move(by)
        before, self._roster = self._roster, roster
        self._find_bounds()
        self._me = roster.numbers[self.process]
        self._targets.clear()
        hold = self._hold
        for arrival, packet in hold:
            assert packet.roster is before
            hold.packets[arrival] = self._translated(packet, before, forgets=True)
        self._file_all()

    def _file_all(self) -> None:
        for arrival in self._hold.wake_everything():
            packet = self._hold.packets[arrival]
            self._file(arrival, packet, self._blocker(packet))

    def _release(self, process: str) -> None:
        number = self._roster.numbers[process]
        self._gone |= self._roster.bits[number]
        self._departures.gone = self._gone
        self._find_bounds()
        self._links.forget(number)
        self._left(process)
        self._note_departed()
        self._file_all()

    def _note_departed(self) -> None:
        """Find the packets of removed processes that are held, and whose turn it is."""
        departures, shift = self._departures, self._roster.shift
        departures.held.clear()
        departures.order.clear()
        for _, packet in self._hold:
            source = packet.source_no
            if self._is_departed(packet):
                departures.note_held(packet, packet.seq << shift | source)
        for source, numbers in departures.order.items():
            self._turns[source] = numbers[-1] - 1
