"""Arrays: names for their types, and Numba's decorators with a cache on disk for all workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound="Callable[..., Any]")

Ints: TypeAlias = NDArray[np.int64]
Vectors: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]
#: A NumPy scalar whose width Numba knows and the checker need not.
Scalar: TypeAlias = Any
#: An Arrow array or chunked array; the stubs know too few of their attributes.
Column: TypeAlias = Any


def jit(function: Function) -> Function:
    """Compile ``function`` with Numba and keep the result beside its source."""
    import numba

    return cast("Function", numba.njit(cache=True, nogil=True)(function))


def inline(function: Function) -> Function:
    """Compile ``function`` into its callers."""
    import numba

    return cast("Function", numba.njit(cache=True, nogil=True, inline="always")(function))
