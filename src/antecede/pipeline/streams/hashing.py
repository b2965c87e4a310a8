"""Hashes of strings in Arrow columns: the same numbers as Spark's ``xxhash64``, compiled.

Spark hashes single columns quickly, but goes through the elements of an array one by one, with an
object for each. The function is the public XXH64.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecede.pipeline.audits.windows.jit import Column, Ints, Scalar, inline, jit
from antecede.pipeline.streams.layout import CAUSES, DEST, WORDS

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_BYTE = np.uint64(8)


@inline
def _turned(value: Scalar, count: int) -> Scalar:
    """Return 64 bits, rotated to the left."""
    return (value << np.uint64(count)) | (value >> np.uint64(64 - count))


@inline
def _round(sum_: Scalar, word: Scalar) -> Scalar:
    return _turned(sum_ + word * _P2, 31) * _P1


@inline
def _word(data: NDArray[np.uint8], at: int, size: int) -> Scalar:
    """Return the next bytes as a number, the lowest first."""
    found = np.uint64(0)
    for byte in range(size - 1, -1, -1):
        found = (found << _BYTE) | np.uint64(data[at + byte])
    return found


@jit
def _hash(data: NDArray[np.uint8], at: int, end: int, seed: Scalar) -> Scalar:
    """Return the hash of some bytes."""
    size = np.uint64(end - at)
    if end - at >= 32:
        one, two, three, four = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= end:
            one = _round(one, _word(data, at, 8))
            two = _round(two, _word(data, at + 8, 8))
            three = _round(three, _word(data, at + 16, 8))
            four = _round(four, _word(data, at + 24, 8))
            at += 32
        found = _turned(one, 1) + _turned(two, 7) + _turned(three, 12) + _turned(four, 18)
        for sum_ in (one, two, three, four):
            found = (found ^ _round(np.uint64(0), sum_)) * _P1 + _P4
    else:
        found = seed + _P5
    found += size
    while at + 8 <= end:
        found = _turned(found ^ _round(np.uint64(0), _word(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        found = _turned(found ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        found = _turned(found ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    found = (found ^ (found >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    return found ^ (found >> np.uint64(32))


@jit
def _hash_lists(data: NDArray[np.uint8], ends: Ints, offsets: Ints, seeds: Ints) -> Ints:
    """Return the hash of each string, with the seed of the list that it is in."""
    found = np.empty(offsets[-1], np.int64)
    for row in range(seeds.size):
        seed = np.uint64(seeds[row])
        for at in range(offsets[row], offsets[row + 1]):
            found[at] = np.int64(_hash(data, ends[at], ends[at + 1], seed))
    return found


def hash_lists(lists: Column, seeds: Ints) -> pa.Array:
    """Return lists of the hashes of strings; a list that is null has none.

    ``seeds`` are hashes too: Spark's ``xxhash64(a, b)`` is the hash of ``b`` with that of ``a``.
    """
    lengths = np.asarray(lists.value_lengths().fill_null(0)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    # Flattened, the strings of null lists and those outside a slice are left out.
    words = lists.flatten()
    if not pa.types.is_large_string(words.type):
        words = words.cast(pa.large_string())
    _, ends, data = words.buffers()
    places = np.zeros(1, np.int64)
    if len(words):
        places = np.frombuffer(ends, np.int64, len(words) + 1, 8 * words.offset)
    raw = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    hashes = _hash_lists(raw, places, offsets, seeds)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(hashes))


def with_causes(table: pa.Table, words: str | None) -> pa.Table:
    """Add the hashes of the causes in a column, unless the rows have them already."""
    if words is None:
        return table
    lists = table.column(words).combine_chunks()
    seeds = np.asarray(table.column(DEST).combine_chunks())
    table = table.append_column(CAUSES, hash_lists(lists, seeds))
    return table.drop_columns([WORDS]) if words == WORDS else table
