"""Scenario files: commands, a line of dashes, and the trace that they must give.

docs/scenarios.md lists the commands. A file is a sequence of blocks; each ends with a blank line,
and a ``world`` command starts afresh. ``rewritten`` returns the file with the actual traces.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from antecede.check import BrokenPromiseError, World, causal_violations, crown, history_class
from antecede.check.world import shown
from antecede.endpoint.registry import PROTOCOLS, rules_of
from antecede.endpoint.rules import Rules
from antecede.errors import AntecedeError
from tests.support.scenario_stores import StoreStory

if TYPE_CHECKING:
    from collections.abc import Callable

    from antecede import MessageId, Packet

DASHES = "----"


@dataclass
class Block:
    """Some commands and their expected output."""

    commands: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join([*self.commands, DASHES, *self.trace])


def parsed(text: str) -> list[Block]:
    """Return the blocks of a scenario file; comments are commands that do nothing."""
    blocks = []
    for part in text.strip("\n").split("\n\n"):
        lines = part.splitlines()
        if DASHES not in lines:
            blocks.append(Block(lines))
            continue
        cut = lines.index(DASHES)
        blocks.append(Block(lines[:cut], lines[cut + 1 :]))
    return blocks


def rewritten(text: str) -> str:
    """Run a scenario file and return it with the actual traces."""
    told = any(line.startswith("store ") for line in text.splitlines())
    story = StoreStory() if told else Story()
    blocks = []
    for block in parsed(text):
        trace = [line for command in block.commands for line in story.run(command)]
        is_prose = not trace and all(not c or c.startswith("#") for c in block.commands)
        blocks.append("\n".join(block.commands) if is_prose else Block(block.commands, trace).text)
    return "\n\n".join(blocks) + "\n"


class Story:
    """A world that takes commands in words and reports events in words."""

    def __init__(self) -> None:
        self.world = World("matrix", ("a", "b"))
        self.names: dict[MessageId, str] = {}
        self.programs: dict[str, list[str]] = {}
        self.commands: dict[str, Callable[[list[str]], list[str]]] = {
            "world": self._make,
            "send": self._send,
            "receive": self._receive,
            "duplicate": self._duplicate,
            "control": self._control,
            "link": self._link,
            "tick": self._tick,
            "take": self._take,
            "drain": self._drain,
            "show": self._show,
            "check": self._check,
            "class": self._class,
            "violations": self._violations,
            "lose": self._lose,
            "crash": self._crash,
            "skip": self._skip,
            "run": self._run,
        }

    def run(self, command: str) -> list[str]:
        """Carry out one command and return its trace."""
        if not command or command.startswith("#"):
            return []
        head, _, program = command.partition(": ")
        if head.startswith("program "):
            self.programs[head.split()[1]] = [s.strip() for s in program.split(";") if s.strip()]
            return []
        verb, *words = shlex.split(command)
        try:
            return self.commands[verb](words)
        except BrokenPromiseError as error:
            return [f"BROKEN {error.promise}: {self._named(error.sentence)}"]
        except AntecedeError as error:
            return [f"refused: {error}"]

    def _make(self, words: list[str]) -> list[str]:
        protocol, *rest = words
        info = PROTOCOLS[protocol]
        options: dict[str, object] = {}
        for word in (w for w in rest if "=" in w):
            key, _, value = word.partition("=")
            options[key] = {"true": True, "false": False}.get(value, value)
            if value.isdigit():
                options[key] = int(value)
            elif "-" in value:
                options[key] = tuple(tuple(pair.split("-")) for pair in value.split(","))
        members = [w for w in rest if "=" not in w and w not in ("pull", "fifo", "unjudged")]
        self.names, self.programs = {}, {}
        self.world = World(
            protocol,
            members,
            options=options,
            pull="pull" in rest,
            fifo="fifo" in rest,
            promises=() if "unjudged" in rest else info.promises,
        )
        return []

    def _send(self, words: list[str]) -> list[str]:
        process, dests, name, *rest = words
        after = int(rest[0].removeprefix("after=")) if rest else None
        seen = self._seen()
        before = len(self.world.steps)
        try:
            message = self.world.send(process, dests.split(","), name.encode(), after=after)
        except BrokenPromiseError:
            if len(self.world.steps) > before:
                self.names[self.world.history.messages[-1]] = name
            raise
        self.names[message] = name
        trace = [f"{process} sends {name} to {dests}"]
        posted = {p.dest for p in self.world.packets[seen[0] :] if p.message == message}
        if not posted and set(dests.split(",")) != {process}:
            trace.append(f"{process} keeps {name} back")
        return trace + self._news(seen, skip=message)

    def _receive(self, words: list[str], *, keep: bool = False) -> list[str]:
        process, name = words
        for index, packet in enumerate(self.world.in_flight):
            if packet.dest == process and packet.message and self.names[packet.message] == name:
                return self._arrive(index, keep=keep)
        return [f"nothing named {name} is in flight to {process}"]

    def _duplicate(self, words: list[str]) -> list[str]:
        return self._receive(words, keep=True)

    def _control(self, words: list[str]) -> list[str]:
        source, dest = words
        for index, packet in enumerate(self.world.in_flight):
            if packet.kind == "control" and (packet.source, packet.dest) == (source, dest):
                return self._arrive(index)
        return [f"no control packet is in flight from {source} to {dest}"]

    def _link(self, words: list[str]) -> list[str]:
        process, other = words
        seen = self._seen()
        self.world.link(process, other)
        return [f"{process} opens a link to {other}", *self._news(seen)]

    def _tick(self, words: list[str]) -> list[str]:
        seen = self._seen()
        self.world.tick(int(words[0]))
        return [f"it is {self.world.now}", *self._news(seen)]

    def _arrive(self, index: int, *, keep: bool = False) -> list[str]:
        packet = self.world.in_flight[index]
        seen = self._seen()
        held = self.world.endpoints[packet.dest].held
        if not self.world.arrive(index, keep=keep):
            return [f"{packet.dest} refuses {self._called(packet)} for now"]
        news = self._news(seen)
        one = self.world.endpoints[packet.dest]
        if packet.message is not None and packet.message in one.waiting() and one.held > held:
            waits = ", ".join(map(str, one.waiting()[packet.message]))
            what = f": waits for {waits}" if waits else ""
            news.insert(0, f"{packet.dest} holds {self._called(packet)}{what}")
        if not news and packet.kind == "data":
            news = [f"{packet.dest} has had {self._called(packet)} before"]
        return news

    def _take(self, words: list[str]) -> list[str]:
        process, *source = words
        seen = self._seen()
        if self.world.take(process, source[-1] if source else None) is None:
            return [f"{process} finds nothing to take"]
        return self._news(seen)

    def _drain(self, words: list[str]) -> list[str]:
        trace = []
        while self.world.in_flight:
            trace += self._arrive(-1 if words == ["newest"] else 0)
        return trace

    def _show(self, words: list[str]) -> list[str]:
        (process,) = words
        one = self.world.endpoints[process]
        trace = [
            f"{process} holds {self._label(message)}: waits for {', '.join(map(str, needs))}"
            for message, needs in one.waiting().items()
        ]
        if rules_of(self.world.protocol).dependencies is not Rules.dependencies:
            kept = {self._label(m): names for m, names in one.dependencies().items()}
            trace.append(f"{process} keeps {shown(kept)}")  # type: ignore[arg-type]
        return trace or [f"{process} holds nothing"]

    def _check(self, _: list[str]) -> list[str]:
        self.world.check()
        return ["every promise is kept"]

    def _class(self, _: list[str]) -> list[str]:
        history = self.world.history
        ring = [self._label(message) for message in crown(history)]
        least = ring.index(min(ring)) if ring else 0
        shape = f", crown {' '.join(ring[least:] + ring[:least])}" if ring else ""
        return [f"class {history_class(history)}{shape}"]

    def _violations(self, _: list[str]) -> list[str]:
        found = [self._named(v.sentence) for v in causal_violations(self.world.history)]
        return found or ["no violation"]

    def _lose(self, words: list[str]) -> list[str]:
        process, name = words
        for index, packet in enumerate(self.world.in_flight):
            if packet.dest == process and packet.message and self.names[packet.message] == name:
                self.world.lose(index)
                return [f"{name} is lost on its way to {process}"]
        return [f"nothing named {name} is in flight to {process}"]

    def _crash(self, words: list[str]) -> list[str]:
        (process,) = words
        self.world.crash(process)
        return [f"{process} crashes, and loses what it has under way"]

    def _skip(self, words: list[str]) -> list[str]:
        process, source, *upto = words
        seen = self._seen()
        self.world.skip(process, source, int(upto[0]) if upto else None)
        what = f"message {upto[0]} of {source} and those before" if upto else f"all of {source}"
        return [f"{process} skips {what}", *self._news(seen)]

    def _run(self, words: list[str]) -> list[str]:
        """Run the programs; packets arrive if no program can continue, those in ``words`` first."""
        trace = []
        left = {process: list(program) for process, program in self.programs.items()}
        while True:
            ran = [line for process in left for line in self._advance(process, left[process])]
            if not ran:
                if not self.world.in_flight:
                    break
                ran = self._arrive(self._next_arrival(words))
            trace += ran
        blocked = [f"{process} blocks at: {rest[0]}" for process, rest in left.items() if rest]
        return [*trace, *(blocked or ["every program is done"])]

    def _advance(self, process: str, program: list[str]) -> list[str]:
        trace: list[str] = []
        while program:
            words = program[0].split()
            if words[0] == "send":
                trace += self._send([process, words[3], words[1]])
            else:
                found = self._take([process, *words[2:]])
                if found == [f"{process} finds nothing to take"]:
                    break
                trace += found
            program.pop(0)
        return trace

    def _next_arrival(self, order: list[str]) -> int:
        flying = self.world.in_flight
        for index, packet in enumerate(flying):
            if packet.kind == "control":
                return index
        ranks = {name: rank for rank, name in enumerate(order)}
        return min(range(len(flying)), key=lambda i: (ranks.get(self._called(flying[i]), 99), i))

    # Words.

    def _seen(self) -> tuple[int, int]:
        return len(self.world.packets), len(self.world.history.events)

    def _news(self, seen: tuple[int, int], skip: MessageId | None = None) -> list[str]:
        trace = [
            f"{event.process} delivers {self._label(event.message)}"
            for event in self.world.history.events[seen[1] :]
            if event.kind == "deliver"
        ]
        for packet in self.world.packets[seen[0] :]:
            if packet.kind == "control":
                trace.append(f"{packet.source} answers {packet.dest}")
            elif packet.message != skip:
                trace.append(f"{packet.source} releases {self._called(packet)} to {packet.dest}")
        return trace

    def _called(self, packet: Packet) -> str:
        return self._label(packet.message) if packet.message else "control"

    def _label(self, message: MessageId) -> str:
        return self.names.get(message, str(message))

    def _named(self, sentence: str) -> str:
        for message, name in self.names.items():
            sentence = sentence.replace(str(message), name)
        return sentence
