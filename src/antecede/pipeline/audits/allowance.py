"""Which violations count against a limit, so that a build can pass despite known ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antecede.core.tables import CAUSAL_CYCLE
from antecede.errors import UsageError
from antecede.pipeline.audits.entry import Audit


def label(row: Mapping[str, Any]) -> str:
    """Return what ``--ignore`` searches: the channel and the late or missing message."""
    return f"{row['sender']} -> {row['process']}: {row['message']}"


@dataclass(frozen=True)
class Allowance:
    """How many violations may be found, and which do not count."""

    most: int
    ignore: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, most: int, ignore: Sequence[str]) -> Allowance:
        """Compile the patterns, or say which is wrong."""
        patterns = []
        for text in ignore:
            try:
                patterns.append(re.compile(text))
            except re.error as error:
                msg = f"--ignore {text!r} is not a regular expression: {error}"
                raise UsageError(msg) from None
        return cls(most, tuple(patterns))

    def counts(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a row of violations or missing counts."""
        return not any(pattern.search(label(row)) for pattern in self.ignore)

    def facts(self, found: Audit) -> dict[str, Any]:
        """Return for the summary how many violations count, and whether they are allowed.

        The verdict on the log stays as it is. Late deliveries and missing messages can be allowed;
        a causal cycle cannot.
        """
        rows = [row for name in ("violations", "missing") for row in found.tables[name].to_pylist()]
        counted = sum(map(self.counts, rows))
        cycles = found.summary["findings_by_kind"].get(CAUSAL_CYCLE, 0)
        return {
            "ignored": len(rows) - counted,
            "counted": counted,
            "allowed": found.verdict == "broken" and counted <= self.most and not cycles,
        }
