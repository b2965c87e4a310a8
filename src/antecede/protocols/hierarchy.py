"""Representatives order for their clusters: the hierarchical case of [KS98]_ section 7.1.

Processes are grouped into clusters. A process hands its message to the representative of its
cluster. Representatives run ``optimal`` (or ``matrix``) among themselves, and each passes on what
it delivers there to its cluster, over channels that keep order. A cluster may contain clusters,
which makes more levels: then messages go up and down a tree, and only its roots run ``optimal``.

Guarantee
---------
Causal order.

Assumes
-------
Fixed, disjoint clusters whose representatives do not fail. Every packet arrives eventually; the
network may reorder and duplicate packets, and the base restores the order of each channel.

Cost
----
Between representatives, one number and what ``optimal`` carries for as many processes as there are
clusters; nothing within a cluster. Up to two more hops per message and level.

Names
-----
==========================  =====================================================
paper                       here
==========================  =====================================================
representative process      the first of each cluster, ``Hierarchy._parent``
highest level               ``Hierarchy._inner``, an endpoint of ``optimal``
==========================  =====================================================

Differences from the paper
--------------------------
[KS98]_ sketches the case in a few sentences. A message goes only where it has destinations, and
turns around at the first representative above them. A sender that is among its own destinations
delivers at once. In pull mode representatives pass on what they received even if
their own application has not taken it yet; each application takes in that order.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_choice, as_parts
from antecede.core.info import Option, ProtocolInfo, Variant
from antecede.core.kinds import ANY, Maybe
from antecede.core.messages import (
    CLOCK_BYTES,
    INCARNATION_SHIFT,
    ControlSize,
    MessageId,
    Need,
    Packet,
    Sending,
)
from antecede.core.registry import endpoint, register, restore, size
from antecede.core.relayed import Relayed
from antecede.core.state import State
from antecede.core.validation import COUNT_MAX, is_count, malformed
from antecede.errors import UsageError

INNERS = ("optimal", "matrix")
Names = tuple[str, ...]


@register
class Hierarchy(Relayed):
    """A member of a cluster, or its representative."""

    INFO: ClassVar = ProtocolInfo(
        name="hierarchy",
        idea="representatives run optimal among themselves, each for its cluster",
        paper="Kshemkalyani, Singhal 1998, section 7.1",
        assumptions="fixed, disjoint clusters; every packet arrives eventually",
        cost="as optimal with one process per cluster, nothing within; up to two more hops",
        promises=frozenset({"safety", "liveness", "quiescence"}),
        options={
            "clusters": Option(
                None,
                "tuples of members, each starting with its representative; by default one. A tuple "
                "within a tuple is a cluster below that one's representative",
            ),
            "inner": Option("optimal", "what representatives run: 'optimal' or 'matrix'", INNERS),
        },
        fixed_because="its clusters and representatives are fixed",
        wire_number=17,
        bytes_per_entry=None,
        has_roles=True,
        variants=(Variant("pairs", lambda members: {"clusters": _pairs(members)}),),
    )
    STATE: ClassVar = Relayed.STATE | {"_transit": {MessageId: ANY}, "_inner_state": Maybe(dict)}

    def _start(self) -> None:
        super()._start()
        trees = _trees(self.options["clusters"], self.members)
        self.options["clusters"] = trees
        self._parent: dict[str, str] = {}
        self._below: dict[str, frozenset[str]] = {}
        roots = tuple(_plant(tree, self._parent, self._below) for tree in trees)
        self._root = {name: root for root in roots for name in self._below[root]}
        self._relay = self._parent.get(self.process, self.process)
        children = [name for name, above in self._parent.items() if above == self.process]
        self._children = {child: place for place, child in enumerate(children)}
        self._branch = {name: child for child in children for name in self._below[child]}
        self._inner_name = as_choice("inner", self.options["inner"], INNERS)
        self._inner: Endpoint | None = None
        if self._relay == self.process:
            # What it holds is in transit here and counts against our own limits.
            self._inner = endpoint(
                self._inner_name, process=self.process, members=roots, held_max=COUNT_MAX
            )
        self._transit: dict[MessageId, Packet] = {}

    @property
    def _inner_state(self) -> State | None:
        return None if self._inner is None else self._inner.state()

    @_inner_state.setter
    def _inner_state(self, state: State | None) -> None:
        made = None if state is None else restore(state, checked=True)
        fresh, self._inner = self._inner, made
        if _role_of(made) != _role_of(fresh):
            msg = f"{self.process!r} among representatives as {_role_of(made)}"
            raise ValueError(msg)

    def load(self, state: State) -> None:
        """Take over a state made by ``state()`` on an endpoint of the same kind."""
        super().load(state)
        for packet in self._transit.values():
            self._tally.add(packet)

    def waiting(self) -> dict[MessageId, tuple[Need, ...]]:
        """Return what each held message waits for, here or among representatives."""
        result = super().waiting()
        for packet in self._transit.values():
            result[packet.message_id] = tuple(self._unmet(packet))
        return result

    def _post(self, sending: Sending) -> None:
        self._pass_on(sending, self.process)

    def _pass_on(self, content: Sending | Packet, source: str) -> None:
        """Pass a message on to where it has destinations, except where it came from."""
        assert content.message is not None
        is_from_above = source not in self._below[self.process]
        if is_from_above and not self._branch:
            return  # a process without others below it
        due = frozenset(content.dests) - {content.message.sender}
        branches = {self._branch[dest] for dest in due if dest in self._branch}
        branches.discard(source)
        for child in sorted(branches, key=self._children.__getitem__):
            self._emit(child, None, content)
        if is_from_above:
            return
        if self._inner is None:
            if due - self._below[self.process]:
                self._emit(self._relay, None, content)
        elif remote := self._roots_of(content.dests, self.process):
            for inner in self._inner.send(remote).packets:
                self._emit(inner.dest, (inner.message_id.seq, inner.control), content)

    def _roots_of(self, dests: Names, source: str) -> Names:
        return tuple(sorted({self._root[dest] for dest in dests} - {source}))

    def _check(self, packet: Packet) -> None:
        message, source = packet.message, packet.source
        if packet.kind != "data" or message is None or message.sender == self.process:
            raise malformed(packet, "a message of another process")
        if self._is_from_above(packet):
            self._check_above(packet)
        elif packet.control is not None:
            raise malformed(packet, "no control within a cluster")
        elif source in self._children:
            if message.sender not in self._below[source]:
                raise malformed(packet, f"a message from {source!r} or below it")
        elif source != self._relay or message.sender in self._below[self.process]:
            raise malformed(packet, "a message by way of the representative")
        elif self._below[self.process].isdisjoint(packet.dests):
            raise malformed(packet, f"a message for {self.process!r} or below it")

    def _check_above(self, packet: Packet) -> None:
        assert self._inner is not None
        control = packet.control
        if type(control) is not tuple or len(control) != 2 or not is_count(control[0], 1):
            raise malformed(packet, f"a number and {self._inner_name} control")
        if self._root[packet.message_id.sender] != packet.source:
            raise malformed(packet, "a message of the representative's own cluster")
        if self.process not in self._roots_of(packet.dests, packet.source):
            raise malformed(packet, "a message for this cluster")
        inner = self._as_inner(packet)
        self._inner._check_packet(inner)
        # A higher one would tell of a restart, and then the inner endpoint refuses what it took in.
        if not _is_below(control, 1 << INCARNATION_SHIFT):
            raise malformed(packet, f"numbers below 2**{INCARNATION_SHIFT}")
        if self._is_repeated(inner):
            raise malformed(packet, f"a number that ascends, not {inner.message_id.seq} again")

    def _is_repeated(self, inner: Packet) -> bool:
        """Tell whether another packet that is not passed on yet has the same inner number.

        On a channel these numbers ascend, so those that came too early are compared with the ones
        next to them.
        """
        source, n, (_, seq) = inner.source, inner.n, inner.message_id
        if self._channels.is_seen(source, n):
            return False
        before, after = self._channels.beside(source, n)
        is_above = before is None or _inner_number(before) < seq
        is_below = after is None or seq < _inner_number(after)
        return inner.message in self._transit or not (is_above and is_below)

    def _is_from_above(self, packet: Packet) -> bool:
        """Tell whether a packet is from another root."""
        return self._inner is not None and self._root[packet.source] == packet.source

    def _as_inner(self, packet: Packet) -> Packet:
        """Return the packet between roots; they exchange nothing else, so n agrees."""
        seq, control = cast("tuple[int, object]", packet.control)
        message = MessageId(packet.source, seq)
        dests = self._roots_of(packet.dests, packet.source)
        return replace(
            packet, message=message, dests=dests, payload=b"", control=control,
            protocol=self._inner_name,
        )  # fmt: skip

    def _check_room(self, packet: Packet) -> None:
        if self.process in packet.dests or self._is_blocked(packet):
            super()._check_room(packet)  # a message that is only passed on needs no space

    def _on_data(self, packet: Packet) -> None:
        if self._inner is None or not self._is_from_above(packet):
            self._pass_on(packet, packet.source)
            self._keep(packet)
        else:
            inner = self._as_inner(packet)
            deliveries = self._inner.receive(inner).deliveries
            self._transit[inner.message_id] = packet
            self._tally.add(packet)
            for delivery in deliveries:
                due = self._transit.pop(delivery.message)
                self._tally.remove(due)
                self._pass_on(due, due.source)
                self._keep(due)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        yield from super()._unmet(packet)
        if not isinstance(packet.control, int) and self._is_from_above(packet):
            assert self._inner is not None
            for need in self._inner._unmet(self._as_inner(packet)):
                yield need._replace(scope="representatives")

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return what representatives carry; within a cluster that is nothing."""
        if not isinstance(packet.control, tuple):
            return ControlSize(0, 0, 0)
        control = cast("tuple[int, tuple[tuple[object, ...], ...]]", packet.control)[1]
        inner = "matrix" if control and len(control[0]) == 2 else "optimal"  # rows, or entries
        entries, dests, model_bytes = size(replace(packet, control=control, protocol=inner))
        return ControlSize(1 + entries, dests, CLOCK_BYTES + model_bytes)


