"""Joins and removals where endpoints work on numbers: the roster changes, and all that it numbers.

A removed process keeps its number until nothing can name it any more; see
:mod:`antecede.core.farewells`.
"""

from __future__ import annotations

from antecede.core.farewells import Farewell
from antecede.core.messages import Packet
from antecede.core.numbered_restarts import NumberedRestarts
from antecede.core.numbered_state import OWN
from antecede.core.roster import UNKNOWN, Roster, roster_of
from antecede.core.stamps import Translation


class Membership(NumberedRestarts):
    """What :class:`antecede.core.numbered.Numbered` does when members join and leave."""

    # What a protocol and the base define.

    def _move(self, by: Translation) -> None:
        """Count by another roster from now on."""
        raise NotImplementedError

    def _blocker(self, packet: Packet) -> int:
        raise NotImplementedError

    def _file(self, arrival: int, packet: Packet, need: int) -> None:
        raise NotImplementedError

    def _translated(self, packet: Packet, roster: Roster, *, forgets: bool = False) -> Packet:
        raise NotImplementedError

    # Membership.

    def _joined(self, process: str) -> None:
        self._renumber(roster_of((*self._roster.names, process)))
        self._farewells.joined(self._roster.numbers[process], self._gone)

    def _renumber(self, roster: Roster) -> None:
        """Count by another roster from now on; packets that are held too."""
        by = Translation(self._roster, roster)
        self._departures.move(by)
        self._farewells.move(by)
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
        self._farewells.known.setdefault(number, Farewell())
        self._links.forget(number)
        self._left(process)
        self._sort_held()
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

    # Farewells.

    def _tell(self, packets: tuple[Packet, ...], targets: int) -> None:
        """Let packets say who left."""
        news = self._farewells.news(self._gone)
        for packet in packets:
            if packet.roster is not None:
                packet.stamp.news = news
                packet.stamp.is_plain = False
        self._farewells.tell(targets)
        self._part()

    def _hear(self, packet: Packet) -> None:
        """Note who left according to a packet that has arrived."""
        news = packet.stamp.news
        if news is not None:
            self._farewells.hear(packet.source_no, packet.n, news)
        if self._gone:
            self._farewells.excuse_sender(packet)
            self._part()

    def _part(self) -> None:
        """Forget those who left and of whom nothing can turn up any more."""
        peers = [i for i in range(len(self._roster)) if i != self._me and not self._gone >> i & 1]
        finished = self._farewells.advance(
            self._gone, peers, self._links.prefix, is_quiet=not self.held
        )
        if not finished:
            return
        names = {self._roster.names[number] for number in finished}
        for number in finished:
            self._departures.forget(number, self._roster.low)
            self._farewells.forget(number)
        for name in names:
            self._closed.pop(name, None)
        self._retire(names)
        self._renumber(roster_of(tuple(n for n in self._roster.names if n not in names)))
