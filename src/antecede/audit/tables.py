"""The rows of the audit's tables, made from the answer's hashes and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from antecede.audit.rows import Counts, Finding
from antecede.audit.verdicts import is_numbered
from antecede.audit.windows.join import Late
from antecede.audit.windows.matching import TIED, TIED_LOCAL
from antecede.audit.windows.rounds import Answer
from antecede.events.tables import (
    CAUSAL,
    CAUSAL_CYCLE,
    CLOCK_AHEAD,
    CONTRADICTORY_SEQ,
    DELIVERED_TWICE,
    DELIVERY_WITHOUT_SEND,
    FIFO,
    SENT_TWICE,
)


def worst_first(answer: Answer, names: list[str], messages: Mapping[int, str]) -> list[Late]:
    """Return the violations, the latest deliveries first, ties by name."""
    return sorted(
        answer.joined.late,
        key=lambda late: (-late.lateness, names[late.process], messages[late.key]),
    )


def keys_of(answer: Answer) -> set[int]:
    """Return the hashes of all messages named in the tables."""
    joined = answer.joined
    keys = {late.key for late in joined.late} | {late.effect.key for late in joined.late}
    keys |= {lost.key for lost in answer.lost} | {lost.effect.key for lost in answer.lost}
    keys |= {key for chain in joined.chains.values() for key in chain}
    keys |= {row[2] for window in answer.windows for row in window.edge_cycles.tolist()}
    return keys | {key for _, (_, _, key) in _findings(answer)}


def violations(
    answer: Answer, ordered: list[Late], names: list[str], messages: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Return one row per violation, with its chain if known."""
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
    return rows


def missing(answer: Answer, names: list[str], messages: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return one row per (process, message) that never arrived although one of its effects did."""
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
    return rows


def findings(
    answer: Answer,
    names: list[str],
    messages: Mapping[int, str],
    ahead: Sequence[tuple[int, int, int]] = (),
) -> list[Finding]:
    """Return the inconsistencies of the log.

    ``ahead`` are the events whose clocks are ahead of the log.
    """
    found = [*_findings(answer), *((CLOCK_AHEAD, row) for row in ahead)]
    cyclic = {row for kind, row in found if kind == CAUSAL_CYCLE}
    by_edge = [row for window in answer.windows for row in map(tuple, window.edge_cycles.tolist())]
    found += [(CAUSAL_CYCLE, row) for row in by_edge if row not in cyclic]
    return [
        Finding(
            kind,
            names[process],
            seq,
            messages.get(key),
            kind == CAUSAL_CYCLE and (process, seq, key) not in cyclic,
        )
        for kind, (process, seq, key) in found
    ]


def ties(answer: Answer, *, has_clocks: bool) -> set[tuple[int, int]]:
    """Return (process, seq) shared by different events, whose order is therefore unknown.

    Without clocks, the place of a local event does not matter.
    """
    matter = {TIED, TIED_LOCAL} if has_clocks else {TIED}
    rows = [row for window in answer.windows for row in window.clashes.tolist()]
    return {(process, seq) for process, seq, _, tie in rows if tie in matter}


def _findings(answer: Answer) -> list[tuple[str, tuple[int, int, int]]]:
    """Return all findings except those about clocks."""
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


def count(answer: Answer, names: list[str]) -> Counts:
    """Return the counts of the log."""
    messages, deliveries, *_ = np.sum([window.kinds for window in answer.windows], axis=0).tolist()
    return Counts(
        events=sum(window.events for window in answer.windows),
        processes=len(names),
        messages=messages,
        deliveries=deliveries,
        paired_sends=answer.joined.paired_sends,
        paired_deliveries=deliveries - _without_send(answer),
        judged_deliveries=answer.joined.paired_deliveries,
    )


def numbers_events(answer: Answer) -> bool:
    """Return whether every process numbers its events without gaps."""
    count = np.sum([window.count for window in answer.windows], axis=0)
    for window in answer.windows:
        np.subtract.at(count, window.clashes[:, 0], 1)
    found = []
    for p, number in enumerate(count.tolist()):
        some = [window for window in answer.windows if window.count[p]]
        found.append((int(some[0].low[p]), int(some[-1].high[p]), number))
    return is_numbered(found)


def _without_send(answer: Answer) -> int:
    """Return how many deliveries have no send, including repeated ones."""
    alone = answer.settled.alone
    rows = [row for row in answer.joined.unsent if alone.get(row[2], "") is not None]
    places = {(process, key) for process, _, key in rows}
    again = [(process, key) for process, _, key in answer.joined.redelivered]
    for window in answer.windows if places else ():
        again += [(process, key) for process, _, key in window.redelivered.tolist()]
    return len(rows) + sum(place in places for place in again)
