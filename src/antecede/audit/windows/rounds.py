"""Run windows, and repeat some to get more information, until they can be joined.

Every arrangement shares this loop. An arrangement can run a group of neighbouring windows as one:
in this process, in Spark tasks that read their own slices, or in Spark tasks that get packed blobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Protocol

import numpy as np

from antecede.arrays import Ints
from antecede.audit.windows.copies import Copies, Settled, settle
from antecede.audit.windows.hidden import EVENTS_MAX, Hidden, Place, find_hidden
from antecede.audit.windows.join import Joined, Late, Lost, Open
from antecede.audit.windows.matching import Events
from antecede.audit.windows.stitch import Needs
from antecede.audit.windows.window import Request, Window, find_chains
from antecede.memory import require_memory

#: After this many rounds the log is checked as one window.
ROUNDS_MAX = 12
#: The least memory, in bytes, that a window and the join need for each pair of processes.
BYTES_PER_PAIR = 40

Group = tuple[int, int]  # the first and the last window of a group


class HashCollisionError(Exception):
    """Two names have the same hash; the caller hashes again with another salt."""


class IncompleteError(Exception):
    """Some event is in no window, or in two; the caller uses another arrangement."""


class Arrangement(Protocol):
    """Where and how windows run."""

    facts: Mapping[str, str]  # for the summary
    rejected: int = 0  # rows that are not events, if windows do not count them
    has_clocks: bool = False
    alias: Mapping[int, int] = MappingProxyType({})  # new keys of messages -> those of their names
    ahead: Sequence[tuple[int, int, int]] = ()  # events whose clock is ahead: process, seq, key
    names: list[str]  # all processes, sorted
    hashes: Ints  # of these names
    windows: int

    def run(self, work: Sequence[tuple[Group, Request]]) -> list[Window]:
        """Run each group of windows as one window."""

    def confirm(self, windows: Sequence[Window]) -> None:
        """Raise :class:`IncompleteError` unless every event is in exactly one window."""

    def names_of(self, keys: Sequence[int]) -> Mapping[int, str]:
        """Return the names of messages that no window has named, by key."""

    def dests(self, messages: Sequence[Open]) -> Mapping[int, tuple[str, ...] | None]:
        """Return the destinations of messages, by key, that no window gave.

        None by default: windows that have the names give all destinations.
        """
        return dict.fromkeys(message.key for message in messages)

    def copies(self, keys: Ints) -> Copies:
        """Return all sends and deliveries of some messages, given by key (sorted)."""

    def events_of(self, group: Group) -> Events:
        """Return the events of a group of windows."""


@dataclass
class Answer:
    """The result for the whole log, still in hashes and numbers."""

    joined: Joined
    lost: list[Lost]
    windows: list[Window]
    groups: list[Group]  # which windows of the arrangement each of these is
    settled: Settled
    rounds: int


class _Questions:
    """The state of the loop: the groups, and each one's request and result."""

    def __init__(self, arrangement: Arrangement) -> None:
        self.arrangement = arrangement
        self.groups: list[Group] = [(k, k) for k in range(arrangement.windows)]
        self.requests: dict[Group, Request] = {}
        self.results: dict[Group, Window] = {}
        self.settled = Settled()
        self.copies: Copies | None = None
        self.keys: set[int] = set()  # of messages that were settled
        self.earliest: dict[int, int] = {}  # key -> process whose send came first

    def ask(self) -> list[Window]:
        """Run the groups without a result; return all results."""
        todo = [group for group in self.groups if group not in self.results]
        work = []
        for group in todo:
            request = self.requests.get(group, Request())
            alone = len(self.groups) == 1
            work.append((group, replace(request, closed=alone, patch=self.settled.patch)))
        self.results.update(zip(todo, self.arrangement.run(work), strict=True))
        return [self.results[group] for group in self.groups]

    def merge(self, cuts: set[int]) -> None:
        """Remove cuts, given as the numbers of the groups that end at them."""
        merged: list[Group] = []
        for number, group in enumerate(self.groups):
            if number and number - 1 in cuts:
                merged[-1] = (merged[-1][0], group[1])
            else:
                merged.append(group)
        self.groups = merged
        if len(merged) == 1:
            self.results.clear()

    def want(self, number: int, keys: set[int]) -> None:
        """Ask a group to describe ``keys``, in addition to earlier ones."""
        group = self.groups[number]
        request = self.requests.get(group, Request())
        keys = keys | set(request.wanted.tolist())
        wanted = np.sort(np.fromiter(keys, np.int64, len(keys)))
        self.requests[group] = replace(request, wanted=wanted)
        self.results.pop(group, None)

    def settle(self, keys: set[int]) -> None:
        """Settle messages that were sent several times, and run their windows again."""
        self.keys |= keys
        wanted = np.sort(np.fromiter(self.keys, np.int64, len(self.keys)))
        self.copies = self.arrangement.copies(wanted)
        self._patch()

    def _patch(self) -> None:
        assert self.copies is not None
        self.settled = settle(self.copies, self.earliest)
        self.arrangement.alias = self.settled.alias
        self.results.clear()
        for group, request in self.requests.items():
            self.requests[group] = replace(request, senders=None)  # Keys have changed.

    def find_earliest(self, joined: Joined) -> bool:
        """Compare the origins of messages; return whether anything has to run again."""
        undescribed = False
        found: dict[int, int] = {}
        for name, rivals in self.settled.rivals.items():
            clocks = {}
            for key, process in rivals.items():
                message = joined.open.get(key)
                clock = joined.clock(message) if message else None
                if message is None or clock is None:
                    undescribed = True
                    for number in range(len(self.groups)):
                        self.want(number, set(rivals))
                    break
                clocks[process] = (message.position, clock)
            for p, (place, _) in clocks.items() if len(clocks) == len(rivals) else ():
                if all(clock[p] >= place for _, clock in clocks.values()):
                    found[name] = p
        if found and not undescribed:
            self.earliest |= found
            self._patch()
        return undescribed or bool(found)

    def give_senders(self, numbers: set[int]) -> None:
        """Give groups the senders of the messages that enter them."""
        sent: dict[int, tuple[int, int]] = {}
        before = np.zeros(len(self.arrangement.names), np.int64)
        for group in self.groups:
            w = self.results[group]
            order = (before[w.open_sender] + w.open_position).tolist()
            before += w.count
            places = zip(w.open_sender.tolist(), order, strict=True)
            sent.update(zip(w.open_key.tolist(), places, strict=True))
        for number in numbers:
            group = self.groups[number]
            incoming = self.results.pop(group).incoming.tolist()
            senders = {key: sent[key] for key in incoming if key in sent}
            self.requests[group] = replace(self.requests.get(group, Request()), senders=senders)

    def follow(self, needs: Needs) -> None:
        """Do what the join needs; merge first, because that changes the rest."""
        if needs.merge:
            self.merge(needs.merge)
        elif needs.resent:
            self.settle(needs.resent)
        elif needs.wanted:
            for number, keys in needs.wanted.items():
                self.want(number, keys)
        else:
            self.give_senders(needs.senders)


