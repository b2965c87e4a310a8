"""The audit's tables and summary, made from the answer in hashes and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from antecede.audit.windows.join import Late
from antecede.audit.windows.matching import TIED, TIED_LOCAL
from antecede.audit.windows.rounds import Answer
from antecede.events import arrow_schemas
from antecede.events.tables import (
    CAUSAL,
    CAUSAL_CYCLE,
    CLOCK_AHEAD,
    CONTRADICTORY_SEQ,
    DELIVERED_TWICE,
    DELIVERY_AMBIGUOUS,
    DELIVERY_WITHOUT_SEND,
    FIFO,
    FINDING_KINDS,
    SENT_TWICE,
)

#: How many pairs of processes the summary lists.
PAIRS = 10

_DETAILS = {
    DELIVERY_WITHOUT_SEND: "{process} delivered {message}, which no process in this log sent to it",
    DELIVERY_AMBIGUOUS: "{process} delivered {message}, which several processes sent, each on its "
    "own; the log does not show whose this is",
    SENT_TWICE: "{process} sent {message}, which has another send in this log; the earliest counts "
    "(if a process was restarted and numbers its messages anew, audit each run by itself)",
    DELIVERED_TWICE: "{process} delivered {message} again; only its first delivery counts",
    CAUSAL_CYCLE: "{process} delivered {message} (seq {seq}) before an event that led to its send",
    CONTRADICTORY_SEQ: "{process} has another event with the same seq {seq}",
    CLOCK_AHEAD: "the clock of {process} at seq {seq} counts events that this log does not have",
}
_EDGE_CYCLE = "{process} at seq {seq} follows an event that follows it, by a clock or a relay"


def worst_first(answer: Answer, names: list[str], messages: Mapping[int, str]) -> list[Late]:
    """Return the violations, the latest deliveries first, ties by name."""
    return sorted(
        answer.joined.late,
        key=lambda late: (-late.lateness, names[late.process], messages[late.key]),
    )


def keys_of(answer: Answer) -> set[int]:
    """Return the hashes of all messages that the tables name."""
    joined = answer.joined
    keys = {late.key for late in joined.late} | {late.effect.key for late in joined.late}
    keys |= {lost.key for lost in answer.lost} | {lost.effect.key for lost in answer.lost}
    keys |= {key for chain in joined.chains.values() for key in chain}
    keys |= {row[2] for window in answer.windows for row in window.edge_cycles.tolist()}
    return keys | {key for _, (_, _, key) in _findings(answer)}


def violations(
    answer: Answer, ordered: list[Late], names: list[str], messages: Mapping[int, str]
) -> pa.Table:
    """Return one row per violation, with the chains that are known."""
    chains = answer.joined.chains
    rows = []
    for late in ordered:
        chain = chains.get((late.process, late.key))
        rows.append(
            {
                "process": names[late.process],
                "message": messages[late.key],
                "sender": names[late.sender],
                "seq": late.seq,
                "overtaker": messages[late.effect.key],
                "overtaker_sender": names[late.effect.sender],
                "overtaker_seq": late.effect.seq,
                "kind": FIFO if late.sender == late.effect.sender else CAUSAL,
                "lateness": late.lateness,
                "chain": None if chain is None else [messages[key] for key in chain],
            }
        )
    return pa.Table.from_pylist(rows, arrow_schemas.VIOLATIONS)


def missing(answer: Answer, names: list[str], messages: Mapping[int, str]) -> pa.Table:
    """Return one row per (process, message) that never arrived although an effect of it did."""
    rows = [
        {
            "process": names[lost.process],
            "message": messages[lost.key],
            "sender": names[lost.sender],
            "overtaker": messages[lost.effect.key],
            "overtaker_seq": lost.effect.seq,
        }
        for lost in answer.lost
    ]
    rows.sort(key=lambda row: (row["process"], row["overtaker_seq"], row["message"]))
    return pa.Table.from_pylist(rows, arrow_schemas.MISSING)


def findings(
    answer: Answer,
    names: list[str],
    messages: Mapping[int, str],
    ahead: Sequence[tuple[int, int, int]] = (),
) -> pa.Table:
    """Return the inconsistencies of the log, sorted by kind and place.

    ``ahead`` are the events whose clock is ahead of the log.
    """
    rows: list[dict[str, Any]] = []
    found = [*_findings(answer), *((CLOCK_AHEAD, row) for row in ahead)]
    cyclic = {row for kind, row in found if kind == CAUSAL_CYCLE}
    by_edge = [row for window in answer.windows for row in map(tuple, window.edge_cycles.tolist())]
    found += [(CAUSAL_CYCLE, row) for row in by_edge if row not in cyclic]
    for kind, (process, seq, key) in found:
        row = {"kind": kind, "process": names[process], "seq": seq, "message": messages.get(key)}
        is_edge = kind == CAUSAL_CYCLE and (process, seq, key) not in cyclic
        detail = _EDGE_CYCLE if is_edge else _DETAILS[kind]
        rows.append(row | {"detail": detail.format(**row)})
    order = {kind: number for number, kind in enumerate(FINDING_KINDS)}
    rows.sort(key=lambda r: (order[r["kind"]], r["process"], r["seq"], str(r["message"])))
    return pa.Table.from_pylist(rows, arrow_schemas.FINDINGS)


def cycles(found: pa.Table) -> list[str]:
    """Return the details of causal cycles among the findings."""
    rows = found.select(["kind", "detail"]).to_pylist()
    return [row["detail"] for row in rows if row["kind"] == CAUSAL_CYCLE]


def ties(answer: Answer, *, has_clocks: bool) -> set[tuple[int, int]]:
    """Return (process, seq) where different events have one seq, so that their order is unknown.

    Without clocks, the place of a local event does not matter.
    """
    matter = {TIED, TIED_LOCAL} if has_clocks else {TIED}
    rows = [row for window in answer.windows for row in window.clashes.tolist()]
    return {(process, seq) for process, seq, _, tie in rows if tie in matter}


def _findings(answer: Answer) -> list[tuple[str, tuple[int, int, int]]]:
    """Return all findings but those of clocks."""
    settled = answer.settled
    found = [(SENT_TWICE, row) for row in settled.again]
    for row in answer.joined.unsent:
        kind = settled.alone.get(row[2], DELIVERY_WITHOUT_SEND)
        if kind is not None:
            found.append((kind, row))
    found += [(DELIVERED_TWICE, row) for row in answer.joined.redelivered]
    for window in answer.windows:
        for kind, rows in (
            (DELIVERED_TWICE, window.redelivered),
            (CAUSAL_CYCLE, window.cycles),
            (CONTRADICTORY_SEQ, window.clashes),
        ):
            found += [(kind, (row[0], row[1], row[2])) for row in rows.tolist()]
    return found


def summarise(
    answer: Answer, names: list[str], tables: Mapping[str, pa.Table], rejected: int
) -> dict[str, Any]:
    """Return the counts, the worst pairs of processes and the lateness of deliveries."""
    late = answer.joined.late
    kinds = np.sum([window.kinds for window in answer.windows], axis=0).tolist()
    fifo = sum(one.sender == one.effect.sender for one in late)
    pairs = Counter((one.sender, one.process) for one in late)
    found = Counter(tables["findings"].column("kind").to_pylist())
    worst = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:PAIRS]
    return {
        "events": sum(window.events for window in answer.windows),
        "processes": len(names),
        "messages": kinds[0],
        "deliveries": kinds[1],
        "paired_sends": answer.joined.paired_sends,
        "paired_deliveries": kinds[1] - _without_send(answer),
        "judged_deliveries": answer.joined.paired_deliveries,
        "violations": len(late),
        "fifo_violations": fifo,
        "causal_violations": len(late) - fifo,
        "missing": len(answer.lost),
        "findings": sum(found.values()),
        "findings_by_kind": dict(sorted(found.items())),
        "rejected": rejected,
        "violations_per_delivery": len(late) / kinds[1] if kinds[1] else 0.0,
        "worst_pairs": [
            {"sender": names[s], "process": names[p], "violations": count}
            for (s, p), count in worst
        ],
        "lateness": percentiles([one.lateness for one in late]),
        "lateness_spread": _spread([one.lateness for one in late]),
        "windows": len(answer.windows),
        "rounds": answer.rounds,
    }


def _without_send(answer: Answer) -> int:
    """Return how many deliveries have no send, repeated ones included."""
    alone = answer.settled.alone
    rows = [row for row in answer.joined.unsent if alone.get(row[2], "") is not None]
    places = {(process, key) for process, _, key in rows}
    again = [(process, key) for process, _, key in answer.joined.redelivered]
    for window in answer.windows if places else ():
        again += [(process, key) for process, _, key in window.redelivered.tolist()]
    return len(rows) + sum(place in places for place in again)


def percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """Return the mean and some percentiles of values, or None if there are none."""
    if not values:
        return None
    figures = float(np.mean(values)), *np.percentile(values, [50, 90, 99, 100]).tolist()
    return dict(zip(("mean", "p50", "p90", "p99", "max"), figures, strict=True))


def _spread(values: list[int]) -> dict[str, int]:
    """Count latenesses in doubling steps: 0, 1, 2-3, 4-7 and so on."""
    found: Counter[int] = Counter(value.bit_length() for value in values)
    names = {0: "0 events", 1: "1 event"}
    return {
        names.get(size, f"{2 ** (size - 1):,} to {2**size - 1:,}"): found[size]
        for size in range(max(found, default=-1) + 1)
    }
