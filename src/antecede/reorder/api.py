"""``reorder``: the rows of a stream or a table in causal order per destination."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from antecede.errors import UsageError
from antecede.reorder import spark_state as packing
from antecede.reorder.bucket import HELD_BYTES_MAX, Bucket, Policy
from antecede.reorder.columns import (
    BUCKET,
    Commanded,
    Number,
    commanded,
    declared,
    find_names,
    require_columns,
    result_schema,
    with_numbers,
)
from antecede.reorder.packets import Routed, make_plan
from antecede.reorder.progress import METRICS
from antecede.reorder.store import PACKET_STATE_VERSION, STATE_VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def order_table(table: pa.Table, policy: Policy, *, releases: bool) -> pa.Table:
    """Return a bucket's rows in causal order, the held ones last if ``releases``."""
    bucket = Bucket(policy)
    found = bucket.offer(table, 0)
    rest = bucket.flush(0) if releases else None
    return found if rest is None else pa.concat_tables([found, rest])


#: Options that only rows with packets have.
_OF_PACKETS = ("members", "protocol", "readers", "options")
#: How many buckets destinations are hashed to by default.
BUCKETS = 8
COUNT_MAX = 1 << 16
#: The greatest limit on a bucket's bytes: what fits into one Java value.
BYTES_MAX = (1 << 31) - (1 << 20)
#: How long ids of delivered rows are remembered by default, in seconds.
HORIZON = 600.0
#: Settings that make ``reorder`` fast: if a batch of rows has several parts, Spark reads one while
#: Python packs another.
SESSION = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
}

_STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Save only what a batch changed, not a snapshot of everything.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def reorder(
    stream: DataFrame,
    *,
    causes: str | None = None,
    packet: str | None = None,
    positions: str | None = None,
    topics: Iterable[str] | None = None,
    id: str = "id",  # noqa: A002 - the name of the column
    dest: str | None = None,
    source: str | None = None,
    seq: str | None = None,
    on_missing: Literal["wait", "release"] = "wait",
    timeout: float | None = None,
    horizon: float = HORIZON,
    buckets: int = BUCKETS,
    held_bytes_max: int = HELD_BYTES_MAX,
    keep_rejected: bool = False,
    commands: DataFrame | None = None,
    members: Iterable[str] | None = None,
    readers: Iterable[str] | None = None,
    protocol: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return the rows of each destination once, in causal order.

    ``stream`` is any streaming or batch DataFrame. A row is one copy of a message: its ``id``, its
    destination ``dest``, and ``causes``, the id or an array of the ids of messages that the same
    destination gets and that must come before it. Without a column ``dest`` all rows have one
    destination. Rows may also have a ``source`` and their number ``seq`` there, which recognise
    duplicates for longer than ids do. All of the rows' columns pass through. These are added:
    ``position``, the row's place at its destination, from 1, without gaps, even across restarts;
    ``held_seconds``, how long it waited for its causes; ``released``, whether it was delivered
    without one of its causes; ``late``, whether one of its effects was delivered before it.

    With ``on_missing="wait"`` a row waits for its causes for ever. With ``"release"`` it waits for
    ``timeout`` seconds at most, and so do its effects; on a table it is released at the end.
    Duplicates are dropped. ``horizon`` is how many seconds the ids of delivered rows are
    remembered: choose more than a row may arrive after its effects or its first copy. A destination
    in use for no longer than that is later forgotten, and begins at 1 again. With ``keep_rejected``
    rows that are not messages come out too, without a position and with the reason in ``rejected``.

    ``commands`` is a stream with the columns ``action``, ``id`` and ``dest``, by which a person can
    ``"release"`` a held row without its missing causes, or ``"drop"`` one that is held or waited
    for. A query that began without commands cannot get them later.

    For rows with encoded packets, ``packet`` names their column (of any protocol that puts control
    information into packets), ``members`` the processes in the Codec's order, and ``readers`` the
    destinations, which must not send: packets leave out what their destination knows from its own
    sends. ``protocol`` and ``options`` are those of the endpoints; by default the protocol is taken
    from the packets.

    For records of Kafka with positions (``antecede.logs``), ``positions`` names the column of their
    header or of all headers, and ``topics`` the topics that the stream reads; the columns
    ``topic``, ``partition`` and ``offset`` locate a record. Destinations are hashed to ``buckets``,
    the units of parallel work; each may hold ``held_bytes_max`` bytes of rows; more than that ends
    the query. Neither the number of buckets nor the names of columns may change after a checkpoint.
    """
    asked = dict(locals())
    waits = checked_policy(on_missing, timeout, horizon, buckets, is_streaming=stream.isStreaming)
    _require_count("held_bytes_max", held_bytes_max, BYTES_MAX)
    if positions is not None:
        return _by_positions(stream, positions, waits, asked)
    policy = Policy(
        timeout=waits,
        horizon=round(horizon * 1e6),
        fixed="",
        version=STATE_VERSION,
        keeps_rejected=keep_rejected,
        held_bytes_max=held_bytes_max,
    )
    rows, number, told, policy = (_by_causes if packet is None else _by_packets)(asked, policy)
    if stream.isStreaming:
        return _on_stream(rows, policy, number, told, buckets)
    return _on_batch(rows, policy, number, releases=on_missing == "release")


#: Rows, the function that adds their numbers, commands, and the policy.
_Input: TypeAlias = tuple["DataFrame", Number, "DataFrame | None", Policy]


def _by_causes(asked: Mapping[str, Any], policy: Policy) -> _Input:
    """Check the options for rows with declared causes."""
    _require_no_packets({name: asked[name] for name in _OF_PACKETS})
    stream, buckets, commands = asked["stream"], asked["buckets"], asked["commands"]
    causes = asked["causes"] or "causes"
    names = find_names(stream, asked["id"], causes, asked["dest"], asked["source"], asked["seq"])
    rows, number = declared(stream, names, buckets)
    told = None
    if commands is not None:
        told = commanded(stream, commands, has_dest=names.dest is not None)
    form = "causes" if names.numbered else "events"
    columns = {"id": names.id, "dest": names.dest, "causes": causes, "packet": None}
    return (
        rows,
        number,
        told,
        replace(
            policy,
            fixed=json.dumps({"form": form, "buckets": buckets}),
            columns=json.dumps(columns),
            numbered=names.numbered,
        ),
    )


def _by_packets(asked: Mapping[str, Any], policy: Policy) -> _Input:
    """Check the options for rows with packets."""
    stream, packet, buckets = asked["stream"], asked["packet"], asked["buckets"]
    plan = make_plan(packet, *(asked[name] for name in _OF_PACKETS))
    _require_packets(stream, packet, asked["causes"], asked["on_missing"])
    _require_no_commands(asked["commands"])
    fixed = {"form": "packets", "buckets": buckets, **plan.fixed()}
    columns = {"id": asked["id"], "dest": asked["dest"] or "dest", "packet": packet}
    return (
        stream,
        Routed(plan, buckets),
        None,
        replace(
            policy,
            fixed=json.dumps(fixed),
            version=PACKET_STATE_VERSION,
            plan=plan,
            columns=json.dumps(columns),
        ),
    )


def _keep_in_rocksdb(spark: SparkSession) -> None:
    for name, value in _STATE.items():
        spark.conf.set(name, value)


def _by_positions(
    stream: DataFrame, positions: str, timeout: int | None, asked: Mapping[str, Any]
) -> DataFrame:
    from antecede.reorder.positions import reorder_by_positions

    _require_no_commands(asked["commands"])
    for name in ("causes", "packet", "members", "readers", "protocol", "options"):
        if asked[name] is not None:
            raise UsageError(
                f"rows have positions, or {name}; give positions= or {name}=, not both"
            )
    if stream.isStreaming:
        _keep_in_rocksdb(stream.sparkSession)
    return reorder_by_positions(
        stream,
        positions,
        asked["topics"],
        asked["dest"] or "dest",
        timeout,
        releases=asked["on_missing"] == "release",
        keeps_rejected=asked["keep_rejected"],
    )


def _require_no_packets(given: Mapping[str, object]) -> None:
    """Refuse options that only rows with packets have."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name}= is for rows with packets; name their column with packet=")


