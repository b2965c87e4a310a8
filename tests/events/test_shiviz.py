"""Logs with vector clocks: the order their clocks show, and lines that contradict themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from antecede.errors import LogError
from antecede.events import sources
from antecede.events.arrow_schemas import CLOCKS
from antecede.events.log import Source

#: a's second event is not in the log, and b's first neither.
GAPS = """a {"a":1}
send A
b {"b":2, "a":2, "nobody":5}
send B
c {"c":1, "b":2, "a":2}
deliver B
c {"c":2, "b":1, "a":2}
deliver A
a {"a":4, "c":1}
done
"""


def clocks_of(log: sources.Log) -> list[dict[str, int]]:
    return [dict(clock) for clock in log.events.column("clock").to_pylist()]


def test_a_host_that_its_own_clock_lacks_is_a_rejected_row(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text('alice {"alice":1}\nhello\nalice {"al":2}\nbye\n')
    (row,) = sources.read(Source(path)).rejected.to_pylist()
    assert (row["line"], row["reason"]) == (3, "the clock has no count of its own host alice")


def test_clocks_become_numbers_of_events_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(GAPS)
    found = sources.read(Source(path, send="send (?<message>.)", deliver="deliver (?<message>.)"))
    assert found.events.schema.field("clock").type == CLOCKS
    assert clocks_of(found) == [{}, {"a": 1}, {"b": 1, "a": 1}, {"a": 1}, {"c": 1}]
    assert found.undecidable is None


@pytest.mark.parametrize(
    ("kind", "clock", "read"),
    [
        (CLOCKS, {"b": 2}, {"b": 2}),
        (pa.map_(pa.large_string(), pa.int32()), {"b": 2}, {"b": 2}),
        (pa.map_(pa.binary(), pa.int64()), {b"b": 2, b"\xff": 3}, {"b": 2}),
        (pa.map_(pa.string(), pa.uint64()), {"b": 2**64 - 1, "c": 1}, {"c": 1}),
        (pa.map_(pa.string(), pa.int64()), {"b": None, "c": 0}, {"c": 0}),
        (pa.map_(pa.int64(), pa.int64()), {7: 2}, {"7": 2}),
    ],
)
def test_clocks_of_any_type_become_plain(
    kind: pa.DataType, clock: dict[Any, Any], read: dict[str, int]
) -> None:
    columns = {"process": ["a"] * 3, "seq": [1, 2, 3], "kind": ["local"] * 3, "message": ["m"] * 3}
    entries = pa.array([list(clock.items()), None, list(clock.items())], kind)
    table = pa.table({**columns, "clock": entries})
    for part, nulls in ((table, 1), (table.slice(2), 0)):
        found = sources.sorted_out(part, "log")
        assert found.bad == 0
        column = found.events.column("clock")
        assert (column.type, column.null_count) == (CLOCKS, nulls)
        assert dict(column.to_pylist()[-1]) == read


def test_a_clock_that_is_not_a_map_is_refused() -> None:
    columns = {"process": ["a"], "seq": [1], "kind": ["local"], "message": ["m"], "clock": [1.5]}
    with pytest.raises(LogError, match="clock has the type double; expected maps from processes"):
        sources.sorted_out(pa.table(columns), "log")


def test_govector_may_write_the_time_before_the_host(tmp_path: Path) -> None:
    path = tmp_path / "x-Log.txt"
    path.write_text(
        '1772445600500000000 a {"a":1}\nINFO one\n1772445601500000000 a { "a" : 2 }\nINFO two\n'
    )
    rows = sources.read(Source(path)).events.to_pylist()
    assert [(row["process"], row["message"], row["time"]) for row in rows] == [
        ("a", "INFO one", 1772445600.5),
        ("a", "INFO two", 1772445601.5),
    ]


def test_the_order_of_the_clocks_numbers_equal_texts(tmp_path: Path) -> None:
    """The k-th send belongs to the k-th delivery, by the host's own count, not by the line."""
    path = tmp_path / "x.log"
    path.write_text('a {"a":2}\nto b: hi\na {"a":1}\nto b: hi\n')
    found = sources.read(Source(path, send="to (?<to>.): (?<message>.*)"))
    assert found.events.column("message").to_pylist() == ["a>b hi #2", "a>b hi"]
