"""The transport interface: what a node asks of a network.

A transport carries *frames* (bytes) between processes that it knows by name. It may lose, delay,
reorder and repeat frames: the node acknowledges, resends and suppresses duplicates itself. So a
transport is small enough to write one's own. It must do two things right:

* say truthfully which peer a frame comes from, because nodes trust that name;
* never block: ``send`` queues the frame or drops it.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class Receiver(Protocol):
    """What a transport calls; a node passes one to :meth:`Transport.start`."""

    def connected(self, peer: str) -> None:
        """Hear that frames can reach ``peer`` now. Those sent before may be lost: send again."""

    def received(self, peer: str, frame: bytes) -> None:
        """Take a frame that ``peer`` sent."""

    def refused(self, peer: str, view: int) -> None:
        """Hear that ``peer`` does not count us among its members, in the view of this number."""


class Transport(Protocol):
    """A network that carries frames between named processes.

    If it has an attribute ``packet_bytes_max``, no larger packet is sent; a frame takes some bytes
    besides.
    """

    async def start(self, receiver: Receiver) -> None:
        """Begin to carry frames; return when others can reach this process."""

    def send(self, peer: str, frame: bytes) -> bool:
        """Send a frame, or drop it; return whether the frame may arrive."""

    def counters(self) -> dict[str, int]:
        """Return figures for the metrics, by name, for example ``{"reconnects": 3}``."""

    async def close(self) -> None:
        """Carry no more frames. Frames that were accepted may still arrive."""


@runtime_checkable
class Changeable(Protocol):
    """A transport that has to know its peers; one that reaches any name needs none of this."""

    def check(self, address: str | None) -> None:
        """Raise UsageError if it cannot reach such an address; None: if it cannot lose a peer."""

    def join(self, peer: str, address: str) -> None:
        """Carry frames to and from another peer from now on."""

    def leave(self, peer: str) -> None:
        """Carry no more frames to or from a peer."""
