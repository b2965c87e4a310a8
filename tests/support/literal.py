"""Two published algorithms word for word, including self-addressed messages, which go wrong.

They have only the published rules, without a base class that handles self-delivery or duplicates.
"""

from dataclasses import dataclass, field


@dataclass
class LiteralMatrix:
    """[RST91] as printed: a delivery adds one, then takes the maximum."""

    me: int
    n: int
    sent: list[list[int]] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sent = [[0] * self.n for _ in range(self.n)]
        self.delivered = [0] * self.n

    def send(self, dest: int) -> list[list[int]]:
        """Return the matrix that the message carries."""
        before = [row[:] for row in self.sent]
        self.sent[self.me][dest] += 1
        return before

    def is_deliverable(self, stamp: list[list[int]]) -> bool:
        return all(self.delivered[k] >= stamp[k][self.me] for k in range(self.n))

    def deliver(self, source: int, stamp: list[list[int]]) -> None:
        self.delivered[source] += 1
        self.sent[source][self.me] += 1
        for mine, theirs in zip(self.sent, stamp, strict=True):
            mine[:] = map(max, mine, theirs)


Vector = tuple[int, ...]


@dataclass
class LiteralVectors:
    """[SES89] as printed, for unicast."""

    me: int
    n: int
    clock: list[int] = field(default_factory=list)
    latest: dict[int, Vector] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = [0] * self.n

    def send(self, dest: int) -> tuple[Vector, dict[int, Vector]]:
        """Return the time and the table that the message carries."""
        self.clock[self.me] += 1
        stamp = tuple(self.clock)
        table = dict(self.latest)
        self.latest[dest] = stamp
        return stamp, table

    def is_deliverable(self, table: dict[int, Vector]) -> bool:
        wanted = table.get(self.me)
        return wanted is None or all(a <= b for a, b in zip(wanted, self.clock, strict=True))

    def deliver(self, stamp: Vector, table: dict[int, Vector]) -> None:
        for dest, vector in table.items():
            if dest != self.me:
                known = self.latest.get(dest, vector)
                self.latest[dest] = tuple(map(max, known, vector))
        self.clock[:] = map(max, self.clock, stamp)
        self.clock[self.me] += 1
