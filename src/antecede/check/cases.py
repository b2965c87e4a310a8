"""How each protocol is put to the test: its casts, and its options worth trying.

The default options with every cast are always tried; the table below adds variants, with the widest
cast. Options that need names (groups, zones, clusters) are made for the members at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from antecede.core.registry import PROTOCOLS

if TYPE_CHECKING:
    from antecede.core.info import Cast

Members = tuple[str, ...]
Options = dict[str, object]

WITH_ROLES = frozenset({"bounded", "central", "hierarchy", "serial", "server", "zones"})
"""Protocols that tell processes apart by position or option: no renaming for them."""


@dataclass(frozen=True)
class Case:
    """A protocol with options, one cast, and the promises that hold then."""

    protocol: str
    cast: Cast
    promises: frozenset[str]
    options: Options = field(default_factory=dict)
    label: str = ""

    def __str__(self) -> str:
        return f"{self.protocol}{self.label and '-' + self.label}-{self.cast}"

    @property
    def is_symmetric(self) -> bool:
        """Whether processes may be renamed."""
        return self.protocol not in WITH_ROLES and "groups" not in self.options


def chain_of_groups(members: Members) -> dict[str, Members]:
    """Return overlapping groups in a ring: a cycle of groups is what defeats naive protocols."""
    if len(members) < 3:
        return {"all": members}
    size = max(2, len(members) // 2)
    doubled = members + members
    return {f"g{i}": doubled[i : i + size] for i in range(len(members))}


def random_groups(members: Members, seed: int) -> dict[str, Members]:
    """Return groups drawn from ``seed`` in which every member has a place."""
    rng = Random(seed)  # noqa: S311 - test data, not secrets
    groups = chain_of_groups(members)
    for i in range(rng.randint(0, 3)):
        chosen = set(rng.sample(members, rng.randint(2, len(members))))
        groups[f"r{i}"] = tuple(member for member in members if member in chosen)
    return groups


def chain_of_zones(members: Members) -> tuple[Members, ...]:
    """Return zones of two or three in a row, each sharing one gateway with the next."""
    starts = range(0, max(1, len(members) - 1), 2 if len(members) > 4 else 1)
    width = 3 if len(members) > 4 else 2
    return tuple(members[i : i + width] for i in starts)


def pairs(members: Members) -> tuple[Members, ...]:
    """Return disjoint clusters of two; an odd member is alone."""
    return tuple(members[i : i + 2] for i in range(0, len(members), 2))


_LOOKAHEAD = frozenset({"no_overblocking", "necessity"})
_NONE: frozenset[str] = frozenset()

Variant = tuple[str, Callable[[Members], Options], frozenset[str]]
VARIANTS: dict[str, tuple[Variant, ...]] = {
    "optimal": (
        ("hardware", lambda _: {"hardware_multicast": True}, _NONE),
        ("lookahead", lambda _: {"lookahead": True}, _LOOKAHEAD),
        ("both", lambda _: {"hardware_multicast": True, "lookahead": True}, _LOOKAHEAD),
        ("differential", lambda _: {"differential": True}, _NONE),
    ),
    "bounded": (
        ("tight", lambda members: {"k": len(members) + 1}, _NONE),
        ("rotating", lambda members: {"k": len(members) + 1, "column": "rotating"}, _NONE),
    ),
    "buffered": (("pipelined", lambda _: {"pipelined": True}, _NONE),),
    "central": (("last", lambda members: {"relay": members[-1]}, _NONE),),
    "direct": (
        ("literal", lambda _: {"prune": "literal"}, _NONE),
        ("full", lambda _: {"prune": "full"}, _NONE),
    ),
    "hierarchy": (("pairs", lambda members: {"clusters": pairs(members)}, _NONE),),
    "zones": (("chain", lambda members: {"zones": chain_of_zones(members)}, _NONE),),
}
"""For each protocol: label, options for these members, promises that do not hold then."""


def cases(protocol: str, members: Members) -> list[Case]:
    """Return every way in which a protocol is to be tried."""
    info = PROTOCOLS[protocol]
    widest = "multicast" if "multicast" in info.casts else info.casts[0]
    made = []
    for cast in info.casts:
        if cast == "groups":
            options: Options = {"groups": chain_of_groups(members)}
            made.append(Case(protocol, cast, info.promises, options, "groups"))
        else:
            made.append(Case(protocol, cast, info.promises))
    for label, options_for, lost in VARIANTS.get(protocol, ()):
        options = options_for(members)
        if set(options) <= set(info.options):
            made.append(Case(protocol, widest, info.promises - lost, options, label))
    return made
