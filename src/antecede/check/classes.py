"""The class of a history: how ordered it is ([KS98] figure 1, [CMT96]).

Histories that synchronous sends could produce are causally ordered; causally ordered ones are FIFO.

References
----------
.. [CMT96] B. Charron-Bost, F. Mattern and G. Tel. "Synchronous, asynchronous, and causally ordered
   communication". Distributed Computing 9(4):173-191, 1996. https://doi.org/10.1007/s004460050018
"""

from itertools import pairwise
from typing import Literal

from antecede.check.history import History
from antecede.check.violations import causal_violations
from antecede.endpoint.messages import MessageId

HistoryClass = Literal["synchronous", "causal", "fifo", "none"]
"""How much order a history has, the strictest first; each class contains those before it."""


def history_class(history: History) -> HistoryClass:
    """Return the strictest class that a history belongs to.

    A multicast counts as one send with several deliveries; it is synchronous if all of them could
    happen at the moment of the send.
    """
    violations = causal_violations(history)
    if any(violation.kind == "fifo" for violation in violations):
        return "none"
    if violations:
        return "fifo"
    return "causal" if crown(history) else "synchronous"


def crown(history: History) -> tuple[MessageId, ...]:
    """Return messages that form a crown, or nothing if there is none.

    In a crown each message is sent before the next is delivered and the last before the first is,
    so they cannot all be instantaneous ([CMT96]; [MF95] 4.2). Found as a cycle of the graph whose
    nodes are messages (send and deliveries as one) and whose edges join consecutive events.
    """
    edges: dict[MessageId, list[MessageId]] = {message: [] for message in history.messages}
    by_process: dict[str, list[MessageId]] = {}
    for event in history.events:
        by_process.setdefault(event.process, []).append(event.message)
    for line in by_process.values():
        for earlier, later in pairwise(line):
            if earlier != later:
                edges[earlier].append(later)
    return _cycle(edges)


def _cycle(edges: dict[MessageId, list[MessageId]]) -> tuple[MessageId, ...]:
    """Return the nodes of some cycle of a graph, in order."""
    done: set[MessageId] = set()
    for start in edges:
        path: dict[MessageId, None] = {}
        stack: list[tuple[MessageId, bool]] = [(start, False)]
        while stack:
            node, is_left = stack.pop()
            if is_left:
                path.pop(node)
                done.add(node)
                continue
            if node in path:
                names = list(path)
                return tuple(names[names.index(node) :])
            if node in done:
                continue
            path[node] = None
            stack.append((node, True))
            stack.extend((later, False) for later in edges[node])
    return ()
