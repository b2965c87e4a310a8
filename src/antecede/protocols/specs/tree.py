"""[BCD17]: messages along a tree of links that keep order, in our words: it prints no program."""

from __future__ import annotations

from antecede.protocols.specs import Copy, Linked

VARIANTS = ("line", "star")


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
        """Return all processes that a neighbour leads to."""
        further = [self.behind(next_, near) for next_ in self.beside[near] if next_ != here]
        return {near}.union(*further)

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Send a message along the tree."""
        self.number += 1
        self.forward(self.me, self.number, dests, self.me)

    def forward(self, sender: str, number: int, dests: frozenset[str], source: str) -> None:
        """Forward a message to each neighbour, but not back, whose side has a destination."""
        for near in sorted(self.beside[self.me], key=self.names.index):
            if near != source and dests & self.behind(near, self.me):
                self.post(near, sender, number, dests, None)

    def deliver(self, copy: Copy) -> None:
        """Forward a message, in the order of its link, and deliver it if it is for this process."""
        self.taken[copy.source] = copy.place
        self.forward(copy.sender, copy.number, copy.dests, copy.source)
        if self.me in copy.dests:
            self.delivered.append(copy)

    def kept(self) -> None:
        """Return nothing: no control is kept."""
