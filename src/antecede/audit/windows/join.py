"""Join the windows at their cuts: replace symbols in the vectors by values.

The windows are taken in order. So the clocks of all processes at each cut, and of all messages that
cross it, become known, and these decide every delivery that crossed a cut. Memory: ``8 n`` bytes
for each message that crosses a cut, three n by n tables per window, and 8 bytes per message to
check that none was sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from antecede.arrays import Ints
from antecede.audit.windows.clocks import codes_of
from antecede.audit.windows.stitch import Needs, ask, decide, first_rise, resolve
from antecede.audit.windows.window import Window
from antecede.memory import require_memory


class Open(NamedTuple):
    """A send that was not delivered everywhere inside its own window."""

    key: int
    window: int
    number: int  # index in that window's list
    sender: int
    position: int  # among all events of its sender
    seq: int


class Effect(NamedTuple):
    """The delivery that overtook: its message and its place in the process's order."""

    key: int
    sender: int
    position: int
    seq: int
    window: int


class Late(NamedTuple):
    """A violation: ``key`` was delivered at ``process`` after ``effect``."""

    process: int
    key: int
    sender: int
    position: int
    seq: int
    sent_window: int
    effect: Effect

    @property
    def lateness(self) -> int:
        """Events of the process between the two deliveries."""
        return self.position - self.effect.position - 1


class Lost(NamedTuple):
    """A message that a destination never delivered, although it delivered one of its effects."""

    process: int
    key: int
    sender: int
    effect: Effect


@dataclass
class _Stage:
    """A joined window, with the data for looking back into it."""

    window: Window
    before: Ints  # process -> its events in earlier windows
    known: Ints  # process -> clock of what it had delivered at the window's start
    sources: Ints  # symbol -> clock
    clocks: Ints  # open message that was described -> clock


