"""[BSS91] section 5.1: causal broadcast in one group, as printed."""

from antecede.protocols.specs import Copy, Specified


class Process(Specified):
    """Process p_i of the paper."""

    def __init__(self, me: str, names: tuple[str, ...]) -> None:
        super().__init__(me)
        # VT(p_i) <- 0 for all members
        self.vt = dict.fromkeys(names, 0)

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Step 1: p_i increments VT(p_i)[i] and timestamps m."""
        self.number += 1
        # VT(p_i)[i] <- VT(p_i)[i] + 1
        self.vt[self.i] += 1
        # VT(m) <- VT(p_i); send m to all others
        self.transmit(dests, self.kept())

    def is_ready(self, copy: Copy) -> bool:
        """Step 2: return whether p_j has reached VT(m) for all k."""
        for k, time in copy.control:
            if k == copy.source:
                # VT(m)[k] = VT(p_j)[k] + 1 if k = i
                if time != self.vt[k] + 1:
                    return False
            # VT(m)[k] <= VT(p_j)[k] otherwise
            elif time > self.vt[k]:
                return False
        return True

    def deliver(self, copy: Copy) -> None:
        """Step 3: for all k, VT(p_j)[k] <- max(VT(p_j)[k], VT(m)[k])."""
        for k, time in copy.control:
            self.vt[k] = max(self.vt[k], time)

    def kept(self) -> tuple[tuple[str, int], ...]:
        """Return VT(p_i), sorted."""
        return tuple(sorted(self.vt.items()))
