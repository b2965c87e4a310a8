"""What each protocol costs on the traffic: the typed rows on which advice is based.

Protocols too large or too slow to run get sizes computed from the number of processes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from antecede.audit.windows.rounds import BYTES_PER_PAIR
from antecede.endpoint.info import ProtocolInfo
from antecede.events import arrow_schemas
from antecede.events.tables import ADVISE_COLUMNS
from antecede.memory import GIB, machine_bytes
from antecede.sim import KERNELS
from antecede.sim.engine import state_bytes_least


class Status(StrEnum):
    """How the figures of a protocol were found; members are in the order of the table."""

    RUN = "run"
    COMPUTED = "computed"
    SKIPPED = "skipped"


class FaultKind(StrEnum):
    """Why a protocol must not be recommended, with the wording for it."""

    WEAK_GUARANTEE = "its guarantee is too weak ({})"
    UNDELIVERED = "{:,} of {:,} copies were never delivered"
    ORDER_BROKEN = "it broke causal order on this traffic (violations: {:,})"
    SATURATED = "it is saturated: its queues keep growing"
    UNORDERED = "it keeps no order; {:,} of {:,} deliveries would have been out of order"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a protocol, with the values for its wording."""

    kind: FaultKind
    values: tuple[object, ...] = ()

    def __str__(self) -> str:
        return self.kind.format(*self.values)


#: The row for what would happen without any protocol.
NONE = "none"
#: The columns of the advice table that hold numbers.
FIGURES = tuple(name for name in ADVISE_COLUMNS if name not in {"protocol", "status", "reason"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One protocol's costs on the traffic; a figure of None is unknown.

    ``is_partial``: it ran on only the beginning of the traffic. ``messages`` and ``wire_sample``
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
        """Whether it may be recommended: it ran without a fault and has figures to compare."""
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
    """Return the figures that have a value and a column in the table."""
    return {
        name: float(value)
        for name, value in found.items()
        if name in FIGURES and value is not None and not math.isnan(value)
    }


def table_of(costs: Iterable[Cost]) -> pa.Table:
    """Return the advice table."""
    return pa.Table.from_pylist([cost.record for cost in costs], arrow_schemas.ADVICE)


def ranked(costs: Iterable[Cost]) -> list[Cost]:
    """Return the rows in the order of the table: those that ran first, by ascending bytes."""
    order = list(Status)

    def rank(cost: Cost) -> tuple[int, float, str]:
        size = cost.model_bytes_per_copy
        return order.index(cost.status), math.inf if size is None else size, cost.protocol

    return sorted(costs, key=rank)


#: The most memory for a kernel that keeps a matrix per process.
CUBE_BYTES_MAX = 1 << 30
#: With more processes, a protocol with a formula but no kernel is computed instead of run.
PLAIN_PROCESSES_MAX = 500
#: The bytes of an entry of a log in the model of [JPCY97]: an id and a clock.
ENTRY_BYTES = 6


def why_not_run(info: ProtocolInfo, n: int) -> str | None:
    """Return why a protocol is computed instead of run with ``n`` processes, or None."""
    formula = info.formula
    if formula is None:
        return None
    if formula.cubic and 8 * n**3 > CUBE_BYTES_MAX:
        return f"{n:,} processes of {formula.state(n):,} bytes each would not fit in memory"
    if info.name not in KERNELS and n > PLAIN_PROCESSES_MAX:
        return f"it has no kernel, and the plain engine is too slow for {n:,} processes"
    return None


def why_too_large(info: ProtocolInfo, n: int) -> str | None:
    """Return why a protocol cannot be run with ``n`` processes on this machine, or None."""
    engine = "kernel" if info.name in KERNELS else "plain"
    needed = max(state_bytes_least(info.name, n, engine), float(BYTES_PER_PAIR * n**2))
    has = machine_bytes()
    if needed <= has:
        return None
    return (
        f"a run of {n:,} processes would take about {needed / GIB:,.0f} GiB of memory, but this "
        f"machine has {has / GIB:,.0f} GiB"
    )


def computed(info: ProtocolInfo, n: int, why: str, faults: tuple[Fault, ...]) -> Cost:
    """Return the costs that follow from a protocol's formula."""
    formula = info.formula
    assert formula is not None
    bound = "upper bounds " if formula.most else ""
    return Cost(
        protocol=info.name,
        status=Status.COMPUTED,
        faults=faults,
        note=f"{bound}computed by its formula for {n:,} processes: {why}",
        entries_per_copy=formula.entries(n),
        model_bytes_per_copy=formula.bytes(n),
        state_bytes_peak=formula.state(n),
    )


def state_bytes(info: ProtocolInfo, n: int, entries_kept: float | None) -> float | None:
    """Return the bytes that a process keeps, from an exact formula or else the entries kept."""
    if info.formula is not None and not info.formula.most:
        return info.formula.state(n)
    return None if entries_kept is None else ENTRY_BYTES * entries_kept
