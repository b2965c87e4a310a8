"""Members that join and leave where packets count: who is known, and what is lost with whom.

See :mod:`antecede.core.counted`.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Final, cast

from antecede.core.counts import Counts
from antecede.core.farewells import Farewell, Farewells
from antecede.core.kinds import NAME
from antecede.core.messages import (
    Need,
    Packet,
)
from antecede.core.retiring import Retiring
from antecede.core.roster import Roster, roster_of
from antecede.core.stamps import Translation
from antecede.core.state import State
from antecede.core.validation import (
    COUNT_MAX,
)

if TYPE_CHECKING:
    from antecede.core.casts import Targets

Interval = tuple[int, int]
NEVER: Final = 2 * COUNT_MAX
"""The level that a process had reached which left before we joined: it never sent us anything."""


class CountedMembership(Retiring):
    """What :class:`antecede.core.counted.Counted` knows about members that join and leave."""

    STATE: ClassVar[dict[str, object]] = {
        "_partings": {NAME: (bool, {NAME}, {NAME: int}, {NAME: int}, {NAME})},
        "_closed": {NAME: (int, [(int, int)])},
    }
    UNIT: ClassVar[str] = "count"
    STAMP: ClassVar[type[Counts]]
    """What packets carry while nobody is departing; see :mod:`antecede.core.counts`."""

    def _set_up(self) -> None:
        self._kind: type[Counts] | None = self.STAMP
        self._rename()
        self._farewells = Farewells()
        self._closed: dict[str, tuple[int, list[Interval]]] = {}
        for name in self._removed:
            one = self._farewells.known[self._roster.numbers[name]] = Farewell()
            one.later = self._mask(set(self.members))  # the others may have forgotten it
            self._closed[name] = (NEVER, [])
        self._levels: dict[str, list[int]] | None = {} if self._removed else None
        """The levels of what is held, by source and sorted; only while someone is departing."""

    def _rename(self) -> None:
        self._roster: Roster = roster_of((*self.members, *sorted(self._removed)))
        self._names = self._roster.names
        self._index = self._roster.numbers
        self._me = self._index[self.process]
        self._targets.clear()
        self._last: tuple[Packet | None, Counts] = (None, self.STAMP(()))
        """The packet by names looked at last, and what it carries; it is needed a few times."""

    # What a protocol defines.

    def _level(self, packet: Packet, /) -> int:
        """Return the level that its source reaches here when this packet is delivered."""
        raise NotImplementedError

    def _reached(self, process: str, /) -> int:
        """Return the level that a process has reached here."""
        raise NotImplementedError

    def _wanted(self, packet: Packet, /) -> Iterator[tuple[str, int]]:
        """Yield the levels that a packet asks for and that are not reached here."""
        raise NotImplementedError

    def _known(self, packet: Packet, process: str, /) -> int:
        """Return the newest level of a process that concerns us, in the past of a packet."""
        raise NotImplementedError

    def _renamed(self, before: tuple[str, ...], /) -> None:
        """Count by other names from now on: someone joined, or is forgotten."""
        raise NotImplementedError

    def _count_sends(self, to: Targets, /) -> Counts:
        """Return what all copies of a message carry, and record it."""
        raise NotImplementedError

    def _aligned(self, control: object, /) -> Counts:
        """Return a control by our numbers."""
        raise NotImplementedError

    def _check_form(self, packet: Packet, control: object, /) -> None:
        """Refuse a control that is not well-formed."""
        raise NotImplementedError

    def _check_claims(self, packet: Packet, /) -> None:
        """Refuse what a well-formed packet can say, but nobody can know."""
        raise NotImplementedError

    @staticmethod
    def _names_in(control: object, /) -> tuple[str, ...]:
        """Return the processes that a well-formed control counts, sorted."""
        raise NotImplementedError

    @staticmethod
    def _counted(control: object, /) -> set[str]:
        """Return the processes of which a control says more than that they exist."""
        raise NotImplementedError

    def _check_own_state(self) -> bool:
        """Tell whether the protocol's own state is possible."""
        raise NotImplementedError

    def _is_assured(self, _process: str, _level: int) -> bool:
        """Tell whether everything of a process up to a level is known to have arrived."""
        return False

    def _need(self, process: str, level: int) -> Need:
        return Need(process, level, self.UNIT)

    @staticmethod
    def _bare(packet: Packet) -> object:
        """Return a control without what it says about those who left."""
        control = packet.control
        if type(control) is tuple and len(control) == 4 and control[0] is None:
            return cast("object", control[3])
        return control

    # What is lost with those who left.

    def _newest_held(self, process: str, level: int) -> int | None:
        """Return the newest level up to this one of what is held of a process."""
        levels = (self._levels or {}).get(process, [])
        place = bisect_right(levels, level)
        return levels[place - 1] if place else None

    def _no_longer_held(self, packet: Packet) -> None:
        assert self._levels is not None
        source, level = packet.source, self._level(packet)
        levels = self._levels.get(source, [])
        place = bisect_right(levels, level)
        if place and levels[place - 1] == level:
            del levels[place - 1]
        if not levels:
            self._levels.pop(source, None)
        if source in self._closed:
            late = self._closed[source][1]
            if late and late[-1][1] == level - 1:
                late[-1] = (late[-1][0], level)
            else:
                late.append((level, level))

    def _lost(self, packet: Packet) -> Iterator[Need]:
        """Yield, of each process that left, the newest lost message that a message rests on."""
        for process in sorted(self._removed):
            lost = self._newest_lost(process, self._known(packet, process))
            if lost:
                yield self._need(process, lost)

    def _own_unmet(self) -> tuple[Need, ...]:
        lost = [
            (name, self._newest_lost(name, self._heard(name))) for name in sorted(self._removed)
        ]
        return tuple([self._need(name, level) for name, level in lost if level])

    def _heard(self, process: str) -> int:
        """Return the newest level of a process that concerns us, in our own past."""
        return self._reached(process)

    def _newest_lost(self, process: str, level: int) -> int:
        """Return the newest level up to this one that was lost, or 0."""
        before, late = self._closed[process]
        place = bisect_right(late, (level, NEVER)) - 1
        if place >= 0 and level <= late[place][1]:
            level = late[place][0] - 1
        return level if level > before else 0

    # Membership.

    def _mask(self, names: set[str]) -> int:
        return self._roster.mask_of(tuple(names))

    def _renumber(self) -> None:
        before = self._roster
        self._rename()
        self._farewells.move(Translation(before, self._roster))
        self._renamed(before.names)

    def _joined(self, process: str) -> None:
        self._renumber()
        self._farewells.joined(self._index[process], self._mask(self._removed))

    def _release(self, process: str) -> None:
        self._renumber()  # those who left come last
        self._channels.forget(process)
        self._farewells.known.setdefault(self._index[process], Farewell())
        self._closed[process] = (self._reached(process), [])
        if self._levels is None:
            self._levels = {}
            for _, packet in self._hold:
                insort(self._levels.setdefault(packet.source, []), self._level(packet))
        self._left(process)
        self._refile(self._hold.wake_everything())

    def _hear(self, packet: Packet) -> None:
        """Note who left according to a packet that has arrived."""
        source, numbers = self._index.get(packet.source), self._index
        if source is None:
            return
        control = cast("tuple[object, ...]", packet.control)
        bare = control if packet.roster is self._roster else self._bare(packet)
        if bare is not control:
            left, done = (
                self._mask({name for name in cast("tuple[str, ...]", part) if name in numbers})
                for part in control[1:3]
            )
            self._farewells.hear(source, packet.n, (left, done))
        names = self._names_in(bare)
        for name in self._removed.difference(names):
            self._farewells.excuse(numbers[name], source)
        if self._removed:
            self._part()

    def _part(self) -> None:
        """Forget those who left and of whom nothing can turn up any more."""
        numbers = self._index
        peers = [numbers[name] for name in self.members if name != self.process]
        prefix = {numbers[k]: n for k, n in self._channels.prefix.items() if k in numbers}
        finished = self._farewells.advance(
            self._mask(self._removed), peers, prefix, is_quiet=not self.held
        )
        if not finished:
            return
        names = {self._names[number] for number in finished}
        for number in finished:
            self._farewells.forget(number)
        for name in names:
            self._closed.pop(name, None)
        self._retire(names)
        self._renumber()
        if not self._removed:
            self._settled()

    def _settled(self) -> None:
        """Drop what is kept only while someone is departing."""
        self._levels = None

    # States.

    def load(self, state: State) -> None:
        """Take over a state made by :meth:`state` on an endpoint of the same kind."""
        self._removed = set(state["removed"])
        self._set_up()
        self._start()
        for name, value in state["own"].items():
            setattr(self, name, value)
        if not self._check_own_state() or set(self._closed) != self._removed:
            msg = f"counts of {self.process!r} that contradict each other or its members"
            raise ValueError(msg)
        if self._levels is not None:
            for _, packet in state["held"]:
                insort(self._levels.setdefault(packet.source, []), self._level(packet))
        super().load(state)


def aligned(
    values: Iterable[int], names: tuple[str, ...], ours: tuple[str, ...]
) -> tuple[int, ...]:
    """Return counts by ``names`` as counts by our names; those that are missing count 0."""
    known = dict(zip(names, values, strict=True))
    return tuple([known.get(name, 0) for name in ours])
