"""`run`: one protocol over one schedule, on its kernel if it has one; and the event log."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import antecede
from antecede.errors import UsageError
from antecede.memory import require_memory
from antecede.sim.kernels import loop, registry
from antecede.sim.kernels.compiling import is_cached
from antecede.sim.metrics import Metric, measure
from antecede.sim.plain import PlainRun, run_plain
from antecede.sim.semantics import false_causality
from antecede.sim.workloads import paper
from antecede.wire import Codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from antecede.sim.schedule import Schedule
    from antecede.sim.trace import Progress, Trace

KERNELS = tuple(registry.KERNELS)
"""The names of the protocols that have a compiled kernel."""
DENSE_MAX = 65_536
"""The most processes in a run whose state grows with the number of pairs of processes."""
ENGINES = ("auto", "kernel", "plain")
"""The engines that ``run`` takes; ``auto`` is the kernel if there is one, else the plain engine."""

_EVENTS = pa.schema(
    [
        pa.field("process", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("message", pa.string()),
        pa.field("dests", pa.list_(pa.string())),
        pa.field("time", pa.float64()),
    ]
)
# At least this many copies and messages per process precede the sample, so that every process has
# heard of every other several times.
LEAD, LEAD_MESSAGES = 30, 8


@dataclass(frozen=True, eq=False)
class Run:
    """The result of a run.

    `metrics` has the columns of the study's table and the protocol's own figures, `events` the
    event log if it was requested, and `trace` the arrays that both are computed from.
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
        The protocol's options, as for ``antecede.endpoint``.
    engine
        ``kernel``, ``plain``, or ``auto``: the kernel if there is one for these options.
    warm_up
        Leave the first `warm_up` deliveries per process (on average) out of the metrics.
    wire_sample
        Measure the encoded control of this many copies, on the plain engine.
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


def event_table(schedule: Schedule, trace: Trace) -> pa.Table:
    """Return one row per send and delivery, in the order in which they happened.

    A message's id is its sender's name and its number there, such as ``p3:17``.
    """
    order = trace.order[trace.order >= 0]
    messages = schedule.messages
    is_send = order < messages
    copy = np.where(is_send, 0, order - messages)
    message = np.where(is_send, order, schedule.message[copy])
    process = np.where(is_send, schedule.sender[message], schedule.dests[copy])
    time = np.where(is_send, trace.sent[message], trace.delivered[copy])
    # The k-th event of a process gets the number k, from 1.
    by_process = np.argsort(process, kind="stable")
    starts = np.searchsorted(process[by_process], np.arange(schedule.n))
    seq = np.empty(len(order), np.int64)
    seq[by_process] = np.arange(len(order)) - starts[process[by_process]] + 1
    names = pa.array(schedule.names, pa.string())
    ids = pa.array(
        [f"{schedule.names[s]}:{k}" for s, k in zip(schedule.sender, trace.number, strict=True)],
        pa.string(),
    )
    widths = np.diff(schedule.offsets)[message] * is_send
    ends = np.cumsum(widths)
    inner = np.arange(int(ends[-1]) if len(ends) else 0)
    starts_of = np.repeat(schedule.offsets[message] - (ends - widths), widths)
    dests = names.take(pa.array(schedule.dests[inner + starts_of]))
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32), mask=None)
    lists = pa.ListArray.from_arrays(offsets, dests, mask=pa.array(~is_send))
    kinds = pa.DictionaryArray.from_arrays(
        pa.array((~is_send).astype(np.int8)), pa.array(["send", "deliver"])
    ).cast(pa.string())
    columns = [names.take(pa.array(process)), pa.array(seq), kinds, ids.take(pa.array(message)),
               lists, pa.array(time)]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=_EVENTS)


def wire_sizes(
    protocol: str,
    schedule: Schedule,
    options: Mapping[str, Any],
    sample: int,
    *,
    sent_before: int = 0,
) -> dict[str, Metric]:
    """Return the mean encoded size and the mean model size of the control of `sample` copies.

    Runs the beginning of the schedule: a lead (:data:`LEAD`), then the sample. All processes share
    one codec, so names are numbers on the wire. With `sent_before`, every process numbers its
    messages from there, as it would late in a long run: larger numbers take more bytes. (Protocols
    that count per channel still start those counts from 0.)
    """
    sent = min(LEAD_MESSAGES * schedule.n, schedule.messages)
    lead = max(LEAD * schedule.n, int(schedule.offsets[sent]))
    lead = min(lead, max(0, schedule.copies - sample))
    rows = int((schedule.offsets < lead + sample).sum())
    run = PlainRun(protocol, schedule.head(rows), options, sent_before=sent_before)
    codec = Codec(run.endpoints[0])
    wire: list[int] = []
    model: list[int] = []

    def measure(packet: antecede.Packet, copy: int) -> None:
        if copy >= lead and len(wire) < sample:
            wire.append(codec.wire_bytes(packet))
            model.append(int(run.model_bytes[copy]))

    run.on_packet = measure
    run.run()
    count = max(1, len(wire))
    return {
        "wire_bytes_per_copy": sum(wire) / count if wire else None,
        "wire_sample_model_bytes": sum(model) / count if wire else None,
        "wire_sample": len(wire),
    }


def choose_engine(protocol: str, engine: str, options: Mapping[str, Any]) -> str:
    """Return the engine to run; raise a one-line error if the requested one cannot."""
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
    """Return the least bytes that a run of ``n`` processes takes, whatever they send.

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
    """Refuse options that the protocol does not take, and casts that it does not offer."""
    names = schedule.names if options else schedule.names[:2]  # many names would only take time
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
    if not is_cached(loop.event_loop, len(_specialised())):
        program = f"from antecede.sim.engine import compile_kernels; compile_kernels({_HALF!r})"
        helper = start_python(program, stdout=subprocess.DEVNULL)
    try:
        if helper is not None:
            compile_kernels([name for name in _specialised() if name not in _HALF])
            helper.wait()
    finally:
        if helper is not None and helper.poll() is None:
            helper.kill()
            helper.wait()
    compile_kernels(name for name in KERNELS if registry.KERNELS[name].ahead)


def start_python(program: str, *, stdin: int | None = None, stdout: int) -> subprocess.Popen[bytes]:
    """Run Python code in a second process that finds the same modules as this one.

    Its standard error is discarded: the caller has to do whatever the second process fails to do.
    """
    return subprocess.Popen(  # noqa: S603 - our own interpreter and words
        [sys.executable, "-c", program],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def compile_kernels(protocols: Iterable[str]) -> None:
    """Compile the kernels of these protocols, or load them from the cache."""
    tiny = paper(n=2, received=2)
    for protocol in protocols:
        run(protocol, tiny, engine="kernel")


def _specialised() -> list[str]:
    """Return one protocol per form of the event loop that `warm` compiles; some share a form."""
    first = {
        kernel.own: name for name, kernel in reversed(registry.KERNELS.items()) if kernel.ahead
    }
    return [name for name in KERNELS if name in first.values()]


#: What the second process compiles: chosen so that both processes take about as long.
_HALF = [name for place, name in enumerate(_specialised()) if place % 4 in (1, 2)]
