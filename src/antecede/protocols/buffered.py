"""Causal order by acknowledged FIFO buffers, without control: Mattern and Fünfrocken [MF95]_.

A process puts its messages into an output buffer and continues. The output buffer posts one message
at a time and waits until the receiver's input buffer has acknowledged it. So when a message is
posted, everything that its process sent before is already in some input buffer, and nothing can be
overtaken, not even through other processes. The input buffer is a FIFO queue.

Guarantee
---------
Causal order. A message waits at its sender for acknowledgements, also of unrelated messages; at its
receiver it never waits for another message.

Assumes
-------
Unicast. Every packet arrives eventually; the network may reorder and duplicate packets. Processes
may join and leave. Buffers are large enough: with small ones an exchange can block forever, as the
paper's footnote 2 says.

Cost
----
Nothing on the message; one acknowledgement per message, and a wait for it between two messages of
one sender (with ``pipelined``: only when the receiver changes).

Names
-----
==========================  ==========================================================
paper                       here
==========================  ==========================================================
``OB_i``                    ``Buffered._output``
``IB_i``                    the holding buffer of the base, in order of arrival
send, insert                ``send``
post                        the packet's appearance in ``Effects.packets``
get, and its answer         ``receive``, and the control packet it returns
acknowledge                 ``receive`` of that control packet
deliver, receive            the delivery; by ``take`` in pull mode
==========================  ==========================================================

Differences from the paper
--------------------------
The paper's input buffer acknowledges a message and then enqueues it. Here it is enqueued first: the
proof needs this order if the two are not one step. A message to oneself is delivered at once and
enters no buffer. Without pull mode the application is always ready, so the input buffer is empty
between calls. ``pipelined`` is footnote 4; if packets may be reordered it needs channel numbers,
which the base checks (acknowledgements are numbered too). Buffers are bounded: the output buffer by
``queue_max``, and in pull mode the input buffer by ``held_max``; a packet refused there is not
acknowledged. ``take(source)`` sees only the oldest message, since a FIFO queue has no access to
those behind it. Joining and leaving are our extension: messages to a process that left are dropped
from the output buffer, and the next one is posted without its acknowledgement. Its name is kept
until nothing of it is held and every other member has sent something.

References
----------
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938:197-213, 1995.
   https://doi.org/10.1007/3-540-60042-6_14
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from antecede.core.groups import as_flag
from antecede.core.info import Option, ProtocolInfo, Variant
from antecede.core.kinds import NAME
from antecede.core.messages import MessageId, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.retiring import Retiring
from antecede.core.validation import malformed
from antecede.errors import PeerError, QueueFullError

Posting = tuple[str, MessageId, tuple[str, ...], bytes]


@register
class Buffered(Retiring):
    """One process's output buffer; the base's holding buffer is its input buffer."""

    INFO: ClassVar = ProtocolInfo(
        name="buffered",
        idea="no control information; acknowledged FIFO buffers",
        paper="Mattern, Fünfrocken 1995",
        casts=("unicast",),
        assumptions="every packet arrives eventually; unicast; processes may join and leave",
        cost="nothing on the message; an acknowledgement per message, and the wait for it",
        promises=frozenset({"safety", "liveness", "quiescence"}),
        options={
            "pipelined": Option(
                default=False,
                doc="do not wait between two messages to the same receiver ([MF95] footnote 4)",
            )
        },
        dynamic=True,
        wire_number=5,
        bytes_per_entry=0,
        queueing=True,
        variants=(Variant("pipelined", lambda _: {"pipelined": True}),),
    )
    STATE: ClassVar = {
        "_output": [(NAME, MessageId, (str, ...), bytes)],
        "_receiver": str,
        "_awaited": int,
        "_departing": {NAME: {NAME}},
    }

    def _start(self) -> None:
        self._pipelined = self._fifo = as_flag("pipelined", self.options["pipelined"])
        self._output: list[Posting] = []
        self._receiver = ""
        self._awaited = 0
        self._departing = {name: set(self.members) - {self.process} for name in self._removed}
        """Of those who left: the members from whom nothing has arrived since."""

    def kept_entries(self) -> int:
        """Return 0: it keeps messages, but no control information."""
        return 0

    @property
    def queued(self) -> int:
        """The number of messages in the output buffer."""
        return len(self._output)

    def _admit(self, targets: tuple[str, ...]) -> None:
        others = [dest for dest in targets if dest != self.process]
        if not others or (not self._output and self._can_post(others[0])):
            return
        if len(self._output) >= self.queue_max:
            msg = (
                f"the output buffer already holds {len(self._output)} messages "
                f"(queue_max={self.queue_max}); send again after {self._receiver!r} "
                "has acknowledged one"
            )
            raise QueueFullError(msg, queued=self.queued, queue_max=self.queue_max)

    def _post(self, sending: Sending) -> None:
        (dest,) = sending.others
        self._output.append((dest, sending.message, sending.dests, sending.payload))
        self._post_due()

    def _post_due(self) -> None:
        """[MF95] 3.2, posting messages: the oldest first, and only when nothing is awaited."""
        while self._output and self._can_post(self._output[0][0]):
            dest, message, dests, payload = self._output.pop(0)
            self._receiver = dest
            self._awaited += 1
            self._emit(dest, (), Sending(message, dests, payload))

    def _can_post(self, dest: str) -> bool:
        return not self._awaited or (self._pipelined and dest == self._receiver)

    def _left(self, process: str) -> None:
        """Drop what would be posted to a process that left, and await nothing of it.

        Nothing can be overtaken by this: what the process itself had posted and we do not have was
        not acknowledged, so it posted nothing after that to others.
        """
        self._output = [posting for posting in self._output if posting[0] != process]
        if self._receiver == process:
            self._awaited, self._receiver = 0, ""
        self._post_due()
        for silent in self._departing.values():
            silent.discard(process)
        self._departing[process] = set(self.members) - {self.process}

    def _hear(self, source: str) -> None:
        """Note that something of a member has arrived since others left."""
        if self._departing:
            for silent in self._departing.values():
                silent.discard(source)
            self._part()

    def _part(self) -> None:
        """Forget those who left, once nothing of them is held and everyone else was heard."""
        held = self._tally.counts_of
        names = {name for name, silent in self._departing.items() if not silent}.difference(held)
        for name in names:
            del self._departing[name]
        if names:
            self._retire(names)

    def _check(self, packet: Packet) -> None:
        if packet.control != () or type(packet.control) is not tuple:
            raise malformed(packet, "none at all, ()")
        if packet.kind == "data":
            self._check_unicast(packet)
        elif not self._channels.is_seen(packet.source, packet.n) and not self._is_awaited(
            packet.source
        ):
            msg = (
                f"packet {packet.n} from {packet.source!r} acknowledges a message, but no "
                f"message to {packet.source!r} awaits that; drop it"
            )
            raise PeerError(msg)

    def _check_unicast(self, packet: Packet) -> None:
        if set(packet.dests) - {packet.source} != {self.process}:
            msg = (
                f"packet {packet.n} from {packet.source!r} is for {packet.dests}; buffered is "
                f"unicast, expected {self.process!r} alone"
            )
            raise PeerError(msg)

    def _is_awaited(self, source: str) -> bool:
        if source != self._receiver:
            return False
        early = self._channels.parked.get(source, {})
        if self._awaited > len(early):
            return True
        return self._awaited > sum(packet.kind == "control" for packet in early.values())

    def _unmet(self, _: Packet) -> Iterator[Need]:
        yield from ()

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        if packet.source in self._departing:
            self._part()
        return ()

    def _on_data(self, packet: Packet) -> None:
        self._arrive(packet)
        self._emit_control(packet.source, ())
        self._hear(packet.source)

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        self._awaited -= 1
        self._post_due()
        self._hear(packet.source)
        return ()

    def _next_ready(self, source: str | None = None) -> tuple[int, Packet] | None:
        """Consider only the oldest message, and only if it is from ``source``."""
        oldest = next(iter(self._hold.packets.values()), None)
        if oldest is None or source not in (None, oldest.source):
            return None
        return self._hold.pop_ready()
