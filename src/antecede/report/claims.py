"""The claims table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antecede.report.measured import Measured


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    claim: str
    test: str
    result: str
    verdict: str

    def cells(self) -> tuple[str, ...]:
        return (self.id, self.claim, self.test, self.result, self.verdict)


def claim_rows(measured: Measured) -> list[Row]:
    return []
