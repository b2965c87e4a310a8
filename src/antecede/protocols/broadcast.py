"""Causal broadcast by vectors of counts: Birman, Schiper and Stephenson [BSS91]_.

Every message carries, for each group and member, how many messages of that member to that group its
sender knows of. A receiver holds it until it has delivered as many in each of its own groups.

Guarantee
---------
Causal order, also across overlapping groups; a message waits only while a real cause is missing.

Assumes
-------
Closed groups: only members send to a group. Every packet arrives eventually; the network may
reorder and duplicate packets. With one group of all, processes may join and leave; with ``groups``
the membership is fixed.

Cost
----
One integer for each member of each group: ``n`` with a single group of all.

Names
-----
==================  ===========================================
paper               here
==================  ===========================================
``VT(p_i)``         ``Broadcast._vectors``, one for each group
``VT(m)``           ``Packet.control``: by names, or by position for several groups
delay queue         the holding buffer of the base
==================  ===========================================

Differences from the paper
--------------------------
``groups`` is our reading of the extension to overlapping groups: all vectors travel, including
those of groups to which the sender does not belong. Carrying only the sender's own loses order if
groups form a ring. The destinations of a message determine its group.

The paper changes the members in views that all install together. Here each process adds and removes
members on its own; see :mod:`antecede.core.counted`. What a process broadcast before it knew of a
newcomer does not go to the newcomer. So on adding one, a process tells it how many that were, by a
control packet, and the newcomer waits for none of these.

References
----------
.. [BSS91] K. Birman, A. Schiper and P. Stephenson. "Lightweight causal and atomic group multicast".
   ACM Transactions on Computer Systems 9(3):272-314, 1991. https://doi.org/10.1145/128738.128742
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.casts import Targets
from antecede.core.counted import Counted
from antecede.core.counts import Counts
from antecede.core.groups import as_groups, group_of
from antecede.core.info import Formula, Option, ProtocolInfo
from antecede.core.kinds import NAME
from antecede.core.messages import CLOCK_BYTES, ControlSize, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.roster import Roster
from antecede.core.validation import check_claim, is_count, is_counts, is_records, malformed
from antecede.errors import UsageError

Vectors = tuple[tuple[int, ...], ...]
Records = tuple[tuple[str, int], ...]


class Heard(Counts):
    """The vector of a message to all, by numbers."""

    __slots__ = ()
    PROTOCOL: ClassVar = "broadcast"
    FORM: ClassVar = "row"

    @classmethod
    def read(cls, control: object, roster: Roster) -> Counts | None:
        """Return a control by numbers, if it is well-formed and counts exactly this roster."""
        if not is_records(control, roster.names):
            return None
        counts = dict(cast("Records", control))
        if counts.keys() != roster.numbers.keys():
            return None
        return cls((tuple([counts[name] for name in roster.names]),))

    def spell(self, roster: Roster) -> object:
        """Return pairs (process, count), sorted."""
        return tuple(sorted(zip(roster.names, self.rows[0], strict=True)))


@register
class Broadcast(Counted):
    """One process's vectors, one per group."""

    INFO: ClassVar = ProtocolInfo(
        name="broadcast",
        idea="a vector of broadcasts delivered, one per group",
        paper="Birman, Schiper, Stephenson 1991",
        casts=("broadcast", "groups"),
        assumptions=(
            "closed groups; every packet arrives eventually; processes may join and leave if there "
            "is one group of all"
        ),
        cost="one integer per member and group; n for one group of all",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        options={
            "groups": Option(None, "a dict of group names to members; by default {'all': members}")
        },
        dynamic=True,
        short_name="BSS",
        wire_number=8,
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: n, lambda n: 4 * n, lambda n: 4 * n),
    )
    STATE: ClassVar = Counted.STATE | {"_vectors": {str: {NAME: int}}, "_starts": {NAME: int}}
    STAMP: ClassVar = Heard

    def _start(self) -> None:
        self._groups = as_groups(self.options["groups"], self.members)
        self.options["groups"] = self._groups
        self._all = next(iter(self._groups)) if self._is_whole() else ""
        """The name of the one group, if it is of all members."""
        self._vectors: dict[str, dict[str, int]] = {
            name: dict.fromkeys(self._names if self._all else members, 0)
            for name, members in self._groups.items()
        }
        if not self._all:
            self._kind = None  # messages carry a vector for each group, by names
        self._starts: dict[str, int] = {}
        """How many broadcasts a process had made when it added us."""

    def _is_whole(self) -> bool:
        groups = self.options["groups"]
        if not isinstance(groups, dict):
            return groups is None
        return len(groups) == 1 and set(*groups.values()) == set(self.members)

    def _check_dynamic(self) -> None:
        if not self._is_whole():
            msg = (
                "broadcast has a fixed membership with groups (which of them would a new process "
                "join?); make new endpoints instead, or use one group of all"
            )
            raise UsageError(msg)

    def _count_sends(self, _: Targets) -> Counts:
        mine = self._vectors[self._all]
        mine[self.process] += 1
        return Heard((tuple(mine.values()),))

    def _post(self, sending: Sending) -> None:
        if self._all:
            super()._post(sending)
        else:
            for dest, control in self._stamp(sending).items():
                self._emit(dest, control, sending)

    def _stamp(self, sending: Sending) -> dict[str, object]:
        """Return a vector for each group."""
        group = group_of(self._groups, self.process, sending.others)
        assert group is not None
        self._vectors[group][self.process] += 1
        told = tuple([tuple(vector.values()) for vector in self._vectors.values()])
        return dict.fromkeys(sending.others, told)

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return the size of the vectors by the model of [JPCY97]."""
        if packet.roster is None:
            return super().measure(packet)
        size = len(packet.roster)
        return ControlSize(size, 0, CLOCK_BYTES * size)

    # Checks.

    def _check(self, packet: Packet) -> None:
        if packet.kind == "control":
            self._check_start(packet)
        elif self._all:
            super()._check(packet)
        else:
            self._check_groups(packet)

    def _check_start(self, packet: Packet) -> None:
        control = packet.control
        is_start = type(control) is tuple and len(control) == 1 and is_count(control[0], 1)
        if not is_start or packet.n != 1 or not self._all:
            raise malformed(packet, "a count of broadcasts, in the first packet of a channel")

    def _check_form(self, packet: Packet, control: object) -> None:
        if not is_records(control, self._names):
            raise malformed(packet, "sorted pairs (process, count)")

    def _check_claims(self, packet: Packet) -> None:
        counts, me = self._carried(packet).rows[0], self._me
        source = self._index.get(packet.source, me)
        if source != me and counts[source] < 1:
            raise malformed(packet, "its source to count the message")
        made = self._vectors[self._all][self.process]
        if counts[me] > made:
            check_claim(self, packet, counts[me], made)

    def _aligned(self, control: object) -> Heard:
        counts = dict(cast("Records", control))
        return Heard((tuple([counts.get(name, 0) for name in self._names]),))

    @staticmethod
    def _names_in(control: object) -> tuple[str, ...]:
        return tuple([name for name, _ in cast("Records", control)])

    @staticmethod
    def _counted(control: object) -> set[str]:
        return {name for name, count in cast("Records", control) if count}

    def _check_groups(self, packet: Packet) -> None:
        vectors, groups = packet.control, self._groups
        is_vectors = type(vectors) is tuple and len(vectors) == len(groups)
        if not is_vectors or not all(
            map(is_counts, cast("Vectors", vectors), map(len, groups.values()))
        ):
            raise malformed(packet, f"counts for the members of the groups {', '.join(groups)}")
        group = group_of(groups, packet.source, packet.dests)
        carried = self._by_group(packet)
        if group is None or carried[group][packet.source] < 1:
            raise malformed(packet, "destinations and the source to form a group, and to count it")
        for name, vector in carried.items():
            made = self._vectors[name].get(self.process, 0)
            check_claim(self, packet, vector.get(self.process, 0), made)

    # Deliver.

    def _need(self, process: str, level: int) -> Need:
        return Need(process, level, self.UNIT, self._all)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        """[BSS91] CBCAST: all that the sender had delivered, and its own earlier messages."""
        if self._all:
            yield from super()._unmet(packet)
            return
        group = group_of(self._groups, packet.source, packet.dests)
        for name, vector in self._by_group(packet).items():
            mine = self._vectors[name]
            if self.process not in mine:
                continue
            for member, count in vector.items():
                is_own = name == group and member == packet.source
                wanted = count - 1 if is_own else count
                if mine[member] < wanted:
                    yield Need(member, wanted, "count", name)

    def _first_unmet(self, packet: Packet) -> Need | None:
        return super()._first_unmet(packet) if self._all else next(self._unmet(packet), None)

    def _awaited_needs(self, packet: Packet) -> Iterator[Need]:
        return super()._awaited_needs(packet) if self._all else self._unmet(packet)

    def _wanted(self, packet: Packet) -> Iterator[tuple[str, int]]:
        starts, source = self._starts, packet.source
        row, mine = self._carried(packet).rows[0], self._vectors[self._all]
        for (name, have), count in zip(mine.items(), row, strict=True):
            if have < count:
                wanted = count - 1 if name == source else count
                if have < wanted and starts.get(name, 0) < wanted:
                    yield name, wanted

    def _level(self, packet: Packet) -> int:
        number = self._index.get(packet.source)
        return 0 if number is None else self._carried(packet).rows[0][number]

    def _known(self, packet: Packet, process: str) -> int:
        number = self._index.get(process)
        count = 0 if number is None else self._carried(packet).rows[0][number]
        return count - 1 if process == packet.source else count

    def _reached(self, process: str) -> int:
        return max(self._vectors[self._all][process], self._starts.get(process, 0))

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        if not self._all:
            return self._absorb_groups(packet)
        mine, row = self._vectors[self._all], self._carried(packet).rows[0]
        for (name, have), count in zip(mine.items(), row, strict=True):
            if have < count:
                mine[name] = count
        if self._starts:
            self._starts = {k: n for k, n in self._starts.items() if mine[k] < n}
        return (Need(packet.source, mine[packet.source], "count", self._all),)

    def _absorb_groups(self, packet: Packet) -> Iterable[Need]:
        group = group_of(self._groups, packet.source, packet.dests)
        assert group is not None
        for name, vector in self._by_group(packet).items():
            mine = self._vectors[name]
            for member, count in vector.items():
                mine[member] = max(mine[member], count)
        return (Need(packet.source, self._vectors[group][packet.source], "count", group),)

    def _by_group(self, packet: Packet) -> dict[str, dict[str, int]]:
        """Return what the packet carries, by group and member."""
        vectors = cast("Vectors", packet.control)
        return {
            name: dict(zip(members, vector, strict=True))
            for (name, members), vector in zip(self._groups.items(), vectors, strict=True)
        }

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        """Learn how many broadcasts the source made before it added us."""
        (count,) = cast("tuple[int]", packet.control)
        self._starts[packet.source] = count
        return (self._need(packet.source, count),)

    # Membership.

    def _joined(self, process: str) -> None:
        super()._joined(process)
        made = self._vectors[self._all][self.process]
        if made:
            self._emit_control(process, (made,))

    def _left(self, process: str) -> None:
        self._starts.pop(process, None)
        self._regroup()

    def _renamed(self, _: tuple[str, ...]) -> None:
        mine = self._vectors[self._all]
        self._vectors = {self._all: {name: mine.get(name, 0) for name in self._names}}
        self._regroup()

    def _regroup(self) -> None:
        self._groups = {self._all: self.members}
        self.options["groups"] = self._groups

    def _check_own_state(self) -> bool:
        groups = {self._all: self._names} if self._all else self._groups
        if {name: set(vector) for name, vector in self._vectors.items()} != {
            name: set(members) for name, members in groups.items()
        }:
            return False
        if self._all:  # in the order of our numbers
            mine = self._vectors[self._all]
            self._vectors = {self._all: {name: mine[name] for name in self._names}}
        return all(is_count(n) for vector in self._vectors.values() for n in vector.values())
