"""A node's knowledge of its group: the current view, votes on the next one, removals under way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from antecede.errors import PeerError
from antecede.net.agreement import Ballot
from antecede.net.fields import Fields, put_bytes, put_names, put_number, put_text
from antecede.net.flushes import Flush
from antecede.net.setups import Setup
from antecede.net.views import Change, Member, get_members, put_members


class Welcome(NamedTuple):
    """What a newcomer must know: the view in which it joined."""

    number: int
    digest: bytes
    rules: bytes
    members: dict[str, Member]
    labels: tuple[str, ...]
    """The labels by their numbers on the wire, those of removed processes included."""
    past: dict[str, str]

    def encoded(self) -> bytes:
        """Return it as bytes."""
        out = bytearray()
        put_number(out, self.number)
        put_bytes(out, self.digest)
        put_bytes(out, self.rules)
        put_members(out, self.members.values())
        put_names(out, self.labels)
        put_names(out, self.past)
        put_names(out, self.past.values())
        return bytes(out)

    @classmethod
    def read(cls, reader: Fields) -> Welcome:
        """Read what :meth:`encoded` returns."""
        number, digest, rules = reader.number(), reader.bytes(), reader.bytes()
        members, labels = get_members(reader), reader.names()
        gone, names = reader.names(), reader.names()
        shown = [member.label for member in members.values()]
        if (
            len(gone) != len(names)
            or not set(shown) <= set(labels)
            or len(set(labels)) < len(labels)
        ):
            reader.fail("contradict themselves about the members")
        return cls(number, digest, rules, members, labels, dict(zip(gone, names, strict=True)))


class Group:
    """The view that this node has reached, and what leads to the next one."""

    def __init__(self, start: Welcome) -> None:
        self.digest = start.digest
        self.rules = start.rules
        self.number = start.number
        self.members = dict(start.members)
        self.labels = start.labels
        self.past = dict(start.past)
        """The names of removed processes by their labels."""
        self.changes: dict[int, bytes] = {}
        """Changes that some members may have missed, by number."""
        self.welcomes: dict[str, bytes] = {}
        """What newcomers must be told that may not know it yet, by label."""
        self.wishes: list[Change] = []
        """What this node wants changed; their numbers mean nothing."""
        self.promised = Ballot()
        self.accepted = Ballot()
        self.value = b""
        """The change to the next view that this node has accepted, if any."""
        self.flush: Flush | None = None
        self.is_removed = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members, in the order in which they joined."""
        return tuple(self.members)

    @property
    def is_plain(self) -> bool:
        """Whether names are labels, and the endpoint has the same members as the view."""
        return not self.past and self.flush is None

    def name_of(self, label: str) -> str:
        """Return the name behind a label."""
        if label in self.past:
            return self.past[label]
        if label in self.members and self.members[label].label == label:
            return label
        found = [member.name for member in self.members.values() if member.label == label]
        return found[0] if found else label

    def wish(self, *, is_add: bool, name: str, address: str = "") -> Change:
        """Return what to propose so that a process joins or leaves."""
        if not is_add:
            return Change(self.number + 1, is_add, name, self.members[name].label)
        label = name
        if name in self.labels or name in self.past.values():
            label = f"{name}#{self.number + 1}"
            while label in self.labels:
                label += "#"
        return Change(self.number + 1, is_add, name, label, address)

    def is_met(self, wish: Change) -> bool:
        """Tell whether a wish has come true, by whomever."""
        member = self.members.get(wish.name)
        if wish.is_add:
            return member is not None
        return member is None or member.label != wish.label

    def proposal(self) -> bytes | None:
        """Return the change that this node would propose now, if any."""
        if self.value:
            return self.value
        for wish in self.wishes:
            if not self.is_met(wish):
                change = self.wish(is_add=wish.is_add, name=wish.name, address=wish.address)
                return change.encoded()
        return None

    def check(self, change: Change) -> None:
        """Refuse a change that no member would propose in this view."""
        member = self.members.get(change.name)
        is_fine = change.number == self.number + 1 and (
            member is None and change.label not in self.labels
            if change.is_add
            else member is not None and member.label == change.label and len(self.members) > 1
        )
        if not is_fine:
            msg = f"view {self.number} cannot {change} as {change.label!r}"
            raise PeerError(msg)

    def apply(self, change: Change) -> None:
        """Go on to the next view."""
        self.check(change)
        self.number = change.number
        self.changes[change.number] = change.encoded()
        self.promised = self.accepted = Ballot()
        self.value = b""
        if change.is_add:
            member = Member(change.name, change.label, change.number, change.address)
            self.members[change.name] = member
            self.labels = (*self.labels, change.label)
            self.welcomes[change.label] = self.welcome().encoded()
        else:
            del self.members[change.name]
            self.past[change.label] = change.name
            self.welcomes.pop(change.label, None)
        self.wishes = [wish for wish in self.wishes if not self.is_met(wish)]

    def welcome(self) -> Welcome:
        """Return what a newcomer in this view must know."""
        return Welcome(self.number, self.digest, self.rules, self.members, self.labels, self.past)

    def locate(self, addresses: Mapping[str, str]) -> None:
        """Note where members are, so that newcomers can be told; addresses are not agreed on."""
        for name, address in addresses.items():
            if address and name in self.members:
                self.members[name] = self.members[name]._replace(address=address)

    def trim(self, number: int) -> None:
        """Forget the changes up to a number: all members know them."""
        for old in [key for key in self.changes if key <= number]:
            del self.changes[old]

    def write(self, out: bytearray) -> None:
        """Append the whole group."""
        put_bytes(out, self.welcome().encoded())
        out.append(self.is_removed)
        put_number(out, len(self.changes))
        for data in self.changes.values():
            put_bytes(out, data)
        put_number(out, len(self.welcomes))
        for label, data in self.welcomes.items():
            put_text(out, label)
            put_bytes(out, data)
        put_number(out, len(self.wishes))
        for wish in self.wishes:
            put_bytes(out, wish.encoded())
        for ballot in (self.promised, self.accepted):
            put_number(out, ballot.round)
            put_text(out, ballot.proposer)
        put_bytes(out, self.value)
        out.append(self.flush is not None)
        if self.flush is not None:
            self.flush.write(out)

    @classmethod
    def read(cls, reader: Fields) -> Group:
        """Read what :meth:`write` wrote."""
        made = cls(Welcome.read(Fields(reader.bytes())))
        made.is_removed = bool(reader.byte())
        for data in [reader.bytes() for _ in range(reader.count("changes"))]:
            made.changes[Change.decoded(data).number] = data
        for _ in range(reader.count("welcomes")):
            label = reader.text()
            made.welcomes[label] = reader.bytes()
        made.wishes = [Change.decoded(reader.bytes()) for _ in range(reader.count("wishes"))]
        made.promised = Ballot(reader.number(), reader.text())
        made.accepted = Ballot(reader.number(), reader.text())
        made.value = reader.bytes()
        if reader.byte():
            made.flush = Flush.read(reader)
        return made


def founding(digest: bytes, rules: bytes, names: Iterable[str]) -> Welcome:
    """Return the first view of a group."""
    listed = tuple(names)
    return Welcome(0, digest, rules, {name: Member(name, name) for name in listed}, listed, {})


def was_removed(process: str) -> str:
    """Return what to do for a process that was removed."""
    return (
        f"process {process!r} was removed from its group; to come back, start it with an empty "
        "store and joining=True, and let a member add it"
    )


def is_group_of(setup: Setup, group: Group) -> bool:
    """Tell whether a saved group is the one that a node is started for.

    Its members may have changed since. A founder is started with the founders or with the members
    as they are now; whoever joined later may name any of them.
    """
    if setup.rules != group.rules:
        return False
    if setup.process in group.members and group.members[setup.process].joined:
        return True
    return setup.digest == group.digest or set(setup.members) == set(group.members)
