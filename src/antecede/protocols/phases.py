"""One integer per group, and questions to silent members: after Mostefaoui and Raynal [MR93]_.

A message carries a stamp and, for each group, the highest stamp sent to that group in its causal
past. A receiver waits until it has heard from every member of its groups up to those stamps. It
asks members that are silent; they answer with a promise: no later message of mine has a lower
stamp.

Guarantee
---------
Causal order across overlapping groups. Messages may wait for members that have nothing to say.

Assumes
-------
Fixed, closed groups. Every packet arrives eventually; the network may reorder and duplicate
packets, and the base restores the order of each channel. The holding buffer must not fill: an
answer comes after earlier messages on its channel, and if those are refused for lack of space,
whatever waits for the answer waits forever.

Cost
----
One integer per group and one for the message's own stamp. If a message has to wait for silent
members, one question to each and its answer.

Names
-----
=========================  =======================================================
paper                      here
=========================  =======================================================
vector, one int per group  ``Phases._stamps``; on a message ``Packet.control[1]``
resynchronisation          control packets ``("ask", stamp)``, ``("promise", stamp)``
=========================  =======================================================

Differences from the paper
--------------------------
Only the abstract was available to us. This is a reconstruction with the costs that the abstract
names, not the authors' protocol: do not quote measurements of it as theirs. According to [KS98]_
section 1 theirs assumes synchronous execution in phases; ours runs on any network and asks instead.
A single logical clock for all groups rules out cycles of waiting: a message waits only for stamps
lower than its own. What was heard from a process counts for all groups, because its stamps only
grow and its channel keeps order.

References
----------
.. [MR93] A. Mostefaoui and M. Raynal. "Causal multicasts in overlapping groups: towards a low cost
   approach". 4th IEEE Workshop on Future Trends of Distributed Computing Systems:136-142, 1993.
   https://inria.hal.science/inria-00074802
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

import bisect
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, cast

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_groups, group_of
from antecede.core.info import Option, ProtocolInfo
from antecede.core.kinds import NAME
from antecede.core.messages import CLOCK_BYTES, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.state import State
from antecede.core.validation import is_count, is_counts, malformed

Control = tuple[int, tuple[int, ...]]

JUMP_MAX: Final = 1 << 32
"""How far a stamp may be ahead of our clock; a higher one would use up the clock at once."""


@register
class Phases(Endpoint):
    """One process's clock, the stamps it knows, and how far it has heard from the others."""

    INFO: ClassVar = ProtocolInfo(
        name="phases",
        idea="one integer per group; silent members are asked",
        paper="Mostefaoui, Raynal 1993 (reconstructed from its abstract)",
        casts=("broadcast", "groups"),
        assumptions=(
            "fixed, closed groups; a holding buffer that does not fill; "
            "every packet arrives eventually"
        ),
        cost="one integer per group and one more; questions and answers when members are silent",
        promises=frozenset({"safety", "liveness", "quiescence"}),
        options={
            "groups": Option(None, "a dict of group names to members; by default {'all': members}")
        },
        reconstruction=True,
        fixed_because="a broadcast goes to all members, so all must agree who they are",
        wire_number=18,
        bytes_per_entry=CLOCK_BYTES,
    )
    STATE: ClassVar = {
        "_clock": int,
        "_stamps": {str: int},
        "_heard": {NAME: int},
        "_asked": {NAME: int},
        "_pending": {str: [(int, NAME, int)]},
    }
    FIFO: ClassVar = True

    def _start(self) -> None:
        self._groups = as_groups(self.options["groups"], self.members)
        self.options["groups"] = self._groups
        self._known_groups: dict[tuple[str, tuple[str, ...]], str] = {}
        self._clock = 0
        self._stamps = dict.fromkeys(self._groups, 0)
        self._heard: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._pending: dict[str, list[tuple[int, str, int]]] = {name: [] for name in self._groups}

    def _stamp(self, sending: Sending) -> dict[str, object]:
        group = self._group(self.process, sending.others)
        self._clock += 1
        control: Control = (self._clock, tuple(self._stamps.values()))
        self._stamps[group] = self._clock
        return dict.fromkeys(sending.others, control)

    def _check(self, packet: Packet) -> None:
        control = packet.control
        if type(control) is not tuple or len(control) != 2:
            raise malformed(packet, "a pair")
        if packet.kind == "control":
            if control[0] not in ("ask", "promise") or not is_count(control[1]):
                raise malformed(packet, "'ask' or 'promise', and a stamp")
            self._check_jump(packet, control[1])
            return
        stamp, stamps = control
        if not is_count(stamp, 1) or not is_counts(stamps, len(self._groups)):
            raise malformed(packet, f"a stamp, and one for each of {', '.join(self._groups)}")
        if max(stamps) >= stamp or not self._group(packet.source, packet.dests):
            raise malformed(packet, "a stamp above those of its past, and a group's members")
        self._check_jump(packet, stamp)

    def _check_jump(self, packet: Packet, stamp: int) -> None:
        if stamp > self._clock + JUMP_MAX:
            raise malformed(packet, f"a stamp of at most {self._clock + JUMP_MAX}")

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        _, stamps = cast("Control", packet.control)
        heard = self._heard
        excepted = (self.process, packet.source)  # the packet itself comes with a higher stamp
        for (name, group), stamp in zip(self._groups.items(), stamps, strict=True):
            if stamp == 0 or self.process not in group:
                continue
            for member in group:
                if heard.get(member, 0) < stamp and member not in excepted:
                    yield Need(member, stamp, "stamp")
            pending = self._pending[name]
            if pending and pending[0][0] <= stamp:
                yield Need(pending[0][1], pending[0][2])

    def load(self, state: State) -> None:
        """Take over a state made by ``state()`` on an endpoint of the same kind."""
        super().load(state)
        held: dict[str, list[tuple[int, str, int]]] = {name: [] for name in self._groups}
        for _, packet in self._hold:
            stamp, _ = cast("Control", packet.control)
            bisect.insort(
                held[self._group(packet.source, packet.dests)], (stamp, *packet.message_id)
            )
        if held != self._pending:
            msg = f"pending messages of {self.process!r} that are not those it holds"
            raise ValueError(msg)

    def _on_data(self, packet: Packet) -> None:
        stamp, _ = cast("Control", packet.control)
        self._heard[packet.source] = stamp
        bisect.insort(
            self._pending[self._group(packet.source, packet.dests)], (stamp, *packet.message_id)
        )
        for need in self._unmet(packet):
            if need.unit == "stamp" and self._asked.get(need.process, 0) < need.number:
                self._asked[need.process] = need.number
                self._emit_control(need.process, ("ask", need.number))
        self._arrive(packet)
        self._advance((Need(packet.source, stamp, "stamp"),))

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        what, stamp = cast("tuple[str, int]", packet.control)
        if what == "ask":
            self._clock = max(self._clock, stamp)
            self._emit_control(packet.source, ("promise", self._clock))
            return ()
        self._heard[packet.source] = max(stamp, self._heard.get(packet.source, 0))
        return (Need(packet.source, self._heard[packet.source], "stamp"),)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        stamp, stamps = cast("Control", packet.control)
        group = self._group(packet.source, packet.dests)
        self._pending[group].remove((stamp, *packet.message_id))
        self._clock = max(self._clock, stamp)
        for name, known in zip(self._groups, stamps, strict=True):
            self._stamps[name] = max(self._stamps[name], known)
        self._stamps[group] = max(self._stamps[group], stamp)
        return (Need(*packet.message_id),)

    def _group(self, source: str, dests: tuple[str, ...]) -> str:
        """Return the group that a source and its destinations form, or an empty string."""
        known = self._known_groups.get((source, dests))
        if known is None:
            known = group_of(self._groups, source, dests)
            if known is None:
                return ""
            self._known_groups[source, dests] = known
        return known
