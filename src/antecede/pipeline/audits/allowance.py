"""Which violations count against a limit, so that a build can pass despite known ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from antecede.errors import UsageError
from antecede.pipeline.audits.entry import Audit


def label(row: Mapping[str, Any]) -> str:
    """Return what ``--ignore`` searches: the channel and the late or missing message."""
    return f"{row['sender']} -> {row['process']}: {row['message']}"


def compiled(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    """Compile the patterns of ``--ignore``, or say which is wrong."""
    text = ""
    try:
        return [re.compile(text := pattern) for pattern in patterns]
    except re.error as error:
        msg = f"--ignore {text!r} is not a regular expression: {error}"
        raise UsageError(msg) from None


def counted(found: Audit, name: str, ignore: Sequence[re.Pattern[str]]) -> list[dict[str, Any]]:
    """Return the rows of a table, violations or missing, that no pattern ignores."""
    rows: list[dict[str, Any]] = found.tables[name].to_pylist()
    return [row for row in rows if not any(one.search(label(row)) for one in ignore)]


def allowance(found: Audit, most: int, ignore: Sequence[re.Pattern[str]]) -> dict[str, Any]:
    """Return for the summary how many violations count, and whether they are allowed.

    The verdict stays as it is. Late and missing messages can be allowed, an undecidable log cannot.
    """
    count = sum(len(counted(found, name, ignore)) for name in ("violations", "missing"))
    ignored = found.summary["violations"] + found.summary["missing"] - count
    allowed = found.verdict == "broken" and count <= most
    return {"ignored": ignored, "counted": count, "allowed": allowed}
