"""Sizes computed from the number of processes, for protocols too large or too slow to run."""

from __future__ import annotations

from antecede.audit.windows.rounds import BYTES_PER_PAIR
from antecede.endpoint.info import ProtocolInfo
from antecede.memory import GIB, machine_bytes
from antecede.pipeline.advice.costs import Cost, Fault, Status
from antecede.sim import KERNELS
from antecede.sim.engine import state_bytes_least

#: A kernel that keeps a matrix per process may use this much memory in all.
CUBE_BYTES_MAX = 1 << 30
#: With more processes than this, a protocol that has a formula but no kernel is computed.
PLAIN_PROCESSES_MAX = 500
#: What an entry of a log counts in the model of [JPCY97]: an id and a clock.
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
    """Return the sizes that follow from a protocol's formula."""
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
    """Return the bytes that a process keeps: by an exact formula, else by the entries it kept."""
    if info.formula is not None and not info.formula.most:
        return info.formula.state(n)
    return None if entries_kept is None else ENTRY_BYTES * entries_kept
