"""``antecede.nats``: a JetStream stream as a source and a sink of Spark, for streams and tables.

Offsets are sequence numbers of the stream, which JetStream never reuses, so a batch that Spark
repeats reads the same messages again. Nothing is acknowledged to the server: only Spark's
checkpoint records what has been read, and the stream keeps messages as long as its own limits say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from antecede.errors import UsageError
from antecede.reorder.nats_client import (
    Outgoing,
    Place,
    State,
    make_stream,
    publish,
    read,
    state_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


NAME: Final = "antecede.nats"
SCHEMA: Final = (
    "sequence bigint, subject string, time timestamp, headers map<string, string>, data binary"
)
_ARROW: Final = pa.schema(
    [
        ("sequence", pa.int64()),
        ("subject", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("data", pa.binary()),
    ]
)
OPTIONS: Final = (
    "url", "path", "subject", "maxMessagesPerTrigger", "startingSequence", "failOnDataLoss",
    "partitions", "waitSeconds", "authority", "certificate", "key",
)  # fmt: skip
SPARKS: Final = ("checkpointLocation", "queryName")
"""Options of a query that Spark also passes to its sink."""
PARTITIONS: Final = 4
PARTITION_LEAST: Final = 2000
"""A partition with fewer messages is not worth its own connection."""
WAIT_SECONDS: Final = 600.0


def register(spark: SparkSession) -> None:
    """Register the format ``antecede.nats`` with a session that has not found it by itself."""
    spark.dataSource.register(NatsSource)


@dataclass(frozen=True)
class Settings:
    """The options of a source or sink, checked."""

    place: Place
    subject: str | None
    most: int | None
    start: str
    fails: bool
    partitions: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return the settings in Spark's options."""
        from antecede.net.transports.nats_names import parse_url

        known = {name.lower(): name for name in (*OPTIONS, *SPARKS)}
        for name in options:
            if name.lower() not in known:
                raise UsageError(f"option {name!r} of {NAME} is not one of {', '.join(OPTIONS)}")
        given = {known[name.lower()]: value for name, value in options.items()}
        url = given.get("url") or given.get("path")
        if url is None:
            raise UsageError(
                f"{NAME} needs the URL of a stream, as in .load('nats://127.0.0.1:4222/ORDERS')"
            )
        parts = parse_url(url, ())
        files = [given.get(name) for name in ("authority", "certificate", "key")]
        if any(files) and not all(files):
            raise UsageError("TLS needs the options authority, certificate and key, three files")
        wait = _number("waitSeconds", given.get("waitSeconds", str(WAIT_SECONDS)))
        trusted = None if files[0] is None else (str(files[0]), str(files[1]), str(files[2]))
        most = given.get("maxMessagesPerTrigger")
        return cls(
            Place(parts.servers, parts.name, str(parts), wait, trusted),
            given.get("subject"),
            None if most is None else _count("maxMessagesPerTrigger", most),
            _start(given.get("startingSequence", "earliest")),
            _flag("failOnDataLoss", given.get("failOnDataLoss", "true")),
            _count("partitions", given.get("partitions", str(PARTITIONS))),
        )


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise UsageError(f"{name} is {text!r}; expected a number of seconds")
    return value


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{name} is {text!r}; expected a whole number from 1")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"{name} is {text!r}; expected true or false")
    return text.lower() == "true"


def _start(text: str) -> str:
    if text not in ("earliest", "latest") and (not text.isdecimal() or int(text) < 1):
        raise UsageError(
            f"startingSequence is {text!r}; expected earliest, latest or a number from 1"
        )
    return text


