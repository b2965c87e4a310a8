"""What the kernels' speed and safety hang on: private options, bounds, and mutants that are found."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import antecede
from antecede import sim
from antecede.sim.kernels import common, logs, matrix, optimal
from antecede.sim.workloads import paper
from tests.sim.same import differences

if TYPE_CHECKING:
    from types import ModuleType

SMALL = """
from antecede import sim
from antecede.sim.workloads import paper
import numba
assert numba.config.BOUNDSCHECK == 1
for protocol in {protocols}:
    for n, cast in ((3, "multicast"), (70, "unicast")):
        run = sim.run(protocol, paper(n=n, cast=cast, received=600 // n, seed=1), engine="kernel")
        assert run.metrics["undelivered"] == 0
print("in bounds")
"""


def test_numba_still_takes_the_private_option() -> None:
    """Without `_nrt=False` kernels run, two to three times slower: fail here instead."""
    kernel: Any = optimal.run
    helper: Any = common.push
    assert kernel.targetoptions["_nrt"] is False
    assert helper.targetoptions["_nrt"] is False


def test_the_cache_knows_the_helpers_of_other_files() -> None:
    kernel: Any = optimal.run
    assert kernel._cache._cache_file._source_stamp == common._digest()
    assert len(common._digest()) == 32


@pytest.mark.parametrize("protocols", [("optimal",), ("bounded",)])
def test_no_index_is_out_of_bounds(protocols: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SMALL.format(protocols=protocols)],
        env={
            **os.environ,
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_CACHE_DIR": str(tmp_path),
            "PYTHONPATH": str(Path(antecede.__file__).parents[1]),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.stdout.strip() == "in bounds", done.stderr


def mutant(module: ModuleType, old: str, new: str) -> dict[str, Any]:
    """Compile a kernel module with one line changed, without the cache."""
    assert module.__spec__ is not None
    name = module.__name__.rpartition(".")[2]
    text = resources.files("antecede.sim.kernels").joinpath(f"{name}.py").read_text()
    assert text.count(old) == 1, old
    space: dict[str, Any] = {"__name__": f"mutant_{name}"}
    source = text.replace(old, new).replace("    entry,\n", "    helper as entry,\n", 1)
    exec(compile(source, f"<mutant of {name}>", "exec"), space)
    return space


def test_a_mutant_of_the_merge_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One character in RCV(4): an entry both sides know to be empty would come back."""
    space = mutant(
        optimal,
        "CLOCK_MASK <= logs.newest[at(b0 + (key >> SENDER_SHIFT))]",
        "CLOCK_MASK < logs.newest[at(b0 + (key >> SENDER_SHIFT))]",
    )
    monkeypatch.setattr(logs, "run", space["run"])
    schedule = paper(n=5, cast="multicast", received=40, seed=1)
    wrong = sim.run("optimal", schedule, engine="kernel")
    assert differences(wrong.trace, sim.run("optimal", schedule, engine="plain").trace)


def test_a_mutant_of_the_send_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix counts the message at one destination too few.

    Compiled here and not cached, so its code can be looked at: no array is counted.
    """
    space = mutant(
        matrix, "    for copy in range(start, stop):\n", "    for copy in range(start + 1, stop):\n"
    )
    monkeypatch.setattr(matrix, "run", space["run"])
    schedule = paper(n=5, cast="multicast", received=40, seed=1)
    wrong = sim.run("matrix", schedule, engine="kernel")
    assert differences(wrong.trace, sim.run("matrix", schedule, engine="plain").trace)
    code = "".join(space["run"].inspect_llvm().values())
    assert "call void @NRT_incref" not in code
    assert "call void @NRT_decref" not in code
