"""Checks on names and options: members, groups, zones, a relay, flags and choices."""

from collections.abc import Callable, Iterable
from typing import Final

from antecede.endpoint.info import Option, ProtocolInfo
from antecede.endpoint.view import View
from antecede.errors import UsageError, listed, shown

Groups = dict[str, tuple[str, ...]]
LIMIT_MAX: Final = (1 << 62) - 1


def as_name(what: str, value: object) -> str:
    """Return a name; refuse anything that cannot be one."""
    if not isinstance(value, str) or not value:
        raise UsageError(f"{what} {value!r} is not a name; use a non-empty string")
    return value


def distinct_names(what: str, value: object) -> tuple[str, ...]:
    """Return the argument ``members`` or ``removed``: distinct names."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        kind = "string " if isinstance(value, str) else ""
        raise UsageError(f"{what} is the {kind}{value!r}; expected a sequence of names")
    names = tuple(as_name(what.removesuffix("s"), name) for name in value)
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        msg = f"{what} names {', '.join(twice)} more than once; each process has its own name"
        raise UsageError(msg)
    return names


def as_flag(option: str, value: object) -> bool:
    """Return an option that is either True or False."""
    if not isinstance(value, bool):
        raise UsageError(f"{option}={value!r} is neither True nor False")
    return value


def as_number(least: int, most: int = LIMIT_MAX) -> Callable[..., int]:
    """Return the check of an option that is a number within bounds."""

    def check(option: str, value: object, _members: object = ()) -> int:
        if type(value) is not int or not least <= value <= most:
            msg = f"{option}={shown(value)} is not an integer from {least} to {most}"
            raise UsageError(msg)
        return value

    return check


def as_option(option: Option, name: str, value: object, members: tuple[str, ...]) -> object:
    """Return the value of an option, checked as its record asks."""
    if option.check is not None:
        return option.check(name, value, members)
    if option.choices and value not in option.choices:
        raise UsageError(
            f"{name}={value!r} is unknown; expected one of {', '.join(option.choices)}"
        )
    return as_flag(name, value) if type(option.default) is bool else value


def as_groups(option: str, value: object, members: tuple[str, ...]) -> Groups:
    """Return the option ``groups`` as a dict; the default is one group of all, named "all"."""
    if value is None:
        return {"all": members}
    if not isinstance(value, dict) or not value:
        msg = f"{option}={value!r} is not a mapping of names to members; write {{'g': ('a', 'b')}}"
        raise UsageError(msg)
    return {
        as_name("group", name): as_names(f"group {name!r}", group, members)
        for name, group in value.items()
    }


GROUPS: Final = Option(
    None, "a dict of group names to members; by default {'all': members}", check=as_groups
)


def as_parts(option: str, value: object, members: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the option ``zones`` or ``clusters``: tuples of members that together cover all."""
    if value is None:
        return (members,)
    if not isinstance(value, (tuple, list)) or not value:
        msg = f"{option}={value!r} is not a sequence of tuples; write {option}=(('a', 'b'), ...)"
        raise UsageError(msg)
    parts = tuple(as_names(f"one of the {option}", part, members) for part in value)
    covered = set().union(*parts)
    if missing := ", ".join([member for member in members if member not in covered]):
        raise UsageError(f"{option} leave out {missing}; every member belongs to one of them")
    return parts


def as_links(
    option: str, value: object, members: tuple[str, ...]
) -> tuple[tuple[str, str], ...] | None:
    """Return the option ``links``: pairs of members that connect them all; None is the default."""
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or any(
        not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in value
    ):
        msg = f"{option}={value!r} are not pairs of members; write {option}=(('a', 'b'), ...)"
        raise UsageError(msg)
    links = tuple([as_names(f"one of the {option}", tuple(pair), members) for pair in value])
    if len(set(map(frozenset, links))) != len(links):
        raise UsageError(f"{option}={value!r} name a link more than once; each serves both ways")
    reached, grown = {members[0]}, True
    while grown:
        more = {name for pair in links if reached.intersection(pair) for name in pair}
        reached, grown = reached | more, not more <= reached
    if apart := [name for name in members if name not in reached]:
        msg = f"{option} do not connect {members[0]} with {', '.join(apart)}; add a link"
        raise UsageError(msg)
    return tuple([(one, other) for one, other in links])


def as_names(what: str, value: object, members: tuple[str, ...]) -> tuple[str, ...]:
    """Return a non-empty tuple of members, each named once, in the order given."""
    if isinstance(value, (set, frozenset)):
        strange = sorted(value.difference(members), key=repr)  # refused below, as in a tuple
        value = (*[member for member in members if member in value], *strange)
    if not isinstance(value, (tuple, list)) or not value:
        raise UsageError(f"{what} is {value!r}; expected a non-empty tuple of members")
    names, known = tuple(value), set(members)
    for name in names:
        if name not in known:
            use = ", ".join(members)
            raise UsageError(f"{what} names {name!r}, which is not a member; use {use}")
    if len(set(names)) != len(names):
        raise UsageError(f"{what} names a member more than once: {', '.join(names)}")
    return names


def as_member(option: str, value: object, members: tuple[str, ...]) -> str:
    """Return the option ``server`` or ``relay``; by default the first member."""
    if value is None:
        return members[0]
    if not isinstance(value, str) or value not in members:
        msg = f"{option}={value!r} is not a member; the members are {', '.join(members)}"
        raise UsageError(msg)
    return value


def as_destinations(dests: object, process: str, view: View, info: ProtocolInfo) -> tuple[str, ...]:
    """Return the destinations, distinct and sorted; refuse what the protocol cannot serve."""
    groups: Groups = view.options.get("groups", {})
    if isinstance(dests, str):
        if dests not in groups:
            known = f"one of the groups {', '.join(groups)}, or " if groups else ""
            raise UsageError(
                f"dests is the string {dests!r}; expected {known}a list: write [{dests!r}] for one "
                "process"
            )
        dests = groups[dests]
    try:
        names = set(dests)  # type: ignore[call-overload] # the try is for that
    except TypeError:
        raise UsageError(f"dests is {shown(dests)}; expected a sequence of process names") from None
    if not names:
        raise UsageError("dests is empty; name at least one process")
    if unknown := names.difference(view.members):
        strange = ", ".join(sorted(map(repr, unknown)))
        msg = f"cannot send to {strange}: not a member; the members are {listed(view.members)}"
        raise UsageError(msg)
    others = names - {process}
    if others and "multicast" not in info.casts:
        kinds = {
            "unicast": len(others) == 1,
            "broadcast": len(others) == view.n - 1 and not groups,
            "groups": {process, *names} in map(set, groups.values()),
        }
        if not any(kinds[cast] for cast in info.casts):
            raise UsageError(
                f"{info.name} does not send to {', '.join(sorted(others))} from {process!r}: it "
                f"offers {' and '.join(info.casts)}; optimal sends to any destinations"
            )
    return tuple(sorted(names))
