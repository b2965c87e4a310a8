"""What each protocol costs on the traffic: the typed rows that advice is decided on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from antecede.events import arrow_schemas
from antecede.events.tables import ADVISE_COLUMNS


class Status(StrEnum):
    """How the figures of a protocol were found; members are in the order of the table."""

    RUN = "run"
    COMPUTED = "computed"
    SKIPPED = "skipped"


class FaultKind(StrEnum):
    """Why a protocol must not be recommended, with the words for it."""

    WEAK_GUARANTEE = "its guarantee is too weak ({})"
    UNDELIVERED = "{:,} of {:,} copies were never delivered"
    ORDER_BROKEN = "it broke causal order on this traffic (violations: {:,})"
    SATURATED = "it is saturated: its queues keep growing"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a protocol, with the values that its words need."""

    kind: FaultKind
    values: tuple[object, ...] = ()

    def __str__(self) -> str:
        return self.kind.format(*self.values)


#: The columns of the advice table that hold numbers.
FIGURES = tuple(name for name in ADVISE_COLUMNS if name not in {"protocol", "status", "reason"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One protocol's costs on the traffic; of its figures, None means unknown.

    ``is_partial``: it ran only on the beginning of the traffic. ``messages`` and ``wire_sample``
    count the messages it ran on, and the copies whose wire bytes were measured.
    ``carries_messages``: its copies contain other messages. ``note`` says how the figures were
    found, or why there are none.
    """

    protocol: str
    status: Status
    faults: tuple[Fault, ...] = ()
    is_partial: bool = False
    messages: int = 0
    wire_sample: int = 0
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
        wire = self.wire_bytes_per_copy
        return self.model_bytes_per_copy if wire is None else wire

    @property
    def is_eligible(self) -> bool:
        """Whether it may be recommended: it ran without fault and has figures to compare."""
        is_known = self.added_delay_mean is not None and self.bytes_per_copy is not None
        return self.status is Status.RUN and not self.faults and is_known

    @property
    def reason(self) -> str:
        """What a reader has to know about the row; faults come first."""
        faults = "; ".join(map(str, self.faults))
        return "; ".join(filter(None, (faults and f"not recommended: {faults}", self.note)))

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
    return pa.Table.from_pylist([cost.record for cost in costs], arrow_schemas.ADVICE)


def ranked(costs: Iterable[Cost]) -> list[Cost]:
    """Return the rows in the order of the table: what ran first, the fewest bytes first."""
    order = list(Status)

    def rank(cost: Cost) -> tuple[int, float, str]:
        size = cost.model_bytes_per_copy
        return order.index(cost.status), math.inf if size is None else size, cost.protocol

    return sorted(costs, key=rank)
