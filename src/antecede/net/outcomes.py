"""What inputs of a machine bring about, collected until it may leave the node."""

from __future__ import annotations

from antecede.core.messages import MessageId
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
