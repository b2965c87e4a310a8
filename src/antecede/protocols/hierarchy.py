"""Representatives order for their clusters: the hierarchical case of [KS98]_ section 7.1.

Processes are grouped into clusters. A process hands its message to the representative of its
cluster. Representatives run ``optimal`` (or ``matrix``) among themselves, and each passes on what
it delivers there to its cluster, over channels that keep order. A cluster may contain clusters,
which makes more levels: then messages go up and down a tree, and only its roots run ``optimal``.

Differences from the paper
--------------------------
[KS98]_ sketches the case in a few sentences. Between representatives a packet's control is a
message of the inner protocol. A message goes only where it has destinations, and turns around at
the first representative above them. A sender that is among its own destinations delivers at once.
In pull mode representatives also pass on what their own application has not taken yet; each
application takes messages in that order.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from collections.abc import Iterator
from typing import Any, ClassVar, cast

from antecede.endpoint.arguments import as_parts
from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.messages import CLOCK_BYTES, FREE, ControlSize, Message, Need, Packet
from antecede.endpoint.numbers import read_count, varint
from antecede.endpoint.registry import rules_of, view_of
from antecede.endpoint.relays import Chained, ChainWire
from antecede.endpoint.rules import Saved, View, Wire
from antecede.endpoint.saved import SAVED_MAX
from antecede.errors import PeerError, UsageError

INNERS = ("optimal", "matrix")
Names = tuple[str, ...]
Cluster = tuple[object, ...]
"""A representative, then the members and clusters below it."""


def _as_trees(option: str, value: object, members: Names) -> tuple[Cluster, ...]:
    """Return the option ``clusters``, checked: every member is in exactly one place."""
    if not isinstance(value, (tuple, list)) or not all(isinstance(v, (tuple, list)) for v in value):
        return as_parts(option, value, members)  # flat clusters; it raises what is wrong
    trees = tuple(_frozen(tree) for tree in value)
    flat = as_parts(option, tuple(tuple(_names(tree)) for tree in trees), members)
    if sum(map(len, flat)) != len(members):
        raise UsageError(f"{option}={value!r} overlap; every member belongs to exactly one")
    return trees


def _frozen(value: object) -> Cluster:
    if not isinstance(value, (tuple, list)) or not value or not isinstance(value[0], str):
        raise UsageError(
            f"one of the clusters is {value!r}; expected a non-empty tuple of members and clusters "
            "that starts with its representative"
        )
    return tuple(_frozen(v) if isinstance(v, (tuple, list)) else v for v in value)


def _names(tree: Cluster) -> Iterator[object]:
    for part in tree:
        yield from _names(part) if isinstance(part, tuple) else (part,)


class Tree:
    """Who is above and below whom, by numbers; and the view of the roots."""

    def __init__(self, view: View) -> None:
        n = view.n
        self.parent = list(range(n))
        """Each process's representative; a root is its own."""
        self.below = [1 << number for number in range(n)]
        """By process, itself and all processes below it, as a mask."""
        self.children: list[list[int]] = [[] for _ in range(n)]
        self.roots = [self._plant(view, tree) for tree in view.options["clusters"]]
        self.rank = {root: rank for rank, root in enumerate(self.roots)}
        self.root = self.parent
        while self.root != (above := [self.root[one] for one in self.root]):
            self.root = above
        names = tuple([view.members[root] for root in self.roots])
        self.inner = view_of(view.options["inner"], names)

    def _plant(self, view: View, tree: Cluster) -> int:
        head = view.numbers[str(tree[0])]
        for part in tree[1:]:
            child = self._plant(view, part if isinstance(part, tuple) else (part,))
            self.parent[child] = head
            self.children[head].append(child)
            self.below[head] |= self.below[child]
        return head

    def ranks(self, dests: int, source: int) -> int:
        """Return the destinations' roots except the source's own, as an inner mask."""
        roots = [r for r in self.roots if dests & self.below[r] and r != self.root[source]]
        return sum([1 << self.rank[root] for root in roots])

    def as_inner(self, packet: Packet) -> Packet | None:
        """Return a packet between roots as the inner protocol sees it; None within a cluster."""
        message: Message | None = packet.content.control
        if message is None:
            return None
        source, dest = self.rank[packet.source_no], self.rank[packet.dest_no]
        return Packet(message, source, dest, packet.n, packet.own)


