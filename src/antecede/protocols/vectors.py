"""Causal order by a vector clock and one vector for each destination: [SES89]_.

Every message carries its own vector time, and for each process that its sender knows to have been
written to, the latest vector time of such a message. A receiver holds a message back until its own
clock has passed the vector that the message carries for it.

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing.

Assumes
-------
A fixed membership, and a network that brings every packet eventually. It may reorder and
duplicate.

Cost
----
``n`` integers for the message, and ``n`` integers and an id for each destination known: ``O(n*n)``
at worst, little while few destinations are known.

Names
-----
================  ==================================================
paper             here
================  ==================================================
``T_P``           ``Vectors._clock``
``V_P``           ``Vectors._latest``
``t_M``, ``V_M``  ``Packet.control``: a vector, then (dest, vector)
================  ==================================================

Differences from the paper
--------------------------
Multicast is ours: a send is one event and enters the table for all its destinations, and so does a
delivery, without which order is lost. A message to oneself is delivered by the base and leaves no
trace in clock or table; the literal rules would lose order. The clock also ticks at a delivery,
which changes no moment of delivery.

References
----------
.. [SES89] A. Schiper, J. Eggli and A. Sandoz. "A new algorithm to implement causal ordering". 3rd
   International Workshop on Distributed Algorithms, LNCS 392:219-232, 1989.
   https://doi.org/10.1007/3-540-51687-5_45
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.info import MULTICAST, Citation, Formula, ProtocolInfo
from antecede.core.messages import CLOCK_BYTES, ID_BYTES, ControlSize, Need, Packet, Sending
from antecede.core.plain import is_counts, malformed
from antecede.core.registry import register

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


Vector = tuple[int, ...]
Control = tuple[Vector, tuple[tuple[str, Vector], ...]]


@register
class Vectors(Endpoint):
    """One process's clock, and the latest vector time of a message to each other process."""

    INFO: ClassVar = ProtocolInfo(
        name="vectors",
        idea="a vector clock and one vector for each destination",
        paper="Schiper, Eggli, Sandoz 1989",
        citation=Citation(
            tag="SES89",
            authors=("A. Schiper", "J. Eggli", "A. Sandoz"),
            title="A new algorithm to implement causal ordering",
            venue="3rd International Workshop on Distributed Algorithms, LNCS 392:219-232",
            year=1989,
            url="https://doi.org/10.1007/3-540-51687-5_45",
        ),
        casts=MULTICAST,
        guarantee="causal order",
        assumptions="fixed membership; any network that brings every packet eventually",
        cost="n integers, and n integers more for each destination known",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        short_name="SES",
        wire_number=9,
        bytes_per_entry=None,
        formula=Formula(
            lambda n: n + 1,
            lambda n: 4 * n + n * (2 + 4 * n),
            lambda n: 4 * n * (n + 1),
            most=True,
            cubic=True,
        ),
    )
    STATE: ClassVar = ("_clock", "_latest")

    def _start(self) -> None:
        self._clock: Vector = (0,) * len(self.members)
        self._latest: dict[str, Vector] = {}

    def _stamp(self, sending: Sending) -> dict[str, object]:
        self._tick()
        control: Control = (self._clock, tuple(sorted(self._latest.items())))
        self._latest.update(dict.fromkeys(sending.others, self._clock))
        return dict.fromkeys(sending.others, control)

    def _check(self, packet: Packet) -> None:
        if packet.kind != "data" or not self._is_stamp(packet.control):
            n = len(self.members)
            raise malformed(packet, f"{n} counts and sorted pairs (destination, {n} counts)")
        _, table = cast("Control", packet.control)
        self._check_names(packet, (dest for dest, _ in table))

    def _is_stamp(self, control: object) -> bool:
        n = len(self.members)
        if type(control) is not tuple or len(control) != 2 or not is_counts(control[0], n):
            return False
        table, last = control[1], ""
        if type(table) is not tuple:
            return False
        for row in table:
            if type(row) is not tuple or len(row) != 2 or type(row[0]) is not str:
                return False
            if row[0] <= last or not is_counts(row[1], n):
                return False
            last = row[0]
        return True

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        """[SES89]: the vector carried for this process has to be passed by its clock."""
        _, table = cast("Control", packet.control)
        wanted = dict(table).get(self.process)
        if wanted is None:
            return
        for member, mine, level in zip(self.members, self._clock, wanted, strict=True):
            if mine < level:
                yield Need(member, level, "event")

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        stamp, table = cast("Control", packet.control)
        for dest, vector in table:
            self._note(dest, vector)
        for dest in packet.dests:
            if dest != packet.source:
                self._note(dest, stamp)
        before, self._clock = self._clock, tuple(map(max, self._clock, stamp))
        self._tick()
        levels = zip(self.members, before, self._clock, strict=True)
        return [Need(member, now, "event") for member, was, now in levels if now > was]

    def _note(self, dest: str, vector: Vector) -> None:
        if dest != self.process:
            self._latest[dest] = tuple(map(max, self._latest.get(dest, vector), vector))

    def _tick(self) -> None:
        me = self._positions[self.process]
        self._clock = (*self._clock[:me], self._clock[me] + 1, *self._clock[me + 1 :])

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return the message's vector, and a vector with its id for each destination known."""
        stamp, table = cast("Control", packet.control)
        vector_bytes = CLOCK_BYTES * len(stamp)
        model_bytes = vector_bytes + (ID_BYTES + vector_bytes) * len(table)
        return ControlSize(1 + len(table), 0, model_bytes)
