"""What each protocol would cost on a log's own traffic.

The log's sends become a schedule: who sent what to whom, and after which delivery. Every protocol
that supports the required casts runs that schedule; if its state would not fit in memory, its
figures come from its formula. Each run is audited. A protocol that guarantees less than causal
order, breaks it, or leaves messages undelivered is not recommended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import antecede
from antecede.advise.costs import (
    Cost,
    Status,
    computed,
    ranked,
    table_of,
    why_not_run,
    why_too_large,
)
from antecede.advise.replays import pack_schedule, promised_faults, replay, without_protocol
from antecede.advise.traffic import schedule_of
from antecede.audit.found import Frame
from antecede.endpoint.info import ProtocolInfo
from antecede.errors import UsageError
from antecede.events.inputs import log_of
from antecede.events.rule import require_columns
from antecede.sim import Schedule
from antecede.spark.frames import frame_of, renamed_frame
from antecede.spark.tasks import run_specs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def advise(
    events_or_schedule: object,
    *,
    protocols: Sequence[str] | None = None,
    delay: str | None = None,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
) -> Frame:
    """Return one row per protocol: what it would have carried, delayed, held and kept.

    The row ``none`` is what would happen without a protocol. The log is whatever ``audit`` takes,
    with the same ``columns``, or a schedule. A Spark frame gives a Spark frame, anything else an
    Arrow table. ``delay`` names a model, such as ``exponential:0.05``, to use instead of the delays
    in the log.
    """
    given: Any = events_or_schedule
    if isinstance(given, Schedule):
        return table_of(costs_on(given, protocols))
    if not hasattr(given, "sparkSession"):
        events = log_of(given, columns).events
        return table_of(costs_on(schedule_of(events, delay=delay, seed=seed), protocols))
    given = renamed_frame(given, columns or {})
    require_columns(given.columns)
    schedule = schedule_of(given.toArrow(), delay=delay, seed=seed)
    spark = given.sparkSession
    return frame_of(spark, table_of(costs_on(schedule, protocols, spark=spark)))


def costs_on(
    schedule: Schedule,
    protocols: Sequence[str] | None = None,
    *,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Cost]:
    """Return each protocol's costs on a schedule, in the order of the advice table.

    With ``spark``, protocols run as tasks; without, one after the other in this process, and
    ``progress`` is called with the name of each.
    """
    names = list(antecede.PROTOCOLS) if protocols is None else protocols
    for name in names:
        if name not in antecede.PROTOCOLS:
            known = ", ".join(sorted(antecede.PROTOCOLS))
            msg = f"unknown protocol {name!r}; known: {known}"
            raise UsageError(msg)
    packed = pack_schedule(schedule)
    found = {n: _without_running(antecede.PROTOCOLS[n], schedule) for n in dict.fromkeys(names)}
    costs = [cost for cost in found.values() if cost is not None]
    if protocols is None:
        costs.append(without_protocol(schedule))
    specs = [(name, packed) for name, cost in found.items() if cost is None]
    if spark is not None:
        return ranked(costs + run_specs(spark, replay, specs))
    for spec in specs:
        if progress is not None:
            progress(spec[0])
        costs.append(replay(spec))
    return ranked(costs)


def _without_running(info: ProtocolInfo, schedule: Schedule) -> Cost | None:
    """Return the costs of a protocol without a run, or None if it has to be run."""
    if info.reconstruction:
        note = "reconstructed from an abstract, so it is not advised"
    elif schedule.cast not in info.casts:
        note = f"supports {' and '.join(info.casts)}; the log has {schedule.cast}"
    else:
        why = why_not_run(info, schedule.n)
        if why is not None:
            return computed(info, schedule.n, why, promised_faults(info))
        too_large = why_too_large(info, schedule.n)
        if too_large is None:
            return None
        note = too_large
    return Cost(protocol=info.name, status=Status.SKIPPED, note=note)
