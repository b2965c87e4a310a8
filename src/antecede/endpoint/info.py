"""The record that states everything known about a protocol.

Docs, tests, the oracle, the wire format, the simulation and the command line all read it. So a new
protocol is a new module with its record; there is no table to edit.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from antecede.endpoint.messages import ID_BYTES

Cast = Literal["unicast", "multicast", "broadcast", "groups"]
CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast", "groups")
MULTICAST: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")

Members = tuple[str, ...]
Options = dict[str, object]


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword argument of ``antecede.endpoint`` for one protocol.

    ``check`` gets its name, its value and the members; it returns the value or refuses it.
    Without ``check``, a flag must be True or False, and a choice one of ``choices``.
    """

    default: object
    doc: str
    choices: tuple[str, ...] = ()
    check: Callable[[str, object, Members], object] | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """A set of options worth testing: values for given members, and the promises they break."""

    label: str
    options: Callable[[Members], Options]
    broken_promises: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Citation:
    """A publication; ``str()`` gives the full reference."""

    tag: str = ""
    authors: tuple[str, ...] = ()
    title: str = ""
    venue: str = ""
    year: int = 0
    url: str = ""

    @classmethod
    def first_of(cls, docstring: str | None) -> "Citation":
        """Return the first publication in a docstring's References: a protocol's own."""
        _, _, references = (docstring or "").partition("\nReferences\n")
        found = _REFERENCE.search(" ".join(references.split()))
        if found is None:
            return cls()
        tag, authors, title, venue, year, url = found.groups("")
        return cls(tag, tuple(re.split(r", | and ", authors)), title, venue, int(year), url)

    @property
    def surnames(self) -> tuple[str, ...]:
        """The authors without their initials."""
        return tuple(author.split(". ")[-1] for author in self.authors)

    def __str__(self) -> str:
        names = " and ".join(filter(None, (", ".join(self.authors[:-1]), *self.authors[-1:])))
        return f'{names}. "{self.title}". {self.venue}, {self.year}. {self.url}'.strip()


CITATION_FORM: Final = '.. [TAG] A. Author and B. Author. "Title". Venue, YEAR. https://...'
_REFERENCE: Final = re.compile(
    r'\.\. \[(\w+)\] (.+?)\. "(.+?)"\. (.+?), (\d{4})\.(?: (https://\S+))?'
)


@dataclass(frozen=True, slots=True)
class Formula:
    """Sizes that depend only on the number of processes ``n``.

    ``entries`` and ``bytes`` (in the model of [JPCY97]) are per copy; ``state`` is the bytes that
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

    name: str = ""
    """The name to give ``antecede.endpoint``; registering sets it to the module's name."""
    idea: str
    """The algorithm in a few words."""
    paper: str = ""
    """The authors and the year; by default those of the citation."""
    casts: tuple[Cast, ...] = MULTICAST
    """Whom one message may go to: one process, several, all, or a group by its name."""
    guarantee: str = "causal order"
    """What it ensures."""
    assumptions: str = "fixed membership; every packet arrives eventually"
    """What it needs to ensure that."""
    cost: str
    """What it adds to messages, and which additional packets it sends."""
    promises: frozenset[str] = frozenset({"safety", "liveness", "quiescence"})
    """The properties that it has; the oracle checks each of them."""
    missing_promises: dict[str, str] = field(default_factory=dict)
    """Why it does not promise safety, liveness or quiescence, as protocols normally do."""
    options: dict[str, Option] = field(default_factory=dict)
    """Its own options by name, each with its default and what it means."""
    variants: tuple[Variant, ...] = ()
    """Sets of options that the tests try."""
    lost_by_skip: str = ""
    """Why order may be lost after ``skip``: what the protocol then lacks."""
    unmarked_by_skip: str = ""
    """Why a delivery that depends on a skipped message may not say so in ``unmet``."""
    research: bool = False
    """Whether it is of interest for studies rather than for use; the main tables omit it."""
    reconstruction: bool = False
    """Whether it was written without the full text of its paper, from which it may differ."""
    citation: Citation = Citation()
    """Where it was published; registering reads it from the References of its module."""
    short_name: str = ""
    """The usual abbreviation in the literature, such as RST; empty if there is none."""
    bytes_per_entry: int | None
    """The bytes of an entry of control in the model of [JPCY97]; None if not constant."""
    bytes_per_destination: int = ID_BYTES
    """The bytes of a destination in the control in the same model."""
    formula: Formula | None = None
    """Its sizes as a function of the number of processes, if they depend on nothing else."""
    blocking: bool = False
    """Whether a send is refused while an earlier one is under way."""
    queueing: bool = False
    """Whether sends can wait in a queue at the sender for something other than their causes."""
    has_roles: bool = False
    """Whether its position or an option gives a process a role, so that renaming matters."""
    relays: bool = False
    """Whether a message may pass through processes that are not its destinations."""
    orders_by_after: bool = False
    """Whether it orders by ``send(..., after=)``; the others order by everything so far."""
    groups_by_after: bool = False
    """Whether ``after`` tells which sends form a non-atomic event (see ``non_atomic``)."""
    timed: bool = False
    """Whether it uses the time that ``Endpoint.tick`` gives."""
    opens_links: bool = False
    """Whether ``Endpoint.link`` opens links while messages flow."""
    carries_messages: bool = False
    """Whether other messages, with their payloads, travel along with a message."""

    @property
    def is_fifo(self) -> bool:
        """Whether two messages of one sender to the same process always keep their order."""
        return not self.orders_by_after

    @property
    def title(self) -> str:
        """The name as charts and tables show it: ``matrix (RST)``."""
        return f"{self.name} ({self.short_name})" if self.short_name else self.name
