"""Causal order by a vector clock and one vector per destination: [SES89]_.

Every message carries its own vector time, and the latest vector time of a message to each process,
as far as its sender knows. A receiver holds a message until its own clock has passed the vector
that the message carries for it.

Differences from the paper
--------------------------
Multicast is our extension: a send is one event and enters the table for all its destinations, and
so does a delivery; otherwise order is lost. A message to oneself is delivered at once and leaves no
trace in clock or table; the literal rules would lose order. The clock ticks only at a send, so it
counts messages; the paper's also ticks at a delivery, which changes nothing for the order.

After ``skip``: the vector for a destination is the maximum over messages to it. If one of these is
lost, the vector may wait for messages to others, of which no message to this process will ever
tell. So a message that asks for a lost one then waits only for messages that are held.

References
----------
.. [SES89] A. Schiper, J. Eggli and A. Sandoz. "A new algorithm to implement causal ordering". 3rd
   International Workshop on Distributed Algorithms, LNCS 392:219-232, 1989.
   https://doi.org/10.1007/3-540-51687-5_45
"""

from operator import ge, le, sub
from typing import ClassVar

from antecede.endpoint.info import Formula, ProtocolInfo
from antecede.endpoint.messages import CLOCK_BYTES, ID_BYTES, ControlSize, Message, Packet
from antecede.endpoint.numbers import get_block, get_vector, put_block, put_vector
from antecede.endpoint.rules import ALIKE, NOBODY, Own, Rules, Saved, View, Wire
from antecede.errors import PeerError

Vector = tuple[int, ...]
"""For each process, the number of a message."""
Table = dict[int, Vector]
Control = tuple[Vector, Table]
"""t_M, the time of a message, and V_M: the latest vector for each known destination."""


class VectorsWire(Wire):
    """t_M as clocks, which destinations have a vector, and how far each vector is below t_M."""

    def put(self, message: Message) -> bytes:
        time, table = message.control
        shift, n = self.view.shift, self.view.n
        keys = [number << shift | k for k, number in enumerate(time)]
        whose = sum([1 << dest for dest in table]).to_bytes(n + 7 >> 3, "little")
        rest: list[int] = []
        for dest in sorted(table):
            rest += map(sub, time, table[dest])
        block = put_block(rest) if rest else b""
        return b"".join((put_vector(keys, self.view, message.seq), whose, block))

    def get(self, data: bytes, at: int, message: Message) -> tuple[Control, int]:
        n, shift, sender = self.view.n, self.view.shift, message.sender
        keys, at = get_vector(data, at, self.view, message.seq)
        time, end = tuple([key >> shift for key in keys]), at + (n + 7 >> 3)
        whose = int.from_bytes(data[at:end], "little")
        if end > len(data) or whose >> n or time[sender] != message.seq:
            raise PeerError("has vectors for others than members, or not its own time")
        table: Table = {}
        if whose:
            rest, end = get_block(data, end, n * whose.bit_count())
            for place, dest in enumerate(self.view.list(whose)):
                table[dest] = row = tuple(map(sub, time, rest[place * n : place * n + n]))
                if min(row) < 0 or row[sender] == time[sender]:
                    raise PeerError("has vectors with times that cannot be")
        return (time, table), end

    def spell(self, packet: Packet) -> object:
        """Return sorted pairs (process, number), and sorted (destination, a number for each)."""
        return spelt(self.view, *packet.content.control)

    def measure(self, packet: Packet) -> ControlSize:
        """Return the message's vector, and a vector with an id for each known destination."""
        known = len(packet.content.control[1])
        size = CLOCK_BYTES * self.view.n
        return ControlSize(1 + known, 0, size + (ID_BYTES + size) * known)


class Vectors(Rules):
    """One process's clock, and the latest vector time of a message to each other process."""

    INFO: ClassVar = ProtocolInfo(
        idea="a vector clock and one vector per destination",
        guarantee="causal order; a message waits only for real causes",
        cost="n integers, and n more for each known destination",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        short_name="SES",
        bytes_per_entry=None,
        formula=Formula(
            lambda n: n + 1,
            lambda n: n * (6 + 4 * n),
            lambda n: n * (4 + 4 * n),
            most=True,
            cubic=True,
        ),
        lost_by_skip="a vector mixes the times of all messages to a process, also of those lost",
        unmarked_by_skip="if a message is delivered although it asks for a lost one, its time "
        "counts as here all that its sender knew of",
    )
    WIRE: ClassVar = VectorsWire
    IS_JOINT: ClassVar = True

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._latest: Table = {}
        """V_P; ``reached`` is T_P."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Tick; the message carries T_P and V_P; then enter T_P into V_P for its destinations."""
        self.reached[self.me] = message.seq << self.shift | self.me
        time = self._time()
        message.control = time, self._latest.copy()
        for dest in others:
            self._latest[dest] = time
        return ALIKE

    def _time(self) -> Vector:
        shift = self.shift
        return tuple([key >> shift for key in self.reached])

    def needs(self, packet: Packet) -> list[int]:
        """Wait until T_P >= V_M[me]."""
        wanted = packet.content.control[1].get(self.me)
        if wanted is None:
            return NOBODY
        shift = self.shift
        return [number << shift | k for k, number in enumerate(wanted)]

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Merge V_M into V_P, t_M into V_P for the destinations, and t_M into T_P."""
        message, me, latest = packet.content, self.me, self._latest
        time, table = message.control
        dests = message.dests & ~(1 << message.sender)
        for dest, vector in table.items():
            if dest != me and not dests >> dest & 1:  # for dests, t_M is at least as high
                latest[dest] = _larger(latest.get(dest), vector)
        for dest in self.view.list(dests & ~(1 << me)):
            latest[dest] = _larger(latest.get(dest), time)
        reached, shift, places = self.reached, self.shift, []
        for place, number in enumerate(time):
            if number > reached[place] >> shift:
                reached[place] = number << shift | place
                places.append(place)
        return tuple(places)

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        return packet.content.control[0][sender] >= seq

    def kept(self) -> object:
        return spelt(self.view, self._time(), self._latest)

    def keep(self, saved: Saved) -> None:
        """Save or restore V_P; the endpoint does so for T_P."""
        now = self._time()

        n = self.view.n
        found = saved.field("latest", self._latest, {n: [int, n]})
        self._latest = {dest: tuple(row) for dest, row in found.items()}
        is_right = self.me not in found
        is_right = is_right and all(all(map(le, row, now)) for row in self._latest.values())
        saved.require(is_right, "latest", found, "other destinations, and times in the past")
        self.require_own(saved, "reached", now[self.me])


def _larger(mine: Vector | None, theirs: Vector) -> Vector:
    """Return the larger number for each process; often one vector has all of them."""
    if mine is None or all(map(le, mine, theirs)):
        return theirs
    return mine if all(map(ge, mine, theirs)) else tuple(map(max, mine, theirs))


def spelt(view: View, time: Vector, table: Table) -> object:
    """Return a time and vectors with names, sorted."""
    names, order = view.members, [view.numbers[name] for name in sorted(view.members)]
    rows = [(names[d], tuple([row[k] for k in order])) for d, row in table.items()]
    return tuple([(names[k], time[k]) for k in order]), tuple(sorted(rows))
