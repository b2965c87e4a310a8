"""Causal order by acknowledged FIFO buffers, without control: Mattern and Fünfrocken [MF95]_.

A process puts its messages into an output buffer and continues. The output buffer posts one message
at a time and waits until the receiver's input buffer, a FIFO queue, has acknowledged it. So when a
message is posted, everything that its process sent before is already in some input buffer, and
nothing can be overtaken, not even through other processes.

Differences from the paper
--------------------------
The paper's input buffer acknowledges a message and then enqueues it. Here it is enqueued first: the
proof needs this order if the two are not one step. A message to oneself is delivered at once and
enters no buffer. Without pull mode the application is always ready, so the input buffer is empty
between calls. ``pipelined`` is footnote 4. If packets may be reordered it needs their numbers on
the channel, which acknowledgements carry too: a message waits for all before it there. Buffers
are bounded: the output buffer by ``queue_max``, and in pull mode the input buffer by ``held_max``;
a packet refused there is not acknowledged. ``take(source)`` sees only the oldest message.

References
----------
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938:197-213, 1995.
   https://doi.org/10.1007/3-540-60042-6_14
"""

from collections import deque
from typing import ClassVar

from antecede.endpoint.counts import InOrder
from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.rules import Message, Packet, Rules, Saved, View, own_message


class Buffered(Rules):
    """One process's output buffer; messages are delivered as they arrive."""

    INFO: ClassVar = ProtocolInfo(
        idea="no control information; acknowledged FIFO buffers",
        casts=("unicast",),
        guarantee="causal order; a message waits at its sender, never at its receiver for another",
        assumptions="fixed membership; every packet arrives eventually; buffers large enough: with "
        "small ones an exchange can block forever ([MF95] footnote 2)",
        cost="no control information; an acknowledgement per message, and the wait for it between "
        "two messages of one sender (with pipelined: only when the receiver changes)",
        options={"pipelined": Option(default=False, doc="no wait if the receiver is the same")},
        unmarked_by_skip="messages do not tell what their senders knew",
        bytes_per_entry=0,
        queueing=True,
        variants=(Variant("pipelined", lambda _: {"pipelined": True}),),
    )
    IS_EAGER: ClassVar = True

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._output: deque[Message] = deque()
        """``OB_i``; in pull mode, ``IB_i`` is what the endpoint keeps until it is taken."""
        self._receiver = me
        """Whose acknowledgements OB waits for, and how many."""
        self._awaited = 0
        self._ack = Message(view, me, 0, 0, b"", None)

    @classmethod
    def of(cls, view: View) -> type[Rules]:
        return Pipelined if view.options["pipelined"] else cls

    # The output buffer.

    def admit(self, others: tuple[int, ...]) -> None:
        """Refuse a message that would have to wait when the output buffer is full."""
        if self._output or not self._can_post(others[0]):
            self._check_queue(1)

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        """Insert: enqueue m in OB."""
        self._output.append(message)
        self._post()

    def _post(self) -> None:
        """Post: dequeue the next message, transmit it, and wait until it is acknowledged."""
        output = self._output
        while output and self._can_post(dest := self._receiver_of(output[0])):
            self._receiver = dest
            self._awaited += 1
            self.outbox.append((dest, output.popleft(), None))
        self.queued = len(output)

    def _can_post(self, dest: int) -> bool:
        return not self._awaited

    def _receiver_of(self, message: Message) -> int:
        return (message.dests & ~(1 << self.me)).bit_length() - 1

    # The input buffer.

    def check(self, packet: Packet) -> str:
        message = packet.content
        if message.seq:
            if message.dests & ~(1 << message.sender) != 1 << self.me:
                return f"is for {packet.dests}; buffered is unicast, expected one destination"
        elif (not self._awaited or packet.source_no != self._receiver) and not self.is_stale:
            return f"acknowledges a message, but none to {packet.source!r} awaits that"
        return ""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Get a message and acknowledge it; or note an acknowledgement and post the next."""
        if packet.content.seq:
            self.outbox.append((packet.source_no, self._ack, None))
        elif not self.is_stale:  # otherwise it may be for a message that we do not know of
            self._awaited -= 1
            self._post()
        return ()

    def gone(self, source: int) -> None:
        """Post nothing to a process that is gone, and await nothing from it.

        If we lack a message that it posted, nobody acknowledged it, so it posted nothing after it.
        """
        self._output = deque([m for m in self._output if self._receiver_of(m) != source])
        if self._receiver == source:
            self._receiver, self._awaited = self.me, 0
        self._post()

    def kept(self) -> object:
        """Return OB as pairs (receiver, number), and whose acknowledgement is awaited, or None."""
        names, awaited = self.view.members, self._awaited
        output = [(names[self._receiver_of(message)], message.seq) for message in self._output]
        return tuple(output), names[self._receiver] if awaited else None

    def kept_entries(self) -> int:
        return 0

    def keep(self, saved: Saved) -> None:
        self._output = deque(saved.field("output", self._output, [own_message(self)]))
        self._receiver = saved.number("receiver", self._receiver, 0, self.view.n - 1)
        self._awaited = saved.number("awaited", self._awaited, 0, self.made)
        numbers = [message.seq for message in self._output]
        for message in self._output:
            is_one = (message.dests & ~(1 << self.me)).bit_count() == 1
            saved.require(is_one, "output", message.id, "messages to one other process each")
        is_sorted = numbers == sorted(set(numbers))
        saved.require(is_sorted, "output", numbers, "messages in the order of their numbers")
        is_other = not self._awaited or self._receiver != self.me
        saved.require(is_other, "receiver", self._receiver, "another process")
        is_due = self._output and self._can_post(self._receiver_of(self._output[0]))
        saved.require(not is_due, "output", numbers, "nothing, because nothing is awaited")
        self.queued = len(numbers)


class Pipelined(InOrder, Buffered):
    """``pipelined``: successive messages to the same receiver do not wait for each other.

    So a channel's messages are delivered in order. Acknowledgements take effect as they arrive.
    """

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._acks: list[set[int]] = [set() for _ in range(view.n)]
        """By source, the places of acknowledgements that arrived after a gap."""

    def _can_post(self, dest: int) -> bool:
        return not self._awaited or dest == self._receiver

    def key(self, packet: Packet) -> int:
        """Return the place on the channel: packets wait for nothing else."""
        return packet.n << self.view.shift | packet.source_no

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Do as ``Buffered`` does, and note how far the channel's packets are processed."""
        source, acks = packet.source_no, self._acks[packet.source_no]
        place = self.reached[source] >> self.view.shift
        if packet.content.seq:
            place = packet.n  # all messages before it are delivered
        else:
            acks.add(packet.n)
        while place + 1 in acks:
            place += 1
        if acks:
            self._acks[source] = {ack for ack in acks if ack > place}
        self.reached[source] = place << self.view.shift | source
        super().taken(packet)
        return self.places[source]

    def keep(self, saved: Saved) -> None:
        super().keep(saved)
        firsts = [(key >> self.shift) + 2 for key in self.reached]
        self._acks = saved.rows("acks", self._acks, leasts=firsts)
