"""The members of a group: numbered views, the changes between them, and what a node knows of both.

Change ``number`` leads from view ``number - 1`` to view ``number``; the members of the earlier view
agree on it (see :mod:`antecede.net.group.paxos`). A process that was removed and comes back is
another member: it *joined* in a later view.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from antecede.endpoint.registry import view_of
from antecede.errors import PeerError, UsageError, shown
from antecede.net.fields import Fields, put_bytes, put_names, put_number, put_text
from antecede.net.settings import Setup


class Member(NamedTuple):
    """A process in a view; the founders joined in view 0."""

    name: str
    joined: int = 0
    address: str = ""


class Ballot(NamedTuple):
    """An attempt to decide: a later one has a higher round, and no two proposers share one."""

    round: int = 0
    proposer: str = ""


class Change(NamedTuple):
    """The change to view ``number``: processes that join and processes that leave."""

    number: int
    joins: tuple[tuple[str, str], ...] = ()
    """Names and addresses."""
    leaves: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        """Return the change as bytes; equal changes give equal bytes."""
        out = bytearray()
        put_number(out, self.number)
        put_names(out, [text for pair in self.joins for text in pair])
        put_names(out, self.leaves)
        return bytes(out)

    @classmethod
    def decoded(cls, data: bytes) -> Change:
        """Return a change from its bytes; raise PeerError for anything else."""
        fields = Fields(data)
        number, texts, leaves = fields.number(), fields.names(), fields.names()
        joins = tuple(zip(texts[::2], texts[1::2], strict=False))
        made = cls(number, joins, leaves)
        if fields.left or len(texts) % 2 or not number or not (joins or leaves):
            fields.fail("are not a change of members")
        if made.encoded() != data:
            fields.fail("are a change of members in another form")
        return made

    def __str__(self) -> str:
        said = [f"add {shown(name)}" for name, _ in self.joins]
        return " and ".join([*said, *(f"remove {shown(name)}" for name in self.leaves)])


class Wish(NamedTuple):
    """A change that this node wants: a process joins, or the one that joined in a view leaves."""

    is_join: bool
    name: str
    joined: int = 0
    address: str = ""


class Welcome(NamedTuple):
    """What a newcomer must know: the view in which it joined."""

    number: int
    digest: bytes
    rules: bytes
    members: dict[str, Member]

    def encoded(self) -> bytes:
        """Return the welcome as bytes."""
        out = bytearray()
        put_number(out, self.number)
        put_bytes(out, self.digest)
        put_bytes(out, self.rules)
        put_number(out, len(self.members))
        for member in self.members.values():
            put_names(out, (member.name, member.address))
            put_number(out, member.joined)
        return bytes(out)

    @classmethod
    def read(cls, reader: Fields) -> Welcome:
        """Read what :meth:`encoded` returns."""
        number, digest, rules = reader.number(), reader.bytes(), reader.bytes()
        members = {}
        count = reader.count("members")
        for _ in range(count):
            names, joined = reader.names(), reader.number()
            if len(names) != 2 or joined > number or not names[0]:
                reader.fail("name a member wrongly")
            members[names[0]] = Member(names[0], joined, names[1])
        if len(members) != count:
            reader.fail("name a member twice")
        return cls(number, digest, rules, members)

    @property
    def gist(self) -> tuple[object, ...]:
        """The part on which all members agree, which excludes addresses."""
        listed = tuple((member.name, member.joined) for member in self.members.values())
        return self.number, self.digest, self.rules, listed

    @property
    def stayers(self) -> list[str]:
        """The members that were there before."""
        return [one.name for one in self.members.values() if one.joined < self.number]


class Group:
    """The newest view that this node knows, and what leads to the next one."""

    def __init__(self, setup: Setup, start: Welcome) -> None:
        self.setup = setup
        self.digest = start.digest
        self.rules = start.rules
        self.number = start.number
        self.members = dict(start.members)
        self.decided = b""
        """The change that led to this view, for members that have missed it."""
        self.newcomers: set[str] = set()
        """Members that joined and have not been heard from since."""
        self.wishes: list[Wish] = []
        self.promised = Ballot()
        self.accepted = Ballot()
        self.value = b""
        """The change to the next view that this node has accepted, if any."""
        self.is_removed = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members, in the order in which they joined."""
        return tuple(self.members)

    def is_met(self, wish: Wish) -> bool:
        """Return whether a wish has come true, no matter who proposed it."""
        member = self.members.get(wish.name)
        if wish.is_join:
            return member is not None
        return member is None or member.joined != wish.joined

    def proposal(self) -> bytes | None:
        """Return the change that this node would propose now, if any."""
        if self.value:
            return self.value
        wishes = [wish for wish in self.wishes if not self.is_met(wish)]
        if not wishes:
            return None
        for some in (self._learnable(wishes) or wishes[:1], wishes[:1]):
            change = self.change_of(some)
            try:
                self.check(change)
            except PeerError:
                continue
            return change.encoded()
        return None

    def _learnable(self, wishes: list[Wish]) -> list[Wish]:
        """Return the wishes after which the members that stay are a quorum.

        The removed stop, so a member that was away must learn of the change from those that stay.
        """
        found, leaves = list[Wish](), set[str]()
        for wish in wishes:
            gone = leaves if wish.is_join else {*leaves, wish.name}
            if is_quorum([name for name in self.names if name not in gone], self.names):
                found.append(wish)
                leaves = gone
        return found

    def change_of(self, wishes: Iterable[Wish]) -> Change:
        """Return one change for all of these wishes."""
        listed = list(dict.fromkeys(wishes))
        joins = {wish.name: wish.address for wish in listed if wish.is_join}
        leaves = {wish.name for wish in listed if not wish.is_join}
        return Change(self.number + 1, tuple(sorted(joins.items())), tuple(sorted(leaves)))

    def check(self, change: Change) -> None:
        """Refuse a change that no member would propose in this view."""
        fault = self.fault_of(change)
        if fault:
            msg = f"view {self.number} cannot {change}: {fault}"
            raise PeerError(msg)

    def fault_of(self, change: Change) -> str:
        """Return why a change is impossible in this view, or ""."""
        names = [name for name, _ in change.joins]
        members = [name for name in names if not name or name in self.members]
        strangers = [name for name in change.leaves if name not in self.members]
        fault = ""
        if change.number != self.number + 1:
            fault = f"it leads to view {change.number}"
        elif len({*names, *change.leaves}) < len(names) + len(change.leaves):
            fault = "it names a process twice"
        elif members:
            fault = f"{shown(members[0])} is a member already"
        elif strangers:
            fault = f"{shown(strangers[0])} is not a member"
        elif len(change.leaves) == len(self.members):
            fault = "nobody would stay"
        if fault:
            return fault
        try:
            view_of(
                self.setup.protocol,
                self.members_after(change),
                number=change.number,
                **self.setup.own_options,
            )
        except UsageError as error:
            return f"under {self.setup.protocol}, {error}"
        return ""

    def members_after(self, change: Change) -> tuple[str, ...]:
        """Return the members that a change leads to, in order."""
        stay = [name for name in self.members if name not in change.leaves]
        return (*stay, *[name for name, _ in change.joins])

    def apply(self, change: Change) -> None:
        """Go on to the next view."""
        self.check(change)
        self.number = change.number
        self.decided = change.encoded()
        self.promised = self.accepted = Ballot()
        self.value = b""
        for name in change.leaves:
            del self.members[name]
            self.newcomers.discard(name)
        for name, address in change.joins:
            self.members[name] = Member(name, change.number, address)
            self.newcomers.add(name)
        self.wishes = [wish for wish in self.wishes if not self.is_met(wish)]

    def welcome(self) -> Welcome:
        """Return what a newcomer in this view must know."""
        return Welcome(self.number, self.digest, self.rules, self.members)

    def locate(self, addresses: Mapping[str, str]) -> None:
        """Note the members' addresses, for newcomers; members do not agree on addresses."""
        for name, address in addresses.items():
            if address and name in self.members:
                self.members[name] = self.members[name]._replace(address=address)

    def write(self, out: bytearray) -> None:
        """Append the whole group."""
        put_bytes(out, self.welcome().encoded())
        out.append(self.is_removed)
        put_bytes(out, self.decided)
        put_names(out, sorted(self.newcomers))
        put_number(out, len(self.wishes))
        for wish in self.wishes:
            out.append(wish.is_join)
            put_names(out, (wish.name, wish.address))
            put_number(out, wish.joined)
        for ballot in (self.promised, self.accepted):
            put_number(out, ballot.round)
            put_text(out, ballot.proposer)
        put_bytes(out, self.value)

    @classmethod
    def read(cls, setup: Setup, reader: Fields) -> Group:
        """Read what :meth:`write` wrote."""
        made = cls(setup, Welcome.read(Fields(reader.bytes())))
        made.is_removed = bool(reader.byte())
        made.decided = reader.bytes()
        made.newcomers = set(reader.names())
        for _ in range(reader.count("wishes")):
            is_join, names = bool(reader.byte()), reader.names()
            if len(names) != 2:
                reader.fail("hold a wish that is none")
            made.wishes.append(Wish(is_join, names[0], reader.number(), names[1]))
        made.promised = Ballot(reader.number(), reader.text())
        made.accepted = Ballot(reader.number(), reader.text())
        made.value = reader.bytes()
        return made


def founding(setup: Setup) -> Welcome:
    """Return the first view of a group."""
    members = {name: Member(name) for name in setup.members}
    return Welcome(0, setup.digest, setup.rules, members)


def is_quorum(voters: Collection[str], members: Collection[str]) -> bool:
    """Return whether voters decide: more than half, or half with the first member among them.

    Any two such sets have a voter in common. The first member breaks ties, so that one of two
    members can go on without the other. If there are no members, nobody is needed.
    """
    count = sum(member in voters for member in members)
    return 2 * count > len(members) or (
        2 * count == len(members) and (not members or next(iter(members)) in voters)
    )


def was_removed(process: str) -> str:
    """Return the sentence that says what to do for a process that was removed."""
    return (
        f"process {process!r} was removed from its group; to come back, start it with an empty "
        "store and joining=True, and let a member add it"
    )


def is_group_of(setup: Setup, group: Group) -> bool:
    """Return whether a saved group is the one that a node's setup names.

    Its members may have changed since. A founder may be started with the founders or with the
    present members; a process that joined later may name any of them.
    """
    if setup.rules != group.rules:
        return False
    if setup.process in group.members and group.members[setup.process].joined:
        return True
    return setup.digest == group.digest or set(setup.members) == set(group.members)
