"""[BCD17]: messages along a tree of links that keep order, in our words: no program is printed."""

from antecede.protocols.specs import Copy, Specified

VARIANTS = ("line", "star")


class Linked(Specified):
    """A process that passes messages on, over links that keep order."""

    def __init__(self, me: str) -> None:
        super().__init__(me)
        self.posted: dict[str, int] = {}
        self.taken: dict[str, int] = {}
        """By neighbour, how many packets went there, and how many from there are processed."""
        self.delivered: list[Copy] = []

    def post(
        self, dest: str, sender: str, number: int, dests: frozenset[str], control: object
    ) -> None:
        """Put a packet on the link to a neighbour."""
        self.posted[dest] = place = self.posted.get(dest, 0) + 1
        self.outbox.append(Copy(self.i, dest, number, dests, control, sender, place))

    def is_ready(self, copy: Copy) -> bool:
        """Return whether all packets before it on its link are processed."""
        return copy.place == self.taken.get(copy.source, 0) + 1

    def receive(self, copy: Copy) -> list[Copy]:
        """Process the packets whose turn it is on the link; return the messages delivered."""
        super().receive(copy)
        delivered, self.delivered = self.delivered, []
        return delivered


class Process(Linked):
    """A process of the tree."""

    def __init__(
        self, me: str, names: tuple[str, ...], links: tuple[tuple[str, str], ...] | None = None
    ) -> None:
        super().__init__(me)
        self.names = names
        # by default a binary tree
        pairs = links or [(names[(i - 1) // 2], names[i]) for i in range(1, len(names))]
        self.beside = {
            name: [{*pair}.difference({name}).pop() for pair in pairs if name in pair]
            for name in names
        }

    def behind(self, near: str, here: str) -> set[str]:
        """Return all processes on a neighbour's side of the tree."""
        further = [self.behind(next_, near) for next_ in self.beside[near] if next_ != here]
        return {near}.union(*further)

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Send a message along the tree."""
        self.number += 1
        self.forward(self.i, self.number, dests, self.i)

    def forward(self, sender: str, number: int, dests: frozenset[str], source: str) -> None:
        """Forward a message to each neighbour whose side has a destination, but not back."""
        for near in sorted(self.beside[self.i], key=self.names.index):
            if near != source and dests & self.behind(near, self.i):
                self.post(near, sender, number, dests, None)

    def deliver(self, copy: Copy) -> None:
        """Forward a message, in the order of its link, and deliver it if it is for this process."""
        self.taken[copy.source] = copy.place
        self.forward(copy.sender, copy.number, copy.dests, copy.source)
        if self.i in copy.dests:
            self.delivered.append(copy)
