"""What every protocol stands on: messages, packets, effects, the endpoint base, the registry.

No module here does I/O, reads a clock or uses randomness; only the standard library is used.
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
    "endpoint",
    "size",
]
