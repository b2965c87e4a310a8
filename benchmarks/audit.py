"""The exact audit of large logs on Spark: events per second, growth, memory, and a comparison.

Bounds: from Parquet in the order of time at least 1 million events/s, from any DataFrame 600,000
(20 million events, 50 processes, two cores, 4 GiB of driver memory, warm, chains for the worst
included), and no more than 1.5 times the time per event from 2 to 20 million.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecede.audit.api import Audit, audit, audit_table
from antecede.spark.session import session
from benchmarks._tables import judge, record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW_GROUP = 131_072
BOUNDS = {"slices": 1_000_000, "blobs": 600_000}
GROWTH = 1.5
#: How many events with declared parents the npm package `causal-order` has to order.
YARDSTICK_EVENTS = 100_000
_YARDSTICK = """
import { orderEvents } from "causal-order";
const count = Number(process.argv[2]), nodes = 50, sequence = Array(nodes).fill(0n), events = [];
for (let i = 0; i < count; i += 1) {
  const node = (i * 7919) % nodes, nodeId = "p" + node;
  sequence[node] += 1n;
  const event = { id: "e" + i, nodeId, sequence: sequence[node], payload: null,
    clock: { physicalTimeMs: BigInt(1000000 + i), logicalCounter: 0, nodeId } };
  if (i % 2 === 1) { event.parentEventId = "e" + (i - 1); }
  events.push(event);
}
const start = process.hrtime.bigint();
const result = orderEvents(events);
const seconds = Number(process.hrtime.bigint() - start) / 1e9;
if (result.ordered.length !== count) { throw new Error("events were lost"); }
console.log(seconds);
"""


def make_log(events: int, processes: int, seed: int = 0) -> pa.Table:
    """Return a log of unicasts sorted by time, with exponential gaps and delays and no ordering."""
    rng = np.random.default_rng(seed)
    count = events // 2
    sent = np.cumsum(rng.exponential(0.1 / processes, count))
    sender = rng.integers(0, processes, count)
    dest = (sender + 1 + rng.integers(0, processes - 1, count)) % processes
    time_ = np.concatenate((sent, sent + rng.exponential(0.05, count)))
    process = np.concatenate((sender, dest)).astype(np.int32)
    order = np.argsort(time_, kind="stable")
    process, message = process[order], np.concatenate((np.arange(count),) * 2)[order]
    is_send = order < count
    by_process = np.argsort(process, kind="stable")
    counts = np.bincount(process, minlength=processes)
    seq = np.empty(order.size, np.int64)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    seq[by_process] = np.arange(order.size) - np.repeat(starts, counts) + 1
    names = pa.array([f"process-{p:03d}" for p in range(processes)])
    kinds = pa.array(["deliver", "send"]).take(pa.array(is_send.astype(np.int8)))
    ids: Any = pc.binary_join_element_wise(
        names.take(pa.array(sender[message])), pa.array(message).cast(pa.string()), ":"
    )
    offsets = pa.array(np.concatenate(([0], np.cumsum(is_send))).astype(np.int32))
    to = names.take(pa.array(dest[message[is_send]]))
    dests: Any = pa.ListArray.from_arrays(offsets, to, mask=pa.array(~is_send))
    columns = {
        "process": names.take(pa.array(process)),
        "seq": pa.array(seq),
        "kind": kinds,
        "message": ids,
        "dests": dests,
        "time": pa.array(time_[order]),
    }
    return pa.table(columns)


def write_log(path: Path, events: int, processes: int) -> None:
    """Write a log from a separate process, so that the memory it takes is not measured."""
    work = multiprocessing.get_context("spawn").Process(
        target=_write_log, args=(path, events, processes)
    )
    work.start()
    work.join()
    if work.exitcode != 0:
        msg = f"could not make {path.name}"
        raise SystemExit(msg)


def _write_log(path: Path, events: int, processes: int) -> None:
    rows = min(ROW_GROUP, events // 16)
    pq.write_table(make_log(events, processes), path, row_group_size=rows)


class Memory(threading.Thread):
    """Measures the resident memory of this process, its JVM and their workers (Linux only)."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak: dict[str, float] = {}
        self._done = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self.join()

    def run(self) -> None:
        """Measure twice a second."""
        while not self._done.wait(0.5):
            now: dict[str, float] = {}
            for pid, name in _family().items():
                here = "driver" if pid == os.getpid() else "JVM" if name == "java" else "workers"
                now[here] = now.get(here, 0.0) + _resident(pid)
            now["together"] = sum(now.values())
            self.peak = {key: max(now[key], self.peak.get(key, 0.0)) for key in now} | {
                key: value for key, value in self.peak.items() if key not in now
            }

    def __str__(self) -> str:
        if not self.peak:
            return "not measured on this system"
        return ", ".join(f"{key} {value:.2f} GiB" for key, value in self.peak.items())


