"""Where a bucket's state lies between batches, and how its parts look as bytes.

The state is log-structured. ``held`` has chunks of rows that wait, each written once and removed
when the last of its rows is delivered. ``done`` has the keys that each batch delivered. ``log`` has
what each batch changed in counters and runs; now and then one entry with everything replaces them.
``ends`` has one snapshot per destination (packets only). Nothing is rewritten whole in each batch.

Every part is an Arrow stream, and ``head`` is JSON that names the version of this layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

#: The version of the state's layout, stored in every head.
STATE_VERSION = 1

Part = Literal["held", "done", "log", "ends"]
PARTS: tuple[Part, ...] = ("held", "done", "log", "ends")


class Store(Protocol):
    """One bucket's state: a head, and numbered values in each part."""

    def head(self) -> str | None:
        """Return the head, or None if nothing was stored yet."""

    def put_head(self, head: str) -> None:
        """Replace the head."""

    def get(self, part: Part, number: int) -> bytes | None:
        """Return a value of a part, or None if there is none with this number."""

    def items(self, part: Part) -> Iterator[tuple[int, bytes]]:
        """Return all values of a part."""

    def put(self, part: Part, number: int, value: bytes) -> None:
        """Store a value."""

    def remove(self, part: Part, number: int) -> None:
        """Remove a value."""


class DictStore:
    """A store in memory, for batches and tests."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.parts: dict[Part, dict[int, bytes]] = {part: {} for part in PARTS}

    def head(self) -> str | None:
        """Return the head, or None if nothing was stored yet."""
        return self.text

    def put_head(self, head: str) -> None:
        """Replace the head."""
        self.text = head

    def get(self, part: Part, number: int) -> bytes | None:
        """Return a value of a part, or None if there is none with this number."""
        return self.parts[part].get(number)

    def items(self, part: Part) -> Iterator[tuple[int, bytes]]:
        """Return all values of a part."""
        return iter(sorted(self.parts[part].items()))

    def put(self, part: Part, number: int, value: bytes) -> None:
        """Store a value."""
        self.parts[part][number] = value

    def remove(self, part: Part, number: int) -> None:
        """Remove a value."""
        self.parts[part].pop(number, None)


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


def unpack_numbers(data: bytes) -> dict[str, NDArray[np.int64]]:
    """Return the lists that :func:`pack_numbers` packed."""
    table = unpack_table(data)
    return {
        name: np.asarray(table.column(name).combine_chunks().flatten())
        for name in table.column_names
    }
