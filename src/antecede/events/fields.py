"""Logs in which the parts of an event have other names: where to find each part.

``fields`` maps a part of an event, such as ``message``, to a column or to a path in a record, such
as ``labels.order_id``. With such a mapping, kinds may be words such as ``sent`` and ``received``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from antecede.errors import LogError, UsageError, shown
from antecede.events.kinds import kind_of
from antecede.events.tables import CLOCK, EVENT_COLUMNS

#: The parts that a mapping may name; the last three help where the others do not suffice.
PARTS = (*EVENT_COLUMNS, CLOCK, "to", "from", "event")


def fields_of(texts: Sequence[str]) -> dict[str, str]:
    """Parse fields PART=PATH."""
    found: dict[str, str] = {}
    for text in texts:
        part, equals, path = text.partition("=")
        if not equals or not path:
            msg = f"cannot read --field {text!r}; use PART=PATH, such as message=labels.order_id"
            raise UsageError(msg)
        if found.setdefault(part, path) != path:
            msg = f"--field names two places for {part}, {found[part]!r} and {path!r}; keep one"
            raise UsageError(msg)
    require_parts(found)
    return found


def require_parts(fields: Mapping[str, str]) -> None:
    """Refuse a mapping of something that is not part of an event."""
    for part, path in fields.items():
        if part not in PARTS:
            msg = f"an event has no part {part!r}; its parts are {', '.join(PARTS)}"
            raise UsageError(msg)
        if not isinstance(path, str):
            msg = f"the place of {part} is {shown(path)}; give the name of a column, or a path"
            raise UsageError(msg)


def require_paths(records: Iterable[object], fields: Mapping[str, str]) -> None:
    """Refuse a path that no record has: a typing error would change the meaning of the log."""
    absent, first = dict(fields), None
    for record in records:
        if isinstance(record, Mapping):
            first = record if first is None else first
            absent = {
                part: path
                for part, path in absent.items()
                if path not in record and value_at(record, path) is None
            }
        if not absent:
            return
    for part, path in absent.items() if first is not None else ():
        msg = f"no record has {path!r}, which is to be the {part}; the first has {names_in(first)}"
        raise UsageError(msg)


def names_in(record: object) -> str:
    """Return the paths in a record, as many as fit into a line."""
    found = list(_paths(record))
    return ", ".join(found[:20]) + (", ..." if len(found) > 20 else "")


def _paths(record: object, above: str = "") -> Iterator[str]:
    if isinstance(record, str) and record.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            record = json.loads(record)
    if isinstance(record, Mapping) and above.count(".") < 4:
        for name, value in record.items():
            yield from _paths(value, f"{above}.{name}" if above else str(name))
    elif above:
        yield above


def value_at(record: object, path: str) -> Any:
    """Return the value at a path of a record; text that is JSON counts as its value.

    ``labels.order_id`` may be one key, or a key in an object.
    """
    if isinstance(record, str) and record.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            record = json.loads(record)
    if isinstance(record, list):
        record = {str(place): value for place, value in enumerate(record)}
    if not isinstance(record, Mapping):
        return None
    if path in record:
        return record[path]
    words = path.split(".")
    heads = [".".join(words[:size]) for size in range(len(words) - 1, 0, -1)]
    found = (value_at(record[h], path[len(h) + 1 :]) for h in heads if h in record)
    return next((value for value in found if value is not None), None)


def picked(record: object, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the parts of an event found in a record."""
    found = {part: value_at(record, path) for part, path in fields.items()}
    return {part: value for part, value in found.items() if value is not None}


def kinds_read(parts: dict[str, Any]) -> dict[str, Any]:
    """Return parts in which the word for the kind is replaced by the kind."""
    word = parts.get("kind")
    return parts | {"kind": kind_of(word) or word} if isinstance(word, str) else parts


def renamed(table: Any, fields: Mapping[str, str]) -> Any:
    """Return a table in which the parts of an event have their standard names."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not fields:
        return table
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for part, path in fields.items():
        head = next((name for name in columns if path == name or path.startswith(f"{name}.")), "")
        try:
            column = table.column(head)
            for word in path[len(head) + 1 :].split(".") if path != head else ():
                column = pc.struct_field(column, word)
        except (KeyError, pa.ArrowException):
            has = ", ".join(table.column_names)[:200]
            msg = f"the log has no column {path!r} for {part}; it has {has}"
            raise LogError(msg) from None
        columns[part] = column
    if "kind" in fields:
        words = columns["kind"].to_pylist()
        known = {word: kind_of(str(word)) or str(word) for word in {*words} if word is not None}
        columns["kind"] = pa.array([known.get(word) for word in words], pa.string())
    return pa.table(columns)


def with_seq(table: Any) -> Any:
    """Return a table in which the events of each process have numbers.

    If it has none, they are numbered by time; events with equal times or none stay in the order of
    the rows.
    """
    import numpy as np
    import pyarrow as pa

    from antecede.events.arrow_columns import seconds_in

    names = table.column_names
    if "seq" in names or "process" not in names or not len(table):
        return table
    process = table.column("process").combine_chunks()
    if not pa.types.is_dictionary(process.type):
        process = process.dictionary_encode()
    codes = np.asarray(process.indices.fill_null(-1))
    time = np.zeros(len(codes))
    if "time" in names:
        known = np.asarray(seconds_in(table.column("time")), float)
        if not np.isnan(known).any():
            time = known
    order = np.lexsort((np.arange(len(codes)), time, codes))
    seq = np.empty(len(codes), np.int64)
    starts = np.searchsorted(codes[order], codes[order])
    seq[order] = np.arange(len(codes)) - starts + 1
    return table.append_column("seq", pa.array(seq))
