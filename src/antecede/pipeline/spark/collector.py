"""Python's search for cycles of objects, where it costs more than the work itself."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

#: After how many calls a worker has loaded what it needs.
CALLS = 3

_calls = iter(range(CALLS))


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Do without Python's search for cycles: a batch makes very many objects, and none of these."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def spare_what_is_loaded() -> None:
    """Let the collector pass over the libraries that a Python worker has loaded.

    Call it after some work. Spark's workers search for cycles after every task; with PyArrow and
    Numba loaded, that took longer than the task of a small batch.
    """
    if next(_calls, None) is not None:
        gc.collect()
        gc.freeze()
