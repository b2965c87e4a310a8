"""Tell what each protocol would cost on a log's own traffic, and which to take.

The log's sends become a schedule (`traffic`): who sent what to whom, and after which delivery. Every
protocol that offers the casts needed runs that same schedule; one whose state would not fit is
reported by its formula and marked as computed. What a run delivered is audited: a protocol that
promises less than causal order, broke it, or left messages undelivered is not to be chosen.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import antecede
from antecede.errors import UsageError
from antecede.pipeline import callable_module, schemas
from antecede.pipeline.recommend import BEGUN, NOT_CHOSEN, RIDES
from antecede.pipeline.traffic import schedule_of
from antecede.pipeline.windows.columns import require_columns
from antecede.sim import KERNELS, Run, Schedule, run
from antecede.sim.events import event_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from antecede.core.info import Formula

#: A process's state in a kernel that keeps a matrix per process; beyond it nothing is run.
CUBE_BYTES_MAX = 1 << 30
#: Without a kernel, the beginning of the schedule has to do: this many copies times processes.
PLAIN_MAX = 500_000
#: And never more copies than this.
PLAIN_COPIES_MAX = 3_000
#: Among more processes than this, what carries a vector is computed if it has no kernel.
PLAIN_PROCESSES_MAX = 500
#: Copies whose control is encoded to know its size on the wire.
WIRE_SAMPLE = 200
#: They are encoded by real endpoints, whose number has to be modest.
WIRE_PROCESSES_MAX = 200
#: Events of a run, from its beginning, that are audited; and at most so many times processes.
AUDITED_MAX, AUDITED_PRODUCT_MAX = 200_000, 50_000_000
#: What a protocol has to promise to be chosen.
NEEDED = ("safety", "liveness")

RUN, COMPUTED, SKIPPED = "run", "computed", "skipped"


_ENTRY_BYTES = 6


def advise(
    events_or_schedule: DataFrame | pa.Table | Schedule,
    *,
    protocols: Sequence[str] | None = None,
    delay: str | None = None,
    seed: int = 0,
) -> Any:  # noqa: ANN401  (a Spark frame for a Spark frame, else an Arrow table)
    """Return one row per protocol: what it would have carried, delayed, held and kept.

    ``delay`` names a model (``exponential:0.05``) to use instead of what the log shows.
    """
    if isinstance(events_or_schedule, Schedule | pa.Table):
        return advise_table(events_or_schedule, protocols=protocols, delay=delay, seed=seed)
    frame = events_or_schedule
    require_columns(frame.columns)
    schedule = schedule_of(frame.toArrow(), delay=delay, seed=seed)
    spark = frame.sparkSession
    return spark.createDataFrame(advise_on(spark, schedule, protocols))


def advise_on(
    spark: SparkSession, schedule: Schedule, protocols: Sequence[str] | None = None
) -> pa.Table:
    """Run the protocols as Spark tasks, one each."""
    from antecede.pipeline import audit_tasks
    from antecede.pipeline.audit_blobs import by_number, results_of

    specs, rows = _plan(schedule, protocols)
    packed = [pickle.dumps(spec, protocol=5) for spec in specs]
    table = pa.table(
        {"id": pa.array(range(len(specs)), pa.int64()), "spec": pa.array(packed, pa.binary())}
    )
    if specs:
        spread = by_number(spark.createDataFrame(table), len(specs))
        task = audit_tasks.on_specs(audit_tasks.advise_one)
        found = results_of(spread.mapInArrow(task, audit_tasks.RESULT_SQL))
        rows += [found[number] for number in range(len(specs))]
    return _table(rows, schedule)


def advise_table(
    source: pa.Table | Schedule,
    *,
    protocols: Sequence[str] | None = None,
    delay: str | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> pa.Table:
    """Do the same in this process, one protocol after the other."""
    if isinstance(source, Schedule):
        schedule = source
    else:
        schedule = schedule_of(source, delay=delay, seed=seed)
    specs, rows = _plan(schedule, protocols)
    for spec in specs:
        if progress is not None:
            progress(spec["protocol"])
        rows.append(run_one(spec))
    return _table(rows, schedule)


def _plan(
    schedule: Schedule, protocols: Sequence[str] | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return (what to run, rows known without running)."""
    unknown = [name for name in protocols or () if name not in antecede.PROTOCOLS]
    if unknown:
        msg = f"unknown protocol {unknown[0]!r}; known: {', '.join(sorted(antecede.PROTOCOLS))}"
        raise UsageError(msg)
    specs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    packed = pack_schedule(schedule)
    for name, info in antecede.PROTOCOLS.items():
        if protocols is not None and name not in protocols:
            continue
        reason = _unfit(name, schedule.n)
        formula = info.formula
        if info.reconstruction:
            rows.append(_row(name, SKIPPED, "reconstructed from an abstract; not advised"))
        elif schedule.cast not in info.casts:
            casts = " or ".join(info.casts)
            rows.append(_row(name, SKIPPED, f"carries {casts}; the log has {schedule.cast}"))
        elif reason and formula:
            broken = _unpromised(name)
            row = _computed(name, formula, schedule.n, reason)
            row["reason"] = "; ".join(([NOT_CHOSEN + broken] if broken else []) + [row["reason"]])
            rows.append(row)
        elif reason:
            rows.append(_row(name, SKIPPED, reason))
        else:
            specs.append({"protocol": name, "schedule": packed})
    return specs, rows