class Joined:
    """The result for the whole log, in hashes and numbers, unless ``needs`` is not empty."""

    def __init__(self, windows: Sequence[Window], names: Ints) -> None:
        self.names = names
        self.needs: Needs = ask(windows)
        self.open: dict[int, Open] = {}
        self.late: list[Late] = []
        self.chains: dict[tuple[int, int], list[int]] = {}
        self.unsent: list[tuple[int, int, int]] = []  # process, seq, key
        self.redelivered: list[tuple[int, int, int]] = []
        self.stages: list[_Stage] = []
        self._left: dict[int, int] = {}
        self._got: set[tuple[int, int]] = set()
        self._delivered: set[int] = set()  # keys of open sends that were delivered
        self.paired_sends = sum(window.paired[0] for window in windows)
        self.paired_deliveries = sum(window.paired[1] for window in windows)
        if self.needs:
            return
        n = names.size
        crossing = sum(window.open_vector.shape[0] for window in windows)
        what = f"the clocks of {crossing:,} messages that cross cuts, of {n:,} processes,"
        require_memory(8 * n * crossing, what, "use fewer windows, as with --windows 1")
        start = np.zeros(n, np.int64), np.zeros((n, n), np.int64), np.zeros((n, n), np.int64)
        for window in windows:
            start = self._step(window, *start)
        _, self.past, self.final = start

    def _step(
        self, window: Window, before: Ints, entry: Ints, known: Ints
    ) -> tuple[Ints, Ints, Ints]:
        """Join one window; return the state at the start of the next one."""
        _, cross = codes_of(window.cross, self.names.size)
        entering = [self.open.get(key) for key in window.incoming.tolist()]
        clocks = np.zeros((len(entering), self.names.size), np.int64)
        for b, message in enumerate(entering):
            if message is not None:
                stage = self.stages[message.window]
                row = np.searchsorted(stage.window.open_detailed, message.number)
                clocks[b] = stage.clocks[row]
        vectors = resolve(window.open_vector, entry, before, clocks, cross)
        stage = _Stage(window, before, known, np.concatenate((entry, clocks)), vectors)
        self.stages.append(stage)
        self._arrive(stage, entering)
        self._inside(stage)
        self._leave(stage)
        state = resolve(window.state, entry, before, clocks, cross)
        delivered = resolve(window.delivered, entry, before, clocks, cross)
        after = before + window.count
        np.fill_diagonal(state, after)
        return after, state, np.maximum(known, delivered)

    def _arrive(self, stage: _Stage, entering: list[Open | None]) -> None:
        """Judge the messages sent in an earlier window and delivered in this one."""
        arrivals = stage.window.arrivals
        judged = np.ones(len(arrivals), np.bool_)
        for row, (b, process, _, seq) in enumerate(arrivals.tolist()):
            message, key = entering[b], int(stage.window.incoming[b])
            if (key, process) in self._got:
                self.redelivered.append((process, seq, key))
                judged[row] = False
            elif message is None:
                self.unsent.append((process, seq, key))
                judged[row] = False
            else:
                self._left[key] ^= int(self.names[process])
                self.paired_deliveries += 1
                self.paired_sends += key not in self._delivered
                self._delivered.add(key)
            self._got.add((key, process))
        sender = np.array([m.sender if m else 0 for m in entering], np.int64)
        place = np.array([m.position if m else 0 for m in entering], np.int64)
        late = decide(
            arrivals, judged, sender, place, stage.window.rises, stage.known, stage.sources
        )
        for b, process, position, seq in arrivals[late].tolist():
            message = entering[b]
            assert message is not None
            effect = self.first_effect(message, process, len(self.stages) - 1)
            if effect is not None:
                key, sent_by = message.key, message.sender
                at = int(stage.before[process]) + position
                self.late.append(Late(process, key, sent_by, at, seq, message.window, effect))

    def _inside(self, stage: _Stage) -> None:
        """Add the violations between messages of one window."""
        number = len(self.stages) - 1
        for row, values in enumerate(stage.window.late.tolist()):
            process, position, seq, key, sender, other, other_sender, place, place_seq = values
            start = int(stage.before[process])
            effect = Effect(other, other_sender, start + place, place_seq, number)
            self.late.append(Late(process, key, sender, start + position, seq, number, effect))
            if row in stage.window.chains:
                self.chains[process, key] = stage.window.chains[row]

    def _leave(self, stage: _Stage) -> None:
        """Keep the messages that are not delivered everywhere yet."""
        window, number = stage.window, len(self.stages) - 1
        keys, senders = window.open_key.tolist(), window.open_sender
        places = (stage.before[senders] + window.open_position).tolist()
        for u, (key, seq) in enumerate(zip(keys, window.open_seq.tolist(), strict=True)):
            self.open[key] = Open(key, number, u, int(senders[u]), places[u], seq)
            self._left[key] = int(window.open_left[u]) if window.open_known[u] else 0
        for u, process in window.open_got.tolist():
            self._got.add((keys[u], process))
            self._delivered.add(keys[u])

    def first_effect(self, message: Open, process: int, last: int) -> Effect | None:
        """Return the first effect of ``message`` delivered at ``process``, up to a window.

        None means that the send's window must first describe the message (see ``needs``).
        """
        at = message.window
        while at < last and self._known(at + 1)[process, message.sender] < message.position:
            at += 1
        stage = self.stages[at]
        start, window = int(stage.before[process]), stage.window
        if at > message.window:
            r = first_rise(window.rises, stage.sources, process, message.sender, message.position)
            _, place, seq, key, sender, _ = window.rises[r].tolist()
            owner = self.open[key].sender if sender < 0 else sender
            return Effect(key, owner, start + place, seq, at)
        first = window.open_first
        rows = first[(first[:, 0] == message.number) & (first[:, 1] == process)].tolist()
        if not rows:
            assert message.number not in window.open_detailed
            self.needs.want(message.window, message.key)
            return None
        _, _, key, sender, place, seq = rows[0]
        return Effect(key, sender, start + place, seq, at)

    def clock(self, message: Open) -> Ints | None:
        """Return how many events of each process happened before a send, including the send.

        None means that its window must describe it first.
        """
        stage = self.stages[message.window]
        detailed = stage.window.open_detailed
        row = int(np.searchsorted(detailed, message.number))
        if row == detailed.size or detailed[row] != message.number:
            return None
        return stage.clocks[row]

    def _known(self, number: int) -> Ints:
        return self.stages[number].known if number < len(self.stages) else self.final

    def incomplete(self) -> list[Open]:
        """Return the messages that some stated destination has not delivered."""
        return [message for key, message in self.open.items() if self._left[key]]

    def came_back(self) -> list[Open]:
        """Return the incomplete messages that their own senders have delivered."""
        return [m for m in self.incomplete() if (m.key, m.sender) in self._got]

    def unaddressed(self) -> list[Open]:
        """Return the messages that nobody delivered and whose destinations are not stated."""
        windows = [stage.window for stage in self.stages]
        return [
            message
            for key, message in self.open.items()
            if key not in self._delivered
            and message.number < windows[message.window].open_sends
            and not windows[message.window].open_known[message.number]
        ]

    def undelivered(
        self,
        dests: Callable[[Sequence[Open]], Mapping[int, tuple[str, ...] | None]],
        names: list[str],
    ) -> list[tuple[int, int]]:
        """Return (key, process) where a stated destination has not delivered the message."""
        number = {name: p for p, name in enumerate(names)}
        waiting = self.incomplete()
        stated = dests(waiting)
        places = [
            (message.key, number[dest])
            for message in waiting
            for dest in sorted(set(stated.get(message.key) or ()))
            if dest in number
        ]
        return [place for place in places if place not in self._got]

    def lost(
        self,
        dests: Callable[[Sequence[Open]], Mapping[int, tuple[str, ...] | None]],
        names: list[str],
        arrived: Collection[tuple[int, int]] = (),
    ) -> list[Lost]:
        """Return the messages that are missing; ``dests`` looks up the destinations of messages.

        ``arrived`` are (key, process) whose message may have been delivered there unrecognised.
        """
        waiting = [m for m in self.incomplete() if (self.final[:, m.sender] >= m.position).any()]
        if not waiting:
            return []
        number = {name: p for p, name in enumerate(names)}
        stated = dests(waiting)
        found = []
        for message in waiting:
            for p in sorted({number[d] for d in stated.get(message.key) or () if d in number}):
                reached = self.final[p, message.sender] >= message.position
                place = message.key, p
                if reached and place not in self._got and place not in arrived:
                    effect = self.first_effect(message, p, len(self.stages) - 1)
                    if effect is not None:
                        found.append(Lost(p, message.key, message.sender, effect))
        return found