def check(arrangement: Arrangement) -> Answer:
    """Check a log in as many rounds as it takes."""
    n = len(arrangement.names)
    mend = "name processes by service, not by request or session, or audit a part of the log"
    require_memory(BYTES_PER_PAIR * n**2, f"the vector clocks of {n:,} processes", mend)
    questions = _Questions(arrangement)
    rounds = 0
    while True:
        joined, lost, windows, more = _check(arrangement, questions)
        rounds += more
        cyclic = {key for window in windows for key in window.cycles[:, 2].tolist()}
        cyclic = {questions.settled.alias.get(key, key) for key in cyclic} - questions.keys
        strange = cyclic | (_came_back(arrangement, joined, windows) - questions.keys)
        if strange:
            questions.settle(strange)
        elif not questions.find_earliest(joined):
            found = questions.groups, questions.settled
            return Answer(joined, lost, windows, *found, rounds)


def _came_back(arrangement: Arrangement, joined: Joined, windows: Sequence[Window]) -> set[int]:
    """Return the messages that their own senders delivered although they were for others."""
    some = joined.came_back()
    stated = _destinations(arrangement, windows, some)
    return {
        message.key
        for message in some
        if arrangement.names[message.sender] not in (stated[message.key] or ())
    }


def _check(
    arrangement: Arrangement, questions: _Questions
) -> tuple[Joined, list[Lost], list[Window], int]:
    """Run windows until they can be joined; return also the number of rounds."""
    for rounds in range(1, ROUNDS_MAX + 2):
        windows = questions.ask()
        arrangement.confirm(windows)
        joined = Joined(windows, arrangement.hashes)
        dests = partial(_destinations, arrangement, windows)
        arrived = questions.settled.arrived
        lost = [] if joined.needs else joined.lost(dests, arrangement.names, arrived)
        if not joined.needs:
            return joined, lost, windows, rounds
        questions.follow(joined.needs)
        if rounds == ROUNDS_MAX:
            questions.merge(set(range(len(questions.groups))))
    msg = "a log that is one window needs nothing more"
    raise AssertionError(msg)


