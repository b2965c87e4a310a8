"""[MW17]: causal broadcast with R counters, in our words: its program was not available to us."""

from hashlib import blake2b

from antecede.protocols.specs import Copy, Specified


class Process(Specified):
    """Process p_i of the paper."""

    def __init__(self, me: str, names: tuple[str, ...], counters: int = 100, own: int = 4) -> None:
        super().__init__(me)
        # V_i: R counters
        self.v = [0] * counters
        # f(p): the K counters of p, drawn by a hash
        self.f = {name: self.drawn(place, own) for place, name in enumerate(names)}

    def drawn(self, place: int, own: int) -> set[int]:
        """Draw K of the R counters."""
        rest, found = list(range(len(self.v))), set()
        for turn in range(own):
            digest = blake2b(b"%d %d" % (place, turn), digest_size=8).digest()
            found.add(rest.pop(int.from_bytes(digest, "big") % len(rest)))
        return found

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Increment V_i[x] for x in f(i), and send V_i along."""
        self.number += 1
        self.increment(self.i)
        self.transmit(dests, tuple(self.v))

    def increment(self, sender: str) -> None:
        """Count a message."""
        for x in self.f[sender]:
            self.v[x] += 1

    def is_ready(self, copy: Copy) -> bool:
        """Return whether V_j[x] >= V[x], less 1 for x in f(i)."""
        v_m = copy.control
        return all(self.v[x] >= v_m[x] - (x in self.f[copy.source]) for x in range(len(v_m)))

    def deliver(self, copy: Copy) -> None:
        """Count the message."""
        self.increment(copy.source)