class NatsSource(DataSource):
    """The data source that Spark creates for ``format("antecede.nats")``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.settings = Settings.of(dict(options))

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> str:
        """Return the columns of the source."""
        return SCHEMA

    def reader(self, schema: StructType) -> NatsReader:
        """Return a reader of all that the stream has."""
        return NatsReader(self.settings)

    def streamReader(self, schema: StructType) -> NatsStreamReader:
        """Return a reader of the stream, batch by batch."""
        return NatsStreamReader(self.settings)

    def writer(self, schema: StructType, overwrite: bool) -> NatsWriter:
        """Return a writer that publishes rows."""
        return NatsWriter(_sink(self.settings, schema.names, overwrites=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> NatsStreamWriter:
        """Return a writer that publishes the rows of batches."""
        return NatsStreamWriter(_sink(self.settings, schema.names, overwrites=overwrite))


@dataclass
class Range(InputPartition):
    """Messages from ``first`` to ``last``, both included."""

    first: int
    last: int


def split(first: int, last: int, most: int) -> list[Range]:
    """Split a range into at most ``most`` parts of about the same length."""
    count = last - first + 1
    if count <= 0:
        return []
    parts = min(most, -(-count // PARTITION_LEAST))
    bounds = [first + count * part // parts for part in range(parts + 1)]
    return [Range(a, b - 1) for a, b in pairwise(bounds)]


def _batches(settings: Settings, part: Range) -> Iterator[pa.RecordBatch]:
    for messages in read(settings.place, settings.subject, part.first, part.last):
        if not messages:
            continue
        columns: list[Any] = list(zip(*messages, strict=True))
        columns[3] = tuple(list(headers.items()) for headers in columns[3])
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, _ARROW, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


class _Reads:
    """Reads parts of a stream."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part."""
        assert isinstance(partition, Range)
        return _batches(self.settings, partition)


class NatsReader(_Reads, DataSourceReader):
    """Reads what the stream has when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        """Split what the stream has into parts."""
        state = state_of(self.settings.place)
        return split(_first(self.settings, state), state.last, self.settings.partitions)


def _first(settings: Settings, state: State) -> int:
    """Return the first message to read."""
    if settings.start == "earliest":
        return max(1, state.first)
    return state.last + 1 if settings.start == "latest" else int(settings.start)


class NatsStreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream; an offset is the last message read, with the identity of the stream."""

    _target: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset before the first message to read."""
        state = state_of(self.settings.place)
        return {"sequence": _first(self.settings, state) - 1, "created": state.created}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how many messages a batch may have."""
        most = self.settings.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than the stream's current last message."""
        self._target = state_of(self.settings.place).last

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the last message of the next batch."""
        begun = start["sequence"]
        state = state_of(self.settings.place)
        self._check(start, state)
        last = state.last if self._target is None else min(state.last, self._target)
        if isinstance(limit, ReadMaxRows):
            last = min(last, max(begun + 1, state.first) + limit.max_rows - 1)
        return {**start, "sequence": max(begun, last)}

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the last message of the stream."""
        state = state_of(self.settings.place)
        return {"sequence": state.last, "created": state.created}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Split a batch into parts."""
        if start["sequence"] >= end["sequence"]:
            return []
        self._check(start, state_of(self.settings.place))
        return split(start["sequence"] + 1, end["sequence"], self.settings.partitions)

    def _check(self, start: dict[str, Any], state: State) -> None:
        """Refuse to continue after lost messages, or in another stream of the same name."""
        place, begun = self.settings.place, start["sequence"]
        if start["created"] != state.created:
            raise UsageError(
                f"the stream {place.stream!r} was made anew at {state.created}, the checkpoint is "
                f"of the one of {start['created']}; give the query a new checkpoint"
            )
        if state.last < begun:
            raise UsageError(
                f"the stream {place.stream!r} ends at message {state.last}, but {begun} was read; "
                "the server has lost messages; give the query a new checkpoint"
            )
        if self.settings.fails and state.first > begun + 1:
            raise UsageError(
                f"messages {begun + 1} to {state.first - 1} of the stream {place.stream!r} are "
                "gone before they were read; let the stream keep more, or set failOnDataLoss=false "
                "to go on without them"
            )


@dataclass(frozen=True)
class Sink:
    """Publishes rows to a stream."""

    place: Place
    subject: str | None

    def publish(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Publish the rows of a partition in their order."""
        rows = 0

        def messages() -> Iterator[Outgoing]:
            nonlocal rows
            for batch in batches:
                for row in batch.to_pylist():
                    rows += 1
                    yield _message(row, self.subject)

        new = publish(self.place, messages())
        return Written(rows, new)


