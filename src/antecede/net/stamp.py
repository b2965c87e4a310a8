"""Causal order for messages that another system carries: a header on each, and nothing else.

It is for those who already have Kafka, RabbitMQ, Redis or HTTP: that system moves and keeps the
messages, and a stamp says what each must wait for. It does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.messages import Delivery, Effects, MessageId, Need
from antecede.endpoint.registry import endpoint as make_endpoint
from antecede.errors import UsageError, shown
from antecede.wire.codec import Codec


class Stamped(NamedTuple):
    """A copy of a message for one destination: send ``header`` along with ``payload``."""

    dest: str
    header: bytes
    payload: bytes


class Received(NamedTuple):
    """The effects of a message: deliveries in order, and copies that the protocol wants sent."""

    deliveries: tuple[Delivery, ...]
    outgoing: tuple[Stamped, ...]


class Stamp:
    """One process's side: stamps what it sends, and puts what it receives into causal order.

    The carrier may delay, reorder and repeat messages. If it loses one, its effects wait forever.
    To survive a restart, store in one transaction the bytes of :meth:`save`, the carrier's position
    and the copies from :meth:`send`; then give these to the carrier, also after a restart.
    """

    def __init__(
        self,
        process: str,
        members: Iterable[str],
        *,
        protocol: str = "optimal",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._endpoint: Endpoint = make_endpoint(
            protocol, process=process, members=tuple(members), **(options or {})
        )
        self._codec = Codec(self._endpoint)

    @classmethod
    def restored(cls, data: bytes, members: Iterable[str]) -> Self:
        """Return the stamp that :meth:`save` saved, since when nothing may have been sent."""
        made = cls.__new__(cls)
        made._endpoint = Codec(tuple(members)).restore(data, resumed=True)
        made._codec = Codec(made._endpoint)
        return made

    def save(self) -> bytes:
        """Return the whole state, including the payloads of messages that are held."""
        return self._codec.snapshot(self._endpoint)

    def send(
        self, dests: Iterable[str] | str, payload: bytes, *, after: int | None = None
    ) -> tuple[Stamped, ...]:
        """Return a copy for each destination, to be given to the carrier."""
        return self._outgoing(self._endpoint.send(dests, payload, after=after))

    def receive(self, header: bytes, payload: bytes) -> Received:
        """Process a message from the carrier; return what can be delivered now, in causal order."""
        for name, value in (("header", header), ("payload", payload)):
            if not isinstance(value, bytes):
                msg = (
                    f"receive() got {name}={shown(value)}; expected the bytes that send() returned"
                )
                raise UsageError(msg)
        effects = self._endpoint.receive(self._codec.decode(header + payload))
        return Received(effects.deliveries, self._outgoing(effects))

    def waiting(self) -> dict[MessageId, tuple[Need, ...]]:
        """Return what each held message waits for."""
        return self._endpoint.waiting()

    def _outgoing(self, effects: Effects) -> tuple[Stamped, ...]:
        encode = self._codec.encode
        return tuple(
            Stamped(packet.dest, encode(packet, payload=False), packet.payload)
            for packet in effects.packets
        )
