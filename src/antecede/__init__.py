"""Causal message ordering: if one message could have influenced another, they arrive in that order.

``antecede.endpoint(...)`` makes one process's endpoint of any protocol in ``antecede.PROTOCOLS``.
"""

from antecede import protocols as _protocols
from antecede.core import (
    NOTHING,
    PROTOCOLS,
    ControlSize,
    Delivery,
    Effects,
    Endpoint,
    MessageId,
    Need,
    Packet,
    ProtocolInfo,
    endpoint,
    size,
)
from antecede.errors import (
    AntecedeError,
    HoldFullError,
    PeerError,
    QueueFullError,
    UnknownProcessError,
    UsageError,
)

__version__ = "0.1.0"

__all__ = [
    "NOTHING",
    "PROTOCOLS",
    "AntecedeError",
    "ControlSize",
    "Delivery",
    "Effects",
    "Endpoint",
    "HoldFullError",
    "MessageId",
    "Need",
    "Packet",
    "PeerError",
    "ProtocolInfo",
    "QueueFullError",
    "UnknownProcessError",
    "UsageError",
    "endpoint",
    "size",
]

assert set(_protocols.__all__) == set(PROTOCOLS)
