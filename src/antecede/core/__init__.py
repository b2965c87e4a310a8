"""What all protocols share: messages, packets, effects, the endpoint base and the registry.

Nothing here does I/O, reads a clock or uses randomness, or needs more than the standard library.
"""

from antecede.core.endpoint import Endpoint
from antecede.core.info import Option, ProtocolInfo
from antecede.core.messages import (
    NOTHING,
    ControlSize,
    Delivery,
    Effects,
    MessageId,
    Need,
    Packet,
    Restart,
)
from antecede.core.registry import PROTOCOLS, endpoint, size

__all__ = [
    "NOTHING",
    "PROTOCOLS",
    "ControlSize",
    "Delivery",
    "Effects",
    "Endpoint",
    "MessageId",
    "Need",
    "Option",
    "Packet",
    "ProtocolInfo",
    "Restart",
    "endpoint",
    "size",
]
