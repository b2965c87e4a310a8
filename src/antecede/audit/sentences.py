"""Violations in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from antecede.events.tables import FIFO
from antecede.report.numbers import seconds_in_words

#: What differs between messages of one kind: numbers, and ids in hexadecimal digits.
_IDS = re.compile(r"\b[0-9a-f]{4,}\b|\d+", re.IGNORECASE)
_ID = "#"
#: What distinguishes the things that a service does at the same time.
_LANE = re.compile(r" \(\d+\)$")

Row = Mapping[str, Any]


def kind_in(message: str) -> str:
    """Return the common part of the names of messages of one kind: order-# for order-141."""
    return _IDS.sub(_ID, message)


def grouped(rows: Iterable[Row]) -> list[list[Row]]:
    """Return violations in groups: on the same channel, of the same kinds of messages.

    Groups, and the rows in them, stay in their order.
    """
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        kinds = kind_in(row["message"]), kind_in(row["overtaker"])
        found.setdefault((_LANE.sub("", row["sender"]), row["process"], *kinds), []).append(row)
    return list(found.values())


def kind_of(alike: Sequence[Row]) -> str:
    """Return what the violations of a group have in common."""
    row = alike[0]
    late, early = kind_in(row["message"]), kind_in(row["overtaker"])
    return (
        f"{len(alike):,}x {_LANE.sub('', row['sender'])} -> {row['process']}: "
        f"{late} overtaken by {early}; for example"
    )


def sentence(row: Mapping[str, Any], *, beyond_messages: bool = False) -> str:
    """Return why a row of the violations table is a violation.

    With ``beyond_messages``, order may come from clocks and relays: a process may know of a message
    that it has not delivered.
    """
    process, message, overtaker = row["process"], row["message"], row["overtaker"]
    late = row["lateness"]
    gap = "the very next event" if not late else f"{late} event{'s' * (late > 1)} in between"
    if (seconds := row.get("lateness_seconds")) is not None:
        gap += f", {seconds_in_words(seconds)} later"
    head = (
        f"{process} delivered {overtaker} (seq {row['overtaker_seq']}) before {message} "
        f"(seq {row['seq']}; {gap}), although {row['sender']} sent {message} first"
    )
    return f"{head}: {_because(row, beyond_messages=beyond_messages)}."


def missing_sentence(row: Mapping[str, Any]) -> str:
    """Return what a row of the table of missing messages is missing."""
    return (
        f"{row['process']} delivered {row['overtaker']} (seq {row['overtaker_seq']}), an effect of "
        f"{row['message']}, and the log has no delivery of {row['message']} there."
    )


def _because(row: Mapping[str, Any], *, beyond_messages: bool) -> str:
    """Return how the message led to its overtaker, as far as the chain is known."""
    message, overtaker, chain = row["message"], row["overtaker"], row["chain"] or ()
    if row["kind"] == FIFO:
        return f"{row['sender']} sent {overtaker} after it"
    if not chain:
        return f"{row['overtaker_sender']} knew of it when it sent {overtaker}"
    if len(chain) == 2:
        had = "knew of" if beyond_messages else "had delivered"
        return f"{row['overtaker_sender']} {had} {message} when it sent {overtaker}"
    had = "knew of" if beyond_messages else "had sent or delivered"
    steps = [
        f"{later} was sent by a process that {had} {earlier}"
        for earlier, later in pairwise(chain[:-1])
    ]
    last = f"{row['overtaker_sender']} {had} {chain[-2]} when it sent {overtaker}"
    return ", and ".join([*steps, last])
