"""The result of an audit, and the audit of a log in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from antecede.audit.doubt import find_doubt
from antecede.audit.plain import Clock, Order, count, findings_of, missing_rows, violation_rows
from antecede.audit.rows import cycles, finding_rows, summarise
from antecede.audit.sentences import sentence
from antecede.audit.verdicts import (
    CAUSALLY_ORDERED,
    Asked,
    Trust,
    Verdict,
    decide,
    hidden,
    is_certain,
    is_numbered,
    tied_events,
    trust_in,
)
from antecede.errors import UsageError
from antecede.events.lines import ours
from antecede.events.rule import Event
from antecede.events.tables import LOCAL, SEND

if TYPE_CHECKING:
    import pyarrow as pa

    from antecede.audit.drawings import Drawing
    from antecede.audit.neighbourhood import Rows

Table = list[dict[str, Any]]
#: A frame of Spark, or an Arrow table.
Frame: TypeAlias = Any
#: How many violations a notebook shows.
CARD_ROWS = 5
#: The column that is added last to the violations if the log has times.
SECONDS = "lateness_seconds"


@dataclass(frozen=True, repr=False)
class Audit:
    """The result of an audit; its frames are Spark's if the events were, else Arrow tables.

    A notebook shows it as the verdict with the worst violations, the first of which is drawn.
    """

    verdict: Verdict
    """``ordered``, ``broken`` or ``undecidable``."""
    reason: str
    """The reason for the verdict, in one sentence."""
    summary: dict[str, Any]
    """The counts, as in ``summary.json``."""
    records: Mapping[str, Table]
    """The rows of the tables ``violations``, ``missing`` and ``findings``."""
    frame: Callable[[pa.Table], Any] | None = None
    """A function that makes a frame of a table, if the events were in frames."""
    rows: Rows | None = None
    """The log itself, for drawing parts of it."""

    def __repr__(self) -> str:
        return f"<Audit: {self.verdict}. {self.reason}>"

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """The three tables as Arrow."""
        return tables_of(self.records)

    @cached_property
    def violations(self) -> Frame:
        """The messages that a process delivered after one of their effects.

        ``to_pandas()`` (in Spark ``toPandas()``) converts it to a data frame.
        """
        return self._framed("violations")

    @cached_property
    def missing(self) -> Frame:
        """The messages that a process never delivered, although it delivered their effects."""
        return self._framed("missing")

    @cached_property
    def findings(self) -> Frame:
        """The inconsistencies of the log."""
        return self._framed("findings")

    def _framed(self, name: str) -> Frame:
        table = self.tables[name]
        return table if self.frame is None else self.frame(table)

    def explain(self, process: str, message: str) -> str:
        """Return the sentence that says why ``message`` was late at ``process``."""
        for row in self.records["violations"]:
            if row["process"] == process and row["message"] == message:
                return sentence(row, beyond_messages=self.summary["beyond_messages"])
        msg = f"{message!r} did not violate causal order at {process!r}; see the violations table"
        raise UsageError(msg)

    def draw(self, message: str | None = None) -> Drawing:
        """Draw what happened around a message, or the worst violations, as notebooks show it."""
        from antecede.audit.drawings import around, worst

        assert self.rows is not None
        if message is not None:
            return around(self.rows, self.records, self.summary, message)
        return worst(self.rows, self.records, self.summary)

    def report(self, path: str | PathLike[str]) -> Path:
        """Write a page with verdict, diagrams and tables as one HTML file; return its path."""
        from antecede.report.audit_page import ROWS_MAX, audit_page

        first = {name: found[:ROWS_MAX] for name, found in self.records.items()}
        page = audit_page(self.summary, first, self.draw().illustrations, log="the log", facts={})
        with ours("write the page", path):
            Path(path).write_text(page, encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        from antecede.audit.neighbourhood import illustrate
        from antecede.report.audit_page import card

        late = self.records["violations"][:CARD_ROWS]
        drawn = illustrate(self.rows, late[:1], self.summary) if self.rows else []
        return card(self.summary, late, drawn)


def found_as(
    decided: tuple[Verdict, str], summary: dict[str, Any], rows: Mapping[str, Table]
) -> Audit:
    """Return an audit, with the verdict also in its summary."""
    verdict, reason = decided
    summary |= {"verdict": verdict, "reason": reason}
    summary["causally_ordered"] = CAUSALLY_ORDERED[verdict]
    return Audit(verdict, reason, summary, rows)


def audit_events(
    events: Sequence[Event],
    clocks: Sequence[Clock | None] = (),
    asked: Asked | None = None,
    rejected: int = 0,
) -> Audit:
    """Check a log in plain Python; ``clocks`` has one per event, if there are any.

    ``rejected`` is how many rows were not events.
    """
    asked = asked or Asked()
    order = Order(events, clocks)
    rows = {
        "violations": violation_rows(order, asked.explain),
        "missing": missing_rows(order),
        "findings": finding_rows(findings_of(order)),
    }
    summary = summarise(count(order), *rows.values())
    summary["rejected"] = rejected
    summary["clocks"] = has_clocks = order.has_clocks
    summary["beyond_messages"] = has_clocks or order.has_relays
    summary["engine"] = "plain"
    numbered = _is_numbered(order) and not order.shows_gaps()
    trust = trust_in(asked, is_numbered=numbered, rejected=rejected)
    what = [(event.kind, event.message or "") for event in order.events]
    matters = [event.kind != LOCAL or has_clocks for event in order.events]
    tied = tied_events(order.who, [event.seq for event in order.events], what, matters)
    places = {(order.events[i].process, order.events[i].seq) for i in tied}
    left_out = tied | {
        row.number
        for message in order.passed.values()
        if any(row.number in tied for row in message.rows)
        for row in message.rows
    }
    lost = [(one.send, one.process) for one in order.lost()] if trust.until_end else []
    decided = decide(
        summary,
        cycles=cycles(rows["findings"]),
        ties=[f"{process} at seq {seq}" for process, seq in sorted(places)],
        is_certain=lambda: is_certain(order.start, order.link, order.edges, left_out, lost),
        missing=rows["missing"],
        is_whole=not order.undelivered(),
        trust=trust,
        asked=asked,
        doubt=lambda: None if asked.assume_complete else _doubt(order, summary, trust),
    )
    return found_as(decided, summary, rows)


def _is_numbered(order: Order) -> bool:
    """Return whether every process numbers its events without gaps."""
    found = []
    for first, end in pairwise(order.start):
        seqs = [event.seq for event in order.events[first:end]]
        found.append((seqs[0], seqs[-1], len(set(seqs))))
    return is_numbered(found)


def _doubt(order: Order, summary: Mapping[str, Any], trust: Trust) -> str | None:
    """Return what the events missing from the log can hide, or None."""
    sends = (i for i, e in enumerate(order.events) if e.kind == SEND and e.dests is None)
    if trust.quoted and any(map(order.owns, sends)):
        return hidden(UNADDRESSED, summary, trust)
    if trust.quoted and order.has_strangers():
        return hidden(STRANGER, summary, trust)
    place = find_doubt(order, until_end=trust.until_end)
    if place is None:
        return None
    if place.event is None:
        return hidden(TOO_LARGE, summary, trust)
    event = order.events[place.event]
    seq = None if event.kind == SEND else event.seq
    where = where_hidden(order.names[place.process], str(event.message), seq)
    return hidden(where, summary, trust, is_whole=not order.undelivered())


UNADDRESSED = "a delivery of a message whose destinations the log does not state"
STRANGER = "a delivery at a process that has no valid row"
TOO_LARGE = "the log is too large to find out where"


def where_hidden(process: str, message: str, seq: int | None) -> str:
    """Say which message may be late; without ``seq``, the log lacks its delivery there."""
    if seq is None:
        return f"{process} may have delivered {message}, which the log does not show, out of order"
    return f"{process} may have delivered {message} (seq {seq}) after an effect"


def tables_of(records: Mapping[str, Table]) -> dict[str, pa.Table]:
    """Return rows as Arrow tables, by the names of their tables; seconds may be added."""
    import pyarrow as pa

    from antecede.events import arrow_schemas

    schemas = {
        "violations": arrow_schemas.VIOLATIONS,
        "missing": arrow_schemas.MISSING,
        "findings": arrow_schemas.FINDINGS,
        "rejected": arrow_schemas.REJECTED,
    }
    found = {}
    for name, rows in records.items():
        schema = schemas[name]
        for column in rows[0] if rows else ():
            if column not in schema.names:
                kind = pa.string() if column.endswith("_id") else pa.float64()
                schema = schema.append(pa.field(column, kind))
        found[name] = pa.Table.from_pylist(rows, schema)
    return found
