"""Endpoints and codec against an older commit: deliveries per CPU second, and bytes per packet.

Both versions run the same traffic in turn, in short slices: each has a process of its own, which
imports antecede from its own sources. The fastest slice of each counts, since other work on the
machine can only slow a slice down.

Traffic: every process sends every 0.1 s on average, to one other or to a random set; a packet takes
0.05 s on average, so packets overtake each other. Packets that the protocol adds (acknowledgements,
relayed messages) arrive at once. Bytes are those of a packet without its payload.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from benchmarks._tables import record

if TYPE_CHECKING:
    import argparse


ROOT = Path(__file__).resolve().parents[1]
WORKER = ROOT / "benchmarks" / "_endpoint_worker.py"
BASE = "66bfba1"
"""The last commit before endpoints were rebuilt from one class and small rules."""

SIZES, CASTS = (3, 10, 30, 50, 200), ("unicast", "multicast")
ROUNDS, SLICE_SECONDS, SLICE_STEPS, WARM_SECONDS = 5, 0.1, 20, 2.0
MORE_ROUNDS = 40  # for optimal, whose ratios have bounds: a neighbour on the core halves a slice

MEAN_MIN, CASE_MIN, BYTES_MAX = 0.95, 0.88, 1.05
"""Bounds for optimal against the base: the geometric mean, a single case, and bytes."""
OTHERS_MIN = 1.0
"""Below this ratio another protocol counts as slower; those in ``SMALL`` have a bound on bytes."""
APART_MAX = 0.02
"""Deliveries in a slice may differ by this share: phases adds its packets in another order."""
SMALL = ("optimal", "pruned", "matrix", "broadcast", "vectors")


class Worker:
    """A process that imports antecede from ``source`` and runs traffic on request."""

    def __init__(self, source: Path) -> None:
        env = {**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            text=True,
        )
        first = self._read()
        if not Path(first["where"]).is_relative_to(source.resolve()):
            msg = f"expected antecede from {source}, but {first['where']} was imported"
            raise RuntimeError(msg)
        self.casts: dict[str, list[str]] = first["protocols"]

    def ask(self, **request: object) -> dict[str, Any]:
        """Send a request and return the answer."""
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        stdout: IO[str] | None = self.process.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            msg = "a worker ended early; its error is above"
            raise RuntimeError(msg)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Case(NamedTuple):
    """The results of one version: deliveries per CPU second without and with codec."""

    bare: float
    coded: float
    bytes: float


def measure(
    workers: dict[str, Worker], protocol: str, n: int, cast: str, *, quick: bool
) -> dict[str, Case]:
    """Run the same traffic on all workers in turn; the first worker's speed sets the slices."""
    for worker in workers.values():
        worker.ask(protocol=protocol, n=n, cast=cast)
    copies = 1 if cast == "unicast" else n / 2
    goal, done, seconds = (30 if quick else (10 * n + 200) * (1 + 1 / copies)), 0, 0.0
    first, *others = workers.values()
    while done < goal and seconds < WARM_SECONDS:  # few requests: each collects garbage first
        ahead = max(SLICE_STEPS, min(done, int(goal) - done))
        seconds += first.ask(steps=ahead, codec=False)["seconds"]
        done += ahead
    for worker in others:
        worker.ask(steps=done, codec=False)
    steps = 50 if quick else max(SLICE_STEPS, min(20_000, int(SLICE_SECONDS * done / seconds)))
    found: dict[str, dict[bool, list[dict[str, float]]]] = {
        label: {False: [], True: []} for label in workers
    }
    for _ in range(1 if quick else MORE_ROUNDS if protocol == "optimal" else ROUNDS):
        for codec in (False, True):
            for label, worker in workers.items():
                found[label][codec].append(worker.ask(steps=steps, codec=codec))
            counts = {label: found[label][codec][-1]["deliveries"] for label in workers}
            if max(counts.values()) - min(counts.values()) > APART_MAX * max(counts.values()):
                msg = f"{protocol}, n={n}, {cast}: deliveries differ between versions: {counts}"
                raise RuntimeError(msg)
    return {label: _case(slices) for label, slices in found.items()}


