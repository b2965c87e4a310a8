"""Check whether, where and how often causal order was broken in a log.

``audit(events)`` checks a log exactly. The default engine cuts it into windows and runs them on
Spark. ``engine="local"`` runs the same code over the whole log in this process, and
``engine="plain"`` does it in plain Python, without compiling anything. All give the same tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from antecede.audit import tables as results
from antecede.audit.arrangements import arrange, arrange_shuffled
from antecede.audit.drawings import Drawing, draw_unaudited
from antecede.audit.found import (
    STRANGER,
    TOO_LARGE,
    UNADDRESSED,
    Audit,
    audit_events,
    found_as,
    where_hidden,
)
from antecede.audit.local_windows import LocalWindows, say_compiling
from antecede.audit.log_rows import FrameRows, TableRows
from antecede.audit.plain import WORST
from antecede.audit.results import require_windows
from antecede.audit.row_group_windows import (
    BYTES_PER_EVENT,
    KEPT_SHARE,
    OVERLAP_MAX,
    Kept,
    RowGroup,
    RowGroupWindows,
    in_threads,
    read_groups,
)
from antecede.audit.rows import cycles, finding_rows, summarise
from antecede.audit.verdicts import (
    Asked,
    Trust,
    decide,
    hidden,
    is_certain,
    tied_events,
    trust_in,
)
from antecede.audit.windows import rounds
from antecede.audit.windows.columns import (
    lookup_in,
    process_names,
    to_events,
    with_clocks,
)
from antecede.audit.windows.matching import LOCAL, SEND, match
from antecede.audit.windows.rounds import (
    Answer,
    Arrangement,
    HashCollisionError,
    IncompleteError,
    add_chains,
    check,
)
from antecede.errors import UsageError
from antecede.events.formats import format_named
from antecede.events.inputs import log_of
from antecede.events.rule import Event, Rejected
from antecede.events.sources import Log, refuse_empty, sorted_out, why_unauditable
from antecede.events.tables import CLOCK, EVENT_COLUMNS
from antecede.memory import machine_bytes
from antecede.spark.frames import frame_of, plain_frame, rejected_rows, renamed_frame
from antecede.spark.tasks import no_collection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Audit", "audit", "audit_frame", "audit_log", "audit_table", "draw"]

ENGINES = ("spark", "local", "plain")
#: Up to this many events, and numbers in their vectors, plain Python is as fast.
PLAIN_MAX, PLAIN_NUMBERS_MAX = 200_000, 20_000_000
#: How many events of a large log are checked at a time, in each thread.
SLICE = 1_000_000
#: How many salts are tried before two names with the same hash are a bug.
_SALTS = 4
#: In larger logs, no violation counts as certain if events of one process share a seq.
_TIED_MAX = 3_000_000


def audit(
    events: object,
    *,
    columns: Mapping[str, str] | None = None,
    windows: int | None = None,
    engine: str | None = None,
    explain: Sequence[str] = (),
    undecidable: str | None = None,
    assume_complete: bool = False,
    complete_until_end: bool | None = None,
) -> Audit:
    """Check that every process delivered causes before effects.

    ``events`` is a frame of Spark, pandas, Polars, Arrow or DuckDB (or anything with
    ``__arrow_c_stream__``), rows as mappings, the path of a log in any format that ``antecede
    audit`` reads, or a list of paths. It has the columns of an event log: ``process, seq, kind,
    message`` and, if known, ``dests``, ``clock`` (a map: the event follows that many events of each
    process) and ``time`` (a hint only). ``columns`` gives other names of columns, such as
    ``{"message": "order_id"}``; kinds may then be words such as ``sent`` and ``received``. Without
    ``seq``, the events of a process are in the order of their times, or else of the rows (a Spark
    frame needs it).

    The ``engine`` is ``spark`` for a Spark frame. For the rest it is ``plain``, plain Python, or
    ``local``, which compiles the same check first, if the log is large. ``windows`` is how many
    windows Spark cuts the log into; by default a few per core. A frame that consists only of
    Parquet files in order of time, without clocks, is read by the tasks themselves, which is
    faster. The worst violations and those of the messages in ``explain`` get their shortest chain.

    ``undecidable`` is why the deliveries of this log show nothing about order, if known. A log is
    undecidable if it lacks sends or deliveries that could hide a violation. If the log of each
    process is complete up to its last event, give ``complete_until_end=True``. By default that is
    assumed for event logs in JSON lines and CSV whose numbers have no gaps. With
    ``assume_complete``, missing events count as not having happened.
    """
    given: Any = events
    is_frame = hasattr(given, "sparkSession")
    if engine is not None and engine not in ENGINES:
        msg = f"unknown engine {engine!r}; choose one of {', '.join(ENGINES)}"
        raise UsageError(msg)
    require_windows(windows)
    asked = Asked(explain, undecidable, assume_complete, complete_until_end)
    if is_frame:
        frame = renamed_frame(given, columns or {})
        asked = replace(asked, complete_until_end=bool(complete_until_end))
        return audit_frame(frame, asked, engine=engine or "spark", windows=windows)
    if engine == "spark":
        msg = "the spark engine takes a Spark DataFrame; make one, or give engine='local'"
        raise UsageError(msg)
    return audit_log(log_of(events, columns), asked, engine=engine or "")


def audit_frame(
    events: DataFrame, asked: Asked, *, engine: str = "spark", windows: int | None = None
) -> Audit:
    """Check a log in a Spark frame."""
    events = plain_frame(events)
    if engine != "spark":
        found = audit_table(events.toArrow(), asked, engine=engine)
    else:
        asked = replace(asked, quote=lambda count: rejected_in(rejected_rows(events, "", count)))
        try:  # Let tasks read their own row groups if possible, else pack and shuffle.
            found = _checked(partial(arrange, events, windows), asked)
        except IncompleteError:
            found = _checked(partial(arrange_shuffled, events, windows), asked)
    return replace(found, frame=partial(frame_of, events.sparkSession), rows=FrameRows(events))


def audit_groups(groups: list[RowGroup], asked: Asked) -> Audit:
    """Check row groups in this process, a few at a time."""
    events = sum(group.rows for group in groups)
    count = max(os.cpu_count() or 1, events // SLICE)
    is_small = events * BYTES_PER_EVENT <= KEPT_SHARE * machine_bytes()
    read = Kept(groups) if is_small else read_groups

    def arranged(salt: int) -> Arrangement:
        found = RowGroupWindows(
            in_threads, groups, count, salt, dests=True, engine="local", read=read
        )
        if found.overlap() > OVERLAP_MAX:
            raise IncompleteError
        return found

    say_compiling()
    with no_collection():
        found = _checked(arranged, asked)
    return replace(found, rows=TableRows(*(partial(read, [group]) for group in groups)))


def draw(log: Log, message: str | None) -> Drawing:
    """Draw a log around a message, or else its beginning, clocks or times."""
    drawn = draw_unaudited(log, message)
    if drawn is None:
        drawn = audit_log(log, Asked([message or ""], assume_complete=True)).draw(message)
    return drawn


def audit_log(log: Log, asked: Asked | None = None, *, engine: str = "") -> Audit:
    """Check a log that has been read, in this process."""
    asked = asked_of(log, asked)
    return traced(_audit_checked(replace(log, bad=0), asked, engine), log)


def traced(found: Audit, log: Log) -> Audit:
    """Return an audit whose violations name the traces and spans they come from."""
    if not log.origins:
        return found
    unknown = dict.fromkeys(("trace_id", "span_id", "message_id"), "")
    late = []
    for row in found.records["violations"]:
        other = log.origins.get(row["overtaker"], unknown)
        others = {f"overtaker_{name}": value for name, value in other.items()}
        late.append({**row, **log.origins.get(row["message"], unknown), **others})
    return replace(found, records={**found.records, "violations": late})


def asked_of(log: Log, asked: Asked | None) -> Asked:
    """Return what is asked of a log, completed with what its reader knows."""
    asked = asked or Asked(complete_until_end=None)
    complete = asked.complete_until_end
    if complete is None and not (log.form and format_named(log.form).is_numbered):
        complete = False
    return replace(
        asked,
        undecidable=asked.undecidable or why_unauditable(log),
        complete_until_end=complete,
        rejected=rejected_in(log.rejected),
        has_spans=bool(log.form) and format_named(log.form).has_spans,
        left_out=log.bad,
    )


def audit_table(table: pa.Table, asked: Asked | None = None, *, engine: str = "") -> Audit:
    """Check a log in memory, in this process; without an engine, in plain Python if it is small."""
    asked = asked or Asked()
    found = sorted_out(table, "")
    asked = replace(asked, rejected=[*asked.rejected, *rejected_in(found.rejected)])
    return _audit_checked(found, asked, engine)


def _audit_checked(found: Log, asked: Asked, engine: str) -> Audit:
    """Check a log whose rows are all events, from which ``found.bad`` rows were left out."""
    log = found.events
    if not len(log):
        refuse_empty("the log", found.rejected, found.bad + asked.left_out)
    names, lookup = process_names(log), lookup_in(log)
    is_small = len(log) <= PLAIN_MAX and len(log) * len(names) <= PLAIN_NUMBERS_MAX
    if engine == "plain" or (not engine and is_small):
        plain = audit_events(*events_of(log), asked, found.bad + asked.left_out)
        return replace(plain, rows=TableRows(log))

    say_compiling()

    def arranged(salt: int) -> LocalWindows:
        events, ahead = with_clocks(log, to_events(log, names, salt), names)
        bad = found.bad + asked.left_out
        return LocalWindows(events, names, lookup, rejected=bad, ahead=ahead)

    with no_collection():
        return replace(_checked(arranged, asked), rows=TableRows(log))


def rejected_in(table: pa.Table) -> list[Rejected]:
    """Return the rows of a table of rejected rows."""
    rows = table.select(["line", "text", "reason"]).to_pylist()
    return [Rejected(row["line"], row["text"], row["reason"]) for row in rows]


def events_of(log: pa.Table) -> tuple[list[Event], list[dict[str, int] | None]]:
    """Return the events of a table, and their clocks if there are any."""
    columns = [
        log.column(name).to_pylist() if name in log.column_names else [None] * len(log)
        for name in EVENT_COLUMNS
    ]
    columns[4] = [None if dests is None else tuple(dests) for dests in columns[4]]
    events = [Event(*row) for row in zip(*columns, strict=True)]
    if CLOCK not in log.column_names:
        return events, []
    clocks = log.column(CLOCK).to_pylist()
    return events, [None if clock is None else dict(clock) for clock in clocks]


def _checked(arranged: Callable[[int], Arrangement], asked: Asked) -> Audit:
    """Check a log; if two names have the same hash, hash again with another salt."""
    for salt in range(_SALTS):
        try:
            return _checked_once(arranged(salt), asked)
        except HashCollisionError:
            continue
    msg = f"names collided under {_SALTS} different hashes"
    raise AssertionError(msg)


def _checked_once(arrangement: Arrangement, asked: Asked) -> Audit:
    """Check a log wherever its windows run, and turn hashes back into names."""
    answer = check(arrangement)
    if any(window.collision for window in answer.windows):
        raise HashCollisionError
    names = arrangement.names
    # Ties are broken by name, so get all names first; the few chains add none.
    messages = message_names(arrangement, answer)
    ordered = results.worst_first(answer, names, messages)
    explain = set(asked.explain)
    wanted = ordered[:WORST]
    wanted += [late for late in ordered[WORST:] if messages[late.key] in explain]
    add_chains(arrangement, answer, wanted)
    kept = {(late.process, late.key) for late in wanted}
    chains = answer.joined.chains
    answer.joined.chains = {place: chains[place] for place in kept}
    messages = message_names(arrangement, answer, messages)
    rows = {
        "violations": results.violations(answer, ordered, names, messages),
        "missing": results.missing(answer, names, messages),
        "findings": finding_rows(results.findings(answer, names, messages, arrangement.ahead)),
    }
    summary = summarise(results.count(answer, names), *rows.values())
    rejected = arrangement.rejected + sum(window.rejected for window in answer.windows)
    summary["rejected"] = rejected
    summary["clocks"] = arrangement.has_clocks
    summary["beyond_messages"] = arrangement.has_clocks or answer.settled.patch.source.size > 0
    summary |= {"windows": len(answer.windows), "rounds": answer.rounds, **arrangement.facts}
    absent = rounds.absent(arrangement, answer)
    numbered = results.numbers_events(answer)
    if arrangement.has_clocks:
        numbered = numbered and not rounds.shows_gaps(answer, absent)
    trust = trust_in(asked, is_numbered=numbered, rejected=rejected)
    tied = results.ties(answer, has_clocks=arrangement.has_clocks)
    decided = decide(
        summary,
        cycles=cycles(rows["findings"]),
        ties=[f"{p} at seq {s}" for p, s in sorted((names[p], seq) for p, seq in tied)],
        is_certain=partial(_is_certain, arrangement, answer, trust),
        missing=rows["missing"],
        is_whole=not absent and not answer.settled.undelivered,
        trust=trust,
        asked=asked,
        doubt=lambda: (
            None if asked.assume_complete else _doubt(arrangement, answer, summary, trust, absent)
        ),
    )
    return found_as(decided, summary, rows)


def _is_certain(arrangement: Arrangement, answer: Answer, trust: Trust) -> bool:
    """Return whether some violation does not depend on the order of events with the same seq."""
    if sum(window.events for window in answer.windows) > _TIED_MAX:
        return False
    events = arrangement.events_of((0, arrangement.windows - 1))
    patch, none = answer.settled.patch, np.empty(0, np.int64)
    before = match(events, arrangement.hashes, none)
    m = match(events, arrangement.hashes, none, patch)
    what = list(zip(before.original.tolist(), before.key.tolist(), strict=True))
    matters = ((before.original != LOCAL) | arrangement.has_clocks).tolist()
    tied = tied_events(m.who.tolist(), m.seq.tolist(), what, matters)
    edges: dict[int, list[int]] = {}
    for source, target in zip(m.edges.source.tolist(), m.edges.target.tolist(), strict=True):
        edges.setdefault(target, []).append(source)
    passed: dict[int, list[int]] = {}
    for key, i in zip(patch.rows.key.tolist(), m.patched.tolist(), strict=True):
        passed.setdefault(key, []).append(i)
    left_out = tied | {i for some in passed.values() if not tied.isdisjoint(some) for i in some}
    at = np.flatnonzero(m.kind == SEND)
    sends = dict(zip(m.key[at].tolist(), at.tolist(), strict=True))
    lost = [(sends[one.key], one.process) for one in answer.lost] if trust.until_end else []
    return is_certain(m.start.tolist(), m.link.tolist(), edges, left_out, lost)


def _doubt(
    arrangement: Arrangement,
    answer: Answer,
    summary: Mapping[str, Any],
    trust: Trust,
    absent: list[tuple[int, int]],
) -> str | None:
    """Return what the sends and deliveries missing from the log can hide, or None."""
    if trust.quoted and any(window.kinds[3] for window in answer.windows):
        return hidden(UNADDRESSED, summary, trust)
    if trust.quoted and rounds.has_strangers(arrangement, answer):
        return hidden(STRANGER, summary, trust)
    is_whole = not absent and not answer.settled.undelivered and not answer.settled.maybe
    if is_whole and summary["paired_sends"] == summary["messages"] and not answer.joined.unsent:
        return None
    found = rounds.hidden(arrangement, answer, absent, until_end=trust.until_end)
    if found is None:
        return None
    if found.place is None:
        return hidden(TOO_LARGE, summary, trust)
    process, key, seq = found.place
    key = answer.settled.alias.get(key, key)
    name = arrangement.names_of([key])[key]
    where = where_hidden(arrangement.names[process], name, seq)
    return hidden(where, summary, trust, is_whole=not absent and not answer.settled.undelivered)


def message_names(
    arrangement: Arrangement, answer: Answer, known: dict[int, str] | None = None
) -> dict[int, str]:
    """Return the names of all messages in the tables by hash, looking up only unknown ones."""
    names, alias = dict(known or {}), answer.settled.alias
    for window in answer.windows:
        for key, name in window.names.items():
            if names.setdefault(key, name) != name:
                raise HashCollisionError
    unknown = results.keys_of(answer) | {key for *_, key in arrangement.ahead}
    unknown -= set(names)
    asked = {alias.get(key, key) for key in unknown} - set(names)
    if asked:
        names.update(arrangement.names_of(sorted(asked)))
    names.update({key: names[old] for key, old in alias.items() if old in names})
    return names
