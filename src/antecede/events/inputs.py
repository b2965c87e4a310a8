"""Logs passed by Python programs: frames of any library, rows, and names of files."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from antecede.errors import UsageError, shown
from antecede.events.fields import (
    kinds_read,
    picked,
    renamed,
    require_parts,
    require_paths,
    with_seq,
)
from antecede.events.log import Log, Source, rejected_table, sorted_out, table_of_records
from antecede.events.rule import Event, Rejected, seconds_of
from antecede.events.sources import read, refuse_empty, sources_in


def log_of(events: object, columns: Mapping[str, str] | None = None) -> Log:
    """Read the events of a log from any kind of object.

    That is a frame (Arrow, pandas, Polars, DuckDB, anything with ``__arrow_c_stream__``), a mapping
    of columns, rows as mappings or events, or the paths of files. ``columns`` gives the names of an
    event's parts there, such as ``{"message": "order_id"}``.
    """
    if not isinstance(columns, Mapping | None):
        msg = f"columns is {shown(columns)}; give a dict, such as {{'message': 'order_id'}}"
        raise UsageError(msg)
    fields = dict(columns or {})
    require_parts(fields)
    sources = _sources(events, fields)
    if sources:
        return read(sources)
    table = _table(events)
    if table is None:
        log = _of_rows(events, fields)
    else:
        log = sorted_out(with_seq(renamed(table, fields)), "")
    if not len(log.events):
        refuse_empty("the log", log.rejected, log.bad)
    return log


def _sources(events: object, fields: Mapping[str, str]) -> list[Source]:
    """Return the files to read, if paths or sources are given, else None."""
    given: list[Any] = list(events) if isinstance(events, list | tuple) else [events]
    if all(isinstance(one, Source) for one in given):
        return given
    if not given or not all(isinstance(one, str | os.PathLike) for one in given):
        return []
    return sources_in([Path(os.fspath(one)) for one in given], Source(Path(), fields=fields))


def _table(events: Any) -> pa.Table | None:
    """Return a frame of any library as an Arrow table, or None if it is not a frame."""
    if hasattr(events, "iloc") and not hasattr(events, "columns"):
        msg = "events is one column; give a frame with the columns process, seq, kind and message"
        raise UsageError(msg)
    if hasattr(events, "collect_schema") and hasattr(events, "collect"):  # a lazy frame of Polars
        events = events.collect()
    try:
        if isinstance(events, pyarrow.dataset.Dataset):
            return events.to_table()
        if hasattr(events, "iloc"):
            return _plain_names(pa.Table.from_pandas(events))
        if hasattr(events, "__arrow_c_stream__") or hasattr(events, "__arrow_c_array__"):
            return pa.table(events)
        if isinstance(events, Mapping):
            return pa.table({str(name): column for name, column in events.items()})
    except (pa.ArrowException, TypeError, ValueError) as error:
        if hasattr(events, "iloc"):  # A column has values of several types: read row by row.
            return None
        msg = (
            f"cannot read the columns of the log: {str(error).splitlines()[0]}; give rows as dicts"
        )
        raise UsageError(msg) from None
    return None


def _plain_names(table: pa.Table) -> pa.Table:
    """Return a frame in which numbers used as names are whole: pandas makes them fractions."""
    for name in ("process", "message"):
        if name in table.column_names and pa.types.is_floating(table.schema.field(name).type):
            with suppress(pa.ArrowException):
                whole = table.column(name).cast(pa.int64())
                table = table.set_column(table.column_names.index(name), name, whole)
    return table


def _of_rows(events: Any, fields: Mapping[str, str]) -> Log:
    """Read rows: mappings, events, or objects with ``_asdict``."""
    if hasattr(events, "iloc"):
        events = events.to_dict("records")
    if isinstance(events, str | bytes) or not isinstance(events, Iterable):
        msg = (
            f"events is {shown(events)}; give a frame (Spark, pandas, Polars, Arrow, DuckDB), "
            "rows as dicts, or the path of a log"
        )
        raise UsageError(msg)
    events = list(events)
    require_paths(events, fields)
    rejected: list[Rejected] = []
    table = table_of_records(_records(events, fields), rejected)
    return Log(table, rejected_table("", rejected), len(rejected))


def _records(rows: Iterable[Any], fields: Mapping[str, str]) -> list[tuple[int, str, Any]]:
    """Return rows as records, or why they are not records, with their numbers and texts."""
    found: list[tuple[int, str, Any]] = []
    for number, row in enumerate(rows, start=1):
        record = asdict(row) if isinstance(row, Event) else row
        record = record._asdict() if hasattr(record, "_asdict") else record
        if not isinstance(record, Mapping):
            found.append((number, shown(row), f"it is {shown(row)}; expected a row as a dict"))
            continue
        record = {key: None if _is_missing(value) else value for key, value in record.items()}
        parts = kinds_read(picked(record, fields))
        found.append((number, str(row), {**record, **parts}))
    events = [record for *_, record in found if isinstance(record, dict)]
    if not any("seq" in event for event in events):
        _number(events)
    return found


def _is_missing(value: object) -> bool:
    """Return whether a value stands for a missing one in pandas or NumPy."""
    return isinstance(value, float) and math.isnan(value)


def _number(events: list[dict[str, Any]]) -> None:
    """Give each event a number within its process: by their times, or in the order of the rows."""
    times = [seconds_of(event.get("time")) for event in events]
    known = [float(time) for time in times if isinstance(time, int | float)]
    order = list(range(len(events)))
    if len(known) == len(events):
        order.sort(key=known.__getitem__)
    counts: Counter[str] = Counter()
    for place in order:
        process = str(events[place].get("process"))
        counts[process] += 1
        events[place]["seq"] = counts[process]
