"""How long packets travel: delay models and the text form that the command line takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.extending import register_jitable
from numpy.typing import ArrayLike, NDArray

from antecede.errors import UsageError

CONSTANT, EXPONENTIAL, LOGNORMAL, UNIFORM = range(4)
KINDS = {"constant": CONSTANT, "exponential": EXPONENTIAL, "lognormal": LOGNORMAL,
         "uniform": UNIFORM}  # fmt: skip
#: Longer delays (in seconds) or a wider spread of the logarithm would overflow when added up.
_SECONDS_MAX, _SIGMA_MAX = 1e12, 20.0
_FORMS = "constant:SECONDS, exponential:MEAN, lognormal:MEAN:SIGMA or uniform:LOW:HIGH"


@dataclass(frozen=True, eq=False)
class Delay:
    """A delay model: a distribution, and optionally a factor per link (source, destination).

    `first` and `second` are the distribution's own parameters: value; mean; mu and sigma of the
    logarithm; low and high.
    """

    kind: str
    first: float
    second: float = 0.0
    factors: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        low, high = self.first, self.second
        if self.kind == "uniform":
            good = 0 <= low <= high <= _SECONDS_MAX
        elif self.kind == "lognormal":
            good = math.isfinite(low) and low <= math.log(_SECONDS_MAX) and 0 <= high <= _SIGMA_MAX
        else:
            good = 0 <= low <= _SECONDS_MAX and math.isfinite(high)
        if not good or self.kind not in KINDS:
            msg = (
                f"delay {self} is not possible: delays are finite and at least 0, up to "
                f"{_SECONDS_MAX:g} s, and SIGMA is up to {_SIGMA_MAX:g}; use {_FORMS}"
            )
            raise UsageError(msg)

    def __str__(self) -> str:
        return f"{self.kind}:{self.first:g}:{self.second:g}"

    @classmethod
    def constant(cls, seconds: float) -> Delay:
        """Every packet takes the same time."""
        return cls("constant", float(seconds))

    @classmethod
    def exponential(cls, mean: float) -> Delay:
        """Memoryless delays: overtaking is common."""
        return cls("exponential", float(mean))

    @classmethod
    def lognormal(cls, mean: float, sigma: float = 1.0) -> Delay:
        """Most packets are fast, a few very slow. `sigma` is the spread of the logarithm."""
        if not mean > 0:
            msg = f"a lognormal delay needs a mean above 0, got {mean:g}"
            raise UsageError(msg)
        return cls("lognormal", float(np.log(mean) - sigma**2 / 2), float(sigma))

    @classmethod
    def uniform(cls, low: float, high: float) -> Delay:
        """Any delay between two bounds, each equally likely."""
        return cls("uniform", float(low), float(high))

    @classmethod
    def links(cls, means: ArrayLike, kind: str = "constant") -> Delay:
        """One mean per link: row = source, column = destination; constant or exponential."""
        table = np.asarray(means, np.float64)
        if table.ndim != 2 or table.shape[0] != table.shape[1]:
            msg = f"delays per link need a square table, got shape {table.shape}"
            raise UsageError(msg)
        if not np.isfinite(table).all() or (table < 0).any():
            msg = "delays per link must be finite and at least 0"
            raise UsageError(msg)
        if kind not in ("constant", "exponential"):
            msg = f"delays per link are constant or exponential, got {kind!r}"
            raise UsageError(msg)
        return cls(kind, 1.0, 0.0, table)

    def draw(
        self, rng: np.random.Generator, source: NDArray[Any], dest: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Draw the delays of copies, given their links."""
        size = len(source)
        match self.kind:
            case "constant":
                values = np.full(size, self.first)
            case "exponential":
                values = rng.exponential(self.first, size)
            case "lognormal":
                values = rng.lognormal(self.first, self.second, size)
            case _:
                values = rng.uniform(self.first, self.second, size)
        return values if self.factors is None else values * self.factors[source, dest]

    def model(self) -> NDArray[np.float64]:
        """Return the parameters in the form that :func:`added_delay` reads."""
        return np.array([KINDS[self.kind], self.first, self.second], np.float64)


def delay(text: str) -> Delay:
    """Read a delay model such as ``exponential:0.05`` or ``uniform:0.01:0.2``."""
    kind, *rest = text.split(":")
    makers: dict[str, tuple[Callable[..., Delay], Sequence[int]]] = {
        "constant": (Delay.constant, (1,)),
        "exponential": (Delay.exponential, (1,)),
        "lognormal": (Delay.lognormal, (1, 2)),
        "uniform": (Delay.uniform, (2,)),
    }
    try:
        make, counts = makers[kind]
        values = [float(word) for word in rest]
    except (KeyError, ValueError):
        make, counts, values = Delay.constant, (), []
    if len(values) not in counts:
        msg = f"delay {text!r} is not understood; use {_FORMS}"
        raise UsageError(msg)
    return make(*values)


@register_jitable(_nrt=False, forceinline=True)
def _mix(x: np.uint64, value: np.uint64) -> np.uint64:
    """Mix a value into a 64-bit hash (the finaliser of SplitMix64)."""
    x = (x ^ value) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@register_jitable(_nrt=False, forceinline=True)
def added_delay(
    model: NDArray[np.float64], links: NDArray[np.float64], seed: np.uint64, channel: int,
    number: int,
) -> float:  # fmt: skip
    """Return the delay of the `number`-th packet that a protocol adds on a channel.

    The delay is a hash of (seed, channel, number), so it does not depend on when it is computed.
    The hash wraps around: outside compiled code, call this under ``np.errstate(over="ignore")``.
    """
    x = _mix(_mix(seed, np.uint64(channel)), np.uint64(number))
    y = _mix(x, np.uint64(1))
    u = (np.float64(x >> np.uint64(12)) + 0.5) * 2.0**-52
    v = (np.float64(y >> np.uint64(12)) + 0.5) * 2.0**-52
    kind = model[0]
    if kind == CONSTANT:
        value = model[1]
    elif kind == EXPONENTIAL:
        value = -model[1] * math.log(u)
    elif kind == LOGNORMAL:
        normal = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
        value = math.exp(model[1] + model[2] * normal)
    else:
        value = model[1] + (model[2] - model[1]) * u
    if len(links) > 0:
        value *= links[np.uint64(channel)]
    return float(value)
