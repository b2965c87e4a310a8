"""Compiled code for rows whose causes are all delivered or in the same batch.

Most rows of a stream are of this kind. The machine takes the others one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from antecede.arrays import Flags, Ints, Scalar, inline, jit


@jit
def _in_order(offsets: Ints, causes: Ints, candidates: Flags) -> Ints:
    """Return the candidates whose causes are all delivered, each after its causes.

    A cause is the number of a row, -1 if it is delivered already, or -2 if it has not arrived.
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


class Arrival(NamedTuple):
    """A row that arrives, as numbers."""

    row: int
    dest: int
    key: int
    channel: int
    seq: int
    causes: list[int]


class Rows(NamedTuple):
    """The rows of a batch as arrays, in an order that depends on their contents alone."""

    row: Ints
    dest: Ints
    key: Ints
    channel: Ints
    seq: Ints
    offsets: Ints
    causes: Ints

    def part(self, chosen: Ints) -> Rows:
        """Return the chosen rows."""
        lengths = (self.offsets[1:] - self.offsets[:-1])[chosen]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        causes = self.causes[np.repeat(self.offsets[:-1][chosen], lengths) + within]
        row, dest, key, channel, seq = (column[chosen] for column in self[:5])
        return Rows(row, dest, key, channel, seq, offsets, causes)

    def arrivals(self) -> Iterator[Arrival]:
        """Yield the rows one by one."""
        offsets, causes = self.offsets.tolist(), self.causes.tolist()
        columns = (column.tolist() for column in self[:5])
        for at, (row, dest, key, channel, seq) in enumerate(zip(*columns, strict=True)):
            yield Arrival(row, dest, key, channel, seq, causes[offsets[at] : offsets[at + 1]])


@inline
def _slot(value: Scalar, mask: int) -> Scalar:
    mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(32)) & mask


@jit
def find(keys: Ints, wanted: Ints) -> Ints:
    """Return, for each wanted number, the index of the first equal key, or -1."""
    size = 4
    while size < 2 * keys.size:
        size *= 2
    table = np.full(size, -1, np.int64)
    for row in range(keys.size):
        at = _slot(keys[row], size - 1)
        while table[at] >= 0 and keys[table[at]] != keys[row]:
            at = (at + 1) & (size - 1)
        if table[at] < 0:
            table[at] = row
    found = np.empty(wanted.size, np.int64)
    for row in range(wanted.size):
        at = _slot(wanted[row], size - 1)
        while table[at] >= 0 and keys[table[at]] != wanted[row]:
            at = (at + 1) & (size - 1)
        found[row] = table[at]
    return found


@jit
def _codes(firsts: Ints) -> tuple[Ints, int]:
    """Return the values as numbers from 0, given the first index of each, and their count."""
    codes = np.empty(firsts.size, np.int64)
    count = 0
    for row in range(firsts.size):
        if firsts[row] == row:
            codes[row] = count
            count += 1
        else:
            codes[row] = codes[firsts[row]]
    return codes, count


@jit
def _by_code(codes: Ints, count: int) -> Ints:
    """Return a stable order by code."""
    starts = np.zeros(count + 1, np.int64)
    for code in codes:
        starts[code + 1] += 1
    for code in range(count):
        starts[code + 1] += starts[code]
    order = np.empty(codes.size, np.int64)
    for row in range(codes.size):
        order[starts[codes[row]]] = row
        starts[codes[row]] += 1
    return order


@jit
def _count_on(codes: Ints, counts: Ints) -> Ints:
    """Return each code's running count, starting from ``counts``, which is updated."""
    found = np.empty(codes.size, np.int64)
    for row in range(codes.size):
        counts[codes[row]] += 1
        found[row] = counts[codes[row]]
    return found


def ready(
    rows: Rows, candidates: Flags, is_known: Flags, known: Callable[[Ints], Flags]
) -> tuple[Ints, Ints]:
    """Return the candidates that can be delivered, in order, and the causes that are missing.

    ``is_known`` marks rows that were delivered before; ``known`` does so for other keys.
    """
    causes = find(rows.key, rows.causes)
    inside = causes >= 0
    if is_known.any():
        causes[inside & is_known[causes]] = -1
    outside = np.flatnonzero(~inside)
    causes[outside] = np.where(known(rows.causes[outside]), -1, -2)
    done = _in_order(rows.offsets, causes, candidates)
    lacks = np.ones(
        rows.row.size + 2, np.bool_
    )  # Index -1 stands for a delivered cause, -2 for a missing one.
    lacks[done], lacks[-1] = False, False
    return done, rows.causes[lacks[causes]]


def count_on(groups: Ints, before: Callable[[int], int]) -> tuple[Ints, dict[int, int]]:
    """Return each member's running count in its group, from ``before`` on, and the last counts."""
    firsts = find(groups, groups)
    codes, _ = _codes(firsts)
    names = groups[firsts == np.arange(groups.size)].tolist()
    counts = np.array([before(name) for name in names], np.int64)
    found = _count_on(codes, counts)
    return found, dict(zip(names, counts.tolist(), strict=True))


def by_content(seq: Ints, key: Ints, channel: Ints) -> Ints:
    """Return an order by sequence number, key and channel, so that only contents decide."""
    if seq.size > 1:
        low, high = int(seq.min()), int(seq.max())
        bits = (high - low).bit_length()
        if bits < 32:
            # One number of the sequence number and the first bits of the key sorts far faster.
            both = (seq - low) << (63 - bits) | (key.view(np.uint64) >> (bits + 1)).view(np.int64)
            order = np.argsort(both)
            both = both[order]
            if (both[1:] != both[:-1]).all():
                return order
    return np.lexsort((channel, key, seq))


def by_channel(channels: Ints, seqs: Ints) -> Ints:
    """Return an order by channel and, within a channel, by number."""
    order = np.argsort(seqs)
    channels = channels[order]
    codes, count = _codes(find(channels, channels))
    return order[_by_code(codes, count)]


def pairs(one: Ints, other: Ints) -> Ints:
    """Return a hash of each pair of numbers."""
    mixed = one.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + other.view(np.uint64)
    return (mixed ^ (mixed >> np.uint64(29))).view(np.int64)


def stretches(channels: Ints, seqs: Ints) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield each stretch of consecutive numbers of one channel, given rows ordered by channel.

    A stretch is its first row, the row after it, its channel, and its lowest and highest number.
    """
    if not seqs.size:
        return
    breaks = (channels[1:] != channels[:-1]) | (seqs[1:] != seqs[:-1] + 1)
    starts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    stops = np.append(starts[1:], seqs.size)
    columns = (starts, stops, channels[starts], seqs[starts], seqs[stops - 1])
    yield from zip(*(column.tolist() for column in columns), strict=True)
