"""What the registry says about a protocol; docs, tests and the command line are made from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Cast = Literal["unicast", "multicast", "broadcast", "groups"]
CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast", "groups")
MULTICAST: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword that ``antecede.endpoint`` takes for one protocol."""

    default: object
    doc: str


@dataclass(frozen=True, slots=True)
class ProtocolInfo:
    """A protocol as its users see it.

    ``promises`` names the properties that the oracle checks: ``safety``, ``liveness``,
    ``quiescence``, ``no_overblocking``, ``necessity``.
    """

    name: str
    idea: str
    paper: str
    casts: tuple[Cast, ...]
    guarantee: str
    assumptions: str
    cost: str
    promises: frozenset[str]
    options: dict[str, Option] = field(default_factory=dict)
    dynamic: bool = False
    reconstruction: bool = False
