"""The transport interface: what a node asks of a network.

A transport carries *frames* (bytes) between processes that it knows by name. It may lose, delay,
reorder and repeat frames: the node itself acknowledges, resends and drops duplicates. So it is easy
to write a transport of your own. It must do two things right:

* say truthfully which peer a frame comes from, because nodes trust that name;
* never block: ``send`` queues the frame or drops it.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class Receiver(Protocol):
    """The methods that a transport calls; a node passes them to :meth:`Transport.start`."""

    def connected(self, peer: str) -> None:
        """Note that frames can reach ``peer`` now. Earlier frames may be lost: resend them."""

    def received(self, peer: str, frame: bytes) -> None:
        """Process a frame that ``peer`` sent."""

    def refused(self, peer: str, view: int) -> None:
        """Note that ``peer`` does not count us among the members of the view of this number."""


@runtime_checkable
class Transport(Protocol):
    """A network that carries frames between named processes.

    If it has an attribute ``packet_bytes_max``, no larger packet is sent; a frame needs some more
    bytes than its packets.
    """

    async def start(self, receiver: Receiver) -> None:
        """Start to carry frames; return when others can reach this process."""

    def send(self, peer: str, frame: bytes) -> bool:
        """Send a frame or drop it; return whether it may arrive."""

    def counters(self) -> dict[str, int]:
        """Return figures for the metrics, by name, for example ``{"reconnects": 3}``."""

    async def close(self) -> None:
        """Stop carrying frames. Frames that were accepted may still arrive."""


@runtime_checkable
class Changeable(Protocol):
    """A transport that must know its peers; one that reaches any name needs none of this."""

    def check(self, address: str | None) -> None:
        """Raise UsageError if it cannot reach such an address or, for None, cannot lose a peer."""

    def join(self, peer: str, address: str) -> None:
        """Carry frames to and from another peer from now on."""

    def leave(self, peer: str) -> None:
        """Stop carrying frames to and from a peer."""
