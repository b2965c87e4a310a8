"""Reordering a stream on Spark, against the same query without it in the same run.

Rows come from Parquet files, one file a batch, and go to Parquet. Each row names the row before it
at its destination and one of the last ten. With small disorder a row is at most some twenty places
away from where it belongs, with large disorder a fifth of a batch. Both queries run in turn,
several times, at first without being measured, until Java has compiled what they use most. The
median batch counts.

Rows with packets are compared with the Codec and an endpoint that handle them in one process.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import antecede
from antecede.pipeline import reorder
from antecede.reorder.api import SESSION
from antecede.spark.session import session
from benchmarks._tables import judge, record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCES = 20
DISORDER = {"small": 20, "large": 20_000}
#: The least share of the rate without reorder, at 10 and 100 destinations.
SHARE = {"small": 0.4, "large": 0.3}
RATE = 15_000
#: The least share of the rate of Codec and endpoint alone, for rows with packets.
PACKET_SHARE = 0.5
#: How often the two queries run in turn, and how often without being measured before that.
ROUNDS, WARM_ROUNDS = 3, 5
SENDERS = tuple(f"p{number}" for number in range(8))
READERS = tuple(f"r{number}" for number in range(10))
MEMBERS = SENDERS + READERS
#: How much more time a row may take in a batch ten times as large.
LINEAR = 1.5
#: How much slower the last ten of many batches may be than the ten that follow the first.
GROWTH = 1.5


def make_rows(rows: int, dests: int, disorder: int, seed: int = 0) -> pa.Table:
    """Return rows of a stream in the order of arrival."""
    rng = np.random.default_rng(seed)
    number = np.arange(rows)
    dest, place = number % dests, number // dests
    source = rng.integers(0, SOURCES, rows)
    other = np.maximum(place - rng.integers(2, 11, rows), 0)
    counts = np.minimum(place, 2)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    both = np.stack((number - dests, other * dests + dest), axis=1)
    named = both[np.stack((counts >= 1, counts >= 2), axis=1)]
    ids = np.char.add("message-", number.astype("U10"))
    # A source numbers its rows per destination.
    channel = dest * SOURCES + source
    by_channel = np.argsort(channel, kind="stable")
    lengths = np.bincount(channel, minlength=dests * SOURCES)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    seq = np.empty(rows, np.int64)
    seq[by_channel] = number - np.repeat(starts, lengths) + 1
    causes: Any = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(ids[named]))
    columns = {
        "id": pa.array(ids),
        "dest": pa.array(np.char.add("d", dest.astype("U6"))),
        "source": pa.array(np.char.add("s", source.astype("U6"))),
        "seq": pa.array(seq),
        "causes": causes,
        "payload": pa.array(np.char.add(ids, "-" * 80)),
    }
    order = np.argsort(number + rng.random(rows) * disorder, kind="stable")
    return pa.table(columns).take(pa.array(order))


def write_batches(folder: Path, table: pa.Table, batches: int) -> None:
    folder.mkdir(parents=True)
    size = -(-len(table) // batches)
    for number in range(batches):
        part = table.slice(number * size, size)
        pq.write_table(part, folder / f"{number:04}.parquet", row_group_size=size // 2 + 1)


def make_packets(messages: int, seed: int = 0) -> list[bytes]:
    """Return encoded packets, slightly out of order; every message is addressed to the readers."""
    rng = np.random.default_rng(seed)
    codec = antecede.Codec(MEMBERS)
    ends = {p: antecede.endpoint("optimal", process=p, members=MEMBERS) for p in SENDERS}
    found: list[bytes] = []
    for number in range(messages):
        name, other = rng.choice(len(SENDERS), 2, replace=False)
        dests = [SENDERS[other], *READERS]
        for packet in ends[SENDERS[name]].send(dests, b"%06d" % number).packets:
            if packet.dest in READERS:
                found.append(codec.encode(packet))
            else:
                ends[packet.dest].receive(packet)
    order = np.argsort(np.arange(len(found)) + rng.random(len(found)) * 40, kind="stable")
    return [found[at] for at in order.tolist()]


def packets_alone(packets: list[bytes]) -> float:
    """Return how many packets per second the Codec and an endpoint handle in one process."""
    codec = antecede.Codec(MEMBERS)
    ends = {p: antecede.endpoint("optimal", process=p, members=MEMBERS) for p in READERS}
    begun = time.perf_counter()
    count = 0
    for data in packets:
        packet = codec.decode(data)
        count += len(ends[packet.dest].receive(packet).deliveries)
    assert count == len(packets), (count, len(packets))
    return count / (time.perf_counter() - begun)


def measure_packets(spark: SparkSession, folder: Path, messages: int) -> bool:
    """Print the rate of the packet form on Spark beside the rate of one process."""
    packets, case, batches = make_packets(messages), folder / "packets", 3
    write_batches(case / "in", pa.table({"packet": pa.array(packets, pa.binary())}), batches)
    alone = packets_alone(packets)
    form = {"packet": "packet", "members": MEMBERS, "readers": READERS}
    seconds, _, count = run(spark, case, options=form)
    assert count == len(packets), (count, len(packets))
    rate = len(packets) / batches / float(np.median(seconds[1:]))
    good = rate >= PACKET_SHARE * alone
    print(
        f"packets: {rate:,.0f} rows/s, Codec and endpoint alone {alone:,.0f}, share "
        f"{rate / alone:.2f}, bound {PACKET_SHARE} {'met' if good else 'MISSED'}"
    )
    record("reorder_packets", spark=rate, alone=alone, share=rate / alone)
    shutil.rmtree(case)
    return judge("packets", good)


def grows_linearly(spark: SparkSession, folder: Path, size: int) -> bool:
    """Compare the time of batches with the time of batches ten times as large."""
    costs = []
    for rows in (size, 10 * size):
        case = folder / f"linear-{rows}"
        write_batches(case / "in", make_rows(3 * rows, 10, 20), 3)
        seconds, _, count = run(spark, case, options={})
        assert count == 3 * rows
        costs.append(float(min(seconds[1:])) / rows)
        shutil.rmtree(case)
        record("reorder_linear", batch_rows=rows, us_per_row=1e6 * costs[-1])
    growth = costs[1] / costs[0]
    print(
        f"linear: {1e6 * costs[0]:.1f} us a row in batches of {size:,}, {1e6 * costs[1]:.1f} in "
        f"batches of {10 * size:,}, x{growth:.2f} (bound {LINEAR})"
    )
    return judge("linear", growth <= LINEAR)


def run(
    spark: SparkSession, folder: Path, options: dict[str, Any] | None = None
) -> tuple[list[float], list[int], int]:
    """Run the query, reordering if there are options; return seconds, state rows and rows out."""
    given = folder / "in"
    work = Path(tempfile.mkdtemp(dir=folder))
    schema = spark.read.parquet(str(given)).schema
    rows: DataFrame = (
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(given))
    )
    if options is not None:
        rows = reorder(rows, **options)
    query = (
        rows.writeStream.format("parquet")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    done = [p for p in query.recentProgress if p.numInputRows]
    seconds = [p.durationMs["triggerExecution"] / 1000 for p in done]
    record("reorder_phases", case=folder.name, reorders=options is not None, **done[-1].durationMs)
    state = [p.stateOperators[0].numRowsTotal if p.stateOperators else 0 for p in done]
    count = pq.read_table(work / "out", columns=list(schema.names[:1])).num_rows
    shutil.rmtree(work)
    return seconds, state, count


def measure(spark: SparkSession, folder: Path, rows: int, batches: int) -> bool:
    """Print a line per case; return whether every bound was met."""
    met = True
    print("destinations  disorder  rows/s without  rows/s with  share  bound")
    for dests in (1, 10, 100):
        for disorder, window in DISORDER.items():
            case = folder / f"{dests}-{disorder}"
            write_batches(case / "in", make_rows(rows, dests, window), batches)
            plain: list[float] = []
            ours: list[float] = []
            for _ in range(ROUNDS):  # The first batch starts the Python workers.
                plain += run(spark, case)[0][1:]
                seconds, _, count = run(spark, case, options={})
                assert count == rows, (count, rows)
                ours += seconds[1:]
            rates = [rows / batches / float(np.median(times)) for times in (plain, ours)]
            share, bound = rates[1] / rates[0], SHARE[disorder] if dests > 1 else None
            good = bound is None or (share >= bound and rates[1] >= RATE)
            met = judge(f"{dests} destinations with {disorder} disorder", good) and met
            shown = "-" if bound is None else f"{bound} {'met' if good else 'MISSED'}"
            print(
                f"{dests:12} {disorder:>9} {rates[0]:15,.0f} {rates[1]:12,.0f} {share:6.2f}  "
                f"{shown}",
                flush=True,
            )
            record(
                "reorder", destinations=dests, disorder=disorder, plain=rates[0], ours=rates[1],
                share=share,
            )  # fmt: skip
            shutil.rmtree(case)
    return met


def stays_flat(spark: SparkSession, folder: Path, batches: int, size: int) -> bool:
    """Run many batches; compare the time and state of the last ones and the early ones."""
    case = folder / "flat"
    write_batches(case / "in", make_rows(batches * size, 10, 20), batches)
    seconds, state, count = run(spark, case, options={"horizon": 5})
    assert count == batches * size
    edge = max(1, batches // 5)
    early, last = np.median(seconds[1 : 1 + edge]), np.median(seconds[-edge:])
    most = [max(state[: batches // 2]), max(state[batches // 2 :])]  # compacted now and then
    growth, wider = float(last / early), most[1] / most[0]
    print(
        f"{batches} batches of {size:,} rows: {early:.2f} s a batch early, {last:.2f} s at the "
        f"end, x{growth:.2f}; at most {most[0]:,} rows of state in the first half, {most[1]:,} in "
        f"the second, x{wider:.2f} (bounds {GROWTH})"
    )
    return judge("flat", growth <= GROWTH and wider <= GROWTH)


def main(*, quick: bool) -> bool:
    rows, batches = (8_000, 4) if quick else (500_000, 5)
    good = []
    folder = Path(tempfile.mkdtemp(prefix="antecede-bench-"))
    begun = time.perf_counter()
    try:
        with session("local[2]", app="antecede-bench", memory="2g", config=SESSION) as spark:
            # A stream runs for days, so the time in which Java still compiles counts for neither.
            warm = folder / "warm"
            write_batches(warm / "in", make_rows(rows, 10, 20), batches)
            for _ in range(1 if quick else WARM_ROUNDS):
                run(spark, warm)
                run(spark, warm, options={})
            shutil.rmtree(warm)
            good.append(measure(spark, folder, rows, batches))
            good.append(measure_packets(spark, folder, 40 if quick else 30_000))
            good.append(grows_linearly(spark, folder, 400 if quick else 20_000))
            good.append(stays_flat(spark, folder, 6 if quick else 50, 500 if quick else 10_000))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{time.perf_counter() - begun:.0f} s in all")
    return quick or all(good)
