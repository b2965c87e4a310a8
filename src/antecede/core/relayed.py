"""The base of protocols in which a relay orders the messages of others."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from antecede.core.endpoint import Endpoint
from antecede.core.messages import Need, Packet


class Relayed(Endpoint):
    """Delivers messages in the order in which the relay brings them.

    Each kept packet has its place in that order as its control. Only in pull mode does a packet
    ever wait: the application might ask for another one first.
    """

    STATE: ClassVar[dict[str, object]] = {"_arrived": int, "_taken": int}
    FIFO: ClassVar = True
    RELAYS: ClassVar = True
    REWRITES: ClassVar = True

    _relay: str

    def _start(self) -> None:
        self._arrived = 0
        self._taken = 0

    def _keep(self, packet: Packet) -> None:
        """Take in a packet if it is for this process."""
        if self.process in packet.dests:
            self._arrived += 1
            message, dests, payload = packet.message, packet.dests, packet.payload
            source, dest, n, protocol = packet.source, packet.dest, packet.n, packet.protocol
            self._arrive(
                Packet(source, dest, n, "data", message, dests, payload, self._arrived, protocol)
            )

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        place = packet.control
        if isinstance(place, int) and place > self._taken + 1:
            yield Need(self._relay, place - 1, "count")

    def _absorb(self, _: Packet) -> Iterable[Need]:
        self._taken += 1
        return (Need(self._relay, self._taken, "count"),)
