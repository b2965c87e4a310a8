"""Scenarios of a replicated store: writes, reads and fetches in words."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from antecede import MessageId
from antecede.errors import AntecedeError
from antecede.replicas import Outcome, Replica
from tests.support.replica_oracle import CausalMemory, NotCausalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from antecede import Packet


class StoreStory:
    """A store that takes commands in words and reports events in words; the oracle watches."""

    def __init__(self) -> None:
        self.replicas: dict[str, Replica] = {}
        self.oracle = CausalMemory(())
        self.flying: list[tuple[str, Packet]] = []
        self.asked: dict[str, tuple[str, str]] = {}
        self.values: dict[bytes, MessageId] = {}
        self.commands: dict[str, Callable[[list[str]], list[str]]] = {
            "store": self._make,
            "write": self._write,
            "read": self._read,
            "fetch": self._fetch,
            "receive": self._receive,
            "drain": self._drain,
            "show": self._show,
        }

    def run(self, command: str) -> list[str]:
        """Carry out one command and return its trace."""
        if not command or command.startswith("#"):
            return []
        verb, *words = shlex.split(command)
        try:
            return self.commands[verb](words)
        except NotCausalError as error:
            return [f"BROKEN: {error}"]
        except AntecedeError as error:
            return [f"refused: {error}"]

    def _make(self, words: list[str]) -> list[str]:
        members = [word for word in words if "=" not in word]
        pairs = [word.partition("=") for word in words if "=" in word]
        where = {part: names.split(",") for part, _, names in pairs}
        self.replicas = {name: Replica(name, members, where) for name in members}
        self.oracle = CausalMemory(members)
        self.flying, self.asked, self.values = [], {}, {}
        return []

    def _write(self, words: list[str]) -> list[str]:
        process, key, value = words
        replica = self.replicas[process]
        outcome = replica.write(key, value.encode())
        seq = 1 + sum(message.sender == process for message in self.values.values())
        message = self.values[value.encode()] = MessageId(process, seq)
        self.oracle.write(process, message, key, replica.keepers(key))
        dests = ", ".join(packet.dest for packet in outcome.packets) or "nobody else"
        applied = self._follow(process, value, outcome)
        return [f"{process} writes {key} = {value}, for {dests}", *applied]

    def _read(self, words: list[str]) -> list[str]:
        process, key = words
        return [self._seen(process, key, self.replicas[process].read(key), process)]

    def _fetch(self, words: list[str]) -> list[str]:
        process, key, source = words
        outcome = self.replicas[process].fetch(key, source)
        self.asked[process] = key, source
        return [f"{process} asks {source} for {key}", *self._follow(process, key, outcome)]

    def _receive(self, words: list[str]) -> list[str]:
        process, name = words
        for place, (label, packet) in enumerate(self.flying):
            if packet.dest == process and label == name:
                return self._arrive(place)
        return [f"nothing named {name} is in flight to {process}"]

    def _drain(self, _: list[str]) -> list[str]:
        trace = []
        while self.flying:
            trace += self._arrive(0)
        assert not self.oracle.unapplied()
        return trace

    def _show(self, words: list[str]) -> list[str]:
        (process,) = words
        kept = self.replicas[process].dependencies()
        shown = "; ".join(
            f"{self._label(message)} ({', '.join(sorted(names)) or 'applied everywhere'})"
            for message, names in kept.items()
        )
        return [f"{process} depends on {shown or 'nothing'}"]

    # The effects of a step.

    def _arrive(self, place: int) -> list[str]:
        label, packet = self.flying.pop(place)
        replica = self.replicas[packet.dest]
        held = replica.held
        outcome = replica.receive(packet)
        trace = []
        if replica.held > held:
            needs = replica.waiting().get(packet.message, ()) if packet.message else ()
            waits = ", ".join(map(str, needs))
            trace = [f"{packet.dest} holds {label}" + (f": waits for {waits}" if waits else "")]
        return trace + self._follow(packet.dest, label, outcome)

    def _follow(self, process: str, label: str, outcome: Outcome) -> list[str]:
        self.flying += [(label, packet) for packet in outcome.packets]
        trace = []
        for write in outcome.applied:
            self.oracle.apply(process, write.message)
            trace.append(f"{process} applies {write.key} = {write.value.decode()}")
        if outcome.answer is not None:
            key, source = self.asked.pop(process)
            trace.append(self._seen(process, key, outcome.answer.value, source))
        return trace

    def _seen(self, process: str, key: str, value: bytes | None, source: str) -> str:
        self.oracle.read(process, key, self.values.get(value or b""), source)
        shown = "nothing yet" if value is None else value.decode()
        return f"{process} reads {key}: {shown}"

    def _label(self, message: MessageId) -> str:
        return next(name.decode() for name, found in self.values.items() if found == message)