def _role_of(inner: Endpoint | None) -> tuple[object, ...]:
    if inner is None:
        return ()
    return inner.INFO.name, inner.process, inner.members, inner.held_max, inner.pull


def _inner_number(packet: Packet) -> int:
    return cast("tuple[int, object]", packet.control)[0]


def _is_below(control: object, limit: int) -> bool:
    """Tell whether all numbers of a control are below a limit."""
    if isinstance(control, tuple):
        return all(_is_below(part, limit) for part in control)
    return not isinstance(control, int) or control < limit


Tree = tuple[object, ...]
"""A representative, then the members and clusters below it."""


def _trees(value: object, members: Names) -> tuple[Tree, ...]:
    """Return the option ``clusters``, checked: every member is in exactly one place."""
    if value is None:
        return (members,)
    if not isinstance(value, (tuple, list)) or not all(isinstance(v, (tuple, list)) for v in value):
        as_parts("clusters", value, members)  # says what is wrong
    trees = tuple(_frozen(tree) for tree in cast("tuple[object, ...]", value))
    flat = as_parts("clusters", tuple(tuple(_names(tree)) for tree in trees), members)
    if sum(map(len, flat)) != len(members):
        msg = f"clusters={value!r} overlap; every member belongs to exactly one"
        raise UsageError(msg)
    return trees


def _frozen(value: object) -> Tree:
    if not isinstance(value, (tuple, list)) or not value or not isinstance(value[0], str):
        msg = (
            f"one of the clusters is {value!r}; expected a non-empty tuple of members and clusters "
            "that starts with its representative"
        )
        raise UsageError(msg)
    return tuple(_frozen(v) if isinstance(v, (tuple, list)) else v for v in value)


def _names(tree: Tree) -> Iterator[object]:
    for part in tree:
        if isinstance(part, tuple):
            yield from _names(part)
        else:
            yield part


def _plant(tree: Tree, parent: dict[str, str], below: dict[str, frozenset[str]]) -> str:
    """Enter who is above each process of a cluster, and all at or below it; return its first."""
    head = cast("str", tree[0])
    below[head] = frozenset(cast("Iterator[str]", _names(tree)))
    for part in tree[1:]:
        child = _plant(part if isinstance(part, tuple) else (part,), parent, below)
        parent[child] = head
    return head


def _pairs(members: Names) -> tuple[Names, ...]:
    """Return disjoint clusters of two; an odd member is alone."""
    return tuple(members[i : i + 2] for i in range(0, len(members), 2))
