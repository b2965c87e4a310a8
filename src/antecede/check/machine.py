"""Endpoints as functions: what a step does to one process, computed once and cached.

The explorer meets the same state of one process in very many global states. An endpoint is
deterministic, so the outcome of a step depends only on its own state and the step. Each local state
(the endpoint's, and what the oracle knows of its past) gets a number, and each step from it is
carried out and judged once. ``Endpoint.state()`` identifies a local state and stores it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from antecede.check.world import shown, view_for
from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.messages import Effects, MessageId, Packet
from antecede.endpoint.registry import restored, rules_of
from antecede.endpoint.rules import Rules
from antecede.endpoint.saved import State
from antecede.errors import UsageError

T = TypeVar("T")
_LEFT_OUT = frozenset(
    {
        "pull",
        "held_max",
        "held_bytes_max",
        "queue_max",
        "held",
        "arrivals",
    }
)
"""Fields of a state that never differ, or that are compared separately."""


class Node(NamedTuple):
    """A message as the oracle sees it: with the past of its send, so computations do not mix.

    ``known`` are the nodes that it must follow, ``past`` everything that its delivery makes known.
    """

    message: MessageId
    dests: tuple[str, ...]
    known: frozenset[int]
    delivered: frozenset[tuple[int, str]]
    past: frozenset[int]


class Past(NamedTuple):
    """What the oracle knows about a process: its past, and what arrived but is not delivered.

    ``known`` are the nodes in its past, ``delivered`` the copies whose delivery is in its past;
    ``prefixes`` (for protocols that order by ``after``) is ``known`` after each local event.
    ``parts`` and ``began`` (for protocols with non-atomic events) are the messages of the open
    event, and the number of the last local event before it.
    """

    known: frozenset[int] = frozenset()
    delivered: frozenset[tuple[int, str]] = frozenset()
    pending: frozenset[int] = frozenset()
    prefixes: tuple[frozenset[int], ...] = (frozenset(),)
    parts: frozenset[int] = frozenset()
    began: int = -1


class Outcome(NamedTuple):
    """The result of a step: the next local state, packets, and the promise it broke, if any."""

    local: int
    packets: tuple[int, ...]
    broken: tuple[str, str] | None


class Machine:
    """All processes of one protocol, and their local states by number."""

    def __init__(
        self,
        protocol: str,
        members: tuple[str, ...],
        *,
        options: Mapping[str, object],
        promises: frozenset[str],
        rules: type[Rules] | None = None,
    ) -> None:
        self.members = members
        self.promises = promises
        self.info = (rules or rules_of(protocol)).INFO
        self._view = view_for(protocol, members, options, rules)
        self._rules = rules or rules_of(protocol).of(self._view)
        self.nodes: list[Node] = []
        self.packets: list[Packet] = []
        self.views: list[Past] = []
        self.is_idle: list[bool] = []
        self.event_counts: list[int] = []
        self._states: list[State] = []
        self._seqs: list[int] = []
        self._node_ids: dict[Node, int] = {}
        self._packet_ids: dict[Packet, int] = {}
        self._local_ids: dict[object, int] = {}
        self._sends: dict[tuple[int, tuple[str, ...], int | None], Outcome | None] = {}
        self._receipts: dict[tuple[int, int], Outcome] = {}
        self.starts = tuple(
            self._enter(Endpoint(self._view, member, self._rules), Past()) for member in members
        )

    @property
    def local_count(self) -> int:
        """The number of local states so far."""
        return len(self._states)

    @property
    def step_count(self) -> int:
        """The number of local steps carried out so far."""
        return len(self._sends) + len(self._receipts)

    def send(self, local: int, dests: tuple[str, ...], after: int | None) -> Outcome | None:
        """Carry out a send in a local state; return None if the sender must wait."""
        key = (local, dests, after)
        if key not in self._sends:
            self._sends[key] = self._send(local, dests, after)
        return self._sends[key]

    def receive(self, local: int, packet: int) -> Outcome:
        """Carry out the arrival of a packet in a local state."""
        key = (local, packet)
        if key not in self._receipts:
            self._receipts[key] = self._receive(local, packet)
        return self._receipts[key]

    def _send(self, local: int, dests: tuple[str, ...], after: int | None) -> Outcome | None:
        one, view = self._revive(local), self.views[local]
        message = MessageId(one.process, self._seqs[local] + 1)
        known = past = view.known if after is None else view.prefixes[after]
        is_part = self.info.groups_by_after and after is not None and after <= view.began
        if self.info.groups_by_after:
            known, past = view.known - view.parts if is_part else view.known, view.known
        entered = Node(message, dests, known, view.delivered, past)
        node = _number(self.nodes, self._node_ids, entered)
        try:
            effects = one.send(dests, b"%d" % node, after=after)
        except UsageError:
            if not self.info.blocking:
                raise
            return None
        if self.info.groups_by_after and dests != (one.process,):
            parts = (view.parts if is_part else frozenset()) | {node}
            began = view.began if is_part else self.event_counts[local]
            view = view._replace(parts=parts, began=began)
        view = self._grown(view, view.known | past | {node})
        return self._outcome(one, view, effects)

    def _receive(self, local: int, number: int) -> Outcome:
        one, view, packet = self._revive(local), self.views[local], self.packets[number]
        effects = one.receive(packet)
        if packet.message is not None and one.process in packet.dests:
            view = view._replace(pending=view.pending | {int(packet.payload)})
        outcome = self._outcome(one, view, effects)
        again = one.receive(packet)
        if outcome.broken is None and (again.packets or again.deliveries):
            broken = (
                "integrity",
                f"{one.process} accepts packet {packet.n} of {packet.source} twice",
            )
            return outcome._replace(broken=broken)
        return outcome

    def _outcome(self, one: Endpoint, view: Past, effects: Effects) -> Outcome:
        broken = None
        for delivery in effects.deliveries:
            node = int(delivery.payload)
            broken = broken or self._broken_by(one.process, view, node)
            past = self.nodes[node]
            view = self._grown(view, view.known | past.past | {node})
            view = view._replace(
                delivered=view.delivered | past.delivered | {(node, one.process)},
                pending=view.pending - {node},
            )
        broken = broken or self._broken_now(one, view)
        packets = tuple(_number(self.packets, self._packet_ids, p) for p in effects.packets)
        return Outcome(self._enter(one, view), packets, broken)

    def _broken_by(self, process: str, view: Past, number: int) -> tuple[str, str] | None:
        """Judge one delivery."""
        node = self.nodes[number]
        if (number, process) in view.delivered:
            return "integrity", f"{process} delivers {node.message} twice"
        if process not in node.dests:
            return "integrity", f"{process} delivers {node.message}, which is not for it"
        missing = self.missing(process, view, number)
        if missing and "safety" in self.promises:
            cause = self.nodes[min(missing)].message
            return "safety", f"{process} delivers {node.message} before its cause {cause}"
        return None

    def _broken_now(self, one: Endpoint, view: Past) -> tuple[str, str] | None:
        """Judge what the endpoint holds and keeps now."""
        if "no_overblocking" in self.promises:
            for number in sorted(view.pending):
                if not self.missing(one.process, view, number):
                    message = self.nodes[number].message
                    return "no_overblocking", f"{one.process} holds {message} for no missing cause"
        if "necessity" in self.promises:
            kept, due = one.dependencies(), self.required(view)
            if kept != due:
                return "necessity", f"{one.process} keeps {shown(kept)}, required is {shown(due)}"
        return None

    def missing(self, process: str, view: Past, number: int) -> list[int]:
        """Return the causes of a message that are for ``process`` and not delivered there."""
        if self.info.groups_by_after and self.nodes[number].message.sender == process:
            return []  # a message to oneself is delivered at once
        return [
            cause
            for cause in self.nodes[number].known
            if process in self.nodes[cause].dests and (cause, process) not in view.delivered
        ]

    def required(self, view: Past) -> dict[MessageId, frozenset[str]]:
        """Return what the Propagation Constraints require ([KS98] 3.4), by their definition."""
        result = {}
        for number in sorted(view.known, key=lambda n: self.nodes[n].message):
            node = self.nodes[number]
            later = [self.nodes[n].dests for n in view.known if number in self.nodes[n].known]
            names = frozenset(
                dest
                for dest in node.dests
                if dest != node.message.sender
                and (number, dest) not in view.delivered
                and not any(dest in dests for dests in later)
            )
            if names:
                result[node.message] = names
        return result

    def _grown(self, view: Past, known: frozenset[int]) -> Past:
        if not self.info.orders_by_after or self.info.groups_by_after:
            return view._replace(known=known)
        return view._replace(known=known, prefixes=(*view.prefixes, known))

    def _enter(self, one: Endpoint, view: Past) -> int:
        state: dict[str, Any] = one.state()
        number = self._local_ids.setdefault((frozen_state(state), view), len(self._states))
        if number == len(self._states):
            self._states.append(state)
            self.views.append(view)
            self.is_idle.append(not one.held and not one.queued)
            self._seqs.append(state["seq"])
            self.event_counts.append(state["events"])
        return number

    def _revive(self, local: int) -> Endpoint:
        state = copied(self._states[local])
        return restored(self._view, state, resumed=True, rules=self._rules)


def _number(items: list[T], numbers: dict[T, int], item: T) -> int:
    """Return an item's place in the list; append it if it is new."""
    number = numbers.setdefault(item, len(items))
    if number == len(items):
        items.append(item)
    return number


def copied(value: object) -> object:
    """Return a deep copy of plain data; packets never change, so they are shared."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def frozen_state(state: Mapping[str, Any]) -> object:
    """Return an endpoint's state as a key; the absolute numbers of arrivals do not matter."""
    rest = (frozen(value) for key, value in state.items() if key not in _LEFT_OUT)
    return tuple(packet for _, packet in state["held"]), tuple(rest)


def frozen(value: object) -> object:
    """Return plain data in a hashable form; the order of keys does not matter."""
    if isinstance(value, dict):
        return frozenset((key, frozen(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(frozen, value))
    return frozenset(value) if isinstance(value, set) else value
