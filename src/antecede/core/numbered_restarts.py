"""What is lost where endpoints work on numbers, and restarts of others.

A process that restarts keeps its number. What has arrived of its previous incarnation is still
delivered; the rest is lost, as if the process had been removed.
"""

from __future__ import annotations

from antecede.core.copies import twin_of
from antecede.core.messages import (
    INCARNATION_SHIFT,
    Effects,
    Need,
    Packet,
    Restart,
    incarnation_of,
)
from antecede.core.numbered_state import NumberedState
from antecede.core.restarts import (
    check_incarnation,
    is_closed_and_lost,
    missing_count,
    outdated,
)
from antecede.errors import PeerError


class NumberedRestarts(NumberedState):
    """What :class:`antecede.core.numbered.Numbered` does with losses and when one restarts."""

    _looks_ahead = False
    """Whether a protocol looks at packets when they arrive."""

    def _need(self, key: int) -> Need:
        roster = self._roster
        return Need(roster.names[key & roster.low], key >> roster.shift)

    # What is lost.

    def _may_come(self, key: int) -> bool:
        """Tell whether a message that is not delivered can still be, after a removal."""
        number = key & self._roster.low
        is_over = self._gone >> number & 1 or incarnation_of(
            key >> self._roster.shift
        ) < self._incarnation_of(number)
        return not is_over or key in self._departures.held

    def _lost(self, packet: Packet, key: int) -> tuple[Need, ...]:
        """Return the lost messages that a message rests on; what rests on it will say so too."""
        roster, departures = self._roster, self._departures
        reached, low = self._reached, roster.low
        late = departures.late
        missing = [
            k
            for k in packet.needs
            if k not in late and (k > reached[k & low] or (self._closed and self._is_lost(k)))
        ]
        lost = departures.lost(packet, key, missing)
        if not lost:
            return ()
        departures.doubt(packet.source_no, key, lost)
        departures.doubt(self._me, self._seq + 1 << roster.shift | self._me, lost)
        return tuple(sorted(map(self._need, lost)))

    def _own_unmet(self) -> tuple[Need, ...]:
        return tuple(sorted(map(self._need, self._departures.doubts.get(self._me, ()))))

    def _sort_held(self) -> None:
        """Let what is held go in causal order from now on, not in the order of arrival.

        What told the order of two held messages may be lost with a process. But a message has
        more messages in its past, itself included, than any of its causes has.
        """
        shift, packets = self._roster.shift, self._hold.packets

        def rank(arrival: int) -> tuple[int, int]:
            packet = packets[arrival]
            tops, own = packet.stamp.tops, packet.source_no
            past = sum([top >> shift for top in tops]) - (tops[own] >> shift) + packet.seq
            return past, arrival

        ordered = [packets[arrival] for arrival in sorted(packets, key=rank)]
        self._hold.packets = dict(zip(sorted(packets), ordered, strict=True))

    # Restarts.

    def _find_bounds(self) -> None:
        """Set what tells the usual case from the others quickly."""
        self._rough = bool(self._gone or self._closed or self.incarnation)
        """Whether messages may have been lost, with a process or an incarnation, or forgotten."""
        self._is_odd = self._rough or self.pull or self._looks_ahead
        """Whether receiving a packet takes more than the usual steps."""
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
        if not packet.n % (1 << INCARNATION_SHIFT):  # an incarnation numbers its packets from 1
            msg = f"packet {packet.n} from {packet.source!r} has a number that endpoints never use"
            raise PeerError(msg)

    def _receive_oddly(self, packet: Packet) -> Effects:
        raise NotImplementedError

    def _adopted(self, packet: Packet) -> Packet:
        raise NotImplementedError

    def _notice(self, packet: Packet) -> None:
        """End the previous incarnations of the processes that a packet shows to have restarted."""
        ended = self._ended(packet)
        if not ended:
            return
        if not self._tally.is_low(self, packet):
            # It may not fit, and must change nothing then. What its news release decides that.
            trial = twin_of(self)
            same = trial._adopted(packet)
            trial._close_all(trial._ended(same))
            trial._receive_oddly(same)
        self._close_all(ended)

    def _ended(self, packet: Packet) -> list[tuple[int, int]]:
        """Return who has restarted according to a packet, and the new incarnations."""
        shift, source = self._roster.shift, packet.source_no
        found = [incarnation_of(top >> shift) for top in packet.stamp.tops]
        found[source] = max(found[source], incarnation_of(packet.n))
        return [
            (number, incarnation)
            for number, incarnation in enumerate(found)
            if incarnation > self._incarnation_of(number)
            and number != self._me
            and not self._gone >> number & 1
        ]

    def _close_all(self, ended: list[tuple[int, int]]) -> None:
        for number, incarnation in ended:
            self._close(number, incarnation)
        self._drain()

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
        self._farewells.restarted(number)
        self._find_bounds()
        self._sort_held()
        self._note_departed()
        self._file_all()

    def _number_from(self, base: int) -> None:
        super()._number_from(base)
        self._find_bounds()

    def _number_channel(self, dest: str, base: int) -> None:
        self._links.sent[self._roster.numbers[dest]] = base
