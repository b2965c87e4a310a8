"""Numbers as smaller ones: ascending numbers as gaps, and others as steps from one that is near."""

from collections.abc import Iterable, Sequence
from itertools import accumulate


def gaps(values: Sequence[int]) -> list[int]:
    """Return the first of ascending numbers, and how many lie between each two."""
    return [value - last - 1 for last, value in zip((-1, *values), values)]


def ascending(gaps: Iterable[int]) -> list[int]:
    """Return the numbers of which :func:`gaps` returned the gaps."""
    return [value - 1 for value in accumulate([gap + 1 for gap in gaps])]


def steps(numbers: Iterable[int], base: int) -> list[int]:
    """Return how far numbers are from another one: those up to it even, those beyond odd."""
    return [2 * (base - one) if one <= base else 2 * (one - base) - 1 for one in numbers]


def stepped(steps: Iterable[int], base: int) -> list[int]:
    """Return the numbers of which :func:`steps` returned the steps."""
    return [base + (step + 1 >> 1) if step & 1 else base - (step >> 1) for step in steps]
