"""[KS98] section 4.3: the optimal algorithm, as printed.

The paper's log is a set of entries (i, clock_i, Dests). Here it is a dict from (i, clock_i) to
Dests. The initial entries (i, 0, {}) are there, as in the paper; :func:`spelt` leaves them out.
"""

from antecede.protocols.specs import Copy, Specified

Log = dict[tuple[str, int], frozenset[str]]
Entries = tuple[tuple[str, int, tuple[str, ...]], ...]


class Process(Specified):
    """Process j of the paper."""

    def __init__(self, me: str, names: tuple[str, ...]) -> None:
        super().__init__(me)
        self.j = me
        # clock_j <- 0
        self.clock = 0
        # SR_j[1..n] <- 0: the timestamp of the last message from i delivered to j
        self.sr = dict.fromkeys(names, 0)
        # LOG_j <- {for all i, (i, 0, {})}
        self.log: Log = {(i, 0): frozenset() for i in names}

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """SND: j sends a message M to Dests."""
        # SND(1): clock_j <- clock_j + 1
        self.clock += 1
        # SND(2): for all d in M.Dests do O_M <- LOG_j; for all o in O_M, modify o.Dests
        for d in sorted(dests):
            o_m: Log = {}
            for o, remaining in self.log.items():
                if d not in remaining:
                    # o.Dests <- o.Dests \ Dests
                    o_m[o] = remaining - dests
                else:
                    # o.Dests <- (o.Dests \ Dests) + {d}
                    o_m[o] = (remaining - dests) | {d}
            # do not propagate older entries for which Dests is empty; send M with O_M to d
            control = spelt(purge_null_entries(o_m))
            self.outbox.append(Copy(self.j, d, self.clock, dests, control))
        # SND(3): for all l in LOG_j do l.Dests <- l.Dests \ Dests
        self.log = {entry: remaining - dests for entry, remaining in self.log.items()}
        # SND(4): LOG_j <- LOG_j + {(j, clock_j, Dests)}
        self.log[self.j, self.clock] = dests
        # SND(5): PURGE_NULL_ENTRIES(LOG_j)
        self.log = purge_null_entries(self.log)

    def is_ready(self, copy: Copy) -> bool:
        """RCV(1): for all o_m,tm in O_M do if j in o_m,tm.Dests wait until tm <= SR_j[m]."""
        return all(t <= self.sr[m] for (m, t), dests in read(copy).items() if self.j in dests)

    def deliver(self, copy: Copy) -> None:
        """RCV(2) and RCV(3)."""
        # RCV(2): deliver M; SR_j[k] <- t_k
        self.sr[copy.source] = copy.number
        # RCV(3): O_M <- {(k, t_k, Dests)} + O_M; for all o in O_M do o.Dests <- o.Dests \ {j}
        o_m = read(copy) | {(copy.source, copy.number): copy.dests}
        self.merge({o: dests - {self.j} for o, dests in o_m.items()})

    def merge(self, o_m: Log) -> None:
        """RCV(4) and RCV(5)."""
        # RCV(4): t < t' and l_s,t not in LOG_j: mark o_m,t for deletion
        dead = {o for o in o_m if o not in self.log and has_newer(self.log, o)}
        # RCV(4): t' < t and o_m,t' not in O_M: mark l_s,t' for deletion
        gone = {entry for entry in self.log if entry not in o_m and has_newer(o_m, entry)}
        # RCV(4): delete all elements marked for deletion in O_M and LOG_j
        o_m = {o: dests for o, dests in o_m.items() if o not in dead}
        self.log = {entry: dests for entry, dests in self.log.items() if entry not in gone}
        # RCV(4): for the entries of both, l.Dests <- l.Dests & o.Dests; delete o from O_M
        for both in self.log.keys() & o_m.keys():
            self.log[both] &= o_m.pop(both)
        # RCV(4): LOG_j <- LOG_j + O_M; RCV(5): PURGE_NULL_ENTRIES(LOG_j)
        self.log = purge_null_entries(self.log | o_m)

    def kept(self) -> Entries:
        """Return LOG_j."""
        return spelt(self.log)


def purge_null_entries(log: Log) -> Log:
    """For all l_s,t in L: purge it if l_s,t.Dests = {} and there is an l'_s,t' in L with t < t'."""
    return {entry: dests for entry, dests in log.items() if dests or not has_newer(log, entry)}


def has_newer(log: Log, entry: tuple[str, int]) -> bool:
    """Return whether a log has a later entry of the same sender."""
    return any(s == entry[0] and t > entry[1] for s, t in log)


def spelt(log: Log) -> Entries:
    """Return a log as sorted entries, without the initial ones."""
    return tuple(sorted((i, t, tuple(sorted(dests))) for (i, t), dests in log.items() if t))


def read(copy: Copy) -> Log:
    """Return O_M of a copy."""
    return {(i, t): frozenset(dests) for i, t, dests in copy.control}
