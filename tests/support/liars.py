"""A small group with one malicious member, m, and the packets with which it lies.

A lie is a packet that m would send in an invented world, so it always has a valid form.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import antecede
from antecede import PROTOCOLS, MessageId, Packet, PeerError

MEMBERS = ("a", "b", "c", "m")
#: Protocols whose packets carry statements about other members' messages.
WITH_CONTROL = [
    name
    for name in PROTOCOLS
    if name
    not in {
        *("buffered", "central", "flooding", "hierarchy"),
        *("permits", "serial", "synchronous", "tree"),
    }
]
#: Acknowledgements leave nothing to lie about, so in m's lies no process acknowledges.
ANSWERING = {"acknowledged"}
#: Broadcasts: a process delivers a message only after all messages that it names.
TRANSITIVE = {"broadcast", "context", "delta", "phases", "probabilistic", "zones"}


def nothing(_: Packet) -> bool:
    """Hold back no packet."""
    return False


class Net:
    """Endpoints, the packets in flight, and what each endpoint has delivered."""

    def __init__(self, name: str, **options: Any) -> None:
        self.casts = PROTOCOLS[name].casts
        self.drops_control = False
        self.endpoints = {
            process: antecede.endpoint(
                name, process=process, members=MEMBERS, pull=False, **options
            )
            for process in MEMBERS
        }
        self.flying: list[Packet] = []
        self.sent: list[Packet] = []
        self.delivered: dict[str, list[tuple[MessageId, bytes]]] = {p: [] for p in MEMBERS}

    def send(self, process: str, dest: str, *more: str, payload: bytes = b"") -> None:
        """Send to all if the protocol only broadcasts, to ``dest`` alone if it only unicasts."""
        dests = [dest, *more] if "multicast" in self.casts else [dest]
        if "unicast" not in self.casts and "multicast" not in self.casts:
            dests = [member for member in MEMBERS if member != process]
        self._take(process, self.endpoints[process].send(dests, payload))

    def run(self, hold: Callable[[Packet], bool] = nothing) -> None:
        """Let all packets arrive, and those that they cause, except those that ``hold`` keeps.

        A packet that passes a lie on to a process that knows better is refused there.
        """
        while due := [packet for packet in self.flying if not hold(packet)]:
            self.flying.remove(due[0])
            with suppress(PeerError):
                self.receive(due[0])

    def receive(self, packet: Packet) -> None:
        self._take(packet.dest, self.endpoints[packet.dest].receive(packet))

    def has(self, process: str, sender: str) -> bool:
        return any(message.sender == sender for message, _ in self.delivered[process])

    def last_number(self, source: str, dest: str) -> int:
        return max((p.n for p in self.sent if (p.source, p.dest) == (source, dest)), default=0)

    def _take(self, process: str, effects: antecede.Effects) -> None:
        self.sent += effects.packets
        self.flying += [p for p in effects.packets if not self.drops_control or p.kind == "data"]
        self.delivered[process] += [(d.message, d.payload) for d in effects.deliveries]


def lie(
    name: str, tell: Callable[[Net], None], *dests: str, hold: Callable[[Packet], bool] = nothing
) -> dict[str, Packet]:
    """Return what m sends to ``dests`` after the events that ``tell`` makes up."""
    fiction = Net(name)
    fiction.drops_control = name in ANSWERING
    tell(fiction)
    fiction.run(hold)
    fiction.flying.clear()
    fiction.send("m", *dests)
    return {p.dest: p for p in fiction.flying if p.source == "m" and p.kind == "data"}
