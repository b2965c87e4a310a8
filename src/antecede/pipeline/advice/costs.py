"""What each protocol costs on the traffic: the typed rows that advice is decided on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from antecede.core.tables import ADVISE_COLUMNS
from antecede.pipeline import schemas


class Status(StrEnum):
    """How the figures of a protocol were found; members are in the order of the table."""

    RUN = "run"
    COMPUTED = "computed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class WeakGuarantee:
    """The protocol does not promise both causal order and delivery."""

    guarantee: str

    def __str__(self) -> str:
        return f"its guarantee is too weak ({self.guarantee})"


@dataclass(frozen=True, slots=True)
class Undelivered:
    """The protocol left copies undelivered."""

    count: int
    copies: int

    def __str__(self) -> str:
        return f"{self.count:,} of {self.copies:,} copies were never delivered"


@dataclass(frozen=True, slots=True)
class OrderBroken:
    """The protocol delivered messages after their effects."""

    violations: int

    def __str__(self) -> str:
        times = "once" if self.violations == 1 else f"{self.violations:,} times"
        return f"it broke causal order {times} on this traffic"


@dataclass(frozen=True, slots=True)
class Saturated:
    """The protocol's queues grew without bound."""

    def __str__(self) -> str:
        return "it is saturated: its queues keep growing"


#: The columns of the advice table that hold numbers.
FIGURES = tuple(name for name in ADVISE_COLUMNS if name not in {"protocol", "status", "reason"})

Fault = WeakGuarantee | Undelivered | OrderBroken | Saturated


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One protocol's costs on the traffic.

    ``faults`` say why it must not be recommended. ``is_partial`` means that it ran only on the
    beginning of the traffic, ``carries_messages`` that its copies contain other messages. ``note``
    says in words how the figures were found, or why there are none. The figures are the columns of
    the advice table; None means unknown.
    """

    protocol: str
    status: Status
    faults: tuple[Fault, ...] = ()
    is_partial: bool = False
    carries_messages: bool = False
    note: str = ""
    entries_per_copy: float | None = None
    model_bytes_per_copy: float | None = None
    wire_bytes_per_copy: float | None = None
    added_delay_mean: float | None = None
    added_delay_p99: float | None = None
    held_fraction: float | None = None
    buffer_peak: float | None = None
    state_bytes_peak: float | None = None
    extra_packets_per_message: float | None = None

    @property
    def bytes_per_copy(self) -> float | None:
        """Bytes of control on each copy: as encoded if they were measured, else by the model."""
        sizes = (self.wire_bytes_per_copy, self.model_bytes_per_copy)
        return next((size for size in sizes if size is not None), None)

    @property
    def is_eligible(self) -> bool:
        """Whether it may be recommended: it ran without fault and has figures to compare."""
        is_known = self.added_delay_mean is not None and self.bytes_per_copy is not None
        return self.status is Status.RUN and not self.faults and is_known

    @property
    def reason(self) -> str:
        """What a reader has to know about the row; faults come first."""
        faults = "; ".join(str(fault) for fault in self.faults)
        return "; ".join(
            part for part in (faults and f"not recommended: {faults}", self.note) if part
        )

    @property
    def record(self) -> dict[str, Any]:
        """The row of the advice table."""
        return {name: getattr(self, name) for name in ADVISE_COLUMNS}


def known_figures(found: Mapping[str, Any]) -> dict[str, float]:
    """Return those of the figures found that are columns of the table and have a value."""
    return {
        name: float(value)
        for name, value in found.items()
        if name in FIGURES and value is not None and not math.isnan(value)
    }


def table_of(costs: Iterable[Cost]) -> pa.Table:
    """Return the advice table."""
    return pa.Table.from_pylist([cost.record for cost in costs], schemas.ADVICE)


def ranked(costs: Iterable[Cost]) -> list[Cost]:
    """Return the rows in the order of the table: what ran first, the fewest bytes first."""
    order = list(Status)

    def rank(cost: Cost) -> tuple[int, float, str]:
        size = cost.model_bytes_per_copy
        return order.index(cost.status), math.inf if size is None else size, cost.protocol

    return sorted(costs, key=rank)
