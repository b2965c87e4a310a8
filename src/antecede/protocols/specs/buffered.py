"""[MF95] section 3.2: acknowledged FIFO buffers, as printed.

The process is always ready to receive, so its input buffer delivers at once. The paper's input
buffer acknowledges a message and then enqueues it; here it is enqueued first (see the rules).
"""

from antecede.protocols.specs import Copy, Specified


class Process(Specified):
    """Process P_i of the paper, with its buffers IB_i and OB_i."""

    def __init__(self, me: str, names: tuple[str, ...]) -> None:
        super().__init__(me)
        # IB_i and OB_i, both realised as FIFO queues
        self.ib: list[Copy] = []
        self.ob: list[Copy] = []
        # the receiver whose acknowledgement OB_i waits for
        self.awaited: str | None = None

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Send message m to P_j: call OB_i to insert m, and resume computation."""
        (j,) = dests
        self.number += 1
        # OB_i, insert-request for message m by P_i: enqueue m in buffer
        self.ob.append(Copy(self.i, j, self.number, dests, ()))
        self.post()

    def post(self) -> None:
        """OB_i, posting messages: loop forever."""
        # wait until buffer is not empty, and until the last message is acknowledged
        if self.ob and self.awaited is None:
            # dequeue the next message and transmit it to IB_j
            self.outbox.append(self.ob.pop(0))
            # wait for an acknowledgement from IB_j
            self.awaited = self.outbox[-1].dest

    def receive(self, copy: Copy) -> list[Copy]:
        """Take a message from OB_j, or an acknowledgement from IB_j."""
        if not copy.number:
            self.awaited = None
            self.post()
            return []
        # IB_i, getting a message from OB_j: send an acknowledgement to OB_j, enqueue message
        self.ib.append(copy)
        self.outbox.append(Copy(self.i, copy.source, 0, frozenset(), ()))
        # receive a message: call IB_i to deliver its next message
        return [self.ib.pop(0)]

    def kept(self) -> object:
        """Return OB_i as pairs (receiver, number), and whose acknowledgement is awaited."""
        return tuple((copy.dest, copy.number) for copy in self.ob), self.awaited
