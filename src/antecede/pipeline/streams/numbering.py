"""Rows with declared causes as numbers: hashes, sequence number, and why a row is no message.

This runs in Python workers while rows are packed. Spark would compute the same row by row, and hand
more columns to Python.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.arrays import Column, Flags
from antecede.events.hashing import SPARK_SEED, hash_each, hash_words
from antecede.pipeline.streams.layout import (
    BUCKET,
    CAST,
    CAUSES,
    CHANNEL,
    DEST,
    KEY,
    REASON,
    SEQ,
)


@dataclass(frozen=True)
class Names:
    """Which of the user's columns hold what a row declares."""

    id: str
    dest: str
    source: str
    seq: str
    causes: str


@dataclass(frozen=True)
class Declared:
    """Adds the numbers of rows with declared causes.

    ``cast`` are the columns that hold the same as those of ``names`` as strings, whole numbers and
    lists of strings. Those that only Spark added for this are dropped.
    """

    names: Names
    cast: Names
    buckets: int

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the rows with what the machine needs to know of each."""
        cast = self.cast
        name, dest, source, seq, causes = (
            table.column(column).combine_chunks()
            for column in (cast.id, cast.dest, cast.source, cast.seq, cast.causes)
        )
        place = hash_words(dest, np.full(len(table), SPARK_SEED))
        key, lists = hash_words(name, place), hash_each(causes, place)
        reason = self._reasons(key, lists, (name, dest, source, seq, causes))
        table = table.drop_columns([n for n in table.column_names if n.startswith(CAST)])
        added = {
            DEST: pa.array(place),
            KEY: pa.array(key),
            CHANNEL: pa.array(hash_words(source, place)),
            SEQ: seq.fill_null(0),
            REASON: reason,
            CAUSES: lists,
            BUCKET: pa.array((place % self.buckets).astype(np.int32)),
        }
        for column, values in added.items():
            table = table.append_column(column, values)
        return table

    def _reasons(self, key: Column, lists: Column, columns: tuple[Column, ...]) -> pa.Array:
        """Return why a row is not a message, or null; the first reason of several."""
        name, dest, source, seq, causes = columns
        names = self.names
        words = causes.flatten()
        lengths = np.diff(np.asarray(lists.offsets))
        row = np.repeat(np.arange(len(key)), lengths)

        def among(flags: Flags) -> Flags:
            found = np.zeros(len(key), np.bool_)
            found[row[flags]] = True
            return found

        wrong = (
            (_empty(name), f"{names.id} is missing"),
            (_empty(dest), f"{names.dest} is missing"),
            (_empty(source), f"{names.source} is missing"),
            (_null(seq), f"{names.seq} is missing or not a whole number"),
            (among(_empty(words)), f"{names.causes} has an empty id"),
            (among(np.asarray(lists.values) == key[row]), "the message is its own cause"),
        )
        if not any(flags.any() for flags, _ in wrong):
            return pa.nulls(len(key), pa.string())
        found = np.full(len(key), None, object)
        for flags, reason in reversed(wrong):
            found[flags] = reason
        return pa.array(found, pa.string())


def _null(column: Column) -> Flags:
    found: Flags = (
        np.asarray(column.is_null()) if column.null_count else np.zeros(len(column), bool)
    )
    return found


def _empty(column: Column) -> Flags:
    if not len(column):
        return np.zeros(0, np.bool_)
    found: Flags = np.asarray(pc.binary_length(column).fill_null(0)) == 0
    return found
