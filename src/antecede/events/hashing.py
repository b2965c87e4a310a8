"""Hashes of names: the XXH64 that Spark's ``xxhash64`` computes, for Arrow string columns.

Both must agree bit for bit, because a log may be hashed in SQL or here, and the hash breaks ties
between contradictory rows. Two names with the same hash are detected if both are sent; the audit
then hashes again with another ``salt``.

References
----------
Y. Collet. "xxHash fast digest algorithm", specification, version 0.1.1, section XXH64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecede.arrays import Column, Ints, Scalar, inline, jit

#: The seed of Spark's ``xxhash64``, and its result for null.
SPARK_SEED = 42

_P1 = np.uint64(11400714785074694791)
_P2 = np.uint64(14029467366897019727)
_P3 = np.uint64(1609587929392839161)
_P4 = np.uint64(9650029242287828579)
_P5 = np.uint64(2870177450012600261)


@inline
def _rotate(value: Scalar, left: int) -> Scalar:
    return (value << np.uint64(left)) | (value >> np.uint64(64 - left))


@inline
def _word(data: NDArray[np.uint8], at: int, size: int) -> Scalar:
    value = np.uint64(0)
    for byte in range(size):
        value |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return value


@inline
def _round(lane: Scalar, word: Scalar) -> Scalar:
    return _rotate(lane + word * _P2, 31) * _P1


@jit
def xxh64(data: NDArray[np.uint8], start: int, stop: int, seed: Scalar) -> Scalar:
    """Return XXH64 of ``data[start:stop]``; ``seed`` and the result are ``uint64``."""
    at = start
    if stop - start >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= stop:
            a = _round(a, _word(data, at, 8))
            b = _round(b, _word(data, at + 8, 8))
            c = _round(c, _word(data, at + 16, 8))
            d = _round(d, _word(data, at + 24, 8))
            at += 32
        value = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        for lane in (a, b, c, d):
            value = (value ^ _round(np.uint64(0), lane)) * _P1 + _P4
    else:
        value = seed + _P5
    value += np.uint64(stop - start)
    while at + 8 <= stop:
        value = _rotate(value ^ _round(np.uint64(0), _word(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= stop:
        value = _rotate(value ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < stop:
        value = _rotate(value ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    value = (value ^ (value >> np.uint64(33))) * _P2
    value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> np.uint64(32))


@jit
def _hash_all(data: NDArray[np.uint8], offsets: NDArray[Any], seed: Scalar, out: Ints) -> None:
    for row in range(out.size):
        out[row] = np.int64(xxh64(data, offsets[row], offsets[row + 1], seed))


@jit
def _xor_lists(offsets: NDArray[Any], codes: NDArray[Any], hashes: Ints, out: Ints) -> None:
    for row in range(out.size):
        total = np.int64(0)
        for at in range(offsets[row], offsets[row + 1]):
            repeated = False
            for earlier in range(offsets[row], at):
                repeated |= codes[earlier] == codes[at]
            if not repeated:
                total ^= hashes[codes[at]]
        out[row] = total


def seed_of(salt: int) -> np.uint64:
    """Return the seed with which ``xxhash64(lit(str(salt)), name)`` hashes the name; 0: no salt."""
    if salt == 0:
        return np.uint64(SPARK_SEED)
    text = np.frombuffer(str(salt).encode(), np.uint8)
    return np.uint64(xxh64(text.copy(), 0, text.size, np.uint64(SPARK_SEED)))


def hash_names(names: list[str], salt: int = 0) -> Ints:
    """Return the hash of each of a few names."""
    return hash_column(pa.chunked_array([pa.array(names, pa.string())]), salt)


def hash_column(column: Column, salt: int = 0) -> Ints:
    """Return the hash of every string of an Arrow column; that of a null is arbitrary."""
    parts = []
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            words = hash_column(pa.chunked_array([chunk.dictionary]), salt)
            codes = np.asarray(chunk.indices.fill_null(0))
            parts.append(words[codes] if words.size else np.zeros(len(chunk), np.int64))
            continue
        out = np.empty(len(chunk), np.int64)
        data, offsets = string_buffers(chunk)
        _hash_all(data, offsets, seed_of(salt), out)
        parts.append(out)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def hash_lists(column: Column) -> Ints:
    """Return, per list of names, the exclusive or of the hashes of its distinct names (null: 0).

    It does not depend on their order. A send is complete when the same exclusive or over the
    processes that delivered it is equal.
    """
    parts = []
    for chunk in column.chunks:
        out = np.empty(len(chunk), np.int64)
        offsets = np.frombuffer(chunk.buffers()[1], _offset_type(chunk.type))
        offsets = offsets[chunk.offset : chunk.offset + len(chunk) + 1].copy()
        words = chunk.values
        coded = words if pa.types.is_dictionary(words.type) else words.dictionary_encode()
        hashes = hash_column(pa.chunked_array([coded.dictionary]))
        codes = np.asarray(coded.indices.fill_null(0)).astype(np.int32)
        _xor_lists(offsets, codes, hashes, out)
        if chunk.null_count:
            out[np.asarray(chunk.is_null())] = 0
        parts.append(out)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def string_buffers(chunk: Column) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return the bytes and offsets of a string array, as arrays that Numba accepts as writable."""
    _, offsets, data = chunk.buffers()
    found = np.frombuffer(offsets, _offset_type(chunk.type))
    found = found[chunk.offset : chunk.offset + len(chunk) + 1]
    if data is None:
        return np.empty(0, np.uint8), found.copy()
    return _writable(np.frombuffer(data, np.uint8)), found.copy()


def _offset_type(kind: Column) -> type[np.int32 | np.int64]:
    wide = pa.types.is_large_string(kind) or pa.types.is_large_list(kind)
    return np.int64 if wide else np.int32


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that is marked as writable, so that one compilation serves all callers.

    Nothing writes to it. Copying hundreds of megabytes to get the same flag would take longer than
    the hashing.
    """
    view: NDArray[Any] = np.lib.stride_tricks.as_strided(array, writeable=False)
    interface = dict(view.__array_interface__)
    interface["data"] = (interface["data"][0], False)

    class _Holder:
        __array_interface__ = interface
        base = array

    return np.asarray(_Holder())


@jit
def _hash_seeded(data: NDArray[np.uint8], ends: NDArray[Any], offsets: Ints, seeds: Ints) -> Ints:
    """Return the hash of each string, with the seed of its list."""
    found = np.empty(offsets[-1], np.int64)
    for row in range(seeds.size):
        seed = np.uint64(seeds[row])
        for at in range(offsets[row], offsets[row + 1]):
            found[at] = np.int64(xxh64(data, ends[at], ends[at + 1], seed))
    return found


def hash_words(words: Column, seeds: Ints) -> Ints:
    """Return the hashes of strings, each with its own seed; that of a null is arbitrary.

    ``seeds`` are hashes too: Spark's ``xxhash64(a, b)`` is the hash of ``b`` with that of ``a``.
    """
    if not len(words):
        return np.empty(0, np.int64)
    data, ends = string_buffers(words)
    return _hash_seeded(data, ends, np.arange(len(words) + 1), seeds)


def hash_each(lists: Column, seeds: Ints) -> pa.Array:
    """Return lists of the hashes of strings; a list that is null has none."""
    lengths = np.asarray(lists.value_lengths().fill_null(0)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    # Flattening leaves out the strings of null lists and those outside a slice.
    words = lists.flatten()
    data, ends = string_buffers(words) if len(words) else (np.empty(0, np.uint8), np.zeros(1, int))
    hashes = _hash_seeded(data, ends, offsets, seeds)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(hashes))
