"""Kill queries of every kind at random and check their whole output: for `make soak`.

Rows come as Parquet, JSON, CSV, messages of NATS and packets, and go to files, to a `foreachBatch`
that appends, and to a stream of NATS. Effects often come some batches before their causes. Driver,
JVM or a Python worker dies first, then all. The query runs again with other parallelism. In the
end each row must be there once per destination, after its causes, at positions without gaps. The
`foreachBatch` notes what each attempt brings: the same rows at the same positions.

Two more runs are not killed: many batches of destinations that live for one, and rows of 100 kB.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import antecede
from antecede.errors import UsageError
from antecede.reorder.api import SESSION
from antecede.reorder.files import read_files, run_files
from antecede.reorder.nats_client import Outgoing, make_stream, publish, read, state_of
from antecede.reorder.progress import Figures
from antecede.spark.session import session
from tests.reorder.test_nats import place
from tests.reorder.test_packets import MEMBERS, make_run
from tests.reorder.test_reorder_cli import call, end_all, latest
from tests.support.nats_server import NatsServer
from tests.support.spark import family, lighten
from tests.support.streams import Sent, audited, check_order, rows_table, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Appends what each attempt of a batch brings, and fails now and then after it has written.
FOREACH = """
import json, os, random, sys
from pathlib import Path
from antecede.pipeline import reorder
from antecede.reorder.files import read_files
from antecede.spark.session import session
come, out, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
out.mkdir(exist_ok=True)
def write(frame, batch):
    rows = [row.asDict() for row in frame.select("dest", "id", "position").collect()]
    rng.shuffle(rows)
    with (out / "attempts.jsonl").open("a") as file:
        for row in rows:
            file.write(json.dumps({**row, "batch": batch}) + chr(10))
            file.flush()
    print(f"antecede: batch {batch}", file=sys.stderr, flush=True)
    if rng.random() < 0.3:
        print("the sink fails after it has written", file=sys.stderr, flush=True)
        raise RuntimeError
with session(f"local[{1 + seed % 3}]", app="foreach", memory="1g", light=True) as spark:
    spark.conf.set("spark.sql.shuffle.partitions", 1 + seed % 4)
    ordered = reorder(read_files(spark, come, "parquet", files=int(sys.argv[4])), buckets=2)
    query = ordered.writeStream.foreachBatch(write).trigger(availableNow=True)
    query = query.option("checkpointLocation", str(out / "checkpoint")).start()
    query.awaitTermination()
"""


class Case(NamedTuple):
    """A kind of query: how it is called with a seed, where its checkpoint is, what came out."""

    words: Callable[[int], list[str]]
    checkpoint: Path
    found: Callable[[], list[dict[str, Any]]]


def main() -> None:
    """Run all kinds, or some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=", ".join([*KINDS, *LONG]))
    parser.add_argument("--kills", type=int, default=2, help="kills of each kind")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for kind in asked.kinds or [*KINDS, *LONG]:
        with tempfile.TemporaryDirectory(prefix="antecede-soak-") as folder:
            if kind in LONG:
                LONG[kind](Path(folder))
            else:
                soak(kind, Path(folder), asked.kills, asked.seed)


