"""One module for each published algorithm; importing this package registers them all.

The modules never import each other. Where one protocol runs another inside, it asks the registry.
"""

from antecede.protocols import (
    broadcast,
    context,
    direct,
    matrix,
    optimal,
    pruned,
    vectors,
)

__all__ = [
    "broadcast",
    "context",
    "direct",
    "matrix",
    "optimal",
    "pruned",
    "vectors",
]