def _case(slices: dict[bool, list[dict[str, float]]]) -> Case:
    rates = {
        codec: max(one["deliveries"] / one["seconds"] for one in runs)
        for codec, runs in slices.items()
    }
    packets = sum(one["packets"] for one in slices[True])
    return Case(rates[False], rates[True], sum(one["bytes"] for one in slices[True]) / packets)


def export(commit: str, folder: Path) -> Path | None:
    """Write the sources of a commit into ``folder``; return None if there is no such commit."""
    command = ["git", "-C", str(ROOT), "archive", commit, "src"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=300)
    except FileNotFoundError:
        return None
    if done.returncode:
        return None
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def _cast(offered: list[str], cast: str) -> str | None:
    """Return the cast to measure as ``cast``: the protocol's own, or broadcast for multicast."""
    if cast in offered:
        return cast
    return "broadcast" if cast == "multicast" and "broadcast" in offered else None


def _row(protocol: str, n: int, cast: str, cases: dict[str, Case]) -> tuple[str, list[float]]:
    """Return a line of the table, and the ratios of speed without and with codec."""
    now, old = cases["now"], cases.get("base")
    text = f"{protocol:<16} {n:>3} {cast:<9}"
    for label, case in cases.items():
        text += f" | {label} {case.bare:>8,.0f} {case.coded:>8,.0f} {case.bytes:>7.1f} B"
    if old is None:
        return text, []
    bare, coded, size = now.bare / old.bare, now.coded / old.coded, now.bytes / old.bytes
    text += f" ({bare:5.2f}x {coded:5.2f}x {size:4.2f})"
    least = CASE_MIN if protocol == "optimal" else OTHERS_MIN
    missed = ["speed"] * (min(bare, coded) < least)
    missed += ["bytes"] * (protocol in SMALL and n <= 50 and size > BYTES_MAX)
    return text + (f"  <-- missed: {', '.join(missed)}" if missed else ""), [bare, coded]


def main(
    *,
    quick: bool,
    base: str = BASE,
    protocols: tuple[str, ...] = (),
    sizes: tuple[int, ...] = (),
) -> bool:
    """Compare the current sources with those of a commit."""
    met = True
    means: dict[str, list[float]] = {"bare": [], "with codec": []}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        old = export(base, Path(name))
        sources = {} if old is None else {"base": old}
        sources["now"] = ROOT / "src"
        if old is None:
            print(f"commit {base} is not here, so there is nothing to compare with")
        workers = {label: Worker(source) for label, source in sources.items()}
        for worker in workers.values():
            stack.callback(worker.close)
        print("deliveries per CPU second without and with codec, bytes per packet (times base)")
        offers = next(iter(workers.values())).casts
        chosen = [name for name in offers if not protocols or name in protocols]
        for protocol, n, wanted in product(chosen, sizes or ((3,) if quick else SIZES), CASTS):
            cast = _cast(offers[protocol], wanted)
            if cast is None:
                continue
            cases = measure(workers, protocol, n, cast, quick=quick)
            line, ratios = _row(protocol, n, cast, cases)
            for label, case in cases.items():
                record(
                    "endpoints", protocol=protocol, n=n, cast=cast, version=label,
                    **case._asdict(),
                )  # fmt: skip
            print(line if not quick else line.partition("  <--")[0], flush=True)
            met = met and (quick or "missed" not in line)
            if protocol == "optimal" and n <= 50:
                for label, ratio in zip(means, ratios, strict=False):
                    means[label].append(ratio)
    for label, found in means.items():
        if found:
            mean = geometric_mean(found)
            print(f"optimal {label}: {mean:.2f} times base (geometric mean, bound {MEAN_MIN})")
            met = met and (quick or mean >= MEAN_MIN)
    return met


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    own = parser.add_argument_group("endpoints")
    own.add_argument(
        "--base", default=BASE, help="the commit to compare with (default %(default)s)"
    )
    own.add_argument("--protocol", action="append", default=[], help="only this one; repeatable")
    own.add_argument(
        "--size", action="append", type=int, default=[], help="only this n; repeatable"
    )


def options(asked: argparse.Namespace) -> dict[str, Any]:
    """Return this benchmark's options as keywords of :func:`main`."""
    return {
        "base": asked.base,
        "protocols": tuple(asked.protocol),
        "sizes": tuple(asked.size),
    }