def _message(row: dict[str, Any], subject: str | None) -> Outgoing:
    to, data = row.get("subject", subject), row["data"]
    if not to or data is None:
        raise UsageError(f"a row for {NAME} has no {'data' if to else 'subject'}: {str(row)[:100]}")
    if isinstance(data, str):
        data = data.encode()
    return Outgoing(to, data, row.get("id"), dict(row.get("headers") or ()))


def _sink(settings: Settings, columns: Sequence[str], *, overwrites: bool) -> Sink:
    """Return the sink, after checking rows and stream before anything is published."""
    if overwrites:
        raise UsageError(f"{NAME} appends messages to a stream; it cannot overwrite one")
    missing = {"data"} - set(columns) or {"subject"} - {*columns, settings.subject and "subject"}
    if missing:
        raise UsageError(
            f"{NAME} publishes the columns data, subject, id and headers; "
            f"{missing.pop()!r} is missing"
        )
    state_of(settings.place)
    return Sink(settings.place, settings.subject)


@dataclass
class Written(WriterCommitMessage):
    """How many rows a partition had, and how many of them were new to the stream."""

    rows: int
    new: int


class _Publishes:
    """Publishes the rows of a partition."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish the rows of a partition."""
        return self.sink.publish(iterator)


class NatsWriter(_Publishes, DataSourceArrowWriter):
    """Publishes the rows of a table."""


class NatsStreamWriter(_Publishes, DataSourceStreamArrowWriter):
    """Publishes the rows of batches."""


POSITION_HEADER: Final = "Antecede-Position"
ID_HEADER: Final = "Antecede-Id"
REJECTED_HEADER: Final = "Antecede-Rejected"
AGAIN_SECONDS: Final = 3600.0
"""How long a query may be down before it repeats a batch into a stream that it created."""
_PLAIN: Final = "^[A-Za-z0-9_-]{1,64}$"


def read_stream(
    spark: SparkSession,
    url: str,
    *,
    most: int | None = None,
    names: Mapping[str, str] | None = None,
    packets: bool = False,
) -> DataFrame:
    """Return a NATS stream as rows for ``reorder``.

    With ``packets`` the messages are those of a reader of nodes; the column ``packet`` determines
    their order. Otherwise the data is JSON with the fields of a row, under ``names``; ``causes``
    may be a list or one id. Without source and seq, a message's place in the stream serves as both.
    """
    from pyspark.sql import functions as F

    source = spark.readStream.format(NAME).option("url", url)
    if most is not None:
        source = source.option("maxMessagesPerTrigger", most)
    rows = source.load()
    if packets:
        from antecede.net.transports.nats_names import MESSAGE_HEADER, PACKET_HEADER

        words = F.split("subject", r"\.")
        return rows.select(
            F.url_decode(F.col("headers")[MESSAGE_HEADER]).alias("id"),
            _name(F.element_at(words, -2)).alias("dest"),
            _name(F.element_at(words, -1)).alias("source"),
            F.unbase64(F.col("headers")[PACKET_HEADER]).alias("packet"),
            "*",
        )
    types = {"id": "string", "dest": "string", "source": "string", "seq": "bigint"}
    types["causes"] = "string"  # A list is kept as its JSON.
    schema = ", ".join(f"{name} {kind}" for name, kind in types.items())
    own = {name: (names or {}).get(name, name) for name in types}
    spelt = ", ".join(f"`{own[name]}` {kind}" for name, kind in types.items())
    row = F.from_json(F.col("data").cast("string"), spelt).cast(f"struct<{schema}>")
    parsed = rows.withColumn("_row", row)
    causes, is_row = F.col("_row.causes"), F.col("_row.id").isNotNull()
    is_none = causes.isNull() | causes.isin("", "null") | causes.eqNullSafe(F.col("_row.id"))
    is_placed = is_row & F.col("_row.source").isNull() & F.col("_row.seq").isNull()
    found = {
        "id": F.col("_row.id"),
        "dest": F.col("_row.dest"),
        "source": F.when(is_placed, F.col("subject")).otherwise(F.col("_row.source")),
        "seq": F.when(is_placed, F.col("sequence")).otherwise(F.col("_row.seq")),
        "causes": F.when(is_none, F.array().cast("array<string>"))
        .when(causes.startswith("["), F.from_json(causes, "array<string>"))
        .otherwise(F.array(causes)),
    }
    columns = [value.alias(own[name]) for name, value in found.items()]
    return parsed.select(*columns, *rows.columns)


