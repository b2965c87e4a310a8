"""[SES89]: a vector clock and one vector per destination, extended to multicast.

The paper's clock ticks at every event; this one at every send, which numbers the messages. The
paper sends each message to one process; for several, it is entered into the table for each.
"""

from antecede.protocols.specs import Copy, Specified

Vector = dict[str, int]


class Process(Specified):
    """Process P of the paper."""

    def __init__(self, me: str, names: tuple[str, ...]) -> None:
        super().__init__(me)
        self.p = me
        self.names = sorted(names)
        # T_P <- 0: the vector time of P
        self.time: Vector = dict.fromkeys(self.names, 0)
        # V_P <- {}: for each destination, the vector time of the messages sent to it
        self.table: dict[str, Vector] = {}

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """P sends M."""
        # T_P[P] <- T_P[P] + 1
        self.time[self.p] += 1
        for d in sorted(dests):
            # send (M, t_M = T_P, V_M = V_P)
            self.outbox.append(Copy(self.p, d, self.time[self.p], dests, self.kept()))
        for d in dests:
            # insert (d, T_P) into V_P, instead of an older entry for d
            self.table[d] = dict(self.time)

    def is_ready(self, copy: Copy) -> bool:
        """M can be delivered if V_M has no entry for P, or an entry (P, t) with t <= T_P."""
        _, v_m = self.read(copy)
        return all(count <= self.time[k] for k, count in v_m.get(self.p, {}).items())

    def deliver(self, copy: Copy) -> None:
        """P delivers M."""
        t_m, v_m = self.read(copy)
        # merge V_M into V_P: for d /= P, (d, t) is entered, or d's entry becomes the maximum
        for d, t in v_m.items():
            if d != self.p:
                self.table[d] = larger(self.table.get(d, t), t)
        # with several destinations: likewise (d, t_M) for the other ones
        for d in copy.dests - {self.p}:
            self.table[d] = larger(self.table.get(d, t_m), t_m)
        # T_P <- max(T_P, t_M)
        self.time = larger(self.time, t_m)

    def kept(self) -> tuple[object, object]:
        """Return T_P and V_P, sorted."""
        table = sorted((d, tuple(t[k] for k in self.names)) for d, t in self.table.items())
        return tuple(sorted(self.time.items())), tuple(table)

    def read(self, copy: Copy) -> tuple[Vector, dict[str, Vector]]:
        """Return t_M and V_M."""
        time, table = copy.control
        return dict(time), {d: dict(zip(self.names, row, strict=True)) for d, row in table}


def larger(one: Vector, two: Vector) -> Vector:
    """Return the maximum of two vectors."""
    return {k: max(count, two[k]) for k, count in one.items()}
