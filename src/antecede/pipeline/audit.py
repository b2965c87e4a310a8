"""Tell whether, where and how often causal order was broken in a log.

``audit(events)`` checks a log exactly. The default engine cuts it into windows and runs them on
Spark; ``engine="local"`` runs the same windows' code over the whole log in this process. Both give
the same tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from antecede.core.tables import FIFO
from antecede.core.validation import shown
from antecede.errors import UsageError
from antecede.pipeline import callable_module, results
from antecede.pipeline.event_columns import plain_frame
from antecede.pipeline.sources import refuse_empty, sorted_out
from antecede.pipeline.windows.columns import (
    lookup_in,
    process_names,
    to_events,
)
from antecede.pipeline.windows.join import HashCollision, Incomplete, add_chains, check
from antecede.pipeline.windows.whole import Whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from antecede.pipeline.windows.join import Answer, Arrangement

ENGINES = ("spark", "local")
#: How many violations get their shortest chain.
WORST = 100
#: How many salts are tried before two names of one hash are taken for a miracle.
_SALTS = 4


@dataclass(frozen=True)
class Audit:
    """What an audit found; the frames are Spark's where the events were, else Arrow tables."""

    violations: Any
    missing: Any
    findings: Any
    summary: dict[str, Any]
    tables: dict[str, pa.Table]
    """The same three tables, always as Arrow."""

    def explain(self, process: str, message: str) -> str:
        """Return the sentence that says why ``message`` was late at ``process``."""
        rows = [
            row
            for row in self.tables["violations"].to_pylist()
            if row["process"] == process and row["message"] == message
        ]
        if not rows:
            msg = f"{message!r} at {process!r} is no violation of this log"
            raise UsageError(msg)
        return sentence(rows[0])


def audit(
    events: DataFrame | pa.Table,
    *,
    windows: int | None = None,
    engine: str = "spark",
    explain: Sequence[str] = (),
) -> Audit:
    """Check that every process delivered causes before effects.

    ``events`` has the columns of an event log: ``process, seq, kind, message`` and, if known,
    ``dests`` and ``time`` (a hint only). ``windows`` is how many windows to cut the log into;
    by default a few per core. A frame that is nothing but Parquet files in the order of time is
    read by the tasks themselves, which is faster. The worst violations get their shortest chain,
    and so do those of the messages in ``explain``.
    """
    if engine not in ENGINES:
        msg = f"unknown engine {engine!r}; choose one of {', '.join(ENGINES)}"
        raise UsageError(msg)
    if windows is not None:
        require_windows(windows)
    if isinstance(events, pa.Table):
        if engine == "spark":
            msg = "the spark engine takes a Spark DataFrame; make one, or give engine='local'"
            raise UsageError(msg)
        return audit_table(events, explain=explain)
    if not hasattr(events, "sparkSession"):
        msg = (
            f"events is {shown(events)}; give a Spark DataFrame or an Arrow table of events "
            "(antecede.pipeline.sources reads files into one)"
        )
        raise UsageError(msg)
    events = plain_frame(events)
    if engine == "local":
        found = audit_table(events.toArrow(), explain=explain)
        return _framed(found, events.sparkSession)
    return _framed(
        _salted(lambda salt: _on_spark(events, windows, salt, explain)), events.sparkSession
    )


def require_windows(windows: int) -> None:
    """Refuse a number of windows that a log cannot be cut into."""
    if windows < 1:
        msg = f"windows is {windows}; give 1 or more, or leave it out"
        raise UsageError(msg)


def _on_spark(events: DataFrame, windows: int | None, salt: int, explain: Sequence[str]) -> Audit:
    """Let tasks read their own slices where that works, else pack and shuffle."""
    from antecede.pipeline.audit_spark import arrange

    try:
        return _checked(*arrange(events, windows, salt), explain)
    except Incomplete:
        return _checked(*arrange(events, windows, salt, sliced=False), explain)


