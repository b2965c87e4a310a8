"""What inputs of a machine bring about, collected until it may leave the node."""

from __future__ import annotations

from dataclasses import dataclass, field

from antecede.core.messages import Delivery, MessageId
from antecede.net.records import Logged


@dataclass(slots=True)
class Outcome:
    """The outcome of some inputs.

    ``packets`` are for peers, by name; ``logged`` is for the event log. ``held`` are messages that
    arrived and have to wait. ``size`` counts the bytes of the packets, ``control`` those of them
    that are not payload.
    """

    packets: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    logged: list[Logged] = field(default_factory=list)
    held: list[MessageId] = field(default_factory=list)
    size: int = 0
    control: int = 0