def _require_packets(stream: DataFrame, packet: str, causes: str | None, on_missing: str) -> None:
    """Refuse a column without packets, and options that need declared causes."""
    if causes is not None:
        raise UsageError("rows have declared causes or packets, not both; give causes= or packet=")
    if on_missing != "wait":
        raise UsageError(
            "packets wait for their causes; on_missing='release' needs rows with declared causes"
        )
    require_columns(stream, (packet,))
    found = dict(stream.dtypes)[packet]
    if found != "binary":
        raise UsageError(f"column {packet!r} has type {found}; packets are binary")


def _require_no_commands(commands: DataFrame | None) -> None:
    if commands is not None:
        raise UsageError("commands= is for rows with declared causes, not for packets or positions")


def _on_stream(
    rows: DataFrame, policy: Policy, number: Number, told: DataFrame | None, buckets: int
) -> DataFrame:
    from pyspark.sql import functions as F

    _keep_in_rocksdb(rows.sparkSession)
    keeps_rejected = policy.keeps_rejected
    schema = result_schema(rows, keeps_rejected=keeps_rejected)
    pack = partial(packing.pack, number=number, keeps_rejected=keeps_rejected)
    # Without timers Spark need not run a batch when no rows have arrived.
    mode = "none" if policy.timeout is None else "processingTime"
    packed = rows.mapInArrow(pack, packing.PACKED)
    if told is not None:
        read = Commanded(has_dest="dest" in told.columns, buckets=buckets)
        obeyed = partial(packing.pack_commands, number=read)
        packed = packed.unionByName(told.mapInArrow(obeyed, packing.PACKED))
    emitted = packing.order_stream(packed, policy, mode)
    # Few expressions: Spark writes code for them in every task.
    has_figures = F.col("came").isNotNull()
    observed = emitted.observe(
        METRICS,
        F.sum("came").alias("rows_in"),
        F.sum("went").alias("rows_out"),
        F.sum("duplicates").alias("duplicates"),
        F.sum("rejected").alias("rejected"),
        # Only buckets that had something to do: a listener adds up the last figures of each.
        F.collect_list(F.when(has_figures, F.struct("bucket", "held", "oldest"))).alias("buckets"),
    )
    return observed.select("rows").mapInArrow(packing.unpack, schema)


def _on_batch(rows: DataFrame, policy: Policy, number: Number, *, releases: bool) -> DataFrame:

    def order(table: pa.Table) -> pa.Table:
        return order_table(table, policy, releases=releases)

    schema = result_schema(rows, keeps_rejected=policy.keeps_rejected)
    numbered = with_numbers(rows, number, keeps_rejected=policy.keeps_rejected)
    return numbered.groupBy(BUCKET).applyInArrow(order, schema)


def checked_policy(
    on_missing: str, timeout: float | None, horizon: float, buckets: int, *, is_streaming: bool
) -> int | None:
    """Return the timeout in microseconds; refuse wrong or contradictory options."""
    _require_positive("horizon", horizon)
    _require_count("buckets", buckets)
    if on_missing not in ("wait", "release"):
        raise UsageError(f"on_missing is {on_missing!r}; expected 'wait' or 'release'")
    if on_missing == "wait":
        if timeout is not None:
            raise UsageError(
                f"timeout is {timeout!r}, but on_missing='wait' has none; use on_missing='release'"
            )
        return None
    if timeout is None:
        if is_streaming:
            raise UsageError("on_missing='release' needs a timeout in seconds, as in timeout=60")
        return None
    _require_positive("timeout", timeout)
    return round(timeout * 1e6)


def _require_positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise UsageError(
            f"{name} is {value!r}; expected a number of seconds greater than 0, below 1e9"
        )


def _require_count(name: str, value: int, most: int = COUNT_MAX) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise UsageError(f"{name} is {value!r}; expected a whole number from 1 to {most}")
