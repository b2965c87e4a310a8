"""[RST91]: the protocol with a matrix of messages sent, as printed, and with several destinations.

The paper sends each message to one process. For several, its counting is done once for each.
"""

from antecede.protocols.specs import Copy, Specified

Matrix = dict[str, dict[str, int]]
Rows = tuple[tuple[str, tuple[int, ...]], ...]


class Process(Specified):
    """Process i of the paper."""

    def __init__(self, me: str, names: tuple[str, ...]) -> None:
        super().__init__(me)
        self.names = sorted(names)
        # DELIV_i[1..n] <- 0: how many messages of j were delivered to i
        self.deliv = dict.fromkeys(names, 0)
        # SENT_i[1..n, 1..n] <- 0: how many messages k sent to l, as far as i knows
        self.sent: Matrix = {k: dict.fromkeys(names, 0) for k in names}

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Emission of a message M from i to j."""
        self.number += 1
        # send (M, SENT_i) to j
        self.transmit(dests, self.kept())
        for j in dests:
            # SENT_i[i, j] <- SENT_i[i, j] + 1
            self.sent[self.i][j] += 1

    def is_ready(self, copy: Copy) -> bool:
        """Wait until for all k: DELIV_i[k] >= ST_M[k, i]."""
        st_m = self.read(copy)
        return all(self.deliv[k] >= st_m[k][self.i] for k in self.names)

    def deliver(self, copy: Copy) -> None:
        """Delivery of M."""
        j, st_m = copy.source, self.read(copy)
        # DELIV_i[j] <- DELIV_i[j] + 1
        self.deliv[j] += 1
        # SENT_i[j, i] <- SENT_i[j, i] + 1; with several destinations, for each, in ST_M
        for dest in copy.dests:
            st_m[j][dest] += 1
        # for all k, l: SENT_i[k, l] <- max(SENT_i[k, l], ST_M[k, l])
        for k in self.names:
            for l in self.names:
                self.sent[k][l] = max(self.sent[k][l], st_m[k][l])

    def kept(self) -> Rows:
        """Return SENT_i, rows and columns sorted by name."""
        return tuple((k, tuple(self.sent[k][l] for l in self.names)) for k in self.names)

    def read(self, copy: Copy) -> Matrix:
        """Return ST_M."""
        return {k: dict(zip(self.names, row, strict=True)) for k, row in copy.control}
