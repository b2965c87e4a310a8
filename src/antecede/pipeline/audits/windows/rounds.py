"""Run windows, and run some again with more to tell, until they can be joined.

Every arrangement shares this loop. An arrangement can run a group of neighbouring windows as one:
in this process, in Spark tasks that read their own slices, or in Spark tasks that get packed blobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Protocol

import numpy as np

from antecede.pipeline.audits.windows.jit import Ints
from antecede.pipeline.audits.windows.join import Joined, Late, Lost, Open
from antecede.pipeline.audits.windows.matching import NO_OWNERS, Events, Owners
from antecede.pipeline.audits.windows.stitch import Needs
from antecede.pipeline.audits.windows.window import Request, Window, find_chains

#: After this many rounds the log is checked as one window.
ROUNDS_MAX = 12

Group = tuple[int, int]  # the first and the last window of a group


class HashCollisionError(Exception):
    """Two names have the same hash; the caller hashes again with another salt."""


class IncompleteError(Exception):
    """Some event is in no window, or in two; the caller uses another arrangement."""


class Arrangement(Protocol):
    """Where and how windows run."""

    facts: ClassVar[dict[str, str]]  # for the summary
    rejected: int = 0  # rows that are not events, where windows do not count them
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
        """Return the destinations of messages for which no window gave them, by key.

        By default none: windows give all there are, if they have the names.
        """
        return dict.fromkeys(message.key for message in messages)

    def events_of(self, group: Group) -> Events:
        """Return the events of a group of windows."""


@dataclass
class Answer:
    """The result for the whole log, still in hashes and numbers."""

    joined: Joined
    lost: list[Lost]
    windows: list[Window]
    groups: list[Group]  # which windows of the arrangement each of these is
    owners: Owners
    rounds: int


class _Questions:
    """The state of the loop: the groups, and each one's request and result."""

    def __init__(self, arrangement: Arrangement) -> None:
        self.arrangement = arrangement
        self.groups: list[Group] = [(k, k) for k in range(arrangement.windows)]
        self.requests: dict[Group, Request] = {}
        self.results: dict[Group, Window] = {}
        self.owners = NO_OWNERS

    def ask(self) -> list[Window]:
        """Run the groups that have no result yet; return all results."""
        todo = [group for group in self.groups if group not in self.results]
        work = []
        for group in todo:
            request = self.requests.get(group, Request())
            alone = len(self.groups) == 1
            work.append((group, replace(request, closed=alone, owners=self.owners)))
        self.results.update(zip(todo, self.arrangement.run(work), strict=True))
        return [self.results[group] for group in self.groups]

    def merge(self, cuts: set[int]) -> None:
        """Remove cuts, given as numbers of the groups that end at them."""
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
        """Ask a group to describe ``keys``, besides those it was asked for before."""
        group = self.groups[number]
        request = self.requests.get(group, Request())
        keys = keys | set(request.wanted.tolist())
        wanted = np.sort(np.fromiter(keys, np.int64, len(keys)))
        self.requests[group] = replace(request, wanted=wanted)
        self.results.pop(group, None)

    def find_owners(self, keys: set[int]) -> None:
        """Find the send that owns each key: the one with the least process and seq."""
        owners: dict[int, tuple[int, int]] = {}
        unknown: dict[int, set[int]] = {}
        for number, group in enumerate(self.groups):
            window = self.results[group]
            sent = keys.intersection(window.sends[np.isin(window.sends, list(keys))].tolist())
            number_of = {key: u for u, key in enumerate(window.open_key.tolist())}
            if sent - set(number_of):
                unknown[number] = sent
            for key in sent & set(number_of):
                u = number_of[key]
                place = int(window.open_sender[u]), int(window.open_seq[u])
                owners[key] = min(owners.get(key, place), place)
        for number, asked in unknown.items():
            self.want(number, asked)
        if not unknown:
            self._set_owners(owners)

    def _set_owners(self, owners: dict[int, tuple[int, int]]) -> None:
        old = zip(*(column.tolist() for column in self.owners), strict=True)
        known = {key: tuple(place) for key, *place in old} | owners
        rows = np.array([(key, *known[key]) for key in sorted(known)], np.int64).reshape(-1, 3)
        self.owners = Owners(*(rows[:, column].copy() for column in range(3)))
        for group in self.groups:
            if np.isin(self.results[group].sends, self.owners.keys).any():
                self.results.pop(group)

    def give_senders(self, numbers: set[int]) -> None:
        """Tell groups who sent the messages that enter them."""
        sent: dict[int, tuple[int, int]] = {}
        for group in self.groups:
            w = self.results[group]
            places = zip(w.open_sender.tolist(), w.open_seq.tolist(), strict=True)
            sent.update(zip(w.open_key.tolist(), places, strict=True))
        for number in numbers:
            group = self.groups[number]
            incoming = self.results.pop(group).incoming.tolist()
            senders = {key: sent[key] for key in incoming if key in sent}
            self.requests[group] = replace(self.requests.get(group, Request()), senders=senders)

    def follow(self, needs: Needs) -> None:
        """Do what the join needs; merging comes first, because it changes the rest."""
        if needs.merge:
            self.merge(needs.merge)
        elif needs.resent:
            self.find_owners(needs.resent)
        elif needs.wanted:
            for number, keys in needs.wanted.items():
                self.want(number, keys)
        else:
            self.give_senders(needs.senders)


def check(arrangement: Arrangement) -> Answer:
    """Check a log in as many rounds as it takes."""
    questions = _Questions(arrangement)
    for rounds in range(1, ROUNDS_MAX + 2):
        windows = questions.ask()
        arrangement.confirm(windows)
        joined = Joined(windows, arrangement.hashes, questions.owners.keys)
        dests = partial(_destinations, arrangement, windows)
        lost = [] if joined.needs else joined.lost(dests, arrangement.names)
        if not joined.needs:
            return Answer(joined, lost, windows, questions.groups, questions.owners, rounds)
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


def add_chains(arrangement: Arrangement, answer: Answer, wanted: Sequence[Late]) -> None:
    """Find the chains that cross the borders of windows."""
    chains = answer.joined.chains
    spans: dict[Group, list[Late]] = {}
    for late in wanted:
        if (late.process, late.key) not in chains:
            first, last = answer.groups[late.sent_window][0], answer.groups[late.effect.window][1]
            spans.setdefault((first, last), []).append(late)
    for span, lates in _cover(spans).items():
        pairs = [(late.key, late.effect.key) for late in lates]
        events = arrangement.events_of(span)
        found = find_chains(events, arrangement.hashes, answer.owners, pairs)
        keys = ((late.process, late.key) for late in lates)
        chains.update(zip(keys, found, strict=True))


def _cover(spans: dict[Group, list[Late]]) -> dict[Group, list[Late]]:
    """Merge spans into those that contain them, so that fewer events are read."""
    covered: dict[Group, list[Late]] = {}
    for span in sorted(spans, key=lambda s: s[0] - s[1]):
        home = next((c for c in covered if c[0] <= span[0] and span[1] <= c[1]), span)
        covered.setdefault(home, []).extend(spans[span])
    return covered
