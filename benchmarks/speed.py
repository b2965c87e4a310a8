"""Kernels against a C program of the same simulation, and against the plain engine.

The C program (``ks.c``, in the folder shared beside the project) is compiled on the spot where
there is a compiler; both run one after the other on one core, several times in turn, and the
better of each counts: other work on the machine only ever slows a run down. Times are of the
processor, as the C program's own are.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from antecede import sim
from antecede.sim.kernels.registry import SIMULATORS
from antecede.sim.workloads import paper

SOURCE = Path(__file__).resolve().parents[2] / "shared" / "bench" / "ks.c"
SIZES, CASTS = (10, 30, 50), ("unicast", "multicast")
DELAY, GAP = 0.05, 0.1
FACTOR_MIN, PLAIN_FACTOR_MIN, TOLERANCE = 2.0, 50.0, 0.02
ROUNDS = 3


class Yardstick(NamedTuple):
    """What the C program printed."""

    entries: float
    bytes: float
    rate: float


def compiled(folder: str) -> str | None:
    """Compile the yardstick; None where there is no compiler or no source."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not SOURCE.is_file():
        return None
    target = f"{folder}/ks"
    flags = ["-O3", "-march=native", "-o", target, str(SOURCE), "-lm"]
    done = subprocess.run([compiler, *flags], capture_output=True, check=False, timeout=120)
    return target if done.returncode == 0 else None


def yardstick(program: str, n: int, cast: str, received: int, warm_up: int, seed: int) -> Yardstick:
    words = [n, int(cast == "multicast"), received + warm_up, warm_up, seed, DELAY, GAP]
    done = subprocess.run(
        [program, *map(str, words)], capture_output=True, text=True, check=True, timeout=600
    )
    found = re.search(r"copy=([\d.]+) bytes/copy=([\d.]+).*Mdeliv/s=([\d.]+)", done.stdout)
    assert found is not None, done.stdout
    return Yardstick(float(found[1]), float(found[2]), float(found[3]) * 1e6)


def kernel_rate(protocol: str, schedule: sim.Schedule) -> tuple[float, float]:
    """Return deliveries per second of the kernel alone, and with the schedule made ready."""
    begin = time.process_time()
    plan = schedule.plan()
    ready = time.process_time()
    SIMULATORS[protocol](plan, schedule.n, {}, None)
    end = time.process_time()
    return schedule.copies / (end - ready), schedule.copies / (end - begin)


def plain_rate(protocol: str, schedule: sim.Schedule) -> float:
    begin = time.process_time()
    sim.run(protocol, schedule, engine="plain")
    return schedule.copies / (time.process_time() - begin)


def compare(program: str | None, n: int, cast: str, *, quick: bool) -> bool:
    received, warm_up = (100, 20) if quick else (100_000 // n + 2000, 500)
    schedule = paper(n=n, cast=cast, received=received, warm_up=warm_up, seed=1, delay=DELAY)
    metrics = sim.run("optimal", schedule, warm_up=warm_up).metrics
    begin = time.process_time()
    paper(n=n, cast=cast, received=received, warm_up=warm_up, seed=1, delay=DELAY)
    making = time.process_time() - begin
    alone = whole = c_rate = 0.0
    c = None
    for _ in range(ROUNDS):
        one, two = kernel_rate("optimal", schedule)
        alone, whole = max(alone, one), max(whole, two)
        if program is not None:
            c = yardstick(program, n, cast, received, warm_up, 1)
            c_rate = max(c_rate, c.rate)
    whole = 1 / (1 / whole + making / schedule.copies)
    part = schedule.head(int((schedule.offsets < (200 if quick else 1500)).sum()))
    plain = plain_rate("optimal", part)
    line = (
        f"n={n:<3} {cast:<10} kernel {alone / 1e6:6.3f} M/s (schedule included {whole / 1e6:6.3f})"
    )
    line += f"  plain : kernel = 1 : {alone / plain:5.0f}"
    met = quick or alone / plain > PLAIN_FACTOR_MIN
    if c is not None:
        ours = float(metrics["entries_per_copy"] or 0), float(metrics["model_bytes_per_copy"] or 0)
        off = max(abs(ours[0] / c.entries - 1), abs(ours[1] / c.bytes - 1))
        line += f"  C {c_rate / 1e6:6.3f} M/s  kernel : C = {alone / c_rate:4.1f} ({whole / c_rate:4.1f})"
        line += (
            f"  entries {ours[0]:6.2f} : {c.entries:6.2f}  bytes {ours[1]:6.1f} : {c.bytes:6.1f}"
        )
        met = met and (quick or (alone / c_rate >= FACTOR_MIN and off <= TOLERANCE))
    print(line + ("" if met else "  <-- bound missed"), flush=True)
    return met


def main(*, quick: bool) -> bool:
    sim.warm()
    met = True
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(folder)
        if program is None:
            print("no C compiler or no ks.c here: kernels are compared with the plain engine only")
        for n in SIZES:
            for cast in CASTS:
                met = compare(program, n, cast, quick=quick) and met
    print("all kernels, n=30, million deliveries per second:")
    for cast in CASTS:
        schedule = paper(n=30, cast=cast, received=100 if quick else 3000, seed=1, delay=0.02)
        fitting = [name for name in sim.KERNELS if cast == "unicast" or name != "buffered"]
        rates = {name: max(kernel_rate(name, schedule)[0] for _ in range(2)) for name in fitting}
        print(f"  {cast:<10}", "  ".join(f"{k} {v / 1e6:.2f}" for k, v in rates.items()))
    return met
