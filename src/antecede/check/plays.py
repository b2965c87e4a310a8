"""Every way in which a small computation can go, as data for a playground to show.

A play says who sends what, after which deliveries. It leaves open the order in which the copies
arrive. ``every_way`` runs endpoints of a protocol through all orders and returns a graph: each node
has the events since the previous node, and an edge for each copy that may arrive next.

Acknowledgements and other control packets arrive at once, oldest first, and so do copies on their
way to a relay. Only copies for destinations wait to be chosen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from antecede.check.violations import causal_violations, undelivered
from antecede.check.world import World
from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.messages import Message, MessageId, Need, Packet
from antecede.endpoint.registry import PROTOCOLS, size
from antecede.endpoint.rules import ALIKE, Own, Rules
from antecede.errors import UsageError

UNORDERED = "none"
"""The name for no protocol: every message is delivered as it arrives."""


@dataclass(frozen=True, slots=True)
class Move:
    """A message to be sent, once its sender has delivered the messages ``after``."""

    name: str
    sender: str
    dests: tuple[str, ...]
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Play:
    """A small computation. A process sends its messages in the order of ``moves``."""

    name: str
    title: str
    text: str
    members: tuple[str, ...]
    moves: tuple[Move, ...]
    arrivals: tuple[str, ...] = ()
    """The order of arrivals to show first, as ``"MESSAGE to PROCESS"``; the others come later."""

    @property
    def cast(self) -> str:
        """The narrowest cast that a protocol must support."""
        sizes = {len(move.dests) for move in self.moves}
        if sizes == {1}:
            return "unicast"
        everyone = sizes == {len(self.members) - 1}
        return "broadcast" if everyone else "multicast"


@dataclass(slots=True)
class Ways:
    """All ways through a play under one protocol.

    A node is ``[events, {copy: node}, end]``: numbers of events, the copies that may arrive next,
    and None or, if nothing is in flight, the oracle's verdict.
    """

    first: int = 0
    nodes: list[list[Any]] = field(default_factory=list)
    events: list[list[Any]] = field(default_factory=list)

    def paths(self) -> Iterator[tuple[list[str], list[list[Any]], dict[str, Any]]]:
        """Yield each way: the copies in order of arrival, the events, and the verdict."""
        yield from self._paths(self.first, [], [])

    def _paths(
        self, at: int, copies: list[str], events: list[list[Any]]
    ) -> Iterator[tuple[list[str], list[list[Any]], dict[str, Any]]]:
        numbers, following, end = self.nodes[at]
        events = events + [self.events[number] for number in numbers]
        if end is not None:
            yield copies, events, end
        for copy, node in following.items():
            yield from self._paths(node, [*copies, copy], events)


class _Unordered(Rules):
    """Delivers at once, to show what goes wrong without a protocol."""

    INFO: ClassVar = ProtocolInfo(
        name=UNORDERED,
        idea="deliver every message as it arrives",
        paper="",
        cost="nothing",
        promises=frozenset(),
        bytes_per_entry=0,
    )

    def stamp(
        self, message: Message, others: tuple[int, ...], event: int, after: int
    ) -> Own | None:
        """Carry no control."""
        return ALIKE

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Record nothing, because nothing waits."""
        return ()


def can_play(play: Play, protocol: str) -> bool:
    """Return whether a protocol supports the casts of a play."""
    return protocol == UNORDERED or play.cast in PROTOCOLS[protocol].casts


def every_way(play: Play, protocol: str) -> Ways:
    """Return all ways through a play; equal nodes of the graph are shared."""
    ways = Ways()
    nodes: dict[str, int] = {}
    events: dict[str, int] = {}

    def number_of(value: list[Any], known: dict[str, int], table: list[list[Any]]) -> int:
        key = json.dumps(value)
        if key not in known:
            known[key] = len(table)
            table.append(value)
        return known[key]

    def explore(path: tuple[str, ...]) -> int:
        run = _Run(play, protocol)
        for copy in path:
            run.arrive(copy)
        copies = run.copies()
        following = {copy: explore((*path, copy)) for copy in copies}
        numbers = [number_of(event, events, ways.events) for event in run.events]
        return number_of([numbers, following, None if copies else run.end()], nodes, ways.nodes)

    ways.first = explore(())
    return ways


