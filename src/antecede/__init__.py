"""Causal message ordering: if one message could have influenced another, they arrive in that order.

``antecede.endpoint(...)`` makes one process's endpoint; ``antecede.PROTOCOLS`` lists the protocols.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from antecede import protocols as _protocols
from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.messages import (
    NOTHING,
    ControlSize,
    Delivery,
    Effects,
    MessageId,
    Need,
    Packet,
)
from antecede.endpoint.registry import PROTOCOLS, endpoint, size, view_of
from antecede.endpoint.view import View
from antecede.errors import (
    AntecedeError,
    BrokerError,
    CauseMissingError,
    ContextEndedError,
    HeaderError,
    HoldFullError,
    LogError,
    MasterError,
    NodeClosedError,
    OtherViewError,
    PeerError,
    QueueFullError,
    SnapshotError,
    StoreError,
    UsageError,
)

if TYPE_CHECKING:
    from antecede.events import EventLog
    from antecede.wire import Codec

__version__ = "0.3.0"

__all__ = [
    "NOTHING",
    "PROTOCOLS",
    "AntecedeError",
    "BrokerError",
    "CauseMissingError",
    "Codec",
    "ContextEndedError",
    "ControlSize",
    "Delivery",
    "Effects",
    "Endpoint",
    "EventLog",
    "HeaderError",
    "HoldFullError",
    "LogError",
    "MasterError",
    "MessageId",
    "Need",
    "NodeClosedError",
    "OtherViewError",
    "Packet",
    "PeerError",
    "ProtocolInfo",
    "QueueFullError",
    "SnapshotError",
    "StoreError",
    "UsageError",
    "View",
    "endpoint",
    "size",
    "view_of",
]

assert set(_protocols.__all__) == set(PROTOCOLS)

_LATER = {"Codec": "antecede.wire", "EventLog": "antecede.events"}


def __getattr__(name: str) -> object:
    """Import what endpoints do not need at its first use, which keeps ``import antecede`` fast."""
    if name not in _LATER:
        msg = f"module 'antecede' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    """List all public names, also those not imported yet."""
    return sorted({*globals(), *__all__})