def _family() -> dict[int, str]:
    """Return this process and all its descendants, with their names."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = entry.read_text().partition(" (")
        except OSError:
            continue
        name, _, words = rest.rpartition(") ")
        children.setdefault(int(words.split()[1]), []).append((int(number), name))
    found, todo = {os.getpid(): "python"}, [os.getpid()]
    while todo:
        for pid, name in children.get(todo.pop(), []):
            found[pid] = name
            todo.append(pid)
    return found


def _resident(pid: int) -> float:
    """Return GiB of memory, counting shared memory in proportion."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return next((int(x.split()[1]) / 2**20 for x in text.splitlines() if x.startswith("Pss:")), 0.0)


def frame_of(spark: SparkSession, path: Path, arrangement: str) -> DataFrame:
    """Return the log as its bare files, or as a frame that needs blobs."""
    frame = spark.read.parquet(str(path))
    return frame if arrangement == "slices" else frame.filter("seq > 0")


def measure(spark: SparkSession, path: Path, arrangement: str, repeats: int) -> tuple[float, Audit]:
    """Return the fewest seconds of several audits, and the last result."""
    best, found = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        found = audit(frame_of(spark, path, arrangement))
        best = min(best, time.perf_counter() - start)
    assert found is not None
    assert found.summary["arrangement"] == arrangement, found.summary["arrangement"]
    return best, found


def yardstick(folder: Path) -> float | None:
    """Return events/s of the npm package `causal-order`, or None if it cannot be installed."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    (folder / "bench.mjs").write_text(_YARDSTICK)
    try:
        words = [npm, "install", "--silent", "--no-save", "causal-order"]
        subprocess.run(words, cwd=folder, check=True, timeout=120, capture_output=True)
        words = [node, "bench.mjs", str(YARDSTICK_EVENTS)]
        done = subprocess.run(
            words, cwd=folder, check=True, timeout=300, capture_output=True, text=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return YARDSTICK_EVENTS / float(done.stdout.split()[-1])


def on_spark(folder: Path, sizes: list[tuple[int, int]], repeats: int) -> dict[Any, float]:
    """Print a row per log and arrangement; return events/s."""
    speeds: dict[Any, float] = {}
    with session("local[2]", app="antecede-bench", memory="4g") as spark:
        warm = folder / "warm.parquet"
        pq.write_table(make_log(200_000, 50), warm, row_group_size=20_000)
        for arrangement in BOUNDS:
            measure(spark, warm, arrangement, 1)
        print("arrangement    events     n   seconds  M events/s  violations  windows  rounds")
        for events, n in sizes:
            for arrangement in BOUNDS:
                path = folder / f"log-{events}-{n}.parquet"
                seconds, found = measure(spark, path, arrangement, repeats)
                speeds[arrangement, events, n] = events / seconds
                record(
                    "audit", engine=arrangement, events=events, n=n, seconds=seconds,
                    rate=events / seconds,
                )  # fmt: skip
                print(
                    f"{arrangement:11} {events:9,} {n:5} {seconds:9.2f} "
                    f"{events / seconds / 1e6:11.2f} {found.summary['violations']:11,} "
                    f"{found.summary['windows']:8} {found.summary['rounds']:7}",
                    flush=True,
                )
    return speeds


def local_speed(path: Path) -> float:
    """Return events/s of the local engine on a log in memory."""
    table = pq.read_table(path)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        audit_table(table, engine="local")
        times.append(time.perf_counter() - start)
    return len(table) / min(times)


def main(*, quick: bool) -> bool:
    sizes = [(200_000, 50)] if quick else [(2_000_000, 50), (20_000_000, 50), (2_000_000, 500)]
    folder = Path(tempfile.mkdtemp(prefix="antecede-bench-"))
    try:
        for events, n in sizes:
            write_log(folder / f"log-{events}-{n}.parquet", events, n)
        with Memory() as memory:
            speeds = on_spark(folder, sizes, 1 if quick else 3)
        events, n = sizes[0]
        local = local_speed(folder / f"log-{events}-{n}.parquet")
        print(f"local engine, one core, {events:,} events in memory: {local / 1e6:.2f} M events/s")
        record("audit", engine="local", events=events, n=n, seconds=events / local, rate=local)
        speed = yardstick(folder)
        if speed is not None:
            count = YARDSTICK_EVENTS
            record("audit_npm", events=count, n=50, seconds=count / speed, rate=speed)
        shown = (
            "not measured (no Node, or no package)" if speed is None else f"{speed:,.0f} events/s"
        )
        print(f"npm causal-order (orders by declared parents): {shown}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"peak memory: {memory}")
    for where, gib in memory.peak.items():
        record("audit_memory", where=where, gib=gib)
    judged = [] if quick else [_judged(arrangement, speeds) for arrangement in BOUNDS]
    return all(judged)


def _judged(arrangement: str, speeds: dict[Any, float]) -> bool:
    """Compare with the bounds and print the result."""
    speed = speeds[arrangement, 20_000_000, 50]
    growth = speeds[arrangement, 2_000_000, 50] / speed
    good = speed >= BOUNDS[arrangement] and growth <= GROWTH
    print(
        f"{arrangement}: {speed:,.0f} events/s (bound {BOUNDS[arrangement]:,}), time per event "
        f"from 2 to 20 million x{growth:.2f} (bound {GROWTH}): {'met' if good else 'MISSED'}"
    )
    return judge(arrangement, good)
