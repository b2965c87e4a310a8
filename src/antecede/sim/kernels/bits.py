"""Two machine instructions that Numba has no name for: count set bits, find the lowest one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it has no stubs
from numba import types
from numba.extending import intrinsic

from antecede.sim.kernels.compiling import IS_COMPILED


def _ones(_context: Any, word: Any) -> Any:
    """Return how many bits of a 64-bit word are set, as int64."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(word), generate


def _lowest(_context: Any, word: Any) -> Any:
    """Return the number of the lowest set bit of a non-zero 64-bit word, as int64."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(word), generate


def _plain_ones(word: Any) -> int:
    return int(word).bit_count()


def _plain_lowest(word: Any) -> int:
    return (int(word) & -int(word)).bit_length() - 1


ones: Any = intrinsic(_ones) if IS_COMPILED else _plain_ones
lowest: Any = intrinsic(_lowest) if IS_COMPILED else _plain_lowest
