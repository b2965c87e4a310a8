"""Conditions of the kernels' speed and safety: private options, bounds, and mutants that fail."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

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
from antecede.sim.kernels import common, compiling, log_steps, loop, matrix, overlay, registry
from antecede.sim.workloads import paper
from tests.support.same_runs import PROTOCOLS, differences, random_schedule, widest

pytestmark = pytest.mark.timeout(3600)  # compiling takes its time on a busy machine
IN_BOUNDS = """
import antecede
from antecede import sim
from antecede.sim.kernels import loop
from antecede.sim.kernels.registry import KERNELS
from antecede.sim.workloads import paper
from tests.support.same_runs import random_schedule, widest
assert not hasattr(loop.event_loop, "py_func")
for protocol in KERNELS:
    cast = widest(protocol)
    wide = random_schedule(1, 66, 15, cast="unicast" if cast == "multicast" else cast)
    sim.run(protocol, wide, engine="kernel")
    schedule = paper(n=3, cast=cast, received=70, seed=1)
    variants = antecede.PROTOCOLS[protocol].variants
    for options in ({}, *(variant.options(schedule.names) for variant in variants)):
        if not KERNELS[protocol].unknown(options):
            run = sim.run(protocol, schedule, engine="kernel", options=options)
            assert run.metrics["undelivered"] == 0
    print(protocol)
"""
UNCOMPILED = """
from antecede import sim
from antecede.sim.kernels import loop
from tests.support.same_runs import differences, random_schedule, widest
assert not hasattr(loop.event_loop, "py_func")
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
    kernel: Any = loop.event_loop
    helper: Any = common.push
    assert kernel.targetoptions["_nrt"] is False
    assert helper.targetoptions["_nrt"] is False
    assert helper.targetoptions["no_cpython_wrapper"] is True


def test_the_cache_covers_the_helpers_of_other_files() -> None:
    kernel: Any = loop.event_loop
    assert kernel._cache._cache_file._source_stamp == compiling.digest()
    assert len(compiling.digest()) == 32


def test_a_kernel_is_loaded_from_the_cache() -> None:
    """Compiling takes seconds: the shared loop must not keep Numba from caching it."""
    program = """
from antecede import sim
from antecede.sim.kernels import loop
from antecede.sim.workloads import paper
sim.run("broadcast", paper(n=2, cast="broadcast", received=2), engine="kernel")
print(sum(loop.event_loop.stats.cache_hits.values()))
"""
    # Another worker of pytest may just save a kernel, and so lose that of the first call.
    assert "1\n" in (python(program).stdout for _ in range(3))


def test_a_cache_says_what_it_has() -> None:
    """What is missing there is compiled ahead, by two processes at once."""
    sim.warm()
    forms = engine._specialised()
    assert set(engine._HALF) < set(forms) <= set(PROTOCOLS)
    owns = [registry.KERNELS[name].own for name in forms]
    assert len(set(owns)) == len(owns) == len({k.own for k in registry.KERNELS.values() if k.ahead})
    assert compiling.is_cached(loop.event_loop, len(forms))
    assert not compiling.is_cached(loop.event_loop, 10**6)
    assert compiling.is_cached(sim.warm, 1), "nothing to wait for: it is not compiled"


def test_no_index_is_out_of_bounds() -> None:
    """As plain Python, NumPy checks each index; also with sets of more than one word."""
    done = python(IN_BOUNDS, NUMBA_DISABLE_JIT="1")
    assert done.stdout.split() == list(PROTOCOLS), done.stderr


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


def assert_found(protocol: str, steps: loop.Steps) -> None:
    """Run a kernel with other steps: it must differ from the plain engine."""
    loop.STEPS[registry.KERNELS[protocol].own] = steps
    schedule = paper(n=5, cast="multicast", received=40, seed=1)
    wrong = sim.run(protocol, schedule, engine="kernel")
    assert differences(wrong.trace, sim.run(protocol, schedule, engine="plain").trace)


MUTANTS = {
    "permits": ("is_late and channel_of(own.acks.pairs, pair) != channel", "is_late"),
    "acknowledged": ("if clock < first_open(core, own,", "if clock <= first_open(core, own,"),
    "non_atomic": ("key_of(me, aside.first[at(me)], 0)", "key_of(me, number, 0)"),
    "semantic_optimal": ("if is_named or shared < 0:", "if shared < 0:"),
    "delta": ("latest = max(latest, before)", "latest = before"),
}
"""What may go wrong: waiting for one's own receiver, forgetting a copy that is not acknowledged,
parts that replace each other, a log of another copy, and two messages with one time."""


def find_mutants() -> None:
    """Run the mutants uncompiled; print the names of those that differ from the plain engine."""
    for protocol, (old, new) in MUTANTS.items():
        module = import_module(f"antecede.sim.kernels.{protocol}")
        loop.STEPS.clear()
        kernel = mutant(module, old, new)["KERNEL"]
        schedule = random_schedule(1, 5, 80, cast=widest(protocol))
        wrong = kernel.simulate(kernel.plan(schedule), schedule.n).trace
        if differences(wrong, sim.run(protocol, schedule, engine="plain").trace):
            print(protocol)


def test_mutants_are_found_uncompiled() -> None:
    program = "from tests.sim import test_compiled; test_compiled.find_mutants()"
    done = python(program, NUMBA_DISABLE_JIT="1")
    assert done.stdout.split() == list(MUTANTS), done.stderr


@pytest.mark.parametrize(
    ("name", "off"),
    [("mutant_of_the_merge", "1"), ("mutant_of_the_links", "1"), ("mutant_of_the_send", "0")],
)
def test_a_mutant_is_found(name: str, off: str) -> None:
    """In a process of its own: Numba remembers the steps that it compiled before."""
    program = f"from tests.sim import test_compiled; test_compiled.{name}(); print('found')"
    done = python(program, NUMBA_DISABLE_JIT=off)
    assert done.stdout == "found\n", done.stderr


def mutant_of_the_merge() -> None:
    """One character in RCV(4): an entry that both sides know to be empty would come back."""
    space = mutant(
        log_steps,
        "CLOCK_MASK <= logs.newest[at(b0 + (key >> SENDER_SHIFT))]",
        "CLOCK_MASK < logs.newest[at(b0 + (key >> SENDER_SHIFT))]",
    )
    assert_found("optimal", space["STEPS"])


def mutant_of_the_links() -> None:
    """Packets of a link take effect as they come, not in their order."""
    late = "while slot >= 0 and packets.number[at(slot)] != number:"
    space = mutant(overlay, late, "while False:")
    assert_found("tree", space["STEPS"])


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
    plain = loop.event_loop.py_func  # type: ignore[attr-defined]  # Numba's
    uncached: Any = compiling.uncached(plain)
    loop.event_loop = uncached
    assert_found("matrix", space["KERNEL"].steps)
    code = "".join(uncached.inspect_llvm().values())
    assert "call void @NRT_incref" not in code
    assert "call void @NRT_decref" not in code
