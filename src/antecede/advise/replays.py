"""Run one protocol on the traffic and audit what it delivered."""

from __future__ import annotations

import heapq
import io

import numpy as np
import pyarrow as pa

import antecede
from antecede.advise.costs import (
    FIGURES,
    NONE,
    Cost,
    Fault,
    FaultKind,
    Status,
    known_figures,
    state_bytes,
)
from antecede.audit.api import audit_table
from antecede.endpoint.info import ProtocolInfo
from antecede.errors import UsageError
from antecede.sim import KERNELS, Run, Schedule, run
from antecede.sim.engine import event_table
from antecede.sim.trace import Trace, new_trace

#: The most copies for a protocol without a kernel: this, divided by the number of processes.
PLAIN_MAX = 500_000
#: And never more copies than this.
PLAIN_COPIES_MAX = 3_000
#: Up to this many copies, endpoints run at once, while kernels may have to be compiled first.
SMALL_COPIES_MAX = 500
#: The number of copies whose control is encoded to measure its size on the wire.
WIRE_SAMPLE = 200
#: Sizes on the wire need real endpoints, so they are measured for up to this many processes.
WIRE_PROCESSES_MAX = 200
#: The most events of a run to audit: this many, and this many divided by the processes.
AUDITED_MAX, AUDITED_PRODUCT_MAX = 200_000, 50_000_000
#: What a protocol must promise to be recommended.
PROMISES_NEEDED = frozenset({"safety", "liveness"})


def replay(spec: tuple[str, bytes]) -> Cost:
    """Run a protocol, given by its name, on a packed schedule and return its costs."""
    info, schedule = antecede.PROTOCOLS[spec[0]], unpack_schedule(spec[1])
    part = schedule if info.name in KERNELS else _beginning(schedule)
    sample = WIRE_SAMPLE if schedule.n <= WIRE_PROCESSES_MAX else 0
    try:
        engine = "plain" if part.copies <= SMALL_COPIES_MAX else "auto"
        result = run(info.name, part, engine=engine, wire_sample=sample)
    except UsageError as error:
        return Cost(protocol=info.name, status=Status.SKIPPED, note=str(error))
    figures = dict(result.metrics)
    figures["state_bytes_peak"] = state_bytes(info, schedule.n, figures.get("log_entries_peak"))
    if not part.fifo:
        figures |= _relayed(part, result)
    return Cost(
        protocol=info.name,
        status=Status.RUN,
        faults=promised_faults(info) + _faults(part, result),
        is_partial=part is not schedule,
        messages=part.messages,
        wire_sample=int(figures.get("wire_sample") or 0),
        carries_messages=info.carries_messages,
        note=_note(info, schedule, part),
        **known_figures(figures),
    )


def without_protocol(schedule: Schedule) -> Cost:
    """Return what happens without a protocol: every copy is delivered when it arrives."""
    trace = _unordered(schedule)
    events = event_table(schedule, trace)
    found = audit_table(events).summary
    return Cost(
        protocol=NONE,
        status=Status.RUN,
        faults=(Fault(FaultKind.UNORDERED, (found["violations"], found["deliveries"])),),
        is_partial=False,
        messages=schedule.messages,
        wire_sample=0,
        carries_messages=False,
        note="each copy is delivered when it arrives",
        **dict.fromkeys(FIGURES, 0.0),
    )


def _unordered(schedule: Schedule) -> Trace:
    """Return a trace of the beginning of the traffic, without enforcing any order."""
    plan, trace = schedule.plan(), new_trace(schedule.messages, schedule.copies)
    most = min(AUDITED_MAX, AUDITED_PRODUCT_MAX // schedule.n, len(trace.order))
    heap = [(float(schedule.time[row]), int(row)) for row in plan.fixed]
    heapq.heapify(heap)
    sends = [0] * schedule.n
    for place in range(most):
        if not heap:
            break
        now, event = heapq.heappop(heap)
        trace.order[place] = event
        copy = event - schedule.messages
        if copy < 0:
            sender = int(schedule.sender[event])
            sends[sender] += 1
            trace.sent[event], trace.number[event] = now, sends[sender]
            for one in range(int(schedule.offsets[event]), int(schedule.offsets[event + 1])):
                arrival = now + float(schedule.delays[one])
                heapq.heappush(heap, (arrival, schedule.messages + one))
            continue
        trace.delivered[copy] = now
        if len(plan.trigger_offsets) > 1:
            ends = plan.trigger_offsets[copy : copy + 2]
            for row in plan.triggered[ends[0] : ends[1]]:
                heapq.heappush(heap, (now + float(schedule.think[row]), int(row)))
    return trace


def promised_faults(info: ProtocolInfo) -> tuple[Fault, ...]:
    """Return the faults of a protocol that promises too little."""
    if info.promises >= PROMISES_NEEDED:
        return ()
    return (Fault(FaultKind.WEAK_GUARANTEE, (info.guarantee,)),)


def _beginning(schedule: Schedule) -> Schedule:
    """Return the part of a schedule that the plain engine can run in a few seconds."""
    copies = min(PLAIN_COPIES_MAX, max(PLAIN_MAX // schedule.n, 2 * schedule.n))
    if schedule.copies <= copies:
        return schedule
    return schedule.head(int(np.searchsorted(schedule.offsets, copies)))


def _note(info: ProtocolInfo, schedule: Schedule, part: Schedule) -> str:
    """Return what the run was made on, and what its figures leave out."""
    extent = f" on the first {part.messages:,} messages (no kernel)" * (part is not schedule)
    known = "delays" in schedule.about
    delays = f"delays {schedule.about['delays']}" if known else "its own delays"
    carried = "; its copies contain earlier messages, whose payloads count as empty here"
    return f"ran{extent} with {delays}{carried * info.carries_messages}"


def _faults(schedule: Schedule, result: Run) -> tuple[Fault, ...]:
    """Return what went wrong in a run."""
    faults = []
    if undelivered := int(result.metrics["undelivered"] or 0):
        faults.append(Fault(FaultKind.UNDELIVERED, (undelivered, schedule.copies)))
    if violations := violations_of(schedule, result):
        faults.append(Fault(FaultKind.ORDER_BROKEN, (violations,)))
    if result.metrics["saturated"]:
        faults.append(Fault(FaultKind.SATURATED))
    return tuple(faults)


def violations_of(schedule: Schedule, result: Run) -> int:
    """Return how often the beginning of a run broke causal order, by auditing its events."""
    # The events up to some moment are themselves a history.
    order = result.trace.order[: min(AUDITED_MAX, AUDITED_PRODUCT_MAX // schedule.n)]
    if not (order >= 0).any():
        return 0
    events = event_table(schedule, result.trace._replace(order=order))
    return int(audit_table(events).summary["violations"])


def _relayed(schedule: Schedule, result: Run) -> dict[str, float]:
    """Return the figures that differ because a relay forwarded copies.

    The second hop counts as added delay, but not as waiting. It replaces the copy's own packet, so
    it does not count as an extra packet.
    """
    trace = result.trace
    arrival = trace.posted + schedule.delays
    relayed = ~np.isnan(trace.delivered) & (trace.arrived != arrival)
    packets = float(result.metrics["extra_packets_per_message"] or 0.0)
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


def pack_schedule(schedule: Schedule) -> bytes:
    """Return a schedule as bytes that a task can read."""
    table, sink = schedule.to_arrow(), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack_schedule(data: bytes) -> Schedule:
    """Return the schedule that :func:`pack_schedule` packed."""
    with pa.ipc.open_stream(data) as reader:
        return Schedule.from_arrow(reader.read_all())
