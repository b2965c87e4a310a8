"""The state of an endpoint on numbers as plain data by names, and back."""

from __future__ import annotations

from typing import ClassVar, Final, cast

from antecede.core.channels import Channels
from antecede.core.departures import Departures, Doubts
from antecede.core.farewells import Farewell, Farewells
from antecede.core.messages import MessageId, Need, Packet
from antecede.core.restarts import Closed
from antecede.core.retiring import Retiring
from antecede.core.roster import roster_of
from antecede.core.stamps import Stamp
from antecede.core.state import ChannelsState, State, copied

OWN: Final = 1 << 100
"""Greater than any key: nothing waits for our own messages."""


class NumberedState(Retiring):
    """What :class:`antecede.core.numbered.Numbered` keeps, and how it is saved and taken over."""

    STATE: ClassVar[tuple[str, ...] | dict[str, object]] = (
        "_newest",
        "_late",
        "_doubts",
        "_partings",
        "_closed",
    )

    STAMP: ClassVar[type[Stamp]]
    """The protocol's own kind of stamp: what its packets carry."""

    def _set_up(self) -> None:
        self._kind: type[Stamp] = self.STAMP
        self._links: Channels[int] = Channels(self._tally)
        self._roster = roster_of((*self.members, *sorted(self._removed)))
        self._me = self._roster.numbers[self.process]
        self._gone = self._roster.mask_of(tuple(self._removed))
        self._closed: Closed = {}
        self._find_bounds()
        count = len(self._roster)
        self._departures = Departures(self._gone)
        self._farewells = Farewells()
        for number in self._roster.members(self._gone):
            one = self._farewells.known[number] = Farewell()
            one.later = ~self._gone & (1 << count) - 1  # the others may have forgotten it
        self._reached = list(range(count))  # SR_j of [KS98]: the newest key delivered, by sender
        self._reached[self._me] = OWN  # nothing waits for our own messages
        self._turns = [0] * count  # the number of the last packet delivered, by source

    # What :class:`Numbered` defines.

    def _find_bounds(self) -> None:
        raise NotImplementedError

    def _numbered(self, packet: Packet) -> Packet:
        """Return a packet made from names, already checked, by numbers."""
        raise NotImplementedError

    def _regained(self, packet: Packet) -> Packet:
        raise NotImplementedError

    def _note_departed(self) -> None:
        raise NotImplementedError

    def _file_all(self) -> None:
        raise NotImplementedError

    # By names.

    @property
    def _newest(self) -> dict[str, int]:
        """SR_j of [KS98] by names."""
        roster = self._roster
        return {
            roster.names[key & roster.low]: key >> roster.shift
            for key in self._reached
            if roster.low < key < OWN
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
            held = self._regained(packet)
            self._hold.put_back(arrival, held)
            source = held.source_no
            self._turns[source] = min(self._turns[source], held.n - 1)
        self._check_state()
        self._note_departed()
        self._file_all()

    def _check_state(self) -> None:
        """Raise ValueError if this state cannot come about."""
        links = self._links
        counts = [self._seq, self._events, *links.sent.values(), *links.prefix.values()]
        is_possible = all(type(count) is int and count >= 0 for count in counts)
        is_possible = is_possible and max(links.sent.values(), default=0) <= self._seq
        for source, gaps in links.ahead.items():
            last = links.prefix.get(source, 0)
            for first, end in gaps:
                is_possible = is_possible and last + 1 < first <= end
                last = end
        for _, packet in self._hold:
            is_possible = is_possible and links.is_seen(packet.source_no, packet.n)
        if not is_possible:
            msg = f"counters or channels of {self.process!r} that contradict each other"
            raise ValueError(msg)
