"""The base of protocols that count by names, and whose members may join and leave.

A control gives *levels*: for each process, how far it had come in the past of the message. A packet
waits until every process has reached, here, the level that the packet asks for. Controls name the
processes that they count, so members may be added in any order, and a packet of someone with other
members can be read.

A removed process sends nothing more. What is held of it is still delivered, in order; the rest is
lost. A packet then waits for the levels of a removed process only as far as packets up to them are
held, and its delivery names the newest one that is lost in ``unmet``. Nothing else is left out of a
control, so order holds among all messages that are delivered.

While someone who left is not forgotten, controls are wrapped: they say who has left and who is
done; see :mod:`antecede.core.farewells`.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, cast

from antecede.core.endpoint import Endpoint
from antecede.core.farewells import FORGOTTEN_MAX, Farewell, Farewells, Named
from antecede.core.kinds import NAME
from antecede.core.messages import Delivery, Need, Packet, Sending
from antecede.core.roster import Roster, roster_of
from antecede.core.stamps import Translation
from antecede.core.state import State
from antecede.core.validation import COUNT_MAX, are_names, malformed
from antecede.errors import UnknownProcessError

Interval = tuple[int, int]
NEVER: Final = 2 * COUNT_MAX
"""The level that a process had reached which left before we joined: it never sent us anything."""


class Retiring(Endpoint):
    """An endpoint that forgets the names of those who left."""

    def _retire(self, names: set[str]) -> None:
        """Forget processes that were removed, and what identified duplicates of their packets."""
        self._removed -= names
        for name in names:
            self._channels.prefix.pop(name, None)
            self._channels.ahead.pop(name, None)
        self._forgotten = dict.fromkeys([*self._forgotten, *sorted(names)][-FORGOTTEN_MAX:])


class Counted(Retiring):
    """One process's side of a protocol that carries levels by name."""

    STATE: ClassVar[dict[str, object]] = {
        "_partings": {NAME: (bool, {NAME}, {NAME: int}, {NAME: int}, {NAME})},
        "_closed": {NAME: (int, [(int, int)])},
    }
    UNIT: ClassVar[str] = "count"

    def _set_up(self) -> None:
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
        names = tuple(sorted({*self.members, *self._removed}))
        self._roster: Roster = roster_of(names)
        self._names = self._roster.names
        self._index = self._roster.numbers
        self._me = self._index[self.process]
        self._last: tuple[Packet | None, object] = (None, None)
        """The packet looked at last, and what it carries by our names; it is needed a few times."""

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

    def _check_levels(self, packet: Packet, control: object, /) -> None:
        """Refuse a control that is not well-formed."""
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

    # Send and receive.

    def _post(self, sending: Sending) -> None:
        if not self._removed:
            super()._post(sending)
            return
        gone = self._mask(self._removed)
        left, done = map(self._roster.sorted_names, self._farewells.news(gone))
        for dest, control in self._stamp(sending).items():
            self._emit(dest, (None, left, done, control), sending)
        self._farewells.tell(self._mask(set(sending.others)))
        self._part()

    @staticmethod
    def _bare(packet: Packet) -> object:
        """Return a control without what it says about those who left."""
        control = packet.control
        if type(control) is tuple and len(control) == 4 and control[0] is None:
            return cast("object", control[3])
        return control

    def _check_packet(self, packet: Packet) -> None:
        try:
            super()._check_packet(packet)
        except UnknownProcessError:  # a duplicate may name those who are forgotten
            if not self._is_seen(packet):
                raise

    def _check(self, packet: Packet) -> None:
        control = packet.control
        done: frozenset[object] = frozenset()
        bare = self._bare(packet)
        if bare is not control:
            _, left, done_names, _ = cast("tuple[object, ...]", control)
            if not are_names(left) or not left or not are_names(done_names):
                raise malformed(packet, "sorted names of those who left, and of those done with")
            done = frozenset(cast("tuple[str, ...]", done_names))
            if not done <= set(cast("tuple[str, ...]", left)):
                raise malformed(packet, "that its sender is done only with those who left")
        self._check_levels(packet, bare)
        names = self._names_in(bare)
        if names != self._names:
            if packet.source not in names or self.process not in names:
                raise malformed(packet, f"levels of {packet.source!r} and {self.process!r} too")
            strange = [name for name in names if name not in self._index and name not in done]
            if strange:  # one that it only names, and that we have forgotten, does not matter
                counted = self._counted(bare)
                self._check_names(packet, (name for name in strange if name in counted))

    def _on_data(self, packet: Packet) -> None:
        if self._removed or packet.control is not self._bare(packet):
            super()._on_data(packet)
            self._hear(packet)
        elif self.pull or self._first_unmet(packet) is not None:
            super()._on_data(packet)
        else:  # it is the only one that is ready, so it need not enter the holding buffer
            self._hold.arrivals += 1
            self._deliver(packet)
            self._drain()

    def _arrive(self, packet: Packet) -> None:
        if self._levels is not None:
            insort(self._levels.setdefault(packet.source, []), self._level(packet))
        super()._arrive(packet)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        for process, level in self._wanted(packet):
            yield self._need(process, level)

    def _first_unmet(self, packet: Packet) -> Need | None:
        if self._removed:
            return super()._first_unmet(packet)
        for process, level in self._wanted(packet):
            return self._need(process, level)
        return None

    def _awaited_needs(self, packet: Packet) -> Iterator[Need]:
        """Yield what the packet waits for and what may still come."""
        if not self._removed:
            yield from self._unmet(packet)
            return
        for process, level in self._wanted(packet):
            if process not in self._removed and not self._is_assured(process, level):
                yield self._need(process, level)
            elif (held := self._newest_held(process, level)) is not None:
                yield self._need(process, held)

    def _newest_held(self, process: str, level: int) -> int | None:
        """Return the newest level up to this one of what is held of a process."""
        levels = (self._levels or {}).get(process, [])
        place = bisect_right(levels, level)
        return levels[place - 1] if place else None

    def _deliver(self, packet: Packet) -> None:
        assert packet.message is not None
        unmet = tuple(self._lost(packet)) if self._removed else ()
        self._events += 1
        self._delivered.append(
            Delivery(packet.message, packet.dests, packet.payload, self._events, unmet)
        )
        if self._levels is not None:
            self._no_longer_held(packet)
        reached = self._absorb(packet)
        if self._hold.waiting:
            for need in reached:
                self._refile(self._hold.wake(need))

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
        bare = self._bare(packet)
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

    @property
    def _partings(self) -> Named:
        return self._farewells.named(self._roster)

    @_partings.setter
    def _partings(self, partings: Named) -> None:
        self._farewells.read(partings, self._roster)

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
