"""Check whether, where and how often causal order was broken in a log.

``audit(events)`` checks a log exactly. The default engine cuts it into windows and runs them on
Spark; ``engine="local"`` runs the same code over the whole log in this process. Both give the same
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from antecede.audit import tables as results
from antecede.audit.arrangements import arrange, arrange_shuffled
from antecede.audit.drawings import Drawing, around, draw_unaudited, illustrate, worst
from antecede.audit.local_windows import LocalWindows
from antecede.audit.neighbourhood import FrameRows, Rows, TableRows
from antecede.audit.sentences import sentence
from antecede.audit.verdicts import (
    CAUSALLY_ORDERED,
    Ties,
    Verdict,
    decide,
    is_complete,
    rests_on,
)
from antecede.audit.windows.columns import (
    lookup_in,
    process_names,
    to_events,
    with_clocks,
)
from antecede.audit.windows.rounds import (
    Answer,
    Arrangement,
    HashCollisionError,
    IncompleteError,
    add_chains,
    check,
    hidden,
)
from antecede.errors import UsageError
from antecede.events.inputs import log_of
from antecede.events.lines import ours
from antecede.events.sources import Log, refuse_empty, sorted_out, why_unauditable
from antecede.spark.frames import frame_of, plain_frame, renamed_frame

ENGINES = ("spark", "local")
#: How many violations get their shortest chain.
WORST = 100
#: How many of them a notebook shows.
CARD_ROWS = 5
#: What helps if a log lacks events that matter.
ADVICE = "Log them, or clocks; or judge by what there is: --assume-complete."
#: More windows than this are a slip of the hand.
WINDOWS_MAX = 1_000_000
#: How many salts are tried before two names with the same hash are a bug.
_SALTS = 4
#: How many violations are looked at for one that does not rest on an unknown order.
_ASKED = 10_000


class Asked(TypedDict, total=False):
    """What the caller of an audit asks for."""

    explain: Sequence[str]
    undecidable: str | None
    assume_complete: bool


@dataclass(frozen=True, repr=False)
class Audit:
    """What an audit found; the frames are Spark's where the events were, else Arrow tables.

    A notebook shows it as the verdict with the worst violations, the first of them drawn.
    """

    verdict: Verdict
    """``ordered``, ``broken`` or ``undecidable``."""
    reason: str
    """Why, in one sentence."""
    violations: Any
    """The messages that a process delivered after an effect of them; ``to_pandas()`` (in Spark
    ``toPandas()``) makes a data frame of it."""
    missing: Any
    """The messages that a process never delivered, although it delivered an effect of them."""
    findings: Any
    """The inconsistencies of the log."""
    tables: dict[str, pa.Table]
    """The same three tables, always as Arrow."""
    summary: dict[str, Any]
    """The counts, as in ``summary.json``."""
    rows: Rows | None = None
    """The log itself, to draw parts of it."""

    def __repr__(self) -> str:
        return f"<Audit: {self.verdict}. {self.reason}>"

    def explain(self, process: str, message: str) -> str:
        """Return the sentence that says why ``message`` was late at ``process``."""
        for row in self.tables["violations"].to_pylist():
            if row["process"] == process and row["message"] == message:
                return sentence(row, beyond_messages=self.summary["beyond_messages"])
        msg = f"{message!r} did not violate causal order at {process!r}; see the violations table"
        raise UsageError(msg)

    def draw(self, message: str | None = None) -> Drawing:
        """Draw what happened around a message, or the worst violations; notebooks show it."""
        assert self.rows is not None
        if message is not None:
            return around(self.rows, self.tables, self.summary, message)
        return worst(self.rows, self.tables, self.summary)

    def report(self, path: str | PathLike[str]) -> Path:
        """Write a page, one HTML file: the verdict, diagrams and tables; return its path."""
        from antecede.report.audit_page import ROWS_MAX, audit_page

        first = {name: found.slice(0, ROWS_MAX).to_pylist() for name, found in self.tables.items()}
        page = audit_page(self.summary, first, self.draw().illustrations, log="the log", facts={})
        with ours("write the page", path):
            Path(path).write_text(page, encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        from antecede.report.audit_page import card

        late = self.tables["violations"].slice(0, CARD_ROWS).to_pylist()
        drawn = illustrate(self.rows, late[:1], self.summary) if self.rows else []
        return card(self.summary, late, drawn)


def audit(
    events: object,
    *,
    columns: Mapping[str, str] | None = None,
    windows: int | None = None,
    engine: str | None = None,
    explain: Sequence[str] = (),
    undecidable: str | None = None,
    assume_complete: bool = False,
) -> Audit:
    """Check that every process delivered causes before effects.

    ``events`` is a frame of Spark, pandas, Polars, Arrow or DuckDB (or anything else with
    ``__arrow_c_stream__``), rows as mappings, the path of a log in any format that ``antecede
    audit`` reads, or a list of paths. It has the columns of an event log: ``process, seq, kind,
    message`` and, if known, ``dests``, ``clock`` (a map: the event follows that many events of each
    process) and ``time`` (a hint only). ``columns`` says which other names they have, such as
    ``{"message": "order_id"}``; kinds may then be words such as ``sent`` and ``received``. Without
    ``seq``, the events of a process are in the order of their times, or else of the rows (a Spark
    frame needs it).

    The ``engine`` is ``spark`` for a Spark frame and ``local``, this process, for the rest.
    ``windows`` is how many windows Spark cuts the log into; by default a few per core. A
    frame that is nothing but Parquet files in the order of time, without clocks, is read by the
    tasks themselves, which is faster. The worst violations get their shortest chain, and so do
    those of the messages in ``explain``. ``undecidable`` says why the deliveries of this
    log show nothing about order, where its reader knows that. A log that lacks sends or deliveries
    which could hide a violation is undecidable, unless you ``assume_complete``.
    """
    given: Any = events
    is_frame = hasattr(given, "sparkSession")
    engine = engine or ("spark" if is_frame else "local")
    if engine not in ENGINES:
        msg = f"unknown engine {engine!r}; choose one of {', '.join(ENGINES)}"
        raise UsageError(msg)
    if windows is not None:
        require_windows(windows)
    asked = Asked(explain=explain, undecidable=undecidable, assume_complete=assume_complete)
    if not is_frame:
        if engine == "spark":
            msg = "the spark engine takes a Spark DataFrame; make one, or give engine='local'"
            raise UsageError(msg)
        return audit_log(log_of(events, columns), **asked)
    frame = plain_frame(renamed_frame(given, columns or {}))
    if engine == "local":
        found = audit_table(frame.toArrow(), **asked)
    else:
        try:  # Let tasks read their own row groups where that works, else pack and shuffle.
            found = _checked(partial(arrange, frame, windows), asked)
        except IncompleteError:
            found = _checked(partial(arrange_shuffled, frame, windows), asked)
    spark = frame.sparkSession
    violations, missing, findings = (frame_of(spark, table) for table in found.tables.values())
    return replace(
        found,
        violations=violations,
        missing=missing,
        findings=findings,
        rows=FrameRows(frame),
    )


def draw(log: Log, message: str | None) -> Drawing:
    """Draw a log around a message, or its beginning, its clocks or its times."""
    drawn = draw_unaudited(log, message)
    if drawn is None:
        drawn = audit_log(log, explain=[message or ""], assume_complete=True).draw(message)
    return drawn


def audit_log(log: Log, **asked: Unpack[Asked]) -> Audit:
    """Check a log that was read, in this process."""
    asked["undecidable"] = asked.get("undecidable") or why_unauditable(log)
    found = audit_table(log.events, **asked)
    found.summary["rejected"] = log.bad
    return found


def require_windows(windows: int) -> None:
    """Refuse a number of windows that a log cannot be cut into."""
    if not 1 <= windows <= WINDOWS_MAX:
        most = f", up to {WINDOWS_MAX:,}" if windows > 1 else ""
        msg = f"windows is {windows}; give 1 or more{most}, or leave it out"
        raise UsageError(msg)


def audit_table(
    table: pa.Table,
    *,
    explain: Sequence[str] = (),
    undecidable: str | None = None,
    assume_complete: bool = False,
) -> Audit:
    """Check a log in memory, in this process."""
    found = sorted_out(table, "")
    log = found.events
    if not len(log):
        refuse_empty("the log", found.rejected, found.bad)
    names, lookup = process_names(log), lookup_in(log)

    def arranged(salt: int) -> LocalWindows:
        events, ahead = with_clocks(log, to_events(log, names, salt), names)
        return LocalWindows(events, names, lookup, rejected=found.bad, ahead=ahead)

    asked = Asked(explain=explain, undecidable=undecidable, assume_complete=assume_complete)
    return replace(_checked(arranged, asked), rows=TableRows(log))


def _checked(arranged: Callable[[int], Arrangement], asked: Asked) -> Audit:
    """Check a log; hash again with another salt if two names have the same hash."""
    for salt in range(_SALTS):
        try:
            return _checked_once(arranged(salt), asked)
        except HashCollisionError:
            continue
    msg = f"names collided under {_SALTS} different hashes"
    raise AssertionError(msg)


def _checked_once(arrangement: Arrangement, asked: Asked) -> Audit:
    """Check a log wherever its windows run, and replace hashes by names."""
    answer = check(arrangement)
    if any(window.collision for window in answer.windows):
        raise HashCollisionError
    names = arrangement.names
    # Ties are broken by name, so all names come first; the few chains add none.
    messages = message_names(arrangement, answer)
    ordered = results.worst_first(answer, names, messages)
    explain = set(asked["explain"])
    wanted = ordered[:WORST]
    wanted += [late for late in ordered[WORST:] if messages[late.key] in explain]
    add_chains(arrangement, answer, wanted)
    kept = {(late.process, late.key) for late in wanted}
    chains = answer.joined.chains
    answer.joined.chains = {place: chains[place] for place in kept}
    messages = message_names(arrangement, answer, messages)
    tables = {
        "violations": results.violations(answer, ordered, names, messages),
        "missing": results.missing(answer, names, messages),
        "findings": results.findings(answer, names, messages, arrangement.ahead),
    }
    rejected = arrangement.rejected + sum(window.rejected for window in answer.windows)
    summary = results.summarise(answer, names, tables, rejected)
    summary["clocks"] = arrangement.has_clocks
    summary["beyond_messages"] = arrangement.has_clocks or answer.settled.patch.source.size > 0

    def doubt() -> str | None:
        return None if asked["assume_complete"] else _doubt(arrangement, answer, summary)

    cycles = results.cycles(tables["findings"])
    verdict, reason = decide(
        summary, cycles, doubt, asked["undecidable"], _ties(arrangement, answer)
    )
    summary |= {"verdict": verdict, "reason": reason, **arrangement.facts}
    summary["causally_ordered"] = CAUSALLY_ORDERED[verdict]
    violations, missing, findings = tables.values()
    return Audit(verdict, reason, violations, missing, findings, tables, summary)


def _ties(arrangement: Arrangement, answer: Answer) -> Ties | None:
    """Return where events have the same seq, and whether some violation is certain even so.

    It is if it rests on no unknown order: that of its two deliveries, or of its sender's events.
    """
    tied = results.ties(answer, has_clocks=arrangement.has_clocks)
    if not tied:
        return None
    late = [one for one in answer.joined.late if one.seq != one.effect.seq]
    broken = [(one.sender, one.key) for one in late[:_ASKED]]
    broken += [(one.sender, one.key) for one in answer.lost[:_ASKED]]
    alias = answer.settled.alias
    keys = {alias.get(key, key) for _, key in broken}
    unsure: set[tuple[int, int]] = set()
    if keys:
        rows = arrangement.copies(np.array(sorted(keys), np.int64)).rows
        places = zip(rows.process.tolist(), rows.seq.tolist(), rows.key.tolist(), strict=True)
        unsure = {(process, key) for process, seq, key in places if (process, seq) in tied}
    named = sorted((arrangement.names[process], seq) for process, seq in tied)
    return Ties(
        [f"{name} at seq {seq}" for name, seq in named],
        any((sender, alias.get(key, key)) not in unsure for sender, key in broken),
    )


def _doubt(arrangement: Arrangement, answer: Answer, summary: Mapping[str, Any]) -> str | None:
    """Say what the sends and deliveries that the log lacks can hide, or return None."""
    joined = answer.joined
    if is_complete(summary) and not joined.incomplete() and not answer.settled.undelivered:
        return None
    found = hidden(arrangement, answer)
    if found is None:
        return None
    where = "the log is too large to find out where"
    if found.place is not None:
        process, seq, key = found.place
        key = answer.settled.alias.get(key, key)
        name = arrangement.names_of([key])[key]
        where = (
            f"{arrangement.names[process]} may have delivered {name} (seq {seq}) after an effect"
        )
    return f"The log lacks events that can hide a violation: {where}. {rests_on(summary)} {ADVICE}"


def message_names(
    arrangement: Arrangement, answer: Answer, known: dict[int, str] | None = None
) -> dict[int, str]:
    """Return the names of all messages in the tables by hash, asking only for unknown ones."""
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