def soak(kind: str, folder: Path, kills: int, seed: int) -> None:
    """Kill one kind of query several times, let it end, and check what came out."""
    rng = random.Random(f"{kind} {seed}")
    copies, batches, history = stream(rng, messages=60 + 40 * kills, spread=80)
    if kind == "packets":
        copies, batches, history = _packets(rng)
    # Effects before their causes: neighbours change places.
    for at in range(0, len(batches) - 1, 2):
        batches[at], batches[at + 1] = batches[at + 1], batches[at]
    begun, torn = time.monotonic(), 0
    with KINDS[kind](folder, batches, -(-len(batches) // (2 * kills + 2))) as case:
        for number in range(kills):
            torn += _killed(case, number, rng)
        number = kills
        while (said := _ended(case.words(number))) is not None:
            assert "fails after it has written" in said, said[-3000:]
            number += 1
        found = case.found()
    assert len(found) == len(copies), (len(found), len(copies))
    check_order(found, copies)
    if history:
        assert audited(history, found).verdict == "ordered"
    seconds = time.monotonic() - begun
    print(f"{kind}: {kills} kills, {torn} within a batch, {len(found)} rows, {seconds:.0f} s")


def _ended(words: list[str]) -> str | None:
    """Run a query to its end; return its output if it failed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200, check=False)
    return done.stderr if done.returncode else None


def _killed(case: Case, number: int, rng: random.Random) -> bool:
    """Start a query, kill it after a batch; return whether that was during another batch."""
    with subprocess.Popen(case.words(number), stderr=subprocess.PIPE, text=True) as query:
        assert query.stderr is not None
        said = ""
        for line in query.stderr:
            said += line
            if line.startswith("antecede: batch "):
                break
        assert "antecede: batch " in said, said[-3000:]
        time.sleep(rng.random())
        end_all(query, rng)
    checkpoint = case.checkpoint
    return latest(checkpoint / "offsets") > latest(checkpoint / "commits")


def _cli(seed: int, *words: object) -> list[str]:
    return call(*words, "--once", "--memory", "1g", "--buckets", 2, "--master",
                f"local[{1 + seed % 3}]")  # fmt: skip


def _ordered(out: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(out / "ordered").to_pylist()
    return found


def _written(come: Path, batches: Sequence[Sequence[Sent]], form: str) -> None:
    come.mkdir()
    for number, batch in enumerate(batches):
        name = come / f"{number:04}.{form}"
        table = rows_table(batch).drop_columns(["payload"])
        if form == "parquet":
            pq.write_table(table, name)
        elif form == "json":
            name.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        else:
            rows = [
                ",".join([r.id, r.dest, r.source, str(r.seq), ";".join(r.causes)]) for r in batch
            ]
            name.write_text("\n".join(["id,dest,source,seq,causes", *rows, ""]))


@contextlib.contextmanager
def _files(form: str, folder: Path, batches: list[list[Sent]], size: int) -> Iterator[Case]:
    come, out = folder / "in", folder / "out"
    _written(come, batches, form)
    yield Case(
        lambda seed: _cli(seed, come, out, "--format", form, "--files", size),
        out / "checkpoint",
        lambda: _ordered(out),
    )


@contextlib.contextmanager
def _foreach(folder: Path, batches: list[list[Sent]], size: int) -> Iterator[Case]:
    come, out = folder / "in", folder / "out"
    _written(come, batches, "parquet")

    def found() -> list[dict[str, Any]]:
        lines = (out / "attempts.jsonl").read_text().splitlines()
        places: dict[tuple[str, int], tuple[str, int]] = {}
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):  # A line that a kill cut off.
                row = json.loads(line)
                at, what = (row["dest"], row["position"]), (row["id"], row["batch"])
                assert places.setdefault(at, what) == what, "another row at the same position"
        again = len(lines) - len(places)
        print(f"foreach: {again} rows came again, at the same positions")
        return [{"dest": d, "position": p, "id": name} for (d, p), (name, _) in places.items()]

    code = f"{lighten()}\n{FOREACH}"
    yield Case(
        lambda seed: [sys.executable, "-c", code, str(come), str(out), str(seed), str(size)],
        out / "checkpoint",
        found,
    )


@contextlib.contextmanager
def _nats(folder: Path, batches: list[list[Sent]], size: int) -> Iterator[Case]:
    rows = [row for batch in batches for row in batch]
    with NatsServer(folder / "nats") as server:
        comes, goes = place(server, "COMES"), place(server, "GOES")

        def found() -> list[dict[str, Any]]:
            pages = read(goes, None, 1, state_of(goes).last)
            return [
                {
                    "dest": message.subject.removeprefix("GOES.to."),
                    "id": message.headers["Antecede-Id"],
                    "position": int(message.headers["Antecede-Position"]),
                }
                for page in pages
                for message in page
            ]

        make_stream(comes, ["COMES"])
        publish(comes, [Outgoing("COMES", _json(row), None, {}) for row in rows])
        state, most = folder / "state", size * -(-len(rows) // len(batches))
        urls = (server.url("COMES"), server.url("GOES"))
        yield Case(
            lambda seed: _cli(seed, *urls, "--checkpoint", state, "--messages", most), state, found
        )


def _json(row: Sent) -> bytes:
    fields = {"id": row.id, "dest": row.dest, "source": row.source, "seq": row.seq}
    return json.dumps({**fields, "causes": row.causes}).encode()


class _Packet(NamedTuple):
    row: Sent
    data: bytes


def _packets(rng: random.Random) -> tuple[list[Sent], list[list[Any]], list[dict[str, Any]]]:
    run = make_run("optimal", rng.randrange(1000), messages=200)
    codec = antecede.Codec(MEMBERS)
    rows = [_Packet(run.copy(p), codec.encode(p)) for p in run.packets if p.dest == "reader"]
    copies = [row.row for row in rows]
    rng.shuffle(rows)
    return copies, [rows[at : at + 8] for at in range(0, len(rows), 8)], []


@contextlib.contextmanager
def _packed(folder: Path, batches: list[list[Any]], size: int) -> Iterator[Case]:
    come, out = folder / "in", folder / "out"
    come.mkdir()
    for number, batch in enumerate(batches):
        table = pa.table(
            {
                "id": [each.row.id for each in batch],
                "dest": [each.row.dest for each in batch],
                "packet": pa.array([each.data for each in batch], pa.binary()),
            }
        )
        pq.write_table(table, come / f"{number:04}.parquet")
    words = ("--packet", "packet", "--members", ",".join(MEMBERS), "--readers", "reader")
    yield Case(
        lambda seed: _cli(seed, come, out, "--files", size, *words),
        out / "checkpoint",
        lambda: _ordered(out),
    )


KINDS: dict[str, Any] = {
    "parquet": lambda *given: _files("parquet", *given),
    "json": lambda *given: _files("json", *given),
    "csv": lambda *given: _files("csv", *given),
    "foreach": _foreach,
    "nats": _nats,
    "packets": _packed,
}

#: Batches of short-lived destinations, and how much more the last third may need than the second.
BATCHES, GROWTH = 100, 1.2
MEGABYTE = 1 << 20
#: What a Python worker may need: for its libraries, and for a byte that its buckets may hold.
WORKER_BYTES, TIMES_HELD = 400 * MEGABYTE, 8


class Watch:
    """Notes each batch's figures, and the memory of the largest Python worker after it."""

    def __init__(self) -> None:
        self.figures: list[Figures] = []
        self.memory: list[int] = []

    def __call__(self, figures: Figures) -> None:
        self.figures.append(figures)
        self.memory.append(max(map(_resident, family(os.getpid())[1:]), default=0))


def _resident(pid: int) -> int:
    """Return the bytes of memory that a process of Python has; none for others."""
    with contextlib.suppress(OSError):
        if Path(f"/proc/{pid}/comm").read_text().startswith("python"):
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf(
                "SC_PAGESIZE"
            )
    return 0


def _reordered(spark: SparkSession, folder: Path, **options: Any) -> Watch:
    """Reorder the files of ``folder/in``, each in a batch of its own."""
    watch = Watch()
    run_files(
        read_files(spark, folder / "in", "parquet", files=1),
        folder / "out",
        checkpoint=folder / "checkpoint",
        options={"buckets": 2, **options},
        every=None,
        show=watch,
    )
    return watch


def short_lives(folder: Path) -> None:
    """Run batches whose destinations live for one: neither rows of state nor memory grow."""
    rows = [Sent(f"m{n}", "", "s", n, (f"m{n - 1}",) if n else ()) for n in range(5)]
    (folder / "in").mkdir()
    for number in range(BATCHES):
        batch = [replace(row, dest=f"c{number}.{at}") for at in range(200) for row in rows]
        pq.write_table(rows_table(batch), folder / "in" / f"{number:04}.parquet")
    with session("local[2]", app="soak", memory="1g", light=True) as spark:
        watch = _reordered(spark, folder, horizon=3)
    assert len(watch.figures) == BATCHES
    assert sum(batch.rows_out for batch in watch.figures) == BATCHES * 1000
    state = [batch.state_rows for batch in watch.figures]
    third = BATCHES // 3
    for name, sizes in (("rows of state", state), ("bytes of a worker", watch.memory)):
        before, after = max(sizes[third : 2 * third]), max(sizes[2 * third :])
        print(f"lives: {before:,} {name} in the second third of {BATCHES} batches, then {after:,}")
        assert after <= GROWTH * before, sizes


def large_rows(folder: Path) -> None:
    """Hold rows of 100 kB: up to the limit within the worker's memory, beyond it in one line."""
    payload, held = "x" * 100_000, 1200
    effects = [f"m{n}" for n in range(held)]
    (folder / "in").mkdir()
    for number, ids in enumerate((effects[:600], effects[600:], ["root"])):
        causes = [None if name == "root" else "root" for name in ids]
        columns = {"id": ids, "causes": causes, "payload": [payload] * len(ids)}
        table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
        pq.write_table(table, folder / "in" / f"{number:04}.parquet")
    least = held * len(payload)
    with session("local[2]", app="soak", memory="2g", light=True, config=SESSION) as spark:
        with pytest.raises(UsageError, match="but held_bytes_max is") as refused:
            _reordered(spark, folder, held_bytes_max=least // 2)
        print(f"large: {refused.value}")
        watch = _reordered(spark, folder, held_bytes_max=2 * least)
    assert sum(batch.rows_out for batch in watch.figures) == held + 1
    assert len(_ordered(folder / "out")) == held + 1
    most, may = max(watch.memory), WORKER_BYTES + TIMES_HELD * least
    print(f"large: {held} rows of 100 kB held, a worker had {most:,} bytes, may have {may:,}")
    assert most <= may


LONG = {"lives": short_lives, "large": large_rows}

if __name__ == "__main__":
    main()