def _destinations(
    arrangement: Arrangement, windows: Sequence[Window], messages: Sequence[Open]
) -> Mapping[int, tuple[str, ...] | None]:
    """Return the destinations of messages, as stated by the sends that own them."""
    known = {m.key: windows[m.window].dests.get(m.key) for m in messages}
    unknown = [m for m in messages if known[m.key] is None]
    return {**known, **arrangement.dests(unknown)} if unknown else known


def absent(arrangement: Arrangement, answer: Answer) -> list[tuple[int, int]]:
    """Return (key, process) where a stated destination in the log has not delivered a message."""
    dests = partial(_destinations, arrangement, answer.windows)
    found = answer.joined.undelivered(dests, arrangement.names)
    # Settled messages have their own destinations.
    return [(key, p) for key, p in found if key not in answer.settled.alias]


def has_strangers(arrangement: Arrangement, answer: Answer) -> bool:
    """Return whether a message is for a process that has no events."""
    waiting = [m for m in answer.joined.incomplete() if m.key not in answer.settled.alias]
    stated = _destinations(arrangement, answer.windows, waiting)
    known = set(arrangement.names)
    return any(not known.issuperset(dests or ()) for dests in stated.values())


def shows_gaps(answer: Answer, absent: list[tuple[int, int]]) -> bool:
    """Return whether a clock counts a send addressed to its process but never delivered there."""
    joined = answer.joined
    unaddressed = [m for m in joined.unaddressed() if m.key not in answer.settled.alias]
    places = [(joined.open[key], [p]) for key, p in absent]
    places += [(m, list(range(joined.names.size))) for m in unaddressed]
    return any(
        joined.past[p, m.sender] >= m.position > joined.final[p, m.sender]
        for m, some in places
        for p in some
        if p != m.sender
    )


def hidden(
    arrangement: Arrangement, answer: Answer, absent: list[tuple[int, int]], *, until_end: bool
) -> Hidden | None:
    """Return what the events missing from the log can hide, if anything."""
    if until_end and not _is_strange(answer) and not answer.settled.undelivered:
        return _unaddressed(answer)
    if sum(window.events for window in answer.windows) > EVENTS_MAX:
        return Hidden(None)
    events = arrangement.events_of((0, arrangement.windows - 1))
    return find_hidden(events, arrangement.hashes, answer.settled, absent, until_end=until_end)


def _is_strange(answer: Answer) -> bool:
    """Return whether deliveries in the log bring order that the log does not show."""
    settled = answer.settled
    known = [settled.alone.get(key, "") for _, _, key in answer.joined.unsent]
    return any(why is not None for why in known) or bool(settled.maybe or settled.unknown)


def _unaddressed(answer: Answer) -> Hidden | None:
    """Find an undelivered send to unknown destinations, if a process has one of its effects."""
    final = answer.joined.final
    for message in answer.joined.unaddressed():
        reached = np.flatnonzero(final[:, message.sender] >= message.position)
        others = reached[reached != message.sender]
        if others.size:
            return Hidden(Place(int(others[0]), message.key, None))
    return None


def add_chains(arrangement: Arrangement, answer: Answer, wanted: Sequence[Late]) -> None:
    """Find the chains that cross window borders."""
    chains = answer.joined.chains
    spans: dict[Group, list[Late]] = {}
    for late in wanted:
        if (late.process, late.key) not in chains:
            first, last = answer.groups[late.sent_window][0], answer.groups[late.effect.window][1]
            spans.setdefault((first, last), []).append(late)
    for span, lates in _cover(spans).items():
        pairs = [(late.key, late.effect.key) for late in lates]
        events = arrangement.events_of(span)
        found = find_chains(events, arrangement.hashes, answer.settled.patch, pairs)
        keys = ((late.process, late.key) for late in lates)
        chains.update(zip(keys, found, strict=True))


def _cover(spans: dict[Group, list[Late]]) -> dict[Group, list[Late]]:
    """Merge spans into those that contain them, so that fewer events are read."""
    covered: dict[Group, list[Late]] = {}
    for span in sorted(spans, key=lambda s: s[0] - s[1]):
        home = next((c for c in covered if c[0] <= span[0] and span[1] <= c[1]), span)
        covered.setdefault(home, []).extend(spans[span])
    return covered
