"""The rows of a batch that need nothing but what is delivered and each other: compiled.

Most rows of a stream are of this kind. The machine takes the rest one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecede.pipeline.audits.windows.jit import Flags, Ints, jit
from antecede.pipeline.streams.memory import Keys


@jit
def _in_order(offsets: Ints, causes: Ints, candidates: Flags) -> Ints:
    """Return the candidates whose causes are all delivered, each after its causes.

    A cause is the number of a row, or -1 if it is delivered already, or -2 if it is not here.
    """
    rows = offsets.size - 1
    lacking = np.zeros(rows, np.int64)
    starts = np.zeros(rows + 1, np.int64)
    for row in range(rows):
        for at in range(offsets[row], offsets[row + 1]):
            if causes[at] == -2:
                lacking[row] += rows + causes.size  # Never ready.
            elif causes[at] >= 0:
                lacking[row] += 1
                starts[causes[at] + 1] += 1
    for row in range(rows):
        starts[row + 1] += starts[row]
    effects = np.empty(starts[rows], np.int64)
    filled = starts.copy()
    queue = np.empty(rows, np.int64)
    count = 0
    for row in range(rows):
        for at in range(offsets[row], offsets[row + 1]):
            if causes[at] >= 0:
                effects[filled[causes[at]]] = row
                filled[causes[at]] += 1
        if candidates[row] and lacking[row] == 0:
            queue[count] = row
            count += 1
    done = 0
    while done < count:
        row = queue[done]
        done += 1
        for at in range(starts[row], starts[row + 1]):
            effect = effects[at]
            lacking[effect] -= 1
            if lacking[effect] == 0 and candidates[effect]:
                queue[count] = effect
                count += 1
    return queue[:count].copy()


class Rows(NamedTuple):
    """The rows of a batch as arrays, in an order that their contents alone decide."""

    row: Keys
    dest: Keys
    key: Keys
    channel: Keys
    seq: Keys
    offsets: Keys
    causes: Keys

    def part(self, chosen: NDArray[np.int64]) -> Rows:
        """Return some of the rows."""
        lengths = (self.offsets[1:] - self.offsets[:-1])[chosen]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        causes = self.causes[np.repeat(self.offsets[:-1][chosen], lengths) + within]
        row, dest, key, channel, seq = (column[chosen] for column in self[:5])
        return Rows(row, dest, key, channel, seq, offsets, causes)


def ready(rows: Rows, candidates: Flags, is_known: Flags) -> Keys:
    """Return which candidates can be delivered, in order; ``is_known`` is about each cause."""
    by_key = np.argsort(rows.key, kind="stable")
    keys = rows.key[by_key]
    at = np.searchsorted(keys, rows.causes)
    at[at == keys.size] = 0
    inside = keys.size > 0 and keys[at] == rows.causes if rows.causes.size else np.empty(0, bool)
    causes = np.where(is_known, -1, np.where(inside, by_key[at], -2)).astype(np.int64)
    return _in_order(rows.offsets, causes, candidates)


def ranks(groups: Keys) -> Keys:
    """Return each element's number among the equal ones before it, from 0."""
    order = np.argsort(groups, kind="stable")
    grouped = groups[order]
    starts = np.flatnonzero(np.concatenate(([True], grouped[1:] != grouped[:-1])))
    lengths = np.diff(np.append(starts, groups.size))
    found = np.empty(groups.size, np.int64)
    found[order] = np.arange(groups.size) - np.repeat(starts, lengths)
    return found


def pairs(one: Keys, other: Keys) -> Keys:
    """Return a number for each pair, the same for equal pairs and likely another for others."""
    mixed = one.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + other.view(np.uint64)
    return (mixed ^ (mixed >> np.uint64(29))).view(np.int64)


def stretches(channels: Keys, seqs: Keys) -> Iterator[tuple[int, int, int, int, int]]:
    """Return where consecutive numbers of one channel begin and end, in sorted arrays.

    With each come the channel, and its lowest and highest number.
    """
    if not seqs.size:
        return
    breaks = (channels[1:] != channels[:-1]) | (seqs[1:] != seqs[:-1] + 1)
    starts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    stops = np.append(starts[1:], seqs.size)
    columns = (starts, stops, channels[starts], seqs[starts], seqs[stops - 1])
    yield from zip(*(column.tolist() for column in columns), strict=True)
