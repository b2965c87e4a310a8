"""Reorder files into files: one query, which reports figures after each batch."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import split
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from antecede.errors import UsageError
from antecede.reorder.api import BUCKETS, reorder
from antecede.reorder.bucket import other_version
from antecede.reorder.progress import Figures, Progress
from antecede.reorder.source_and_sink import FORMATS, require_folder
from antecede.reorder.store import STATE_VERSION
from antecede.spark.session import is_from_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PARTITIONS = "spark.sql.shuffle.partitions"
EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
_REMARK = b"Streaming TransformWithStateInPandas Python worker"


@contextlib.contextmanager
def without_remarks() -> Iterator[None]:
    """Filter Spark's remarks from the standard error of this process and its children."""
    sys.stderr.flush()
    real = os.dup(2)
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)

    def copy() -> None:
        skipped = False
        with os.fdopen(reader, "rb") as lines:
            for line in lines:
                # A blank line follows each remark.
                if _REMARK in line or (skipped and not line.strip()):
                    skipped = True
                    continue
                skipped = False
                os.write(real, line)

    thread = threading.Thread(target=copy, name="stderr", daemon=True)
    thread.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(real, 2)
        # Processes that outlive this one may still hold the pipe; do not wait for them.
        thread.join(2)


#: How often a query is started again when Spark gave up on one of its own Python processes.
ATTEMPTS = 20
#: The column in which Spark keeps a line that is not JSON.
CORRUPT = "_corrupt_record"
_IMPATIENT = "Python worker failed to connect back"
#: Spark's error for a checkpoint whose state has the first layout, with the bucket as the key.
_OLD_STATE = re.compile(
    r"STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE.*"
    r"Existing key_schema=StructType\(StructField\(bucket,IntegerType,true\)\)",
    re.DOTALL,
)

#: Spark's errors for a file of the checkpoint that is cut off, missing or of another query.
_BAD_CHECKPOINT = re.compile(
    r"CANNOT_LOAD_STATE_STORE|STATEFUL_OPERATOR|STATE_STORE_\w*SCHEMA|Unexpected end-of-input|"
    r"Unexpected character|Unrecognized token|Input length = |Incomplete log file|"
    r"ChecksumException|Checksum error"
)

#: A line of Python or Java that gives the cause; that a call into Java failed is not one.
_CAUSE = re.compile(r"(?:Caused by: |: )?((?!py4j\.)[\w.]*(?:Error|Exception)\b[^:]*: .+)")


def read_files(
    spark: SparkSession, path: Path, form: str, *, files: int | None, causes: str = "causes"
) -> DataFrame:
    """Return the files of a folder as a stream; those that are there now define the columns."""
    require_folder(path, form)
    pattern = f"*{{{','.join(FORMATS[form])}}}"
    told = {"pathGlobFilter": pattern}
    if form == "csv":  # The first line names the columns, and must be the same in all files.
        told |= {"header": "true", "enforceSchema": "false"}
    schema = _schema_of(spark.read.format(form).options(**told), path, form, causes)
    stream = spark.readStream.format(form).schema(schema).options(**told)
    if files is not None:
        stream = stream.option("maxFilesPerTrigger", files)
    rows = stream.load(str(path.resolve()))
    if form == "csv" and causes in rows.columns:
        rows = rows.withColumn(causes, split(causes, ";"))
    return rows


def _schema_of(reader: DataFrameReader, path: Path, form: str, causes: str) -> StructType:
    """Return the columns of all files: each may lack some, but no two may contradict each other."""
    is_mixed = False
    try:
        found = reader.option("mergeSchema", "true").load(str(path.resolve()))
        schema = found.schema
        told = set(schema.names) - {CORRUPT}
        # Spark takes a column of JSON without any value for text.
        if form == "json" and told and dict(found.dtypes).get(causes) == "string":
            given = found.filter(found[causes].isNotNull())
            kind = ArrayType(StringType()) if given.isEmpty() else StringType()
            fields = [StructField(f.name, kind) if f.name == causes else f for f in schema]
            schema = StructType(fields)
            is_mixed = not given.filter(found[causes].startswith("[")).isEmpty()
    except Exception as error:
        if not is_from_spark(error):
            raise
        told_why = re.search(r"\[[A-Z_.]+\] ([^\n]+)", str(error))
        reason = told_why[1] if told_why else str(error).strip().splitlines()[0]
        raise UsageError(
            f"the files of {path} do not tell the same columns: {reason[:200].rstrip()}"
        ) from None
    if is_mixed:
        raise UsageError(
            f"{causes} is a list in some rows of {path} and one id in others; use one of the two"
        )
    if not told:
        want = "JSON objects, one a line" if form == "json" else "columns"
        raise UsageError(f"the files of {path} have no {want}; the first rows tell the columns")
    return schema


