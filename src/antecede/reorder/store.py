"""Where a bucket's state is stored between batches, and how its parts are encoded.

The state is log-structured. ``held`` has chunks of held rows, each written once and removed when
its last row is delivered. ``done`` has the keys that each batch delivered. ``log`` has the changes
of each batch to counters and runs; now and then one complete entry replaces them. ``ends`` has one
snapshot per destination (packets only). No batch rewrites everything.

Every part is an Arrow stream except ``head``: JSON that names the version of this layout.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from antecede.arrays import Ints

#: The version of the state's layout, stored in every head; with packets there are also snapshots.
STATE_VERSION = 2
PACKET_STATE_VERSION = 3
#: The variable in Spark's state store that holds the whole state.
STATE = "head"

Part = Literal["head", "held", "done", "log", "ends"]
PARTS: tuple[Part, ...] = ("head", "held", "done", "log", "ends")
#: All values, by part and number.
Parts: TypeAlias = dict[Part, dict[int, bytes]]


class Store(Protocol):
    """One bucket's state: numbered values in each part."""

    def get(self, part: Part, number: int) -> bytes | None:
        """Return a value of a part, or None if there is none with this number."""

    def parts(self) -> Parts:
        """Return all values of all parts, by part and number."""

    def put(self, part: Part, number: int, value: bytes) -> None:
        """Store a value."""

    def remove(self, part: Part, number: int) -> None:
        """Remove a value."""


class DictStore:
    """A store in memory, for batches and tests."""

    def __init__(self, parts: Parts | None = None) -> None:
        self._parts = sorted_parts(()) if parts is None else parts

    def get(self, part: Part, number: int) -> bytes | None:
        return self._parts[part].get(number)

    def parts(self) -> Parts:
        return sorted_parts((p, n, v) for p in PARTS for n, v in self._parts[p].items())

    def put(self, part: Part, number: int, value: bytes) -> None:
        self._parts[part][number] = value

    def remove(self, part: Part, number: int) -> None:
        self._parts[part].pop(number, None)


def read_head(store: Store) -> dict[str, Any]:
    """Return the head; it is empty if nothing has been stored."""
    found = store.get("head", 0)
    head: dict[str, Any] = {} if found is None else json.loads(found)
    return head


def write_head(store: Store, head: dict[str, Any]) -> None:
    """Replace the head."""
    store.put("head", 0, json.dumps(head).encode())


def sorted_parts(values: Iterable[tuple[Part, int, bytes]]) -> Parts:
    """Return values by part, and within a part by ascending number."""
    found: Parts = {part: {} for part in PARTS}
    for part, number, value in sorted(values, key=lambda each: each[:2]):
        found[part][number] = value
    return found


def pack_table(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack_table(data: bytes) -> pa.Table:
    """Return the table of an Arrow stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def pack_numbers(columns: Mapping[str, Any]) -> bytes:
    """Return named lists of whole numbers as an Arrow stream of one row."""
    arrays = {
        name: pa.ListArray.from_arrays(
            pa.array([0, len(values)], pa.int32()), pa.array(np.asarray(values, np.int64))
        )
        for name, values in columns.items()
    }
    return pack_table(pa.table(arrays))


def unpack_numbers(data: bytes) -> dict[str, Ints]:
    """Return the lists that :func:`pack_numbers` packed."""
    table = unpack_table(data)
    return {
        name: np.asarray(table.column(name).combine_chunks().flatten())
        for name in table.column_names
    }
