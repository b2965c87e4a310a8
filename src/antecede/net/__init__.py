"""Nodes: causal delivery between real processes, durable and bounded.

``Node`` is what applications use. ``Transport`` and ``Store`` are the interfaces behind it.
``Stamp`` orders messages that another system carries.
"""

from antecede.net.driver import Waiting
from antecede.net.journal import Saved, SqliteStore, Store
from antecede.net.machine import Delivery, Transaction
from antecede.net.node import Node
from antecede.net.settings import Limits
from antecede.net.stamp import Received, Stamp, Stamped
from antecede.net.transports import Changeable, Receiver, Transport
from antecede.net.transports.tcp import TcpTransport
from antecede.net.transports.tls import Tls

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
    "Transaction",
    "Transport",
    "Waiting",
]