def run_files(
    stream: DataFrame,
    out: Path | Callable[[DataFrame, int], None],
    *,
    checkpoint: Path,
    options: Mapping[str, Any],
    every: float | None,
    show: Callable[[Figures], None],
) -> Progress:
    """Reorder a stream into the folder ``out``, or by calling it with each batch and its number.

    Without ``every``, stop when everything is read.
    """
    spark = stream.sparkSession
    before = {name: spark.conf.get(name) for name in (PARTITIONS, EMPTY_BATCHES)}
    ordered = reorder(stream, keep_rejected=True, **options)
    # More partitions than buckets would only add empty state stores.
    buckets = int(options.get("buckets", BUCKETS))
    spark.conf.set(PARTITIONS, min(int(before[PARTITIONS] or BUCKETS), buckets))
    # With timers, Spark runs empty batches for ever, so a query that reads once would not end.
    spark.conf.set(EMPTY_BATCHES, every is not None)
    listener = Progress(show)
    spark.streams.addListener(listener)
    try:
        for attempt in range(ATTEMPTS):
            listener.begin()
            write = _writer(out) if isinstance(out, Path) else out
            writer = ordered.writeStream.foreachBatch(write)
            writer = writer.option("checkpointLocation", str(checkpoint.resolve()))
            if every is None:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{round(every * 1000)} milliseconds")
            if _finished(writer, checkpoint, last=attempt == ATTEMPTS - 1):
                break
        listener.wait()
    finally:
        spark.streams.removeListener(listener)
        for name, value in before.items():
            spark.conf.set(name, str(value))
    return listener


def _writer(out: Path) -> Callable[[DataFrame, int], None]:
    """Return a function that writes each batch into its own folders, replacing an earlier attempt.

    A folder appears complete or not at all: a batch that fails leaves nothing behind, and removes
    nothing that an earlier attempt has written.
    """

    def write(frame: DataFrame, number: int) -> None:
        # Compute the rows once: computing them again would update the state twice.
        frame = frame.persist()
        try:
            good = frame.filter("rejected is null").drop("rejected")
            _write_folder(good, out.resolve() / "ordered" / f"batch={number}")
            bad = frame.filter("rejected is not null")
            if not bad.isEmpty():
                bad = bad.drop("position", "held_seconds", "released", "late")
                _write_folder(bad, out.resolve() / "rejected" / f"batch={number}")
        finally:
            frame.unpersist()

    return write


def _write_folder(rows: DataFrame, folder: Path) -> None:
    aside = folder.with_name(f".{folder.name}")  # Readers pass over such names.
    try:
        rows.write.mode("overwrite").parquet(str(aside))
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _finished(writer: DataStreamWriter, checkpoint: Path, *, last: bool) -> bool:
    """Run a query to its end; return False if it must restart as a Python process was too slow."""
    query = None
    try:
        query = writer.start()
        query.awaitTermination()
    except Exception as error:
        text = str(error)
        if not is_from_spark(error):
            raise
        if _IMPATIENT in text and not last:
            return False
        raise UsageError(reason_of(text, checkpoint)) from None
    finally:
        with contextlib.suppress(Exception):
            if query is not None:
                query.stop()
    return True


def reason_of(text: str, checkpoint: Path) -> str:
    """Return the one line that matters in Spark's report on a failed query."""
    if _OLD_STATE.search(text):
        return other_version(1, STATE_VERSION)
    ours = re.search(r"antecede\.errors\.\w+: (.+)", text)
    if ours is not None:
        return ours[1].strip()
    told = text.partition("terminated with exception: ")[2] or text
    told = told.partition("=== Streaming Query ===")[0]  # Cut off the plan, which is pages long.
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    causes = [found[1] for line in lines if (found := _CAUSE.match(line))]
    last = (causes[-1:] or lines[:1] or ["no reason given"])[0]
    reason = re.sub(r"\[[A-Z_.]+\] |\s+SQLSTATE: \w+", "", last)[:300]
    if _BAD_CHECKPOINT.search(told):
        return (
            f"the checkpoint {checkpoint} is damaged, or that of another query ({reason}); "
            "restore it, or begin a new one"
        )
    return f"the query failed: {reason}"