class HierarchyWire(ChainWire):
    """Between roots, the number and the control of an inner message; otherwise nothing."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.tree = Tree(view)
        self._inner: Wire = self.tree.inner.forms

    def put(self, message: Message) -> bytes:
        """Return the inner message's number (0 within a cluster) and its control."""
        inner: Message | None = message.control
        return b"\0" if inner is None else varint(inner.seq) + self._inner.put(inner)

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        number, at = read_count(data, at)
        if not number:
            return None, at
        tree = self.tree
        mask = tree.ranks(message.dests, message.sender)
        if not mask or not message.seq:
            raise PeerError("is for no other cluster, or is not a message")
        sender = tree.rank[tree.root[message.sender]]
        inner = Message(tree.inner, sender, number, mask, b"", None)
        inner.control, at = self._inner.get(data, at, inner)
        return inner, at

    def put_own(self, packet: Packet) -> bytes:
        inner = self.tree.as_inner(packet)
        return self._inner.put_own(inner) if inner else super().put_own(packet)

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Any, int]:
        if packet.content.control is None:
            return super().get_own(data, at, packet)
        tree, inner = self.tree, packet.content.control
        rank = tree.rank.get(packet.dest_no, -1)
        is_meant = rank >= 0 and inner.dests >> rank & 1
        if tree.rank.get(packet.source_no) != inner.sender or not is_meant:
            raise PeerError("is not between the representatives that its message is for")
        return self._inner.get_own(data, at, cast("Packet", tree.as_inner(packet)))

    def spell(self, packet: Packet) -> object:
        inner = self.tree.as_inner(packet)
        return inner and (inner.content.seq, self._inner.spell(inner))

    def measure(self, packet: Packet) -> ControlSize:
        inner = self.tree.as_inner(packet)
        entries, dests, size = self._inner.measure(inner) if inner else (-1, 0, -CLOCK_BYTES)
        return ControlSize(1 + entries, dests, CLOCK_BYTES + size)


