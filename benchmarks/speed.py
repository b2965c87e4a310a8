"""Kernels against a C program of the same simulation, and against the plain engine.

The C program (``yardstick.c``, beside this module) is compiled on the spot if there is a compiler.
Both run in turn on one core, several times, and the best run of each counts: other work on the
machine can only slow a run down. All times are processor times.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import antecede
from antecede import sim
from antecede.sim.kernels.registry import KERNELS
from antecede.sim.workloads import paper, replay_edges
from benchmarks._tables import judge, record
from benchmarks._traffic import write_edges

SOURCE = Path(__file__).with_name("yardstick.c")
SIZES, CASTS = (10, 30, 50), ("unicast", "multicast")
DELAY, GAP = 0.05, 0.1
FACTOR_MIN, PLAIN_FACTOR_MIN, TOLERANCE = 2.0, 50.0, 0.02
ROUNDS = 6


class Yardstick(NamedTuple):
    """The figures that the C program measured."""

    entries: float
    bytes: float
    rate: float


def compile_yardstick(folder: str) -> str | None:
    """Compile the C program; return None if there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    target = f"{folder}/yardstick"
    flags = ["-std=c11", "-O3", "-march=native", "-o", target, str(SOURCE), "-lm"]
    done = subprocess.run([compiler, *flags], capture_output=True, check=False, timeout=120)
    return target if done.returncode == 0 else None


def run_yardstick(program: str, n: int, cast: str, received: int, warm_up: int) -> Yardstick:
    words = [program, n, cast, received, warm_up, 1, DELAY, GAP]
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=True, timeout=600
    )
    found = json.loads(done.stdout)
    rate = found["deliveries"] / found["seconds"]
    return Yardstick(found["entries_per_copy"], found["bytes_per_copy"], rate)


def kernel_rate(protocol: str, schedule: sim.Schedule) -> tuple[float, float]:
    """Return deliveries per second of the kernel alone, and including its plan."""
    begin = time.process_time()
    plan = KERNELS[protocol].plan(schedule)
    ready = time.process_time()
    KERNELS[protocol].simulate(plan, schedule.n)
    end = time.process_time()
    return schedule.copies / (end - ready), schedule.copies / (end - begin)


def plain_rate(protocol: str, schedule: sim.Schedule) -> float:
    begin = time.process_time()
    sim.run(protocol, schedule, engine="plain")
    return schedule.copies / (time.process_time() - begin)


def beginning(schedule: sim.Schedule, copies: int) -> sim.Schedule:
    """Return the head of a schedule with about ``copies`` copies."""
    return schedule.head(int((schedule.offsets < copies).sum()))


def compare(program: str | None, n: int, cast: str, *, quick: bool) -> bool:
    received, warm_up = (100, 20) if quick else (600_000 // n, 500)
    begin = time.process_time()
    schedule = paper(n=n, cast=cast, received=received, warm_up=warm_up, seed=1, delay=DELAY)
    assert len(schedule.fixed_events[0]) > schedule.copies  # sort once, for all protocols
    scheduling = time.process_time() - begin
    metrics = sim.run("optimal", schedule, warm_up=warm_up).metrics
    alone = whole = c_rate = 0.0
    c = None
    for _ in range(ROUNDS):
        one, two = kernel_rate("optimal", schedule)
        alone, whole = max(alone, one), max(whole, two)
        if program is not None:
            c = run_yardstick(program, n, cast, received, warm_up)
            c_rate = max(c_rate, c.rate)
    whole = 1 / (1 / whole + scheduling / schedule.copies)
    plain = plain_rate("optimal", beginning(schedule, 200 if quick else 1500))
    line = (
        f"n={n:<3} {cast:<10} kernel {alone / 1e6:6.3f} M/s (schedule included {whole / 1e6:6.3f})"
        f"  plain : kernel = 1 : {alone / plain:5.0f}"
    )
    met = quick or alone / plain > PLAIN_FACTOR_MIN
    if c is not None:
        entries = float(metrics["entries_per_copy"] or 0)
        size = float(metrics["model_bytes_per_copy"] or 0)
        off = max(abs(entries / c.entries - 1), abs(size / c.bytes - 1))
        line += (
            f"  C {c_rate / 1e6:6.3f} M/s"
            f"  kernel : C = {alone / c_rate:4.1f} ({whole / c_rate:4.1f})"
            f"  entries {entries:6.2f} : {c.entries:6.2f}  bytes {size:6.1f} : {c.bytes:6.1f}"
        )
        met = met and (quick or (alone / c_rate >= FACTOR_MIN and off <= TOLERANCE))
    print(line + ("" if judge(f"n={n} {cast}", met) else "  <-- bound missed"), flush=True)
    record(
        "kernels_c", n=n, cast=cast, plain=plain, kernel=alone, with_schedule=whole,
        c=c_rate or None, of_plain=alone / plain, of_c=alone / c_rate if c_rate else None,
    )  # fmt: skip
    return met


def compare_all(*, quick: bool) -> None:
    print("all kernels, n=30, million deliveries per second:")
    for cast in CASTS:
        schedule = paper(n=30, cast=cast, received=100 if quick else 3000, seed=1, delay=0.02)
        fitting = [name for name in sim.KERNELS if cast in antecede.PROTOCOLS[name].casts]
        rates = {name: max(kernel_rate(name, schedule)[0] for _ in range(2)) for name in fitting}
        print(f"  {cast:<10}", "  ".join(f"{k} {v / 1e6:.2f}" for k, v in rates.items()))
        for name, rate in rates.items():
            record("kernels_all", protocol=name, n=30, cast=cast, rate=rate)


def replay(folder: str, *, quick: bool) -> None:
    path = Path(folder) / "edges.txt"
    write_edges(path, people=30 if quick else 200, messages=200 if quick else 5000)
    schedule = replay_edges(path, delay="exponential:60")
    rate = max(kernel_rate("optimal", schedule)[0] for _ in range(3))
    plain = plain_rate("optimal", beginning(schedule, 200 if quick else 1000))
    print(
        f"replayed traffic of {schedule.n} people, optimal: kernel {rate / 1e6:.3f} M/s"
        f"  plain : kernel = 1 : {rate / plain:.0f}"
    )


def main(*, quick: bool) -> bool:
    sim.warm()
    met = True
    with tempfile.TemporaryDirectory() as folder:
        program = compile_yardstick(folder)
        if program is None:
            print("no C compiler here: kernels are compared with the plain engine only")
        for n in SIZES:
            for cast in CASTS:
                met = compare(program, n, cast, quick=quick) and met
        compare_all(quick=quick)
        replay(folder, quick=quick)
    return met
