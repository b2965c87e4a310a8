"""Ask windows until they can be joined: the loop that every arrangement shares.

An arrangement knows how to run a group of neighbouring windows as one; where they run (here, in
Spark tasks that read their own slices, in Spark tasks that get packed blobs) is its own affair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from antecede.pipeline.audits.windows.join import Joined, Late, Lost, Open
from antecede.pipeline.audits.windows.window import Request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from antecede.pipeline.audits.windows.jit import Ints
    from antecede.pipeline.audits.windows.stitch import Again
    from antecede.pipeline.audits.windows.window import Window

#: After so many rounds of questions the log is checked as one window.
ROUNDS_MAX = 12

Group = tuple[int, int]  # the first and the last window of a group

_NONE = np.empty(0, np.int64)


class HashCollision(Exception):  # noqa: N818  (a signal to hash again, never seen by users)
    """Two names have the same hash."""


class Incomplete(Exception):  # noqa: N818  (a signal to arrange the log otherwise)
    """Some event is in no window, or in two."""


class Arrangement(Protocol):
    """Where and how windows run."""

    names: list[str]  # all processes, sorted
    hashes: Ints  # of these names
    windows: int

    def run(self, work: Sequence[tuple[Group, Request]]) -> list[Window]:
        """Run each group of windows as one window."""
        ...

    def confirm(self, windows: Sequence[Window]) -> None:
        """Raise :class:`Incomplete` unless every event is in exactly one window."""
        ...

    def spell(self, keys: Sequence[int]) -> Mapping[int, str]:
        """Return the names of messages that no window has named."""
        ...

    def dests(self, messages: Sequence[Open]) -> Mapping[int, tuple[str, ...] | None]:
        """Return the stated destinations of messages of which no window told them."""
        ...

    def chains(
        self, group: Group, settled: tuple[Ints, Ints, Ints], pairs: Sequence[tuple[int, int]]
    ) -> list[list[int]]:
        """Return shortest chains between keys sent within a group of windows."""
        ...


@dataclass
class Answer:
    """The log's answer in hashes and numbers."""

    joined: Joined
    lost: list[Lost]
    windows: list[Window]
    groups: list[Group]  # which windows of the arrangement each of these is
    settled: tuple[Ints, Ints, Ints]
    rounds: int


class _Questions:
    """The state of the loop: which groups there are, what each is asked, what it said."""

    def __init__(self, arrangement: Arrangement) -> None:
        self.where = arrangement
        self.groups: list[Group] = [(k, k) for k in range(arrangement.windows)]
        self.requests: dict[Group, Request] = {}
        self.results: dict[Group, Window] = {}
        self.settled: tuple[Ints, Ints, Ints] = (_NONE, _NONE, _NONE)

    def ask(self) -> list[Window]:
        """Run what has to be run."""
        todo = [group for group in self.groups if group not in self.results]
        work = []
        for group in todo:
            request = self.requests.get(group, Request())
            alone = len(self.groups) == 1
            work.append((group, replace(request, closed=alone, settled=self.settled)))
        self.results.update(zip(todo, self.where.run(work), strict=True))
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
        """Ask a group to tell of ``keys``, besides what it was asked before."""
        group = self.groups[number]
        request = self.requests.get(group, Request())
        keys = keys | set(request.wanted.tolist())
        wanted = np.sort(np.fromiter(keys, np.int64, len(keys)))
        self.requests[group] = replace(request, wanted=wanted)
        self.results.pop(group, None)

    def settle(self, keys: set[int]) -> None:
        """Find out which send owns each key; the least process and seq does."""
        owners: dict[int, tuple[int, int]] = {}
        unknown: dict[int, set[int]] = {}
        for number, group in enumerate(self.groups):
            window = self.results[group]
            sent = keys.intersection(window.sends[np.isin(window.sends, list(keys))].tolist())
            told = dict(zip(window.open_key.tolist(), range(window.open_key.size), strict=True))
            if sent - set(told):
                unknown[number] = sent
            for key in sent & set(told):
                u = told[key]
                place = int(window.open_sender[u]), int(window.open_seq[u])
                owners[key] = min(owners.get(key, place), place)
        for number, asked in unknown.items():
            self.want(number, asked)
        if not unknown:
            self._settle(owners)

    def _settle(self, owners: dict[int, tuple[int, int]]) -> None:
        known = dict(
            zip(self.settled[0].tolist(), zip(*self.settled[1:], strict=True), strict=True)
        )
        known.update(owners)
        keys = sorted(known)
        self.settled = (
            np.array(keys, np.int64),
            np.array([known[key][0] for key in keys], np.int64),
            np.array([known[key][1] for key in keys], np.int64),
        )
        for group in self.groups:
            if np.isin(self.results[group].sends, self.settled[0]).any():
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

    def follow(self, again: Again) -> None:
        """Carry out what the join asked for; merging comes first, for it changes the rest."""
        if again.merge:
            self.merge(again.merge)
        elif again.repeated:
            self.settle(again.repeated)
        elif again.wanted:
            for number, keys in again.wanted.items():
                self.want(number, keys)
        else:
            self.give_senders(again.senders)


def check(where: Arrangement) -> Answer:
    """Check a log, however many rounds of questions that takes."""
    questions = _Questions(where)
    for rounds in range(1, ROUNDS_MAX + 2):
        windows = questions.ask()
        where.confirm(windows)
        joined = Joined(windows, where.hashes, questions.settled[0])
        lost = [] if joined.again else joined.lost(partial(_stated, where, windows), where.names)
        if not joined.again:
            return Answer(joined, lost, windows, questions.groups, questions.settled, rounds)
        questions.follow(joined.again)
        if rounds == ROUNDS_MAX:
            questions.merge(set(range(len(questions.groups))))
    msg = "a log checked as one window asks no questions"
    raise AssertionError(msg)


def _stated(
    where: Arrangement, windows: Sequence[Window], messages: Sequence[Open]
) -> Mapping[int, tuple[str, ...] | None]:
    """Return messages' destinations, as the sends that own them state them."""
    told = {m.key: windows[m.window].dests.get(m.key) for m in messages}
    untold = [m for m in messages if told[m.key] is None]
    return {**told, **where.dests(untold)} if untold else told


def add_chains(where: Arrangement, answer: Answer, wanted: Sequence[Late]) -> None:
    """Find the chains that no window could, because they cross its borders."""
    chains = answer.joined.chains
    spans: dict[Group, list[Late]] = {}
    for late in wanted:
        if (late.process, late.key) not in chains:
            first, last = answer.groups[late.sent_window][0], answer.groups[late.effect.window][1]
            spans.setdefault((first, last), []).append(late)
    for span, lates in _cover(spans).items():
        pairs = [(late.key, late.effect.key) for late in lates]
        found = where.chains(span, answer.settled, pairs)
        keys = ((late.process, late.key) for late in lates)
        chains.update(zip(keys, found, strict=True))


def _cover(spans: dict[Group, list[Late]]) -> dict[Group, list[Late]]:
    """Put spans into those that contain them, so that fewer events are read."""
    covered: dict[Group, list[Late]] = {}
    for span in sorted(spans, key=lambda s: s[0] - s[1]):
        home = next((c for c in covered if c[0] <= span[0] and span[1] <= c[1]), span)
        covered.setdefault(home, []).extend(spans[span])
    return covered