class _Run:
    """One way through a play, as far as it has come."""

    def __init__(self, play: Play, protocol: str) -> None:
        base = "optimal" if protocol == UNORDERED else protocol
        twin = _Unordered if protocol == UNORDERED else None
        self.world = World(base, play.members, promises=(), rules=twin)
        self.is_blocking = twin is None and PROTOCOLS[protocol].blocking
        self.measured = twin is None
        self.todo = {
            member: [m for m in play.moves if m.sender == member] for member in play.members
        }
        self.names: dict[MessageId, str] = {}
        self.delivered: dict[str, set[str]] = {member: set() for member in play.members}
        self.events: list[list[Any]] = []
        self._seen = 0
        self._react()

    def copies(self) -> list[str]:
        """Return the copies that may arrive now."""
        return sorted({self._key(packet) for packet in self.world.in_flight})

    def arrive(self, copy: str) -> None:
        """Let a copy arrive, with all consequences; ``events`` then has only these."""
        self.events = []
        index = next(i for i, p in enumerate(self.world.in_flight) if self._key(p) == copy)
        packet = self.world.in_flight[index]
        self._arrive(index)
        name = self.names[packet.content.id]
        why = self._reasons(packet.dest).get(name)
        event = ["arrive", packet.dest, copy, name, why]
        self.events.insert(0, event)
        self._react()

    def end(self) -> dict[str, Any]:
        """Return the oracle's verdict when nothing is in flight."""
        history = self.world.history
        return {
            "violations": [
                {"at": v.process, "late": self.names[v.message], "early": self.names[v.overtaker]}
                for v in causal_violations(history)
            ],
            "undelivered": [[p, self.names[m]] for p, m in undelivered(history)],
        }

    def _react(self) -> None:
        """Send what can be sent, and let packets that nobody chooses arrive, until none is left."""
        while self._pass_on() or self._send_next():
            pass

    def _send_next(self) -> bool:
        for member, moves in self.todo.items():
            if moves and self.delivered[member].issuperset(moves[0].after):
                before = len(self.world.packets)
                try:
                    message = self.world.send(member, moves[0].dests, moves[0].name.encode())
                except UsageError:
                    if not self.is_blocking:
                        raise
                    continue
                self.names[message] = moves.pop(0).name
                self.events.append(["send", member, self.names[message], self._made(before)])
                self._note_deliveries()
                return True
        return False

    def _pass_on(self) -> bool:
        for index, packet in enumerate(self.world.in_flight):
            if packet.kind == "control" or packet.dest not in packet.dests:
                name = "" if packet.message is None else self.names.get(packet.message, "")
                self.events.append(["pass", packet.source, packet.dest, name])
                self._arrive(index)
                return True
        return False

    def _arrive(self, index: int) -> None:
        before, process = len(self.world.packets), self.world.in_flight[index].dest
        self.world.arrive(index)
        self._note_deliveries()
        made = self._made(before)
        if made:
            self.events.append(["relay", process, "", made])

    def _note_deliveries(self) -> None:
        for event in self.world.history.events[self._seen :]:
            if event.kind == "deliver":
                name = self.names[event.message]
                self.delivered[event.process].add(name)
                self.events.append(["deliver", event.process, name])
        self._seen = len(self.world.history.events)

    def _made(self, before: int) -> list[list[Any]]:
        """Return the new copies for destinations: the key, destination and control of each."""
        return [
            [self._key(packet), packet.dest, *self._carried(packet)]
            for packet in self.world.packets[before:]
            if packet.kind == "data" and packet.dest in packet.dests
        ]

    def _carried(self, packet: Packet) -> tuple[str, int]:
        if not self.measured:
            return "nothing", 0
        return spelled(packet.control, self.names), size(packet).model_bytes

    def _key(self, packet: Packet) -> str:
        assert packet.message is not None
        name = self.names.get(packet.message) or packet.payload.decode()
        return f"{name} to {packet.dest}"

    def _reasons(self, process: str) -> dict[str, str]:
        found = {}
        for message, needs in self.world.endpoints[process].waiting().items():
            words = [self._need(need) for need in needs]
            found[self.names[message]] = " and ".join(words) or "its turn"
        return found

    def _need(self, need: Need) -> str:
        name = None if need.message is None else self.names.get(need.message)
        return f"{name!r} from {need.process}" if name else str(need)


def spelled(control: object, names: Mapping[MessageId, str]) -> str:
    """Return a control as text, with the play's names for messages in place of their ids."""
    if isinstance(control, tuple):
        if len(control) == 2 and isinstance(control[0], str) and isinstance(control[1], int):
            known = names.get(MessageId(*control))
            return repr(known) if known else f"{control[0]}:{control[1]}"
        return f"({', '.join(spelled(part, names) for part in control)})"
    if isinstance(control, bytes):
        return repr(control.decode(errors="replace"))
    return str(control)
