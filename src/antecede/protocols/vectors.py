"""Causal order by a vector clock and one vector per destination: [SES89]_.

Every message carries its own vector time, and the latest vector time of a message to each process,
as far as its sender knows. A receiver holds a message until its own clock has passed the vector
that the message carries for it.

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.

Cost
----
``n`` integers for the message, and ``n`` integers and an id per known destination: ``O(n * n)`` at
worst, little while few destinations are known.

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
Multicast is our extension: a send is one event and enters the table for all its destinations, and
so does a delivery; otherwise order is lost. A message to oneself is delivered by the base and
leaves no trace in clock or table; the literal rules would lose order. The clock also ticks at a
delivery, which does not change when messages are delivered.

References
----------
.. [SES89] A. Schiper, J. Eggli and A. Sandoz. "A new algorithm to implement causal ordering". 3rd
   International Workshop on Distributed Algorithms, LNCS 392:219-232, 1989.
   https://doi.org/10.1007/3-540-51687-5_45
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.info import Formula, ProtocolInfo
from antecede.core.messages import CLOCK_BYTES, ID_BYTES, ControlSize, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import are_names, check_claim, is_counts, malformed

Vector = tuple[int, ...]
Control = tuple[Vector, tuple[tuple[str, Vector], ...]]


@register
class Vectors(Endpoint):
    """One process's clock, and the latest vector time of a message to each other process."""

    INFO: ClassVar = ProtocolInfo(
        name="vectors",
        idea="a vector clock and one vector per destination",
        paper="Schiper, Eggli, Sandoz 1989",
        cost="n integers, and n more for each known destination",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        short_name="SES",
        fixed_because=(
            "after a removal nobody can tell which clocks will still rise, so messages could "
            "wait for ever"
        ),
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
        stamp, table = cast("Control", packet.control)
        self._check_names(packet, (dest for dest, _ in table))
        me = self._positions[self.process]
        for vector in (stamp, *(vector for _, vector in table)):
            check_claim(self, packet, vector[me], self._clock[me])

    def _is_stamp(self, control: object) -> bool:
        n = len(self.members)
        if type(control) is not tuple or len(control) != 2 or not is_counts(control[0], n):
            return False
        if type(control[1]) is not tuple:
            return False
        for row in control[1]:
            if type(row) is not tuple or len(row) != 2 or not is_counts(row[1], n):
                return False
        return are_names(tuple(dest for dest, _ in control[1]))

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        """[SES89]: the clock must have passed the vector carried for this process."""
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
        """Return the message's vector, and a vector with an id for each known destination."""
        stamp, table = cast("Control", packet.control)
        vector_bytes = CLOCK_BYTES * len(stamp)
        model_bytes = vector_bytes + (ID_BYTES + vector_bytes) * len(table)
        return ControlSize(1 + len(table), 0, model_bytes)
