"""[PRS97]: direct predecessors, as far as its structures are known; see the protocol's page.

A set has at most one message of each process, so it is a dict from a process to a number. "+" keeps
the newer message of each process; "-" keeps messages newer than the same process's on the right.
"""

from antecede.protocols.specs import Copy, Specified

Pairs = dict[str, int]
VARIANTS = ("literal", "full", "kept")


class Process(Specified):
    """Process i of the paper."""

    def __init__(
        self, me: str, names: tuple[str, ...], *, prune: str = "direct", own_slot: str = "emptied"
    ) -> None:
        super().__init__(me)
        self.names = names
        self.prune, self.own_slot = prune, own_slot
        # DELIVERED_i[j] <- {}: the messages that i knows to be delivered to j
        self.delivered: dict[str, Pairs] = {j: {} for j in names}
        # CB_i[j] <- {}: the messages that the next message to j must wait for
        self.cb: dict[str, Pairs] = {j: {} for j in names}

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Process i sends M to Dest."""
        # SENT_i <- SENT_i + 1
        self.number += 1
        # send (M, SENT_i, Dest, CB_i) to each of Dest
        self.transmit(dests, self.kept())
        mine, own = {self.i: self.number}, self.cb[self.i]
        # for all j in Dest: CB_i[j] <- (CB_i[j] - CB_i[i]) + {(i, SENT_i)}
        for j in dests:
            left = {} if self.prune == "full" else minus(self.cb[j], own)
            self.cb[j] = plus(left, mine)
        # CB_i[i] <- {(i, SENT_i)}, or CB_i[i] + {(i, SENT_i)}
        self.cb[self.i] = plus(own, mine) if self.own_slot == "kept" else mine

    def is_ready(self, copy: Copy) -> bool:
        """Return whether for all (k, x) in CB_M[i]: i has delivered message x of k."""
        mine = self.delivered[self.i]
        return all(mine.get(k, 0) >= x for k, x in self.read(copy)[self.i].items())

    def deliver(self, copy: Copy) -> None:
        """Process i delivers M."""
        j, cb_m, newest = copy.source, self.read(copy), {copy.source: copy.number}
        before = cb_m[j]  # the direct predecessors of M
        # DELIVERED_i[i] <- DELIVERED_i[i] + {(j, SENT_j)}
        self.delivered[self.i] = plus(self.delivered[self.i], newest)
        # DELIVERED_i[j] <- DELIVERED_i[j] + CB_M[j]: what M follows was delivered to j
        self.delivered[j] = plus(self.delivered[j], before)
        # for all k in Dest: M replaces what it follows
        for k in copy.dests - {self.i}:
            if self.prune == "full":
                left = minus(minus(self.cb[k], before), cb_m[k])
            elif self.prune == "literal":
                left = plus(self.cb[k], minus(cb_m[k], before))
            else:
                left = plus(minus(self.cb[k], before), minus(cb_m[k], before))
            self.cb[k] = plus(left, newest)
        # for all other k: CB_i[k] <- CB_i[k] + CB_M[k]
        for k in set(self.names) - copy.dests - {self.i, j}:
            self.cb[k] = plus(self.cb[k], cb_m[k])
        # for all k but i: CB_i[k] <- CB_i[k] - DELIVERED_i[k]
        for k in set(self.names) - {self.i}:
            self.cb[k] = minus(self.cb[k], self.delivered[k])
        # CB_i[i] <- (CB_i[i] - CB_M[j]) + {(j, SENT_j)}
        self.cb[self.i] = plus(minus(self.cb[self.i], before), newest)

    def kept(self) -> tuple[object, ...]:
        """Return CB_i, in the order of members."""
        return tuple(tuple(sorted(self.cb[j].items())) for j in self.names)

    def read(self, copy: Copy) -> dict[str, Pairs]:
        """Return CB_M."""
        return {j: dict(pairs) for j, pairs in zip(self.names, copy.control, strict=True)}


def plus(one: Pairs, two: Pairs) -> Pairs:
    """Return the union, with the newer message of each process."""
    return {k: max(one.get(k, 0), two.get(k, 0)) for k in one.keys() | two.keys()}


def minus(one: Pairs, two: Pairs) -> Pairs:
    """Return the messages of ``one`` that are newer than the same process's in ``two``."""
    return {k: x for k, x in one.items() if x > two.get(k, 0)}