def _unfit(name: str, n: int) -> str | None:
    """Return why a protocol is not run among so many processes, or None."""
    formula = antecede.PROTOCOLS[name].formula
    if formula and formula.cubic and 8 * n**3 > CUBE_BYTES_MAX:
        return f"{n:,} processes with {formula.state(n):,} bytes each would not fit"
    if formula and name not in KERNELS and n > PLAIN_PROCESSES_MAX:
        return "its plain engine is too slow among so many"
    return None


def _beginning(schedule: Schedule) -> Schedule:
    """Return what the plain engine can run of a schedule in a few seconds."""
    copies = min(PLAIN_COPIES_MAX, max(PLAIN_MAX // schedule.n, 2 * schedule.n))
    if schedule.copies <= copies:
        return schedule
    return schedule.head(int(np.searchsorted(schedule.offsets, copies)))


def run_one(spec: dict[str, Any]) -> dict[str, Any]:
    """Run one protocol over the schedule and return its row."""
    name, schedule = spec["protocol"], unpack_schedule(spec["schedule"])
    part = schedule if name in KERNELS else _beginning(schedule)
    sample = WIRE_SAMPLE if schedule.n <= WIRE_PROCESSES_MAX else 0
    try:
        result = run(name, part, wire_sample=sample)
    except UsageError as error:
        return _row(name, SKIPPED, str(error))
    figures = result.metrics
    row = _row(name, RUN, _remarks(name, schedule, part, result))
    for column in row:
        if column in figures:
            row[column] = figures[column]
    if not part.fifo:
        row |= _relayed(part, result)
    formula = antecede.PROTOCOLS[name].formula
    kept = figures.get("log_entries_peak")
    if formula is not None and not formula.most:
        row["state_bytes_peak"] = formula.state(schedule.n)
    elif kept is not None:
        row["state_bytes_peak"] = _ENTRY_BYTES * kept
    return row


def _remarks(name: str, schedule: Schedule, part: Schedule, result: Run) -> str:
    """Return what has to be known of a run; first of all why the protocol is not to be chosen."""
    faults = _faults(name, part, result)
    remarks = [NOT_CHOSEN + "; ".join(faults)] if faults else []
    if part is not schedule:
        remarks.append(f"{BEGUN} {part.messages:,} messages (no kernel)")
    if antecede.PROTOCOLS[name].carries_messages:
        remarks.append(f"{RIDES}, payload and all; payloads count as empty here")
    return "; ".join(remarks)


def _faults(name: str, schedule: Schedule, result: Run) -> list[str]:
    """Return why a protocol does not do for this traffic, by its promises and by its run."""
    figures = result.metrics
    unpromised = _unpromised(name)
    faults = [unpromised] if unpromised else []
    if figures["undelivered"]:
        faults.append(f"{figures['undelivered']:,} of {schedule.copies:,} copies never delivered")
    broken = violations_of(schedule, result)
    if broken:
        faults.append(f"causal order broken {broken:,} times on this traffic")
    if figures["saturated"]:
        faults.append("saturated, its queues grow")
    return faults


def _unpromised(name: str) -> str | None:
    """Return what a protocol promises instead, if that is less than is needed."""
    info = antecede.PROTOCOLS[name]
    return None if info.promises.issuperset(NEEDED) else f"its guarantee is: {info.guarantee}"


def violations_of(schedule: Schedule, result: Run) -> int:
    """Return how often the beginning of a run broke causal order, by the audit of its events."""
    from antecede.pipeline.audit import audit_table

    # What happened until some moment is a history of its own.
    order = result.trace.order[: min(AUDITED_MAX, AUDITED_PRODUCT_MAX // schedule.n)]
    if not (order >= 0).any():
        return 0
    events = event_table(schedule, result.trace._replace(order=order))
    return int(audit_table(events).summary["violations"])


def _relayed(schedule: Schedule, result: Run) -> dict[str, float]:
    """Return what differs where a relay sent copies on.

    Its second hop is no waiting, but it is added delay all the same; and it takes the place of
    the copy's own packet, so it is none that was added.
    """
    trace, figures = result.trace, result.metrics
    came = trace.posted + schedule.delays
    relayed = ~np.isnan(trace.delivered) & (trace.arrived != came)
    packets = float(figures["extra_packets_per_message"] or 0.0)
    if not packets or not relayed.any():
        return {}
    message = np.repeat(np.arange(schedule.messages), np.diff(schedule.offsets))
    late = trace.delivered - trace.sent[message] - schedule.delays
    late = late[~np.isnan(late)]
    return {
        "added_delay_mean": max(0.0, float(late.mean())),
        "added_delay_p99": max(0.0, float(np.quantile(late, 0.99))),
        "extra_packets_per_message": packets - float(relayed.sum()) / schedule.messages,
    }


def _row(protocol: str, status: str, reason: str) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(schemas.ADVICE.names)
    return empty | {"protocol": protocol, "status": status, "reason": reason}


def _computed(name: str, formula: Formula, n: int, reason: str) -> dict[str, Any]:
    bound = "at most, " if formula.most else ""
    row = _row(name, COMPUTED, f"{bound}by its formula for {n:,} processes: {reason}")
    return row | {
        "entries_per_copy": formula.entries(n),
        "model_bytes_per_copy": formula.bytes(n),
        "state_bytes_peak": formula.state(n),
    }


def _table(rows: list[dict[str, Any]], schedule: Schedule) -> pa.Table:
    """Return the advice, what was run first, the least bytes first."""
    for row in rows:
        if not row["reason"]:
            row["reason"] = f"ran; delays {schedule.about.get('delays', 'by a model')}"
        for name, value in row.items():
            if name not in {"protocol", "status", "reason"}:
                row[name] = None if value is None or np.isnan(value) else float(value)
    order = (RUN, COMPUTED, SKIPPED)
    most = float("inf")
    rows.sort(
        key=lambda r: (
            order.index(r["status"]),
            most if r["model_bytes_per_copy"] is None else r["model_bytes_per_copy"],
            r["protocol"],
        )
    )
    return pa.Table.from_pylist(rows, schemas.ADVICE)


def pack_schedule(schedule: Schedule) -> bytes:
    """Return a schedule as bytes that a task can read."""
    sink = io.BytesIO()
    table = schedule.to_arrow()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack_schedule(data: bytes) -> Schedule:
    """Return the schedule that :func:`pack_schedule` packed."""
    with pa.ipc.open_stream(data) as reader:
        return Schedule.from_arrow(reader.read_all())


callable_module(__name__)
