"""What inputs of a machine bring about, collected until it may leave the node."""

from __future__ import annotations

from collections.abc import Iterable

from antecede.core.messages import Effects, MessageId
from antecede.events import EventLog
from antecede.net.deliveries import Delivery
from antecede.net.records import Logged


class Outcome:
    """The outcome of some inputs.

    ``packets`` are for peers, by name; ``logged`` is for the event log. ``held`` are messages that
    arrived and have to wait. ``size`` counts the bytes of the packets, ``control`` those of them
    that are not payload.
    """

    __slots__ = ("control", "deliveries", "held", "logged", "packets", "size")

    def __init__(self) -> None:
        self.packets: dict[str, list[tuple[int, bytes]]] = {}
        self.deliveries: list[Delivery] = []
        self.logged: list[Logged] = []
        self.held: list[MessageId] = []
        self.size = 0
        self.control = 0


def dests_of(effects: Effects) -> tuple[str, ...]:
    """Return the members of the group that a message went to, as far as its effects show them."""
    found = [packet.dests for packet in effects.packets if packet.message is not None]
    found += [delivery.dests for delivery in effects.deliveries]
    return found[0] if found else ()


def write_events(log: EventLog | None, logged: Iterable[Logged]) -> None:
    """Write events to the event log, if there is one, unless they are there."""
    for event, message, dests in logged:
        if log is None or event <= log.last_seq:
            continue
        if dests is None:
            log.deliver(message, seq=event)
        else:
            log.send(message, dests or None, seq=event)
