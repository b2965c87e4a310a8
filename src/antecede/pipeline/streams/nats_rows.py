"""Rows from the messages of a NATS stream, and messages from the rows that reorder returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from antecede.pipeline.streams.nats_link import make_stream
from antecede.pipeline.streams.nats_source import Settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMAT: Final = "antecede.nats"
POSITION_HEADER: Final = "Antecede-Position"
ID_HEADER: Final = "Antecede-Id"
REJECTED_HEADER: Final = "Antecede-Rejected"
_PLAIN: Final = "^[A-Za-z0-9_-]{1,64}$"


def read_stream(
    spark: SparkSession,
    url: str,
    *,
    most: int | None = None,
    names: Mapping[str, str] | None = None,
    packets: bool = False,
) -> DataFrame:
    """Return a stream of NATS as rows that reorder takes.

    With ``packets`` the messages are those of a reader of nodes; the column ``packet`` has what the
    order needs. Otherwise the data is JSON with the fields that a row declares, under ``names``.
    """
    from pyspark.sql import functions as F

    source = spark.readStream.format(FORMAT).option("url", url)
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
    types["causes"] = "array<string>"
    schema = ", ".join(f"`{(names or {}).get(name, name)}` {kind}" for name, kind in types.items())
    parsed = rows.withColumn("_row", F.from_json(F.col("data").cast("string"), schema))
    return parsed.select("_row.*", *rows.columns)


def _name(token: Column) -> Column:
    """Return the process that a token of a subject stands for."""
    from pyspark.sql import functions as F

    spelt = F.decode(F.unhex(F.substring(token, 2, 1 << 20)), "UTF-8")
    return F.when(token.startswith("="), spelt).otherwise(token)


def stream_writer(url: str, names: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """Return what publishes a batch of reorder's rows, for ``foreachBatch``; make the stream.

    A row goes to ``STREAM.to.DEST``; one that was rejected to ``STREAM.rejected``. Its message id
    is made of destination and position, so JetStream drops it if the batch is repeated.
    """
    from pyspark.sql import functions as F

    place = Settings.of({"url": url}).place
    stream = place.stream
    make_stream(place, [f"{stream}.>"])

    def write(frame: DataFrame, number: int) -> None:
        frame = frame.persist()
        try:
            for rows in (_ordered(frame, stream, names), _rejected(frame, stream, number)):
                (
                    rows.withColumn("headers", F.map_filter("headers", lambda _, v: v.isNotNull()))
                    .write.format(FORMAT)
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
    rows = frame.filter("rejected is null").drop("rejected")
    return rows.select(
        F.concat(F.lit(f"{stream}.to."), token).alias("subject"),
        _data(rows).alias("data"),
        F.concat(token, F.lit("."), position).alias("id"),
        F.create_map(
            F.lit(POSITION_HEADER), position,
            F.lit(ID_HEADER), F.url_encode(F.col(names.get("id", "id")).cast("string")),
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
    """Return a row's own data if it came from a stream, and otherwise the row as JSON."""
    from pyspark.sql import functions as F

    if dict(rows.dtypes).get("data") == "binary":
        return F.coalesce(F.col("data"), F.lit(b""))
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in rows.columns))).cast("binary")
