"""[SA00]: at most k entries by extra messages, with several destinations.

The matrix M_i is a dict from (sender, destination) to a count, without zeros.
"""

from antecede.protocols.specs import Copy, Specified

Matrix = dict[tuple[str, str], int]
Entries = tuple[tuple[str, str, int], ...]
VARIANTS = ("tight", "rotating")


class Process(Specified):
    """Process i of the paper."""

    def __init__(
        self, me: str, names: tuple[str, ...], *, k: int | None = None, column: str = "fullest"
    ) -> None:
        super().__init__(me)
        self.names = names
        self.k, self.column = k or 2 * len(names), column
        self.turn = 0
        # M_i <- 0
        self.m: Matrix = {}
        # DELIV_i[1..n] <- 0, extra messages among them
        self.deliv = dict.fromkeys(names, 0)

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Process i sends m to j."""
        self.number += 1
        # send (m, M_i) to j
        for j in sorted(dests, key=self.names.index):
            self.outbox.append(Copy(self.i, j, self.number, dests, self.kept()))
        # m replaces all constraints on j
        for j in dests:
            self.replace(j)
        self.trim()

    def replace(self, j: str) -> None:
        """Replace all constraints on j by the message that now goes to j."""
        count = self.m.get((self.i, j), 0) + 1
        self.m = {cell: n for cell, n in self.m.items() if cell[1] != j} | {(self.i, j): count}

    def trim(self) -> None:
        """While more than k entries are left: send an extra message, which replaces a column."""
        while len(self.m) > self.k:
            j = self.choose()
            only = {cell: n for cell, n in self.m.items() if cell[1] == j}
            self.outbox.append(Copy(self.i, j, 0, frozenset(), self.entries(only)))
            self.replace(j)

    def choose(self) -> str:
        """Choose the column: the paper's rule is the one with most entries."""
        sizes = {j: sum(cell[1] == j for cell in self.m) for j in self.names}
        if self.column == "fullest":
            return max(self.names, key=lambda j: sizes[j])
        wide = [j for j in self.names if sizes[j] > 1]
        if self.column == "sparsest":
            return min(wide, key=lambda j: sizes[j])
        later = [j for j in wide if self.names.index(j) >= self.turn]
        chosen = (later or wide)[0]
        self.turn = (self.names.index(chosen) + 1) % len(self.names)
        return chosen

    def receive(self, copy: Copy) -> list[Copy]:
        """Receive a message, or an extra one; of the ready ones, deliver extra ones first."""
        self.waiting.append(copy)
        delivered = []
        while ready := sorted(filter(self.is_ready, self.waiting), key=lambda one: one.number > 0):
            self.waiting.remove(ready[0])
            # DELIV_i[j] <- DELIV_i[j] + 1
            self.deliv[ready[0].source] += 1
            if ready[0].number:  # an extra message does nothing more
                self.merge(ready[0])
                delivered.append(ready[0])
        return delivered

    def is_ready(self, copy: Copy) -> bool:
        """Return whether for all k: M_m[k, i] <= DELIV_i[k]."""
        return all(n <= self.deliv[k] for (k, d), n in read(copy).items() if d == self.i)

    def merge(self, copy: Copy) -> None:
        """Merge M_m into M_i, and enter m itself."""
        carried, j = read(copy), copy.source
        for d in set(self.names) - {self.i, j}:
            theirs = {cell: n for cell, n in carried.items() if cell[1] == d}
            if d in copy.dests:
                # m waits at d for all constraints that it carries, so it replaces them
                for cell in [c for c in self.m if c[1] == d and c[0] != self.i]:
                    if self.m[cell] <= theirs.get(cell, 0):
                        del self.m[cell]
                theirs = {(j, d): theirs.get((j, d), 0) + 1}
            # M_i[k, d] <- max(M_i[k, d], M_m[k, d]) for all k
            for cell, n in theirs.items():
                self.m[cell] = max(self.m.get(cell, 0), n)
        self.trim()

    def kept(self) -> Entries:
        """Return M_i."""
        return self.entries(self.m)

    def entries(self, matrix: Matrix) -> Entries:
        """Return entries in the order of members."""
        place = self.names.index
        cells = sorted(matrix, key=lambda cell: (place(cell[0]), place(cell[1])))
        return tuple((*cell, matrix[cell]) for cell in cells)


def read(copy: Copy) -> Matrix:
    """Return M_m."""
    return {(k, d): n for k, d, n in copy.control}
