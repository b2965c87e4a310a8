"""Definition 5 of [GK00] alone: the prefix that each message must follow, from the history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from antecede.check import BrokenPromiseError, History, Script, World
from antecede.check.scripts import run_step

if TYPE_CHECKING:
    from antecede import MessageId
    from antecede.endpoint.rules import Rules
Vector = dict[str, int]
"""For each process, the number of its last event in a prefix."""


@dataclass
class Point:
    """An event's prefixes: everything before it (ECV), and everything it must follow (MCV)."""

    ecv: Vector
    mcv: Vector


def larger(one: Vector, other: Vector) -> Vector:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one | other}


class Prefixes:
    """Vectors of every event of a history, by definitions 3 and 5, with no matrix."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.points: dict[str, list[Point]] = {}
        self.sends: dict[MessageId, Point] = {}
        self.places: dict[MessageId, tuple[str, int]] = {}
        self._done = 0

    def follow(self) -> None:
        """Process the events since the last call."""
        for event in self.history.events[self._done :]:
            line = self.points.setdefault(event.process, [Point({}, {})])
            last, number = line[-1], len(line)
            ecv = {**last.ecv, event.process: number}
            mcv = last.mcv
            if event.kind == "send":
                basis = number - 1 if event.after is None else event.after
                # A message only to oneself is not between processes; it moves nothing.
                is_sent = event.dests != (event.process,)
                if is_sent and basis > last.mcv.get(event.process, 0):
                    mcv = ecv
                self.sends[event.message] = Point(ecv, mcv)
                self.places[event.message] = (event.process, number)
            elif event.message.sender != event.process:
                sent = self.sends[event.message]
                ecv, mcv = larger(ecv, sent.ecv), larger(mcv, sent.mcv)
            line.append(Point(ecv, mcv))
        self._done = len(self.history.events)

    def prefix(self, message: MessageId) -> set[MessageId]:
        """Return the messages sent in MC of the message's send, except itself."""
        return self.within(self.sends[message].mcv) - {message}

    def within(self, vector: Vector) -> set[MessageId]:
        """Return the messages sent up to the events of a vector."""
        return {
            message
            for message, (process, number) in self.places.items()
            if number <= vector.get(process, 0)
        }

    def now(self, process: str) -> Point:
        """Return the prefixes of the latest event of a process."""
        return self.points.get(process, [Point({}, {})])[-1]


def all_past(history: History) -> History:
    """Return the same history under happened-before, without ``after``."""
    return History(history.members, [replace(event, after=None) for event in history.events])


def watch(script: Script, rules: type[Rules] | None = None) -> World:
    """Run a script under semantic; fail if a message waits although its prefix is delivered."""
    world = World("semantic", script.members, fifo=script.fifo, rules=rules)
    prefixes = Prefixes(world.history)
    for step in script.steps:
        run_step(world, step)
        prefixes.follow()
        for name, ep in world.endpoints.items():
            for held in ep.waiting():
                missing = prefixes.prefix(held) & world.history.undelivered(name)
                if not missing:
                    raise BrokenPromiseError(
                        protocol="semantic",
                        promise="no more than definition 5",
                        sentence=f"{name} holds {held} for nothing in its prefix",
                        script=world.script,
                        options={},
                    )
    return world
