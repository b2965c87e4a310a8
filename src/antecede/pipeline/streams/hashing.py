"""Hashes of strings in Arrow columns: the same numbers as Spark's ``xxhash64``, compiled.

Spark hashes single columns quickly, but goes through the elements of an array one by one, with an
object for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecede.pipeline.audits.windows.hashing import string_buffers, xxh64
from antecede.pipeline.audits.windows.jit import Column, Ints, jit
from antecede.pipeline.streams.layout import CAUSES, DEST, WORDS


@jit
def _hash_lists(data: NDArray[np.uint8], ends: NDArray[Any], offsets: Ints, seeds: Ints) -> Ints:
    """Return the hash of each string, with the seed of the list that it is in."""
    found = np.empty(offsets[-1], np.int64)
    for row in range(seeds.size):
        seed = np.uint64(seeds[row])
        for at in range(offsets[row], offsets[row + 1]):
            found[at] = np.int64(xxh64(data, ends[at], ends[at + 1], seed))
    return found


def hash_lists(lists: Column, seeds: Ints) -> pa.Array:
    """Return lists of the hashes of strings; a list that is null has none.

    ``seeds`` are hashes too: Spark's ``xxhash64(a, b)`` is the hash of ``b`` with that of ``a``.
    """
    lengths = np.asarray(lists.value_lengths().fill_null(0)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    # Flattened, the strings of null lists and those outside a slice are left out.
    words = lists.flatten()
    data, ends = string_buffers(words) if len(words) else (np.empty(0, np.uint8), np.zeros(1, int))
    hashes = _hash_lists(data, ends, offsets, seeds)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(hashes))


def with_causes(table: pa.Table, words: str | None) -> pa.Table:
    """Add the hashes of the causes in a column, unless the rows have them already."""
    if words is None:
        return table
    lists = table.column(words).combine_chunks()
    seeds = np.asarray(table.column(DEST).combine_chunks())
    table = table.append_column(CAUSES, hash_lists(lists, seeds))
    return table.drop_columns([WORDS]) if words == WORDS else table
