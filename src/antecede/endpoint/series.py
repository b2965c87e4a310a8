"""Numbers as smaller ones: ascending numbers as gaps, others as steps from a number nearby."""

from collections.abc import Iterable, Sequence
from itertools import accumulate


def gaps(values: Sequence[int]) -> list[int]:
    """Return the first of ascending numbers, and how many numbers lie between neighbours."""
    return [value - last - 1 for last, value in zip((-1, *values), values)]


def ascending(gaps: Iterable[int]) -> list[int]:
    """Return the numbers whose gaps :func:`gaps` returned."""
    return [value - 1 for value in accumulate([gap + 1 for gap in gaps])]


def steps(numbers: Iterable[int], base: int) -> list[int]:
    """Return the distances of numbers from ``base``: even if not above it, otherwise odd."""
    return [2 * (base - one) if one <= base else 2 * (one - base) - 1 for one in numbers]


def stepped(steps: Iterable[int], base: int) -> list[int]:
    """Return the numbers whose steps :func:`steps` returned."""
    return [base + (step + 1 >> 1) if step & 1 else base - (step >> 1) for step in steps]
