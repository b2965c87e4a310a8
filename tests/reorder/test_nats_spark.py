"""Nodes, JetStream, reorder and Parquet together; and from one stream of NATS to another."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from antecede.cli.main import command_line
from antecede.reorder.files import run_files
from antecede.reorder.nats_client import Outgoing, make_stream, publish, read, state_of
from antecede.reorder.nats_source import read_stream, stream_writer
from antecede.reorder.progress import Figures
from examples import nats_shop
from tests.reorder.test_nats import place
from tests.reorder.test_reorder import finish
from tests.support.nats_server import NatsServer
from tests.support.streams import Sent, audited, check_order, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
pytest.importorskip("nats", reason="needs nats-py")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as started:
        yield started


async def talk_while_the_server_dies(server: NatsServer, folder: Path) -> None:
    talking = asyncio.create_task(nats_shop.talk(server.url("shop"), folder, 20))
    await asyncio.sleep(0.2)
    server.kill()
    await asyncio.sleep(0.2)
    server.start()
    await talking


def test_the_tutorial_from_nodes_through_jetstream_and_reorder_to_an_audit(
    spark: SparkSession, server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is killed while nodes send, and again while Spark reads: nothing is lost."""

    @contextlib.contextmanager
    def shared(*_: object, **__: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("antecede.spark.session.session", shared)
    monkeypatch.setattr("antecede.reorder.source_and_sink.ANSWER_SECONDS", 600.0)
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "nats-tutorial.md").read_text()
    told = page.replace("127.0.0.1:4222", f"127.0.0.1:{server.port}").replace("\\\n", "")
    lines = re.findall(r"^\$ antecede (.*)$", told, flags=re.MULTILINE)
    (code,) = re.findall(r"```python\n(.*?)```", told, flags=re.DOTALL)

    def call(verb: str, *more: str) -> str:
        (words,) = [line.split() for line in lines if line.startswith(f"{verb} ")]
        done = CliRunner().invoke(command_line(verb), [*words, *more], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return str(done.output)

    asyncio.run(talk_while_the_server_dies(server, tmp_path))
    assert "60 rows in, 60 out" in call("reorder", "--buckets", "1")
    asyncio.run(nats_shop.talk(server.url("shop"), tmp_path, 20))
    server.kill()
    back = threading.Timer(3, server.start)
    back.start()
    assert "60 rows in, 60 out" in call("reorder", "--buckets", "1")
    back.join()
    rows = pq.read_table("archived/ordered").sort_by("position").to_pylist()
    assert [row["position"] for row in rows] == list(range(1, 121))
    assert len({row["id"] for row in rows}) == 120
    assert all(row["data"].startswith(row["source"].encode()) for row in rows)
    exec(compile(code, "nats-tutorial.md", "exec"), {})
    call("audit", "--out", "audit")
    summary = json.loads(Path("audit/summary.json").read_text())["result"]
    assert summary["causally_ordered"] is True
    assert summary["missing"] == summary["findings"] == 0
    assert summary["messages"] == 120
    assert summary["processes"] == 4


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
            options={"causes": "parents", "buckets": 1},
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


def test_any_rows_can_be_published(spark: SparkSession, server: NatsServer, tmp_path: Path) -> None:
    where = place(server)
    make_stream(where, ["ORDERS.>"])
    frame = spark.createDataFrame([(f"{n}", f"id{n}") for n in range(5)], "data string, id string")
    sink = frame.write.format("antecede.nats").option("subject", "ORDERS.all").mode("append")
    for _ in range(2):
        sink.save(server.url("ORDERS"))
    found = spark.read.format("antecede.nats").load(server.url("ORDERS")).toArrow().to_pylist()
    assert sorted(row["data"] for row in found) == [b"%d" % n for n in range(5)]
    assert {row["subject"] for row in found} == {"ORDERS.all"}

    make_stream(place(server, "COPY"), ["COPY.>"])
    rows = spark.readStream.format("antecede.nats").load(server.url("ORDERS"))
    copied = rows.selectExpr("'COPY.' || sequence as subject", "data", "string(sequence) as id")
    writer = copied.writeStream.format("antecede.nats").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(lambda: writer.start(server.url("COPY")))
    pages = read(place(server, "COPY"), None, 1, 9)
    messages = {(m.subject, m.data, m.headers["Nats-Msg-Id"]) for page in pages for m in page}
    assert messages == {
        (f"COPY.{row['sequence']}", row["data"], str(row["sequence"])) for row in found
    }
