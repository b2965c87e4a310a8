"""The record that states everything known about a protocol.

Docs, tests, the oracle, the wire format, the simulation and the command line all read it, so a new
protocol needs no table edited anywhere: its module states its record, and registering does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Cast = Literal["unicast", "multicast", "broadcast", "groups"]
CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast", "groups")
MULTICAST: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")

Members = tuple[str, ...]
Options = dict[str, object]


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword that ``antecede.endpoint`` takes for one protocol."""

    default: object
    doc: str


@dataclass(frozen=True, slots=True)
class Variant:
    """A set of options worth testing: what to set for given members, and what it gives up."""

    label: str
    options: Callable[[Members], Options]
    broken_promises: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A publication. ``str()`` gives the full reference."""

    tag: str
    authors: tuple[str, ...]
    title: str
    venue: str
    year: int
    url: str = ""

    @property
    def surnames(self) -> tuple[str, ...]:
        """The authors without their initials."""
        return tuple(author.split(". ")[-1] for author in self.authors)

    def __str__(self) -> str:
        *first, last = self.authors
        names = f"{', '.join(first)} and {last}" if first else last
        return f'{names}. "{self.title}". {self.venue}, {self.year}. {self.url}'.strip()


KS98: Final = Citation(
    tag="KS98",
    authors=("A. D. Kshemkalyani", "M. Singhal"),
    title=(
        "Necessary and sufficient conditions on information for causal message ordering and their "
        "optimal implementation"
    ),
    venue="Distributed Computing 11(2):91-111",
    year=1998,
    url="https://doi.org/10.1007/s004460050044",
)
"""The one publication that describes several protocols; the others are cited in their modules."""


@dataclass(frozen=True, slots=True)
class Formula:
    """Sizes that follow from the number of processes ``n`` alone.

    ``entries`` and ``bytes`` (by the model of [JPCY97]) are of one copy, ``state`` is the bytes that
    one process keeps. ``most`` marks upper bounds, ``cubic`` a state of ``n * n`` per process.
    """

    entries: Callable[[int], int]
    bytes: Callable[[int], int]
    state: Callable[[int], int]
    most: bool = False
    cubic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolInfo:
    """Everything known about a protocol.

    ``promises`` names the properties that the oracle checks: ``safety``, ``liveness``,
    ``quiescence``, ``no_overblocking``, ``necessity``.
    """

    name: str
    idea: str
    paper: str
    citation: Citation
    casts: tuple[Cast, ...]
    guarantee: str
    assumptions: str
    cost: str
    promises: frozenset[str]
    options: dict[str, Option] = field(default_factory=dict)
    variants: tuple[Variant, ...] = ()
    dynamic: bool = False
    reconstruction: bool = False
    short_name: str = ""
    """The usual abbreviation in the literature, such as RST; empty where there is none."""
    wire_number: int = 0
    """The protocol's number on the wire, unique from 1 and never changed; 0: its name is sent."""
    names_only: bool = False
    """Whether process names are the only text in its controls."""
    bytes_per_entry: int | None
    """What an entry of control counts in the model of [JPCY97]; None if that is not constant."""
    bytes_per_destination: int = 0
    """What a destination in the control counts in the same model."""
    formula: Formula | None = None
    """Its sizes by the number of processes, where they follow from it."""
    blocking: bool = False
    """Whether a send is refused while an earlier one is under way."""
    queueing: bool = False
    """Whether sends can wait in a queue at the sender for something other than their causes."""
    has_roles: bool = False
    """Whether it tells processes apart by position or option, so that names are not exchangeable."""
    orders_by_after: bool = False
    """Whether it orders by ``send(..., after=)``; the others order by everything so far."""
    carries_messages: bool = False
    """Whether other messages travel with a message, payloads included."""

    @property
    def title(self) -> str:
        """The name as charts and tables show it: ``matrix (RST)``."""
        return f"{self.name} ({self.short_name})" if self.short_name else self.name
