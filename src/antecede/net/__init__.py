"""Nodes: causal delivery between real processes, durable and bounded.

``Node`` is what applications use. ``Transport`` and ``Store`` are the interfaces behind it.
``Stamp`` orders messages that another system carries.
"""

from antecede.net.deliveries import Delivery
from antecede.net.limits import Limits
from antecede.net.node import Node
from antecede.net.stamp import Received, Stamp, Stamped
from antecede.net.stores import Saved, SqliteStore, Store
from antecede.net.tcp import TcpTransport
from antecede.net.tls import Tls
from antecede.net.transports import Changeable, Receiver, Transport
from antecede.net.watch import Waiting

__all__ = [
    "Changeable",
    "Delivery",
    "Limits",
    "Node",
    "Received",
    "Receiver",
    "Saved",
    "SqliteStore",
    "Stamp",
    "Stamped",
    "Store",
    "TcpTransport",
    "Tls",
    "Transport",
    "Waiting",
]
