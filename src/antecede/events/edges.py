"""Edge lists: one line ``source destination time`` per message, as in network data sets.

Words are separated by blanks or commas, and further words are ignored. Blank lines, lines that
begin with ``#`` or ``%``, and a first line of column names are skipped. A line with fewer words, or
whose time is not a finite number, is rejected. Lines of equal source and time are one multicast.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from antecede.events.lines import ours
from antecede.events.rule import Rejected, safe

_QUOTED_CHARS = 200
_SKIPPED = ("#", "%")


@dataclass(frozen=True, slots=True)
class Multicast:
    """One message of an edge list; ``line`` is its first line."""

    line: int
    source: str
    dests: tuple[str, ...]
    time: float
    lines: int = field(default=1, compare=False)
    """Its number of lines."""


def read_edges(path: str | os.PathLike[str], rejected: list[Rejected]) -> list[Multicast]:
    """Read an edge list, messages in order of time; invalid lines go to ``rejected``."""
    with ours("read the edge list", path):
        text = Path(path).read_text(encoding="utf-8-sig", errors="surrogateescape")
    return parse_edges(text, rejected)


def parse_edges(text: str, rejected: list[Rejected]) -> list[Multicast]:
    """Read the text of an edge list."""
    return multicasts(_edges(text.split("\n"), rejected), rejected)


def multicasts(
    edges: Iterable[tuple[int, str, str, object]], rejected: list[Rejected]
) -> list[Multicast]:
    """Group edges (line, source, destination, time) into messages in order of time."""
    found: dict[tuple[str, float], tuple[int, list[str]]] = {}
    for line, source, dest, time in edges:
        if isinstance(time, int | float) and math.isfinite(time):
            found.setdefault((source, time), (line, []))[1].append(dest)
        else:
            rejected.append(Rejected(line, f"{source} {dest} {time}", "time is not finite"))
    messages = [
        Multicast(line, source, tuple(dict.fromkeys(dests)), time, len(dests))
        for (source, time), (line, dests) in found.items()
    ]
    return sorted(messages, key=lambda message: (message.time, message.line))


def _edges(
    lines: Iterable[str], rejected: list[Rejected]
) -> Iterator[tuple[int, str, str, object]]:
    is_first = True
    for line, raw in enumerate(lines, start=1):
        words = raw.replace(",", " ").split()
        if not words or words[0].startswith(_SKIPPED):
            continue
        may_be_header, is_first = is_first and len(words) >= 3, False
        reason = "" if safe(raw) == raw else "not UTF-8"
        try:
            time = float("" if "_" in words[2] else words[2])
        except (IndexError, ValueError):
            if may_be_header and not reason:
                continue
            reason = reason or "expected: source destination time"
        else:
            if not reason:
                yield line, words[0], words[1], time
                continue
        rejected.append(Rejected(line, safe(raw.strip())[:_QUOTED_CHARS], reason))
