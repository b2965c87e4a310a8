"""Regular expressions that users give for reading text: compiling them, and unmatched lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from antecede.errors import UsageError
from antecede.events.lines import QUOTED_CHARS
from antecede.events.rule import NO_LAYOUT, Rejected
from antecede.events.tables import SEND

#: The label of the part before the first delimiter, if there are several executions.
BEFORE = "(start)"


def compile_pattern(pattern: str, option: str, groups: Iterable[str] = ()) -> re.Pattern[str]:
    """Compile a user's regular expression, which may have JavaScript's ``(?<name>`` groups."""
    try:
        compiled = re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern), re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        msg = f"{option} {pattern!r} is not a regular expression: {error}"
        raise UsageError(msg) from None
    absent = [name for name in groups if name not in compiled.groupindex]
    if absent:
        msg = f"{option} {pattern!r} lacks the named group {absent[0]}: write (?<{absent[0]}>...)"
        raise UsageError(msg)
    return compiled


def lines_outside(text: str, spans: Iterable[tuple[int, int]], line: int = 1) -> list[Rejected]:
    """Return the lines, numbered from ``line``, that no span of the text touches."""
    found: list[Rejected] = []
    end = 0
    for start, stop in [*spans, (len(text), len(text))]:
        for number, words in enumerate(text[end:start].split("\n")):
            if words.strip():
                quoted = words.strip()[:QUOTED_CHARS]
                found.append(Rejected(line + number, quoted, NO_LAYOUT))
        line += text.count("\n", end, stop)
        end = stop
    return found


@dataclass(frozen=True)
class Part:
    """The text of one execution: its label, and the line where it begins."""

    label: str
    line: int
    text: str


def split_at(text: str, delimiters: Iterable[re.Match[str]]) -> list[Part]:
    """Split a text into its executions at the delimiters between them.

    The label of an execution is the group ``trace`` of the delimiter before it, or else its number;
    the part before the first delimiter has the empty label.
    """
    parts: list[Part] = []
    labels: set[str] = set()
    label, start = "", 0
    for number, match in enumerate([*delimiters, None], start=1):
        end = len(text) if match is None else match.start()
        if text[start:end].strip():
            parts.append(Part(label, 1 + text.count("\n", 0, start), text[start:end]))
            labels.add(label)
        if match is not None:
            name = (match.groupdict().get("trace") or "").strip() or str(number)
            label, again = name, 1
            while label in labels:
                again += 1
                label = f"{name} ({again})"
            start = match.end()
    return parts


def delimiters_in(text: str, delimiter: str) -> list[re.Match[str]]:
    """Return the matches of a user's delimiter in a text."""
    found = list(compile_pattern(delimiter, "--delimiter").finditer(text))
    if any(not match.group() for match in found):
        msg = (
            f"--delimiter {delimiter!r} matches where there is no text; make it match a whole line"
        )
        raise UsageError(msg)
    return found


class Pairing:
    """Ids for messages whose other end is known: the k-th send is paired with the k-th delivery."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()

    def name(self, kind: str, process: str, end: str, message: str) -> str:
        """Return the id of a message that ``process`` sent to, or delivered from, ``end``."""
        source, dest = (process, end) if kind == SEND else (end, process)
        name = f"{source}>{dest} {message}"
        self._seen[kind, name] += 1
        count = self._seen[kind, name]
        return name if count == 1 else f"{name} #{count}"
