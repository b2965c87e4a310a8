"""How time and memory per delivery grow with the number of processes.

Memory is what a kernel keeps for its processes and for messages in flight. The trace (about 60
bytes per copy) is not counted: it grows with the schedule by design.
"""

from __future__ import annotations

import math
import time

import antecede
from antecede import sim
from antecede.sim.kernels.registry import KERNELS
from antecede.sim.workloads import paper
from benchmarks._tables import record

SIZES = (10, 20, 50, 100, 200)
LARGE = (500, 1000)
LARGE_KERNELS = ("optimal", "buffered")


def measure(protocol: str, n: int, cast: str, copies: int) -> tuple[float, float]:
    """Return microseconds per delivery and megabytes of state."""
    received = max(4, copies // n)
    delay = 0.02 if protocol == "buffered" else 0.05
    schedule = paper(n=n, cast=cast, received=received, seed=1, delay=delay)
    plan = KERNELS[protocol].plan(schedule)
    begin = time.process_time()
    state = KERNELS[protocol].simulate(plan, n)
    seconds = time.process_time() - begin
    return seconds / schedule.copies * 1e6, state.bytes() / 1e6


def main(*, quick: bool) -> bool:
    sim.warm()
    copies = 2000 if quick else 60_000
    for cast in ("unicast", "multicast"):
        print(f"{cast}: microseconds per delivery, and megabytes of state")
        for protocol in sim.KERNELS:
            if cast not in antecede.PROTOCOLS[protocol].casts:
                continue
            sizes = SIZES[:2] if quick else SIZES
            if not quick and protocol in LARGE_KERNELS:
                sizes = (*sizes, *LARGE)
            cells = {}
            for n in sizes:
                slow = protocol in ("direct", "bounded", "semantic") and n >= 100
                share = copies // 10 if slow else 5 * copies if n in LARGE else copies
                cells[n] = measure(protocol, n, cast, share)
                record("growth", protocol=protocol, cast=cast, n=n, us=cells[n][0], mb=cells[n][1])
            first, last = sizes[0], sizes[-1]
            power = math.log(cells[last][0] / cells[first][0]) / math.log(last / first)
            text = "  ".join(f"n={n} {t:.2f} us {m:.1f} MB" for n, (t, m) in cells.items())
            print(f"  {protocol:<9} {text}  (time grows like n^{power:.1f})", flush=True)
    return True