def _name(token: Column) -> Column:
    """Return the process that a token of a subject stands for."""
    from pyspark.sql import functions as F

    spelt = F.decode(F.unhex(F.substring(token, 2, 1 << 20)), "UTF-8")
    return F.when(token.startswith("="), spelt).otherwise(token)


def stream_writer(url: str, names: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that publishes reorder's rows; create the stream.

    A row goes to ``STREAM.to.DEST``, a rejected one to ``STREAM.rejected``. Its message id consists
    of destination, position and the row's id, so JetStream drops it if the batch is repeated.
    """
    from pyspark.sql import functions as F

    place = Settings.of({"url": url}).place
    stream = place.stream
    make_stream(place, [f"{stream}.>"], duplicate_window=AGAIN_SECONDS)

    def write(frame: DataFrame, number: int) -> None:
        frame = frame.persist()
        try:
            for rows in (_ordered(frame, stream, names), _rejected(frame, stream, number)):
                (
                    rows.withColumn("headers", F.map_filter("headers", lambda _, v: v.isNotNull()))
                    .write.format(NAME)
                    .mode("append")
                    .option("url", url)
                    .save()
                )
        finally:
            frame.unpersist()

    return write


def _ordered(frame: DataFrame, stream: str, names: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions as F

    dest = F.col(names.get("dest", "dest")).cast("string")
    spelt = F.concat(F.lit("="), F.lower(F.hex(dest)))
    token = F.when(dest.rlike(_PLAIN), dest).otherwise(spelt)
    position = F.col("position").cast("string")
    name = F.col(names.get("id", "id")).cast("string")
    rows = frame.filter("rejected is null").drop("rejected")
    return rows.select(
        F.concat(F.lit(f"{stream}.to."), token).alias("subject"),
        _data(rows).alias("data"),
        F.concat_ws(".", token, position, F.hex(F.xxhash64(name))).alias("id"),
        F.create_map(
            F.lit(POSITION_HEADER), position,
            F.lit(ID_HEADER), F.url_encode(name),
        ).alias("headers"),
    )  # fmt: skip


def _rejected(frame: DataFrame, stream: str, number: int) -> DataFrame:
    from pyspark.sql import functions as F

    rows = frame.filter("rejected is not null").drop("position", "held_seconds", "released", "late")
    data = _data(rows)
    digest = F.sha2(F.concat(data, F.col("rejected").cast("binary")), 256)
    return rows.select(
        F.lit(f"{stream}.rejected").alias("subject"),
        data.alias("data"),
        F.concat(F.lit(f"rejected.{number}."), digest).alias("id"),
        F.create_map(F.lit(REJECTED_HEADER), F.col("rejected")).alias("headers"),
    )


def _data(rows: DataFrame) -> Column:
    """Return a row's own data if it came from a stream, otherwise the row as JSON."""
    from pyspark.sql import functions as F

    if dict(rows.dtypes).get("data") == "binary":
        return F.coalesce(F.col("data"), F.lit(b""))
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in rows.columns))).cast("binary")