def audit_table(table: pa.Table, *, explain: Sequence[str] = ()) -> Audit:
    """Check a log in memory, in this process."""
    found = sorted_out(table, "")
    log, rejected = found.events, found.bad
    if not len(log):
        refuse_empty("the log", found.rejected, rejected)
    names = process_names(log)

    def once(salt: int) -> Audit:
        where = Whole(to_events(log, names, salt), names, lookup_in(log))
        return _checked(where, rejected, {"engine": "local"}, explain)

    return _salted(once)


def _salted(once: Callable[[int], Audit]) -> Audit:
    """Hash again with another salt, should two names have had one hash."""
    for salt in range(_SALTS):
        try:
            return once(salt)
        except HashCollision:
            continue
    msg = f"names collided under {_SALTS} different hashes"
    raise AssertionError(msg)


def _checked(
    where: Arrangement, rejected: int, facts: dict[str, Any], explain: Sequence[str]
) -> Audit:
    """Check a log wherever its windows run, and spell the answer out."""
    answer = check(where)
    if any(window.collision for window in answer.windows):
        raise HashCollision
    # Ties are broken by name, so all names come first; the few chains add none.
    spelled = _spelled(where, answer)
    ordered = results.worst_first(answer, where.names, spelled)
    asked = set(explain)
    wanted = ordered[:WORST] + [late for late in ordered[WORST:] if spelled[late.key] in asked]
    add_chains(where, answer, wanted)
    kept = {(late.process, late.key) for late in wanted}
    chains = answer.joined.chains
    answer.joined.chains = {place: chains[place] for place in kept}
    spelled = _spelled(where, answer, spelled)
    tables = {
        "violations": results.violations(answer, ordered, where.names, spelled),
        "missing": results.missing(answer, where.names, spelled),
        "findings": results.findings(answer, where.names, spelled),
    }
    rejected += sum(window.rejected for window in answer.windows)
    summary = results.summarise(answer, where.names, tables, rejected) | facts
    return Audit(tables["violations"], tables["missing"], tables["findings"], summary, tables)


def _spelled(
    where: Arrangement, answer: Answer, known: dict[int, str] | None = None
) -> dict[int, str]:
    """Return the names of all messages the tables speak of, asking only for new ones."""
    spelled = dict(known or {})
    for window in answer.windows:
        for key, name in window.names.items():
            if spelled.setdefault(key, name) != name:
                raise HashCollision
    unknown = results.keys_of(answer) - set(spelled)
    if unknown:
        spelled.update(where.spell(sorted(unknown)))
    return spelled


def _framed(found: Audit, spark: SparkSession) -> Audit:
    frames = [spark.createDataFrame(found.tables[name]) for name in found.tables]
    return Audit(frames[0], frames[1], frames[2], found.summary, found.tables)


def sentence(row: dict[str, Any]) -> str:
    """Say in words why a violation is one; ``row`` is a row of the violations table."""
    process, message, overtaker = row["process"], row["message"], row["overtaker"]
    late = row["lateness"]
    gap = "the very next event" if not late else f"{late} event{'s' * (late > 1)} in between"
    head = (
        f"{process} delivered {overtaker} (seq {row['overtaker_seq']}) before {message} "
        f"(seq {row['seq']}; {gap}), although {row['sender']} sent {message} first"
    )
    return f"{head}: {_because(row)}."


def _because(row: dict[str, Any]) -> str:
    """Say what led from the cause to its overtaker, as far as the chain is known."""
    message, overtaker, chain = row["message"], row["overtaker"], row["chain"] or ()
    if row["kind"] == FIFO:
        return f"{row['sender']} sent {overtaker} after it"
    if len(chain) == 2:
        return f"{row['overtaker_sender']} had delivered {message} when it sent {overtaker}"
    steps = [
        f"{later} was sent by a process that had sent or delivered {earlier}"
        for earlier, later in pairwise(chain[:-1])
    ]
    if not chain:
        return f"{row['overtaker_sender']} knew of it when it sent {overtaker}"
    last = f"{row['overtaker_sender']} had sent or delivered {chain[-2]} when it sent {overtaker}"
    return ", and ".join([*steps, last])


callable_module(__name__)
