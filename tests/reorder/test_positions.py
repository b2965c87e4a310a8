"""``reorder`` by positions: tables, and a stream of a real Kafka through Spark's connector."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from antecede.errors import UsageError
from antecede.logs.positions import Context, Log, Positions
from antecede.pipeline import reorder
from tests.logs.brokers import ROOT, Kafka, connector_jars
from tests.reorder.test_reorder_cli import KILLS, end_all, latest
from tests.support.spark import lighten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark
SCHEMA = "topic string, partition int, offset long, positions binary, name string"
TOPICS = ["orders", "payments", "shipments"]


def written(count: int, seed: int) -> list[dict[str, Any]]:
    """Return chains of records with positions, and gaps in their logs."""
    source, rows = random.Random(seed), []
    ends: dict[Log, int] = {}
    for number in range(count):
        one = Context()
        for topic in TOPICS:
            log = Log(topic, source.randrange(2))
            offset = ends.get(log, 0) + source.choice((0, 0, 1))
            ends[log] = offset + 1
            header = one.begin(log)
            one.report(log, offset, 0.0)
            name = f"{topic}-{number}"
            rows.append({"topic": topic, "partition": log.partition, "offset": offset,
                         "positions": header, "name": name})  # fmt: skip
    return rows


def check(names: list[str], count: int) -> None:
    """Check that each record came once, after its causes."""
    assert len(names) == len(set(names)) == 3 * count
    place = {name: number for number, name in enumerate(names)}
    for number in range(count):
        chain = [place[f"{topic}-{number}"] for topic in TOPICS]
        assert chain == sorted(chain)


def test_a_table_comes_out_in_causal_order(spark: SparkSession) -> None:
    rows = written(40, seed=3)
    random.Random(5).shuffle(rows)
    frame = spark.createDataFrame(rows, SCHEMA)
    found = reorder(frame, positions="positions", topics=TOPICS).orderBy("position").collect()
    check([row["name"] for row in found], 40)
    assert [row["position"] for row in found] == list(range(1, 121))
    assert {row["released"] for row in found} == {False}
    again = reorder(frame, positions="positions", topics=TOPICS).orderBy("position").collect()
    assert again == found, "the order depends on nothing but the rows"


def test_what_does_not_come_is_waited_for_or_released(spark: SparkSession) -> None:
    rows = [{"topic": "payments", "partition": 0, "offset": 0, "name": "payment",
             "positions": Positions({Log("orders", 0): 1, Log("other", 0): 9}).encode()},
            {"topic": "payments", "partition": 0, "offset": 1, "name": "torn",
             "positions": b"\x01\x05"}]  # fmt: skip
    frame = spark.createDataFrame(rows, SCHEMA)
    assert reorder(frame, positions="positions", topics=["orders", "payments"]).count() == 0
    options: dict[str, Any] = {"positions": "positions", "topics": ["orders", "payments"]}
    found = reorder(frame, on_missing="release", **options).orderBy("position").collect()
    assert [(row["name"], row["released"]) for row in found] == [("payment", True), ("torn", False)]
    kept = reorder(frame, keep_rejected=True, **options).collect()
    assert [(row["name"], "torn" in row["rejected"]) for row in kept] == [("torn", True)]
    found = reorder(frame, positions="positions", topics=["payments"]).collect()
    assert len(found) == 2, "a topic that is not read is not waited for"


def test_what_is_wrong_is_said_before_the_query_starts(spark: SparkSession) -> None:
    frame = spark.createDataFrame(written(1, 1), SCHEMA)
    with pytest.raises(UsageError, match="needs topics="):
        reorder(frame, positions="positions")
    with pytest.raises(UsageError, match="has type string; positions are binary"):
        reorder(frame, positions="name", topics=TOPICS)
    with pytest.raises(UsageError, match="a column 'header'"):
        reorder(frame, positions="header", topics=TOPICS)
    with pytest.raises(UsageError, match="give positions= or causes=, not both"):
        reorder(frame, positions="positions", topics=TOPICS, causes="causes")


def connect(spark: SparkSession) -> None:
    """Give a session the connector."""
    for jar in sorted(connector_jars().glob("*.jar")):
        spark.sql(f"ADD JAR '{jar}'")


@pytest.fixture(scope="module")
def connected(spark: SparkSession) -> SparkSession:
    """Return the session with the connector."""
    try:
        connect(spark)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"needs Spark's connector for Kafka: {error}")
    return spark


def query(spark: SparkSession, servers: str, folder: Path, **trigger: Any) -> StreamingQuery:
    """Start a query from Kafka to files, some records a batch."""
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", ",".join(TOPICS))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", 20)
        .load()
    )
    ordered = reorder(stream, positions="headers", topics=TOPICS)
    return (
        ordered.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


def write(servers: str, numbers: range) -> None:
    """Write chains of records."""
    from antecede.logs.confluent import Producer
    from antecede.logs.positions import context

    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for number in numbers:
        with context():
            for topic in TOPICS:
                name = f"{topic}-{number}"
                producer.send(topic, name, key=name)


#: Streams until it is killed.
ENDLESS = """
import sys
from pathlib import Path
from antecede.spark.session import session
from tests.reorder.test_positions import connect, query
with session("local[2]", app="killed", memory="1g", light=True) as spark:
    connect(spark)
    query(spark, sys.argv[1], Path(sys.argv[2]), processingTime="0 seconds").awaitTermination()
"""


def test_killed_while_it_streams_from_kafka_each_record_comes_once(
    connected: SparkSession, tmp_path: Path
) -> None:
    """Driver, JVM or a Python worker dies first, then all; records come in meanwhile."""
    rng, torn, count = random.Random(3), 0, 40
    commits, offsets = tmp_path / "checkpoint" / "commits", tmp_path / "checkpoint" / "offsets"
    with Kafka(tmp_path / "kafka") as kafka:
        kafka.create(*TOPICS, partitions=2)
        write(kafka.servers, range(count))
        words = [sys.executable, "-c", f"{lighten()}\n{ENDLESS}", kafka.servers, str(tmp_path)]
        for _ in range(KILLS):
            before, end = latest(commits), time.monotonic() + 300
            with (
                (tmp_path / "errors").open("w+") as errors,
                subprocess.Popen(words, cwd=ROOT, stderr=errors, text=True) as driver,
            ):
                while latest(commits) < before + 2:
                    assert driver.poll() is None, (tmp_path / "errors").read_text()[-2000:]
                    assert time.monotonic() < end
                    time.sleep(0.05)
                write(kafka.servers, range(count, count + 10))
                count += 10
                time.sleep(rng.random())
                end_all(driver, rng)
            torn += latest(offsets) > latest(commits)
        print(f"{KILLS} kills, {torn} in the middle of a batch")
        assert query(connected, kafka.servers, tmp_path, availableNow=True).awaitTermination(600)
    rows = connected.read.parquet(str(tmp_path / "out")).orderBy("position").collect()
    check([bytes(row["value"]).decode() for row in rows], count)
    assert [row["position"] for row in rows] == list(range(1, 3 * count + 1))