class Hierarchy(Chained):
    """A member of a cluster, or a representative, which also has places for the inner protocol."""

    INFO: ClassVar = ProtocolInfo(
        idea="representatives run optimal among themselves, each for its cluster",
        paper="Kshemkalyani, Singhal 1998, section 7.1",
        assumptions="disjoint clusters; representatives that do not fail; every packet arrives",
        cost="a number and as optimal with a process per cluster; two more hops per level, at most",
        options={
            "clusters": Option(
                None,
                "tuples of members, each starting with its representative; by default one. A tuple "
                "within a tuple is a cluster below that one's representative",
                check=_as_trees,
            ),
            "inner": Option("optimal", "what representatives run: 'optimal' or 'matrix'", INNERS),
        },
        lost_by_skip="a representative that is gone takes along what it has not passed on",
        unmarked_by_skip="representatives know of each other's messages, not of those of clusters",
        research=True,
        bytes_per_entry=None,
        has_roles=True,
        relays=True,
        variants=(Variant("pairs", lambda members: {"clusters": _pairs(members)}),),
    )
    WIRE: ClassVar = HierarchyWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        tree: Tree = view.forms.tree
        self._tree = tree
        self._is_root = tree.parent[me] == me
        inner = rules_of(tree.inner.protocol).of(tree.inner)
        self._inner = inner(tree.inner, tree.rank[tree.root[me]])
        """At a root, its side of the inner protocol."""
        self._offset = view.low + 1
        """The first place of the inner protocol."""
        self._taken = [0] * len(tree.roots)
        """By root, the number of its last inner message processed here."""
        if self._is_root:
            self.widen(self._offset + self._inner.low + 1)

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        """Send the message up and down the tree towards its destinations."""
        self._pass_on(message, self.me)

    def _pass_on(self, message: Message, source: int) -> None:
        """Pass a message on towards its destinations, except back to where it came from."""
        tree, me = self._tree, self.me
        due = message.dests & ~(1 << message.sender)
        if message.control is not None:  # from another root
            message = message.under(None)
        for child in tree.children[me]:
            if due & tree.below[child] and child != source:
                self.post(child, message)
        if not tree.below[me] >> source & 1:
            return  # it came from above
        if not self._is_root:
            if due & ~tree.below[me]:
                self.post(tree.parent[me], message)
        elif remote := tree.ranks(message.dests, me):
            self._send_above(message, remote)

    def _send_above(self, message: Message, remote: int) -> None:
        """Send a message to other roots by the inner protocol."""
        tree, rules = self._tree, self._inner
        rules.made += 1
        inner = Message(tree.inner, tree.rank[self.me], rules.made, remote, b"", None)
        others = tree.inner.list(remote)
        own = rules.stamp(inner, others, rules.made, rules.made - 1)
        assert own is not None
        carried = message.under(inner)
        self.outbox += [(tree.roots[rank], carried, own.get(rank)) for rank in others]

    def check(self, packet: Packet) -> str:
        message, tree, source, me = packet.content, self._tree, packet.source_no, self.me
        if message.control is not None:
            return self._check_above(packet)
        below = tree.below[me]
        if source == tree.parent[me] != me:
            is_right = not below >> message.sender & 1 and message.dests & below
        else:
            is_right = tree.parent[source] == me and tree.below[source] >> message.sender & 1
        if not is_right or not message.seq:
            return "is not a message by way of a representative"
        return super().check(packet)

    def _check_above(self, packet: Packet) -> str:
        if not self._is_root or self._tree.root[packet.content.sender] != packet.source_no:
            return "is not a message of the representative's own cluster"
        inner = cast("Packet", self._tree.as_inner(packet))
        if inner.content.seq <= self._taken[inner.source_no]:
            return f"has the number {inner.content.seq} of its representative again"
        self._inner.is_stale = self.is_stale
        return self._inner.check(inner)

    def readmit(self, packet: Packet) -> str:
        """Accept a held packet that is processed already, though not yet taken in pull mode."""
        inner: Message | None = packet.content.control
        if inner is None:
            return super().readmit(packet)
        return "" if inner.seq <= self._taken[inner.sender] else self.check(packet)

    def needs(self, packet: Packet) -> list[int]:
        """Return the previous packet on the channel, or what the inner protocol waits for."""
        inner = self._tree.as_inner(packet)
        return list(map(self._outer, self._inner.needs(inner))) if inner else super().needs(packet)

    def _outer(self, key: int) -> int:
        """Return the outer key for a key of the inner protocol."""
        low = self._inner.low
        return key >> low.bit_length() << self.shift | self._offset + (key & low)

    def key(self, packet: Packet) -> int:
        inner = self._tree.as_inner(packet)
        return self._outer(self._inner.key(inner)) if inner else super().key(packet)

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return all messages of a root that has not passed on enough: no number is certain."""
        if packet.content.control is None:
            return super().wanted(packet, key)
        place = key & self.low
        return self._tree.roots[place - self._offset], SAVED_MAX * (key > self.reached[place])

    def need(self, packet: Packet, key: int) -> Need:
        """Return the previous message, or a count of what a root sent or passed on."""
        inner = self._tree.as_inner(packet)
        if inner is None:
            return super().need(packet, key)
        bits, place = self._inner.low.bit_length(), (key & self.low) - self._offset
        rank, number = self._inner.wanted(inner, key >> self.shift << bits | place)
        return Need(self.view.members[self._tree.roots[rank]], number, "relayed")

    def gap(self, packet: Packet) -> int:
        return FREE if packet.content.control is not None else super().gap(packet)

    def follows(self, packet: Packet, other: Packet) -> bool:
        inner, before = self._tree.as_inner(packet), self._tree.as_inner(other)
        if inner and before:
            return self._inner.follows(inner, before)
        return inner is before and super().follows(packet, other)

    def taken(self, packet: Packet) -> tuple[int, ...]:
        message, inner = packet.content, self._tree.as_inner(packet)
        if inner is None:
            places = super().taken(packet)
        else:
            self._taken[inner.source_no] = inner.content.seq
            self._newest[message.sender] = message.seq
            places = tuple([self._offset + place for place in self._inner.taken(inner)])
            for place in places:
                self.reached[place] = self._outer(self._inner.reached[place - self._offset])
        self._pass_on(message, packet.source_no)
        return places

    def gone(self, source: int) -> None:
        """Expect nothing more from a process that is gone, nor from its inner side."""
        super().gone(source)
        if self._is_root and source in self._tree.rank:
            self._inner.gone(self._tree.rank[source])

    def kept_entries(self) -> int | None:
        return self._inner.kept_entries() if self._is_root else None

    def keep(self, saved: Saved) -> None:
        super().keep(saved)
        self._taken = saved.numbers("taken", self._taken)
        if self._is_root:
            saved.part("inner", self._keep_inner)
        else:
            saved.require(saved.plain("inner") is None, "inner", "a state", "none")

    def _keep_inner(self, saved: Saved) -> None:
        """Save or restore the inner protocol's side, whose places ``reached`` has too."""
        rules = self._inner
        rules.made = saved.number("made", rules.made)
        rules.is_stale = self.is_stale
        for place in range(len(rules.reached)):
            number = self.reached[self._offset + place] >> self.shift
            rules.reached[place] = number << rules.low.bit_length() | place
        saved.part("rules", rules.keep)


def _pairs(members: Names) -> tuple[Names, ...]:
    """Return clusters of two members each; an odd last member is alone."""
    return tuple(members[i : i + 2] for i in range(0, len(members), 2))
