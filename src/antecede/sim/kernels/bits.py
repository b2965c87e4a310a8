"""Two machine instructions Numba does not offer by name: count ones, find the lowest one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


def _ones(_context: Any, word: Any) -> Any:  # noqa: ANN401 - Numba's own protocol
    """Return how many bits of a 64-bit word are set, as int64."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.ctpop(args[0])

    return types.int64(word), generate


def _lowest(_context: Any, word: Any) -> Any:  # noqa: ANN401 - Numba's own protocol
    """Return the number of the lowest set bit of a non-zero 64-bit word, as int64."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(word), generate


ones: Any = intrinsic(_ones)
lowest: Any = intrinsic(_lowest)
