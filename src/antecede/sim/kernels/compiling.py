"""How kernels are compiled.

Two habits of Numba cost more than the algorithms, so they are switched off: reference counting of
every array passed to a helper (``_nrt=False``, a private option that a test watches), and the
wrap-around of negative indices (indices are cast to ``uint64`` where they are used).

With ``NUMBA_DISABLE_JIT=1`` everything here runs as plain Python, for debugging and coverage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import resources
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numba import config, njit

Function = TypeVar("Function", bound=Callable[..., Any])
# Kernels are written in Numba's types, which a Python type checker does not know. These names tell
# the reader which type is meant; the checker sees `Any`.
Int: TypeAlias = Any
Real: TypeAlias = Any
Ints: TypeAlias = Any  # an array of int64
Small: TypeAlias = Any  # of int32
Floats: TypeAlias = Any  # of float64
Words: TypeAlias = Any  # of uint64
int64: Any = np.int64
_compile: Any = njit
IS_COMPILED = not getattr(config, "DISABLE_JIT", False)
# Options of the functions that only kernels call. Leaving out the forms that Python could call
# saves a third of the compiling time.
CALLED: Any = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# Modules outside this package whose code or types are compiled into kernels.
SHARED = ("delays.py", "plan.py", "trace.py")


def digest() -> bytes:
    """Hash every source file that kernels compile: a cached entry point contains its helpers."""
    folder = resources.files("antecede.sim")
    files = [file for file in folder.joinpath("kernels").iterdir() if file.name.endswith(".py")]
    files += [folder.joinpath(name) for name in SHARED]
    whole = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        whole.update(file.name.encode() + b"\0" + file.read_bytes())
    return whole.digest()


def helper(function: Function) -> Function:
    """Compile a function that is inlined into the kernels that call it."""
    compiled: Function = _compile(forceinline=True, **CALLED)(function)
    return compiled


def separate(function: Function) -> Function:
    """Compile a function that is not inlined.

    For loops that would stay scalar inside a large kernel, and for long steps that are called in
    several places: if inlined, they would be compiled once for each.
    """
    compiled: Function = _compile(inline="never", **CALLED)(function)
    return compiled


def uncached(function: Function) -> Function:
    """Compile a kernel for this process only."""
    compiled: Function = _compile(_nrt=False)(function)
    return compiled


def entry(function: Function) -> Function:
    """Compile a kernel, and cache the result on disk if there is a place for it.

    Numba's own check covers only the file of the entry point; ours covers every source file.
    """
    if not IS_COMPILED:
        return function
    try:
        compiled = _compile(_nrt=False, cache=True)(function)
        compiled._cache._cache_file._source_stamp = digest()
    except RuntimeError:  # a read-only or zipped installation: compile once per process
        compiled = uncached(function)
    kernel: Function = compiled
    return kernel


def is_cached(kernel: Any, forms: int) -> bool:
    """Return whether `forms` compiled forms of an entry point are cached, or caching is off."""
    cache = getattr(kernel, "_cache", None)
    file = getattr(cache, "_cache_file", None)  # private: if it is gone, nothing is compiled ahead
    return file is None or len(file._load_index()) >= forms


@helper
def at(index: Int) -> Int:
    """Cast an index so that Numba leaves out the check for negative ones."""
    return np.uint64(index)
