"""The cases in which a protocol is tested: its casts, and the options worth trying.

Every cast is tried with the default options, and the widest cast with each of the variants that the
protocol's record names. Options that need names (groups, zones, clusters) are made for the members.
"""

from dataclasses import dataclass, field
from random import Random

from antecede.endpoint.info import Cast, Members, Options
from antecede.endpoint.registry import PROTOCOLS


@dataclass(frozen=True)
class Case:
    """A protocol with options, one cast, and the promises that it makes with them."""

    protocol: str
    cast: Cast
    promises: frozenset[str]
    options: Options = field(default_factory=dict)
    label: str = ""

    def __str__(self) -> str:
        return f"{self.protocol}{self.label and '-' + self.label}-{self.cast}"

    @property
    def is_symmetric(self) -> bool:
        """Whether renaming processes changes nothing."""
        return not PROTOCOLS[self.protocol].has_roles and "groups" not in self.options


def chain_of_groups(members: Members) -> dict[str, Members]:
    """Return overlapping groups in a ring; such cycles defeat naive protocols."""
    if len(members) < 3:
        return {"all": members}
    size = max(2, len(members) // 2)
    doubled = members + members
    return {f"g{i}": doubled[i : i + size] for i in range(len(members))}


def random_groups(members: Members, seed: int) -> dict[str, Members]:
    """Return random groups such that every member is in at least one."""
    rng = Random(seed)  # noqa: S311 - test data, not secrets
    groups = chain_of_groups(members)
    for i in range(rng.randint(0, 3)):
        chosen = set(rng.sample(members, rng.randint(2, len(members))))
        groups[f"r{i}"] = tuple(member for member in members if member in chosen)
    return groups


def cases(protocol: str, members: Members) -> list[Case]:
    """Return every case in which a protocol is tested."""
    info = PROTOCOLS[protocol]
    widest = "multicast" if "multicast" in info.casts else info.casts[0]
    made = []
    for cast in info.casts:
        if cast == "groups":
            options: Options = {"groups": chain_of_groups(members)}
            made.append(Case(protocol, cast, info.promises, options, "groups"))
        else:
            made.append(Case(protocol, cast, info.promises))
    for variant in info.variants:
        promises = info.promises - variant.broken_promises
        made.append(Case(protocol, widest, promises, variant.options(members), variant.label))
    return made
