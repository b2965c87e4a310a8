"""[GK00] figure 3, with the corrections that the protocol's page explains, and multicast.

Events are numbered from 1: sends and deliveries. DELIV counts the unbroken beginning of each
channel, because networks may reorder.
"""

from antecede.protocols.specs import Copy, Specified

Matrix = dict[str, dict[str, int]]
Rows = tuple[tuple[int, ...], ...]


class Process(Specified):
    """Process P_i of the paper."""

    def __init__(self, me: str, names: tuple[str, ...]) -> None:
        super().__init__(me)
        self.names = names
        self.events = 0
        # D1. DELIV_i: array [1..n] of integer
        self.deliv = dict.fromkeys(names, 0)
        self.ahead: set[tuple[str, int]] = set()
        # D2. SENT_PREV_i: array [1..n, 1..n] of integer
        self.prev: Matrix = {k: dict.fromkeys(names, 0) for k in names}
        # D3. SENT_CONC_i: array [1..n, 1..n] of integer
        self.conc: Matrix = {k: dict.fromkeys(names, 0) for k in names}
        # MCV(e)[i]: the last own event in the prefix that the next message follows
        self.mcv = 0
        # own sends after that: the event, and the copies sent by then
        self.later: list[tuple[int, int]] = []
        self.copies = 0

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Emission of message M from P_i to P_j; it depends on the local events up to ``after``."""
        last = self.events if after is None else after
        self.events += 1
        self.number += 1
        # E1. if should_Semantically_Precede (definition 5.2) then
        precedes = last > self.mcv
        if precedes:
            # E2. to E5. SENT_PREV_i <- SENT_PREV_i + SENT_CONC_i; SENT_CONC_i <- 0
            for k in self.names:
                for j in self.names:
                    self.prev[k][j] += self.conc[k][j]
                    self.conc[k][j] = 0
        # E6. Send (M, SENT_PREV_i, SENT_CONC_i)
        self.transmit(dests, self.kept())
        # E7. SENT_CONC_i[i, j] <- SENT_CONC_i[i, j] + 1; if MCV is now this event, in SENT_PREV_i
        for j in dests:
            (self.prev if precedes else self.conc)[self.i][j] += 1
        self.copies += len(dests)
        if precedes:
            self.mcv, self.later = self.events, []
        else:
            self.later.append((self.events, self.copies))

    def is_ready(self, copy: Copy) -> bool:
        """R1. Wait until for all k: SP_M[k, j] <= DELIV_j[k]."""
        sp_m, _ = self.read(copy)
        return all(sp_m[k][self.i] <= self.deliv[k] for k in self.names)

    def deliver(self, copy: Copy) -> None:
        """R2 to R8."""
        # R2. Deliver M
        self.events += 1
        i, (sp_m, sc_m) = copy.source, self.read(copy)
        place = sp_m[i][self.i] + sc_m[i][self.i] + 1
        # R3. SC_M[i, j] <- SC_M[i, j] + 1, for each destination
        for dest in copy.dests:
            sc_m[i][dest] += 1
        # R4. DELIV_j[i] <- DELIV_j[i] + 1, as far as the channel has no gap
        self.ahead.add((i, place))
        while (i, self.deliv[i] + 1) in self.ahead:
            self.deliv[i] += 1
        # R5. for k = 1 to n do for l = 1 to n do
        for k in self.names:
            for l in self.names:
                mine, theirs = self.prev[k][l], sp_m[k][l]
                # R6., R7. SENT_CONC_j[k, l] <- max(SENT_CONC_j[k, l] + SENT_PREV_j[k, l],
                #          SP_M[k, l] + SC_M[k, l]) - max(SENT_PREV_j[k, l], SP_M[k, l])
                known = max(self.conc[k][l] + mine, theirs + sc_m[k][l])
                self.conc[k][l] = known - max(mine, theirs)
                # R8. SENT_PREV_j[k, l] <- max(SENT_PREV_j[k, l], SP_M[k, l])
                self.prev[k][l] = max(mine, theirs)
        # definition 5.3: MCV also includes the own sends that are in the prefix now
        while self.later and self.later[0][1] <= sum(self.prev[self.i].values()):
            self.mcv = self.later.pop(0)[0]

    def kept(self) -> tuple[Rows, Rows]:
        """Return SENT_PREV and SENT_CONC, in the order of members."""
        return self.rows(self.prev), self.rows(self.conc)

    def rows(self, matrix: Matrix) -> Rows:
        """Return a matrix without names."""
        return tuple(tuple(matrix[k][l] for l in self.names) for k in self.names)

    def read(self, copy: Copy) -> tuple[Matrix, ...]:
        """Return SP_M and SC_M."""
        return tuple(
            {k: dict(zip(self.names, row, strict=True)) for k, row in zip(self.names, rows)}
            for rows in copy.control
        )
