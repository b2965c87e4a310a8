"""The event log in Parquet: a file, or a folder of files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.events.fields import renamed, with_seq
from antecede.events.log import (
    Format,
    Log,
    Source,
    each,
    is_plain_file,
    read_bytes,
    sorted_out,
)


def _read(source: Source) -> Log:
    # A folder needs Arrow's datasets, whose import of pandas takes a moment; a file does not.
    if source.path.is_dir():
        table = pq.read_table(source.path)
    elif is_plain_file(source):
        table = pq.ParquetFile(source.path).read()
    else:
        table = pq.ParquetFile(pa.BufferReader(read_bytes(source))).read()
    if source.fields:
        table = with_seq(renamed(table, source.fields))
    return sorted_out(table, source.name)


FORMAT = Format(
    "parquet",
    (".parquet",),
    each("parquet", _read),
    lambda head: float(head.startswith("PAR1")),
    options=frozenset({"fields"}),
    reads_folders=True,
    is_spark_native=True,
)
