"""[BMR96]: delta-causal broadcast, in our words: its program was not available to us."""

from antecede.protocols.specs import Copy, Specified

VARIANTS = ("short",)


class Process(Specified):
    """A process whose caller tells it the time."""

    def __init__(self, me: str, names: tuple[str, ...], lifetime: int = 1000) -> None:
        super().__init__(me)
        self.now = 0
        self.delta = lifetime
        # LAST[k]: the time of k's last message delivered here (of our own: sent)
        self.last = dict.fromkeys(names, 0)

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Send a message with its time, and the times of the messages before it."""
        self.number += 1
        # the time of a message is later than all that it follows
        time = max(self.now, max(self.last.values()) + 1)
        self.transmit(dests, (time, self.kept()))
        self.last[self.i] = time

    def is_ready(self, copy: Copy) -> bool:
        """Return whether all messages before it are delivered, or their lifetimes are over."""
        _, before = copy.control
        others = [(k, time) for k, time in before if k != self.i]
        return all(time <= self.last[k] or self.now > time + self.delta for k, time in others)

    def release(self) -> list[Copy]:
        """Deliver messages that are ready and not too late."""
        return [one for one in super().release() if not self.is_over(one)]

    def deliver(self, copy: Copy) -> None:
        """Deliver a message unless its lifetime is over."""
        if not self.is_over(copy):
            self.last[copy.source] = copy.control[0]

    def tick(self, now: int) -> list[Copy]:
        """Deliver messages that need not wait any longer."""
        self.now = now
        return self.release()

    def is_over(self, copy: Copy) -> bool:
        """Return whether a message's lifetime is over."""
        return bool(self.now > copy.control[0] + self.delta)

    def kept(self) -> tuple[tuple[str, int], ...]:
        """Return LAST, sorted."""
        return tuple(sorted(self.last.items()))
