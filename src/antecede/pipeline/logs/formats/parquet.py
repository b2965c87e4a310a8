"""The event log in Parquet: a file, or a folder of files."""

from __future__ import annotations

import pyarrow.parquet as pq

from antecede.pipeline.logs.base import Format, Log, Source, sorted_out


def _read(source: Source) -> Log:
    # A folder needs Arrow's datasets, which import pandas and so take a moment; a file does not.
    is_folder = source.path.is_dir()
    table = pq.read_table(source.path) if is_folder else pq.ParquetFile(source.path).read()
    return sorted_out(table, source.path.name)


FORMAT = Format("parquet", (".parquet",), _read, reads_folders=True, is_spark_native=True)
