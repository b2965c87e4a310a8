"""Who belongs to a group: numbered views, and the changes that lead from one to the next.

A view is known by its number. Change ``number`` leads from view ``number - 1`` to view ``number``;
the members of the former agree on it (see :mod:`antecede.net.agreement`). A *label* is what a
member is called in packets, message ids and the event log. It is the member's name, unless another
process of that name was removed before: then the number of the view in which it joined follows,
so that the two incarnations are never taken for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from antecede.net.fields import Fields, put_names, put_number


class Member(NamedTuple):
    """A process in a view; those who were there from the beginning joined in view 0."""

    name: str
    label: str
    joined: int = 0
    address: str = ""


class Change(NamedTuple):
    """A process joins or leaves."""

    number: int
    is_add: bool
    name: str
    label: str
    address: str = ""

    def encoded(self) -> bytes:
        """Return the change as bytes; equal changes give equal bytes."""
        out = bytearray()
        put_number(out, self.number)
        out.append(self.is_add)
        put_names(out, (self.name, self.label, self.address))
        return bytes(out)

    @classmethod
    def decoded(cls, data: bytes) -> Change:
        """Return a change from its bytes; raise PeerError for anything else."""
        fields = Fields(data)
        number, is_add, names = fields.number(), fields.byte(), fields.names()
        if len(names) != 3 or is_add > 1 or fields.left or not number:
            fields.fail("are not a change of members")
        return cls(number, bool(is_add), *names)

    def __str__(self) -> str:
        return f"{'add' if self.is_add else 'remove'} {self.name!r}"


def put_members(out: bytearray, members: Iterable[Member]) -> None:
    """Append members."""
    listed = tuple(members)
    put_number(out, len(listed))
    for member in listed:
        put_names(out, (member.name, member.label, member.address))
        put_number(out, member.joined)


def get_members(reader: Fields) -> dict[str, Member]:
    """Read what :func:`put_members` wrote, by name."""
    found = {}
    for _ in range(reader.count("members")):
        names = reader.names()
        if len(names) != 3:
            reader.fail("name a member wrongly")
        name, label, address = names
        found[name] = Member(name, label, reader.number(), address)
    return found


def is_quorum(voters: Collection[str], members: Collection[str]) -> bool:
    """Tell whether voters decide: more than half, or half with the first member among them.

    Any two such sets have a voter in common. The first member breaks ties, so that one of two
    members can go on without the other.
    """
    count = sum(member in voters for member in members)
    return 2 * count > len(members) or (2 * count == len(members) and next(iter(members)) in voters)
