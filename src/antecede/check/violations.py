"""How ordered a history is: its violations of causal order, as data and in words, and its class.

Histories that synchronous sends could produce are causally ordered; causally ordered ones are FIFO
([KS98] figure 1, [CMT96]).

References
----------
.. [CMT96] B. Charron-Bost, F. Mattern and G. Tel. "Synchronous, asynchronous, and causally ordered
   communication". Distributed Computing 9(4):173-191, 1996. https://doi.org/10.1007/s004460050018
"""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from antecede.check.history import Event, History
from antecede.endpoint.messages import MessageId

HistoryClass = Literal["synchronous", "causal", "fifo", "none"]
"""How much order a history has, the strictest first; each class contains those before it."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A message that a process did not deliver before an effect of it.

    ``overtaker`` is the first effect delivered there. ``lateness`` counts the process's events
    between the two deliveries; it is None if the message was never delivered. ``chain`` leads from
    the message to its overtaker, each a cause of the next; ``steps`` are the events between them.
    """

    process: str
    message: MessageId
    overtaker: MessageId
    kind: Literal["fifo", "causal"]
    lateness: int | None
    chain: tuple[MessageId, ...]
    steps: tuple[Event, ...]

    @property
    def sentence(self) -> str:
        """The violation explained: why this order was required, and what happened instead."""
        reasons = [
            f"because {step.process} {'sent' if step.kind == 'send' else 'delivered'} {cause} "
            f"before it sent {effect}"
            for (cause, effect), step in zip(pairwise(self.chain), self.steps, strict=True)
        ]
        instead = "delivers it later" if self.lateness is not None else "has not delivered it"
        return (
            f"{self.message} comes before {self.overtaker}: {', '.join(reasons)}; however, "
            f"{self.process} delivered {self.overtaker} first and {instead}"
        )


def causal_violations(history: History) -> list[Violation]:
    """Return every violation of causal order: one per process and overtaken message."""
    return [
        violation
        for process in _processes(history)
        for violation in _violations_at(history, process)
    ]


def undelivered(history: History) -> list[tuple[str, MessageId]]:
    """Return the copies that were sent and not delivered, as (process, message)."""
    return [
        (process, message)
        for process in _processes(history)
        for message in sorted(history.undelivered(process))
    ]


def _processes(history: History) -> list[str]:
    names = dict.fromkeys(history.members)
    for event in history.events:
        names.update(dict.fromkeys((event.process, *event.dests)))
    return list(names)


def _violations_at(history: History, process: str) -> list[Violation]:
    places = {
        event.message: place
        for place, event in enumerate(e for e in history.events if e.process == process)
        if event.kind == "deliver"
    }
    order = sorted(places, key=places.__getitem__)
    overtaken: dict[MessageId, MessageId] = {}
    seen: set[MessageId] = set()
    for effect in order:
        for cause in sorted(history.causes_at(process, effect) - seen):
            overtaken.setdefault(cause, effect)
        seen.add(effect)
    result = []
    for cause, effect in overtaken.items():
        chain, steps = witness(history, cause, effect)
        late = places[cause] - places[effect] if cause in places else None
        kind: Literal["fifo", "causal"] = "fifo" if cause.sender == effect.sender else "causal"
        result.append(Violation(process, cause, effect, kind, late, chain, steps))
    return result


def witness(
    history: History, cause: MessageId, effect: MessageId
) -> tuple[tuple[MessageId, ...], tuple[Event, ...]]:
    """Return a shortest chain of messages from cause to effect, and the events that link it."""
    link: dict[MessageId, tuple[MessageId, Event]] = {}
    queue = deque([effect])
    while cause not in link:
        message = queue.popleft()
        for earlier, event in history.influenced_directly(message):
            if earlier not in link and earlier != effect:
                link[earlier] = (message, event)
                queue.append(earlier)
    chain, steps = [cause], []
    while chain[-1] != effect:
        later, event = link[chain[-1]]
        chain.append(later)
        steps.append(event)
    return tuple(chain), tuple(steps)


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
    so they cannot all be instantaneous ([CMT96]; [MF95] 4.2). It is found as a cycle in the graph
    whose nodes are messages (send and deliveries as one) and whose edges join consecutive events.
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
