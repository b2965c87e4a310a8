"""Nodes, JetStream, reorder and Parquet together; and from one stream of NATS to another."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from antecede.net import Node
from antecede.pipeline import reorder
from antecede.pipeline.audits.entry import audit_table
from antecede.pipeline.streams.files import Figures, run_files
from antecede.pipeline.streams.nats_link import Outgoing, make_stream, publish, read, state_of
from antecede.pipeline.streams.nats_rows import read_stream, stream_writer
from tests.nats_server import NatsServer
from tests.pipeline.streams.cases import Sent, audited, check_order, stream
from tests.pipeline.streams.test_nats import place
from tests.pipeline.streams.test_reorder import finish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark
pytest.importorskip("nats", reason="needs nats-py")

NODES = ("ann", "bob", "cat")
MEMBERS = (*NODES, "archive")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as started:
        yield started


async def talk(server: NatsServer, folder: Path, messages: int, *, kill: bool) -> None:
    """Let nodes talk, each message to the archive too; kill the server in the middle."""

    async def run(name: str, rng: random.Random) -> None:
        url = server.url("shop?reader=archive")
        store, events = folder / f"{name}.db", folder / "events.jsonl"
        async with Node(name, peers=MEMBERS, transport=url, store=store, events=events) as node:

            async def listen() -> None:
                async for delivery in node:
                    await delivery.done()

            listening = asyncio.create_task(listen())
            for _ in range(messages):
                dests = rng.sample([other for other in NODES if other != name], rng.randint(1, 2))
                await node.send([*dests, "archive"], f"from {name}".encode())
                await asyncio.sleep(rng.random() / 50)
            await node.flush()
            await all_flushed.wait()  # until then the others may need this one
            listening.cancel()

    all_flushed = asyncio.Barrier(len(NODES))
    tasks = [
        asyncio.create_task(run(name, random.Random(number))) for number, name in enumerate(NODES)
    ]
    if kill:
        await asyncio.sleep(0.2)
        server.kill()
        await asyncio.sleep(0.2)
        server.start()
    await asyncio.gather(*tasks)


def test_from_nodes_through_jetstream_and_reorder_to_parquet(
    spark: SparkSession, server: NatsServer, tmp_path: Path
) -> None:
    """The server is killed while nodes send, and again while Spark reads: nothing is lost."""
    url, out, checkpoint = server.url("shop-packets"), tmp_path / "out", tmp_path / "checkpoint"

    def archive() -> StreamingQuery:
        rows = read_stream(spark, url, most=60, packets=True)
        ordered = reorder(
            rows, packet="packet", members=sorted(MEMBERS), readers=["archive"], buckets=2
        )
        writer = ordered.drop("packet").writeStream.format("parquet").option("path", str(out))
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        return finish(writer.start)

    asyncio.run(talk(server, tmp_path, 20, kill=True))
    archive()
    asyncio.run(talk(server, tmp_path, 20, kill=False))
    server.kill()
    back = threading.Timer(3, server.start)
    back.start()
    archive()
    back.join()

    rows = pq.read_table(out, columns=["id", "dest", "source", "position", "data"]).to_pylist()
    rows.sort(key=lambda row: row["position"])
    assert [row["position"] for row in rows] == list(range(1, 121))
    assert {row["dest"] for row in rows} == {"archive"}
    assert all(row["data"] == f"from {row['source']}".encode() for row in rows)
    events = map(json.loads, (tmp_path / "events.jsonl").read_text().splitlines())
    read_by_spark = [
        {"process": "archive", "seq": row["position"], "kind": "deliver", "message": row["id"]}
        for row in rows
    ]
    found = audit_table(_table([*events, *read_by_spark]))
    assert found.verdict == "ordered"
    assert found.summary["deliveries"] > 120
    assert found.summary["missing"] == found.summary["findings"] == 0


def _table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    names = ("process", "seq", "kind", "message", "dests")
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])


def test_from_stream_to_stream_once_although_a_batch_is_repeated(
    spark: SparkSession, server: NatsServer, tmp_path: Path
) -> None:
    copies, batches, history = stream(random.Random(9), messages=60, spread=30)
    into = place(server, "COMES")
    make_stream(into, ["COMES"])
    rows = [row for batch in batches for row in batch]
    publish(into, [Outgoing("COMES", _json(row), None, {}) for row in rows])
    publish(into, [Outgoing("COMES", b"not a row", None, {})])
    checkpoint, figures = tmp_path / "checkpoint", list[Figures]()

    def run() -> None:
        run_files(
            read_stream(spark, server.url("COMES"), most=80, names={"causes": "parents"}),
            stream_writer(server.url("GOES"), {}),
            checkpoint=checkpoint,
            options={"causes": "parents", "buckets": 2},
            every=None,
            show=figures.append,
        )

    run()
    assert sum(batch.rows_in for batch in figures) == len(rows) + 1
    assert sum(batch.rejected for batch in figures) == 1
    last = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    for path in (checkpoint / "commits").glob(f"*{last}*"):
        path.unlink()
    run()  # repeats the last batch
    goes = place(server, "GOES")
    found = [m for page in read(goes, None, 1, state_of(goes).last) for m in page]
    bad = [m for m in found if m.subject == "GOES.rejected"]
    assert [m.data for m in bad] == [b"not a row"]
    assert bad[0].headers["Antecede-Rejected"] == "id is missing"
    good: list[dict[str, Any]] = [
        {
            "dest": m.subject.removeprefix("GOES.to."),
            "id": m.headers["Antecede-Id"],
            "position": int(m.headers["Antecede-Position"]),
        }
        for m in found
        if m not in bad
    ]
    assert len(good) == len(copies)
    check_order(good, copies)
    assert audited(history, good).verdict == "ordered"
    for dest in {row["dest"] for row in good}:  # the stream itself is in order
        places = [row["position"] for row in good if row["dest"] == dest]
        assert places == sorted(places)


def _json(row: Sent) -> bytes:
    fields = {"id": row.id, "dest": row.dest, "source": row.source, "seq": row.seq}
    return json.dumps({**fields, "parents": row.causes, "text": "more"}).encode()


def test_any_rows_can_be_published(spark: SparkSession, server: NatsServer) -> None:
    where = place(server)
    make_stream(where, ["ORDERS.>"])
    frame = spark.createDataFrame([(f"{n}", f"id{n}") for n in range(5)], "data string, id string")
    sink = frame.write.format("antecede.nats").option("subject", "ORDERS.all").mode("append")
    for _ in range(2):
        sink.save(server.url("ORDERS"))
    found = spark.read.format("antecede.nats").load(server.url("ORDERS")).toArrow().to_pylist()
    assert sorted(row["data"] for row in found) == [b"%d" % n for n in range(5)]
    assert {row["subject"] for row in found} == {"ORDERS.all"}
