"""One module for each published algorithm; importing this package registers them all.

The modules never import each other. Where one protocol runs another inside, it asks the registry.
"""

from antecede.protocols import (
    bounded,
    broadcast,
    buffered,
    central,
    context,
    direct,
    hierarchy,
    history,
    matrix,
    optimal,
    phases,
    pruned,
    semantic,
    serial,
    server,
    synchronous,
    two_hop,
    vectors,
    zones,
)

__all__ = [
    "bounded",
    "broadcast",
    "buffered",
    "central",
    "context",
    "direct",
    "hierarchy",
    "history",
    "matrix",
    "optimal",
    "phases",
    "pruned",
    "semantic",
    "serial",
    "server",
    "synchronous",
    "two_hop",
    "vectors",
    "zones",
]
