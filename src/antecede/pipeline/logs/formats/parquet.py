"""The event log in Parquet: a file, or a folder of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from antecede.pipeline.logs.base import Format, sorted_out

if TYPE_CHECKING:
    from antecede.pipeline.logs.base import Log, Source


def _read(source: Source) -> Log:
    # A folder needs Arrow's datasets, which import pandas and so take a moment; a file does not.
    is_folder = source.path.is_dir()
    table = pq.read_table(source.path) if is_folder else pq.ParquetFile(source.path).read()
    return sorted_out(table, source.path.name)


FORMAT = Format("parquet", (".parquet",), _read)
