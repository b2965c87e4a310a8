"""Hashes of strings in Arrow columns: the same numbers as Spark's ``xxhash64``, compiled.

Spark hashes row by row, and with an object for each element of an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecede.pipeline.audits.windows.hashing import string_buffers, xxh64
from antecede.pipeline.audits.windows.jit import Column, Ints, jit


@jit
def _hash_lists(data: NDArray[np.uint8], ends: NDArray[Any], offsets: Ints, seeds: Ints) -> Ints:
    """Return the hash of each string, with the seed of the list that it is in."""
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
    return _hash_lists(data, ends, np.arange(len(words) + 1), seeds)


def hash_lists(lists: Column, seeds: Ints) -> pa.Array:
    """Return lists of the hashes of strings; a list that is null has none."""
    lengths = np.asarray(lists.value_lengths().fill_null(0)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    # Flattened, the strings of null lists and those outside a slice are left out.
    words = lists.flatten()
    data, ends = string_buffers(words) if len(words) else (np.empty(0, np.uint8), np.zeros(1, int))
    hashes = _hash_lists(data, ends, offsets, seeds)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(hashes))
