"""`run`: one protocol over one schedule, on a kernel where there is one."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import antecede
from antecede.errors import UsageError
from antecede.memory import require_memory
from antecede.sim.beside import beside
from antecede.sim.events import event_table
from antecede.sim.kernels import loop, registry
from antecede.sim.kernels.compiling import is_cached
from antecede.sim.metrics import Metric, measure
from antecede.sim.plain import run_plain
from antecede.sim.semantics import false_causality
from antecede.sim.wire_sizes import wire_sizes
from antecede.sim.workloads import paper

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from antecede.sim.schedule import Schedule
    from antecede.sim.trace import Progress, Trace

KERNELS = tuple(registry.KERNELS)
"""The names of the protocols that have a compiled kernel."""
DENSE_MAX = 65_536
"""The most processes of a run whose state grows with the pairs of them."""
ENGINES = ("auto", "kernel", "plain")
"""What ``run`` can use: a kernel, the plain engine, or a kernel where there is one."""


@dataclass(frozen=True, eq=False)
class Run:
    """The result of a run.

    `metrics` has the columns of the study's table and what the protocol adds, `events` the event
    log if it was requested, and `trace` the arrays that everything is computed from.
    """

    protocol: str
    engine: str
    metrics: dict[str, Metric]
    events: pa.Table | None
    trace: Trace


def run(
    protocol: str, schedule: Schedule, *, options: Mapping[str, Any] | None = None,
    engine: str = "auto", warm_up: int = 0, events: bool = False, wire_sample: int = 0,
    progress: Progress | None = None,
) -> Run:  # fmt: skip
    """Run a protocol over a schedule.

    Parameters
    ----------
    options
        The protocol's own, as for ``antecede.endpoint``.
    engine
        ``kernel``, ``plain``, or ``auto``: the kernel where there is one for these options.
    warm_up
        Leave the first `warm_up` deliveries per process (on average) out of the metrics.
    wire_sample
        Measure encoded control sizes of that many copies, on the plain engine.
    """
    options = dict(options or {})
    chosen = choose_engine(protocol, engine, options)
    if warm_up < 0 or wire_sample < 0:
        msg = f"warm_up={warm_up}, wire_sample={wire_sample}; use at least 0"
        raise UsageError(msg)
    check_state(protocol, schedule.n, chosen)
    check_protocol(protocol, schedule, options)
    begin = time.thread_time()  # runs share cores with each other
    model_bytes: NDArray[np.int64]
    if chosen == "plain":
        result = run_plain(protocol, schedule, options=options, progress=progress)
        trace, model_bytes, extras = result.trace, result.model_bytes, {}
    else:
        kernel = registry.KERNELS[protocol]
        sizes = kernel.sizes_of(schedule.n)
        state = kernel.simulate(kernel.plan(schedule), schedule.n, options, progress)
        trace, extras = state.trace, state.extras()
        model_bytes = sizes.entry * trace.entries.astype(np.int64) + sizes.rest
        model_bytes += sizes.destination * trace.destinations.astype(np.int64)
    seconds = time.thread_time() - begin
    figures = measure(schedule, trace, warm_up=warm_up, model_bytes=model_bytes)
    figures |= extras
    if protocol in registry.KERNELS:
        figures |= registry.KERNELS[protocol].figures(schedule, trace, warm_up)
    figures["seconds"] = seconds
    if (schedule.rank >= 0).any():
        figures |= false_causality(schedule, trace)
    if wire_sample > 0:
        figures |= wire_sizes(protocol, schedule, options, wire_sample)
    return Run(protocol, chosen, figures, event_table(schedule, trace) if events else None, trace)


def choose_engine(protocol: str, engine: str, options: Mapping[str, Any]) -> str:
    """Return the engine that runs; refuse, in one line, one that cannot."""
    if engine not in ENGINES:
        msg = f"unknown engine {engine!r}; use one of {', '.join(ENGINES)}"
        raise UsageError(msg)
    kernel = registry.KERNELS.get(protocol)
    unknown = kernel.unknown(options) if kernel else []
    can = kernel is not None and not unknown
    if engine == "kernel" and not can:
        why = f"with option {' and '.join(unknown)}" if unknown else f"for {protocol!r}"
        msg = f"there is no kernel {why}; use engine='plain' or one of {', '.join(KERNELS)}"
        raise UsageError(msg)
    return "kernel" if can and engine != "plain" else "plain"


def state_bytes_least(protocol: str, n: int, engine: str) -> float:
    """Return the bytes that a run of ``n`` processes takes at least, whatever is sent.

    Measured: kernels with a matrix per process take 5 to 10 bytes times n x n x n, other kernels at
    least 8 times n x n or, if they are sparse, n, and endpoints at least 60 times n x n.
    """
    if engine == "plain":
        return 60.0 * n**2
    if registry.KERNELS[protocol].is_sparse:
        return 8.0 * n
    formula = antecede.PROTOCOLS[protocol].formula
    is_cubic = formula is not None and formula.cubic
    return 8.0 * n**2 + (5.0 * n**3 if is_cubic else 0.0)


def check_state(protocol: str, n: int, engine: str) -> None:
    """Refuse a run whose state does not fit into this machine's memory."""
    what = f"{protocol} with {n:,} processes"
    mend = "use fewer processes, or a protocol that keeps less"
    kernel = registry.KERNELS.get(protocol)
    if n > DENSE_MAX and not (engine == "kernel" and kernel and kernel.is_sparse):
        msg = f"{what} is too many: {DENSE_MAX:,} can be simulated; {mend}"
        raise UsageError(msg)
    require_memory(state_bytes_least(protocol, n, engine), what, mend)


def check_protocol(protocol: str, schedule: Schedule, options: Mapping[str, Any]) -> None:
    """Refuse options the protocol does not take, and casts it does not offer."""
    names = schedule.names if options else schedule.names[:2]  # many need time, for nothing
    antecede.endpoint(protocol, process=names[0], members=names, **options)
    casts = antecede.PROTOCOLS[protocol].casts
    if not options.get("groups") and not schedule.casts.intersection(casts):
        msg = (
            f"{protocol} carries only {' or '.join(casts)} messages, but this schedule has "
            f"{schedule.cast} messages; choose another protocol or workload"
        )
        raise UsageError(msg)


def warm() -> None:
    """Compile the kernels that every study needs, or load them from the cache.

    If several have to be compiled, a second process compiles half of them into the cache.
    """
    helper = None
    if not is_cached(loop.run, len(_specialised())):
        program = f"from antecede.sim.engine import compile_kernels; compile_kernels({_HALF!r})"
        helper = beside(program, stdout=subprocess.DEVNULL)
    try:
        if helper is not None:
            compile_kernels([name for name in _specialised() if name not in _HALF])
            helper.wait()
    finally:
        if helper is not None and helper.poll() is None:
            helper.kill()
            helper.wait()
    compile_kernels(name for name in KERNELS if registry.KERNELS[name].ahead)


def compile_kernels(protocols: Iterable[str]) -> None:
    """Compile the kernels of these protocols, or load them from the cache."""
    tiny = paper(n=2, received=2)
    for protocol in protocols:
        run(protocol, tiny, engine="kernel")


def _specialised() -> list[str]:
    """Return one protocol for each form of the event loop that `warm` compiles: some share one."""
    first = {
        kernel.own: name for name, kernel in reversed(registry.KERNELS.items()) if kernel.ahead
    }
    return [name for name in KERNELS if name in first.values()]


#: What the second process compiles, so that both take about as long.
_HALF = [name for place, name in enumerate(_specialised()) if place % 4 in (1, 2)]
