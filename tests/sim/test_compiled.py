"""What the kernels' speed and safety depend on: private options, bounds, and mutants that fail."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module, resources
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import antecede
from antecede import sim
from antecede.sim import engine
from antecede.sim.kernels import common, compiling, log_steps, loop, matrix, registry
from antecede.sim.workloads import paper
from tests.sim.same import PROTOCOLS, differences, random_schedule

pytestmark = pytest.mark.timeout(3600)  # compiling takes its time on a busy machine
SMALL = """
import antecede
from antecede import sim
from antecede.sim.kernels.registry import KERNELS
from antecede.sim.workloads import paper
import numba
assert numba.config.BOUNDSCHECK == 1
for protocol in {protocols}:
    for n, cast in ((3, "multicast"), (70, "unicast")):
        schedule = paper(n=n, cast=cast, received=600 // n, seed=1)
        variants = antecede.PROTOCOLS[protocol].variants
        for options in ({{}}, *(variant.options(schedule.names) for variant in variants)):
            if not KERNELS[protocol].unknown(options):
                run = sim.run(protocol, schedule, engine="kernel", options=options)
                assert run.metrics["undelivered"] == 0
print("in bounds")
"""
UNCOMPILED = """
from antecede import sim
from antecede.sim.kernels import loop
from tests.sim.same import differences, random_schedule, widest
assert not hasattr(loop.run, "py_func")
for protocol in sim.KERNELS:
    for seed in range(4):
        schedule = random_schedule(seed, 4, 40, cast=widest(protocol))
        kernel = sim.run(protocol, schedule, engine="kernel").trace
        plain = sim.run(protocol, schedule, engine="plain").trace
        assert differences(kernel, plain) == [], (protocol, seed)
    print(protocol)
"""


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    sources = [str(Path(antecede.__file__).parents[1]), str(Path(__file__).parents[2])]
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sources), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
    )


def test_numba_still_takes_the_private_option() -> None:
    """Without `_nrt=False` kernels run, but two to three times slower: fail here instead."""
    kernel: Any = loop.run
    helper: Any = common.push
    assert kernel.targetoptions["_nrt"] is False
    assert helper.targetoptions["_nrt"] is False
    assert helper.targetoptions["no_cpython_wrapper"] is True


def test_the_cache_covers_the_helpers_of_other_files() -> None:
    kernel: Any = loop.run
    assert kernel._cache._cache_file._source_stamp == compiling.digest()
    assert len(compiling.digest()) == 32


def test_a_kernel_is_loaded_from_the_cache(tmp_path: Path) -> None:
    """Compiling takes seconds: the shared loop must not keep Numba from caching it."""
    program = """
from antecede import sim
from antecede.sim.kernels import loop
from antecede.sim.workloads import paper
sim.run("buffered", paper(n=2, received=2), engine="kernel")
print(sum(loop.run.stats.cache_hits.values()))
"""
    hits = [python(program, NUMBA_CACHE_DIR=str(tmp_path)).stdout.strip() for _ in range(2)]
    assert hits == ["0", "1"]


def test_a_cache_says_what_it_has() -> None:
    """What is missing there is compiled ahead, by two processes at once."""
    sim.warm()
    forms = engine._specialised()
    assert set(engine._HALF) < set(forms) <= set(PROTOCOLS)
    owns = [registry.KERNELS[name].own for name in forms]
    assert len(set(owns)) == len(owns) == len({k.own for k in registry.KERNELS.values()})
    assert compiling.is_cached(loop.run, len(forms))
    assert not compiling.is_cached(loop.run, 10**6)
    assert compiling.is_cached(sim.warm, 1), "nothing to wait for: it is not compiled"


@pytest.mark.parametrize("protocols", [("optimal",), ("bounded",)])
def test_no_index_is_out_of_bounds(protocols: tuple[str, ...], tmp_path: Path) -> None:
    program = SMALL.format(protocols=protocols)
    done = python(program, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert done.stdout.strip() == "in bounds", done.stderr


def test_kernels_run_uncompiled() -> None:
    """As plain Python they can be debugged and covered, and still equal the plain engine."""
    done = python(UNCOMPILED, NUMBA_DISABLE_JIT="1")
    assert done.stdout.split() == list(PROTOCOLS), done.stderr


def mutant(module: ModuleType, old: str, new: str) -> dict[str, Any]:
    """Return the contents of a kernel module with one line changed."""
    name = module.__name__.rpartition(".")[2]
    text = resources.files("antecede.sim.kernels").joinpath(f"{name}.py").read_text()
    assert text.count(old) == 1, old
    space: dict[str, Any] = {"__name__": f"mutant_{name}"}
    exec(compile(text.replace(old, new), f"<mutant of {name}>", "exec"), space)
    return space


def run_mutant(protocol: str, steps: loop.Steps) -> tuple[sim.Run, Any]:
    """Run a kernel with other steps, compiled without the cache; return the loop too."""
    loop.STEPS[registry.KERNELS[protocol].own] = steps
    uncached: Any = compiling.uncached(loop.run.py_func)  # type: ignore[attr-defined]  # Numba's
    loop.run = uncached
    schedule = paper(n=5, cast="multicast", received=40, seed=1)
    wrong = sim.run(protocol, schedule, engine="kernel")
    assert differences(wrong.trace, sim.run(protocol, schedule, engine="plain").trace)
    return wrong, uncached


MUTANTS = {
    "permits": ("if k != dest and rows.levels", "if rows.levels"),
    "acknowledged": ("if clock < first_open(core, own,", "if clock <= first_open(core, own,"),
    "non_atomic": ("key_of(me, aside.first[at(me)], 0)", "key_of(me, number, 0)"),
    "semantic_optimal": ("if is_named or shared < 0:", "if shared < 0:"),
}
"""What may go wrong: waiting for one's own receiver, forgetting a copy that is not acknowledged,
parts that replace each other, and a log of another copy."""


def find_mutants() -> None:
    """Run the mutants uncompiled; print the names of those that differ from the plain engine."""
    for protocol, (old, new) in MUTANTS.items():
        module = import_module(f"antecede.sim.kernels.{protocol}")
        loop.STEPS.clear()
        kernel = mutant(module, old, new)["KERNEL"]
        schedule = random_schedule(1, 5, 80, cast="multicast")
        wrong = kernel.simulate(kernel.plan(schedule), schedule.n).trace
        if differences(wrong, sim.run(protocol, schedule, engine="plain").trace):
            print(protocol)


def test_mutants_are_found_uncompiled() -> None:
    program = "from tests.sim import test_compiled; test_compiled.find_mutants()"
    done = python(program, NUMBA_DISABLE_JIT="1")
    assert done.stdout.split() == list(MUTANTS), done.stderr


@pytest.mark.parametrize("name", ["mutant_of_the_merge", "mutant_of_the_send"])
def test_a_mutant_is_found(name: str) -> None:
    """In a process of its own: Numba remembers the steps that it compiled before."""
    done = python(f"from tests.sim import test_compiled; test_compiled.{name}(); print('found')")
    assert done.stdout == "found\n", done.stderr


def mutant_of_the_merge() -> None:
    """One character in RCV(4): an entry that both sides know to be empty would come back."""
    space = mutant(
        log_steps,
        "CLOCK_MASK <= logs.newest[at(b0 + (key >> SENDER_SHIFT))]",
        "CLOCK_MASK < logs.newest[at(b0 + (key >> SENDER_SHIFT))]",
    )
    run_mutant("optimal", space["STEPS"])


def mutant_of_the_send() -> None:
    """The matrix counts the message at one destination too few.

    Compiled here and not cached, so its code can be inspected: no array is counted.
    """
    original = dict(loop.STEPS)
    space = mutant(
        matrix,
        "    for row in range(plan.offsets[at(message)], ",
        "    for row in range(plan.offsets[at(message)] + 1, ",
    )
    del loop.STEPS[space["Matrix"]]
    assert original == loop.STEPS
    _, compiled = run_mutant("matrix", space["KERNEL"].steps)
    code = "".join(compiled.inspect_llvm().values())
    assert "call void @NRT_incref" not in code
    assert "call void @NRT_decref" not in code
