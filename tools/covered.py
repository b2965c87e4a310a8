"""Tell how much of core, protocols, check, wire and net the tests run; fail if it is too little.

    python -m tools.covered REPORT

REPORT is what `coverage json` writes. Each part has two figures: lines and branches together, which
is coverage's own total, and branches alone, which is the stricter of the two. Both must be reached.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

PARTS: Final = ("core", "protocols", "check", "wire", "net")
LEAST: Final = 95.0
"""What each part must reach, in percent."""


class Share(NamedTuple):
    """So many of all."""

    covered: int
    all: int

    @property
    def percent(self) -> float:
        """The share in percent; that of nothing is 0, because nothing was measured."""
        return 100 * self.covered / self.all if self.all else 0.0

    def __str__(self) -> str:
        return f"{self.percent:6.2f}% ({self.covered:,} of {self.all:,})"


class Covered(NamedTuple):
    """What was run of one part."""

    part: str
    combined: Share
    branches: Share

    @property
    def is_enough(self) -> bool:
        """Whether both figures are high enough."""
        return min(self.combined.percent, self.branches.percent) >= LEAST

    def __str__(self) -> str:
        mark = "" if self.is_enough else f"  below {LEAST:.0f}%"
        return f"{self.part:<10} {self.combined!s:<26} {self.branches!s:<24}{mark}".rstrip()


def covered(report: Mapping[str, Any]) -> list[Covered]:
    """Return the figures of each part from the report of `coverage json`."""
    found = []
    for part in PARTS:
        sums = [
            file["summary"]
            for name, file in report["files"].items()
            if f"antecede/{part}/" in name.replace("\\", "/")
        ]
        lines, branches = (
            Share(sum(one[f"covered_{what}"] for one in sums), sum(one[total] for one in sums))
            for what, total in (("lines", "num_statements"), ("branches", "num_branches"))
        )
        both = Share(lines.covered + branches.covered, lines.all + branches.all)
        found.append(Covered(part, both, branches))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; return 1 if any of them is too low."""
    parser = argparse.ArgumentParser(prog="python -m tools.covered", description=__doc__)
    parser.add_argument("report", type=Path, help="what `coverage json` wrote")
    report = json.loads(parser.parse_args(arguments).report.read_text(encoding="utf-8"))
    found = covered(report)
    print(f"{'part':<10} {'lines and branches':<26} branches alone")
    for one in found:
        print(one)
    return 0 if all(one.is_enough for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
