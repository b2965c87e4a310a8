"""[NMM18]: flooding over links that keep order, and links that are opened, in our words.

Not as printed: nothing goes back to where it came from, and a ping opens both directions.
"""

from antecede.protocols.specs import Copy
from antecede.protocols.specs.tree import Linked

VARIANTS = ("ring", "line")
Item = tuple[str, int, frozenset[str], object]
"""A message or a ping: sender, number, destinations and control."""


class Process(Linked):
    """Process p of the paper."""

    def __init__(
        self, me: str, names: tuple[str, ...], links: tuple[tuple[str, str], ...] | None = None
    ) -> None:
        super().__init__(me)
        self.names, n = names, len(names)
        # by default i is linked with 2i and 2i + 1 (mod n)
        pairs = links or [(names[i], names[k % n]) for i in range(n) for k in (2 * i, 2 * i + 1)]
        # Q: the links in use
        self.q = {name for pair in pairs if me in pair for name in pair if name != me}
        # B: by link that is being opened, messages delivered meanwhile
        self.b: dict[str, list[Item]] = {}
        # received: messages and pings that have arrived
        self.received: set[tuple[str, int, bool]] = set()
        self.counter = 0

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Broadcast a message."""
        self.number += 1
        self.received.add((self.i, self.number, True))
        self.flood((self.i, self.number, dests, None), self.i)

    def flood(self, item: Item, source: str) -> None:
        """Send an item on all links in use, but not back, and keep it for links being opened."""
        sender, number, dests, control = item
        for name in self.names:
            if name in self.q - {source}:
                self.post(name, sender, number, dests, control)
            elif name in self.b and name != source:
                self.b[name].append(item)

    def link(self, q: str) -> None:
        """Open a link: send a ping on the links in use."""
        if q not in self.q and q not in self.b:
            self.counter += 1
            self.received.add((self.i, self.counter, False))
            self.flood((self.i, 0, frozenset(), ("ping", q, self.counter)), self.i)
            self.b[q] = []

    def deliver(self, copy: Copy) -> None:
        """Process a message, a ping or a pong, in the order of its link."""
        self.taken[copy.source] = copy.place
        if copy.control == ("pong",):
            # the link is safe: send messages delivered meanwhile, then use it
            for item in self.b.pop(copy.source, []):
                self.post(copy.source, *item)
            self.q.add(copy.source)
            return
        _, target, count = copy.control or ("", "", copy.number)
        if (copy.sender, count, bool(copy.number)) in self.received:
            return
        self.received.add((copy.sender, count, bool(copy.number)))
        self.flood((copy.sender, copy.number, copy.dests, copy.control), copy.source)
        if copy.number:
            self.delivered.append(copy)
        elif target == self.i:
            self.post(copy.sender, self.i, 0, frozenset(), ("pong",))
            self.link(copy.sender)
