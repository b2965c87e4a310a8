"""Endpoints by numbers whose members come, go and restart.

When the members change, an endpoint counts by another roster from then on; so do the packets that
it holds. A removed process keeps its number while others may speak of it. A process that restarts
keeps its number too, but what has not arrived of its previous incarnation is lost.
"""

from __future__ import annotations

from typing import ClassVar, cast

from antecede.core.channels import Channels
from antecede.core.departures import Departures, Doubts
from antecede.core.endpoint import Endpoint
from antecede.core.messages import (
    INCARNATION_SHIFT,
    MessageId,
    Need,
    Packet,
    Restart,
    incarnation_of,
)
from antecede.core.restarts import (
    Closed,
    check_incarnation,
    is_closed_and_lost,
    missing_count,
    outdated,
)
from antecede.core.roster import UNKNOWN, Roster, roster_of
from antecede.core.stamps import Translation
from antecede.core.state import ChannelsState, State, copied


class Changing(Endpoint):
    """The part of an endpoint by numbers that changes with its members."""

    STATE: ClassVar[tuple[str, ...]] = ("_newest", "_late", "_doubts", "_closed")

    def _set_up(self) -> None:
        self._links: Channels[int] = Channels(self._tally)
        self._roster = roster_of((*self.members, *sorted(self._removed)))
        self._me = self._roster.numbers[self.process]
        self._gone = self._roster.mask_of(tuple(self._removed))
        self._closed: Closed = {}
        self._find_bounds()
        self._departures = Departures(self._gone)
        count = len(self._roster)
        self._reached = list(range(count))  # SR_j of [KS98]: the newest key delivered, by sender
        self._turns = [0] * count  # the number of the last packet delivered, by source

    # What the rest of the endpoint defines.

    def _blocker(self, packet: Packet) -> int:
        """Return the key of a message that the packet waits for, or what stands for none."""
        raise NotImplementedError

    def _file(self, arrival: int, packet: Packet, need: int) -> None:
        """Register a held packet under what it waits for."""
        raise NotImplementedError

    def _numbered(self, packet: Packet) -> Packet:
        """Return a packet made from names, already checked, by numbers."""
        raise NotImplementedError

    def _adopted(self, packet: Packet) -> Packet:
        """Return a packet by our numbers."""
        raise NotImplementedError

    def _translated(self, packet: Packet, roster: Roster) -> Packet:
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
        self._reached = by.tops(self._reached)
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
            hold.packets[arrival] = self._translated(packet, before)
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

    # State.

    @property
    def _newest(self) -> dict[str, int]:
        """SR_j of [KS98] by names."""
        roster = self._roster
        return {
            roster.names[key & roster.low]: key >> roster.shift
            for key in self._reached
            if key > roster.low
        }

    @_newest.setter
    def _newest(self, newest: dict[str, int]) -> None:
        roster = self._roster
        for name, seq in newest.items():
            number = roster.numbers[name]
            self._reached[number] = seq << roster.shift | number

    @property
    def _late(self) -> set[MessageId]:
        return self._departures.late_ids(self._roster)

    @_late.setter
    def _late(self, late: set[MessageId]) -> None:
        self._departures.read(self._roster, late, {})

    @property
    def _doubts(self) -> Doubts:
        return self._departures.named_doubts(self._roster)

    @_doubts.setter
    def _doubts(self, doubts: Doubts) -> None:
        self._departures.read(self._roster, self._late, doubts)

    def waiting(self) -> dict[MessageId, tuple[Need, ...]]:
        """Return what each held message waits for; nothing means that it can be taken."""
        result = {packet.message_id: tuple(self._unmet(packet)) for _, packet in self._hold}
        for source, parked in self._links.parked.items():
            first = Need(
                self._roster.names[source], self._links.prefix.get(source, 0) + 1, "channel"
            )
            result |= dict.fromkeys([packet.message_id for packet in parked.values()], (first,))
        return result

    def _channels_state(self) -> ChannelsState:
        names, links = self._roster.names, self._links
        return {
            "sent": {names[k]: n for k, n in links.sent.items()},
            "prefix": {names[k]: n for k, n in links.prefix.items()},
            "ahead": {names[k]: list(gaps) for k, gaps in links.ahead.items()},
            "parked": {names[k]: dict(packets) for k, packets in links.parked.items()},
        }

    def load(self, state: State) -> None:
        """Take over a state made by :meth:`state` on an endpoint of the same kind."""
        saved = copied(state)
        self._removed = saved["removed"]
        self._set_up()
        self._start()
        self._seq, self._events = saved["seq"], saved["events"]
        numbers = self._roster.numbers
        channels = cast("dict[str, dict[str, object]]", saved["channels"])
        by_number = {
            name: {numbers[k]: value for k, value in values.items()}
            for name, values in channels.items()
        }
        self._links.load(cast("ChannelsState", by_number))
        for name, value in saved["own"].items():
            setattr(self, name, value)
        self._hold.arrivals = saved["arrivals"]
        self._find_bounds()
        for number, n in self._links.prefix.items():
            self._turns[number] = n
        for arrival, packet in saved["held"]:
            if self._is_gone(packet.source):
                self._check(packet)
                held = self._numbered(packet)
            else:
                held = self._adopted(packet)
            self._hold.put_back(arrival, held)
            source = held.source_no
            self._turns[source] = min(self._turns[source], held.n - 1)
        self._note_departed()
        self._file_all()
