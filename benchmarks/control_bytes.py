"""Control bytes per message of every protocol, over n, cast and load.

The load is how many messages a process sends while one is in transit: mean delay / mean gap between
its sends, on the workload of [JPCY97]. Model bytes are by the model of that paper; wire bytes are
the size of the control that the codec encodes, on a sample (for matrices only at one load, since
their size does not depend on it). ``server`` runs with clients that talk only to one server;
``synchronous`` would deadlock, so it sends the messages of a ring instead.

``python -m benchmarks control_bytes --out FOLDER`` writes FOLDER/control_bytes.csv.
"""

from __future__ import annotations

import antecede
from antecede import sim
from antecede.sim.workloads import MEAN_GAP, client_server, paper, ring
from benchmarks._tables import Value, record

SIZES, LOADS = (4, 10, 30), (0.1, 0.5, 2.0)
CASTS = ("unicast", "multicast", "broadcast")
#: Messages per process before and during the measurement: in kernels, in the plain engine.
LENGTHS = {True: (100, 300), False: (10, 20)}
#: The fewest that each process sends meanwhile, since many receive a broadcast.
SENT = (2, 20)
SAMPLE = 100
COLUMNS = (
    "entries_per_copy",
    "model_bytes_per_copy",
    "wire_bytes_per_copy",
    "model_bytes_per_message",
    "extra_packets_per_message",
    "extra_bytes_per_message",
)


def schedule_for(
    protocol: str, n: int, cast: str, load: float, *, engine: str
) -> tuple[sim.Schedule, int]:
    """Return traffic that a protocol can carry, and its warm-up in deliveries per process."""
    copies = {"unicast": 1, "multicast": n // 2, "broadcast": n - 1}[cast]
    lengths = LENGTHS[protocol in sim.KERNELS and engine != "plain"]
    warm_up, received = (
        max(length, sent * copies) for length, sent in zip(lengths, SENT, strict=True)
    )
    delay = load * MEAN_GAP
    if protocol == "server":
        return client_server(n=n, received=received + warm_up, seed=1, delay=delay), warm_up
    if protocol == "synchronous":
        return ring(n=n, received=received + warm_up, seed=1, delay=delay), warm_up
    made = paper(n=n, cast=cast, received=received, warm_up=warm_up, seed=1, delay=delay)
    return made, warm_up


def measure(protocol: str, n: int, cast: str, load: float, *, quick: bool) -> dict[str, Value]:
    """Return the sizes of one protocol on one schedule."""
    engine, sample = ("plain", 20) if quick else ("auto", SAMPLE)  # compiling takes long
    schedule, warm_up = schedule_for(protocol, n, cast, load, engine=engine)
    run = sim.run(protocol, schedule, warm_up=warm_up, wire_sample=sample, engine=engine)
    found = run.metrics
    return {column: found.get(column) for column in COLUMNS}


def is_sampled(info: antecede.ProtocolInfo, load: float) -> bool:
    """Return whether to sample: not if it takes long, as matrices have one size at any load."""
    return load == LOADS[1] or info.formula is None or not info.formula.cubic


def main(*, quick: bool) -> bool:
    sizes, loads = (SIZES[:1], LOADS[1:2]) if quick else (SIZES, LOADS)
    print(
        "protocol           n cast       load   bytes/copy: model    wire   bytes/message   extras"
    )
    for protocol, info in antecede.PROTOCOLS.items():
        for cast in [cast for cast in CASTS if cast in info.casts] or ["unicast"]:
            for n in sizes:
                for load in loads:
                    row: dict[str, Value] = {"protocol": protocol, "n": n, "cast": cast}
                    row |= {"load": load} | measure(protocol, n, cast, load, quick=quick)
                    record("control_bytes", **row)
                    if load == loads[len(loads) // 2]:
                        print(line(row), flush=True)
    return True


def line(row: dict[str, Value]) -> str:
    """Return a row as text."""
    figures = [row[column] for column in COLUMNS[1:5]]
    model, wire, message, extras = (float("nan") if f is None else float(f) for f in figures)
    return (
        f"{row['protocol']:<16} {row['n']:>3} {row['cast']:<9} {row['load']:>5} "
        f"{model:>19.1f} {wire:>7.1f} {message:>15.1f} {extras:>8.2f}"
    )
