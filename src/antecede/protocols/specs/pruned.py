"""[JPCY97] section 4.2: causal order with redundant information pruned, as printed.

The paper's CI is a vector of sets of (timestamp, m.D). Here it is a dict from (sender, timestamp)
to m.D, like the log of [KS98]. S3 and R9 are its PURGE_NULL_ENTRIES: the latest message of each
sender stays. The message is sent (S4) before S5 enters it into CI: R4 adds it at the receiver.
"""

from antecede.protocols.specs import Copy, Specified
from antecede.protocols.specs.optimal import Entries, Log, has_newer, purge_null_entries, spelt


class Process(Specified):
    """Process p_i of the paper."""

    def __init__(self, me: str, names: tuple[str, ...]) -> None:
        super().__init__(me)
        # tau_i: how many messages it has sent so far
        self.tau = 0
        # CI_i: initially, each element is an empty set
        self.ci: Log = {}
        # DLV_i: the timestamp of the latest message delivered from each process
        self.dlv = dict.fromkeys(names, 0)

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Procedure SEND."""
        # S1: tau_i := tau_i + 1; DC_i := {}
        self.tau += 1
        dc: dict[str, set[tuple[str, int]]] = {j: set() for j in dests}
        # S2: for j in m.D and m_k in CI_i do if j in m_k.D
        for j in dests:
            for k, remaining in self.ci.items():
                if j in remaining:
                    # DC_i[j] := DC_i[j] + {(k, tau)}; m_k.D := m_k.D - j
                    dc[j].add(k)
                    self.ci[k] = remaining - {j}
        # S3: for m_k, m_k' in CI_i do if m_k.D = {} and tau < sigma, CI_i := CI_i - m_k
        self.ci = purge_null_entries(self.ci)
        # S4: for j in m.D do SEND (p_i, tau_i, m.D, CI_i, DC_i[j], m) to p_j
        for j in sorted(dests):
            control = spelt(self.ci), tuple(sorted(dc[j]))
            self.outbox.append(Copy(self.i, j, self.tau, dests, control))
        # S5: CI_i[i] := CI_i[i] + {(tau_i, m.D)}
        self.ci[self.i, self.tau] = dests

    def is_ready(self, copy: Copy) -> bool:
        """R1: wait (for all (k, tau) in DC_m: tau <= DLV_i[k])."""
        _, dc = copy.control
        return all(tau <= self.dlv[k] for k, tau in dc)

    def deliver(self, copy: Copy) -> None:
        """R2 to R9."""
        # R2: deliver m to p_i; R3: DLV_i[j] := tau_m
        self.dlv[copy.source] = copy.number
        # R4: CI_m[j] := CI_m[j] + {(tau_m, m.D - i)}
        ci_m: Log = {(k, tau): frozenset(remaining) for k, tau, remaining in copy.control[0]}
        ci_m[copy.source, copy.number] = copy.dests - {self.i}
        # R5: if m_k not in CI_m and tau < sigma, CI_i := CI_i - m_k
        gone = {k for k in self.ci if k not in ci_m and has_newer(ci_m, k)}
        # R5: if m'_k not in CI_i and tau > sigma, CI_m := CI_m - m'_k
        dead = {k for k in ci_m if k not in self.ci and has_newer(self.ci, k)}
        self.ci = {k: remaining for k, remaining in self.ci.items() if k not in gone}
        ci_m = {k: remaining for k, remaining in ci_m.items() if k not in dead}
        # R6: for those in both, m_k.D := m_k.D & m'_k.D; CI_m := CI_m - m'_k
        for k in self.ci.keys() & ci_m.keys():
            self.ci[k] &= ci_m.pop(k)
        # R7: CI_i := CI_i + CI_m
        self.ci |= ci_m
        # R8: if tau < sigma and l in m_k.D & m'_k.D, m_k.D := m_k.D - l
        for (sender, tau), remaining in self.ci.items():
            newer = [d for (k, sigma), d in self.ci.items() if k == sender and tau < sigma]
            self.ci[sender, tau] = remaining.difference(*newer)
        # R9: if m_k.D = {} and tau < sigma, CI_i := CI_i - m_k
        self.ci = purge_null_entries(self.ci)

    def kept(self) -> Entries:
        """Return CI_i."""
        return spelt(self.ci)
