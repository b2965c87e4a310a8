"""Specifications under the oracle: a paper's steps, as printed or with some text replaced.

A specification itself holds and orders messages, so there is no pull mode and no ``skip``, and
``held`` is 0. Packets do not travel as bytes.
"""

import inspect
from collections.abc import Callable
from copy import deepcopy
from types import ModuleType
from typing import Any, ClassVar, cast

from antecede.endpoint.messages import Message, MessageId, Packet
from antecede.endpoint.registry import rules_of
from antecede.endpoint.rules import Rules, Wire
from antecede.endpoint.saved import Saved
from antecede.endpoint.view import View
from antecede.errors import UsageError
from antecede.protocols import specs
from antecede.protocols.specs import Copy, Specified


def edited(protocol: str, *edits: tuple[str, str]) -> type[Specified]:
    """Return the class ``Process`` of a specification with each old text replaced by the new one.

    Each old text must occur exactly once in the specification.
    """
    original = specs.specification(protocol)
    source = inspect.getsource(original)
    for old, new in edits:
        if source.count(old) != 1:
            msg = f"{original.__name__} has {old!r} {source.count(old)} times; expected once"
            raise UsageError(msg)
        source = source.replace(old, new)
    module = ModuleType(original.__name__)
    exec(source, vars(module))  # noqa: S102 - our own source, with the caller's edits
    return cast("type[Specified]", module.Process)


def rules_from(process: type[Specified]) -> type[Rules]:
    """Return rules that follow a specification, for ``World`` and other callers that accept rules.

    ``process`` is the class ``Process`` of a module in ``antecede.protocols.specs``, as it is or
    ``edited``, or a subclass of it.
    """
    modules = [base.__module__.rpartition(".") for base in process.__mro__]
    protocol = next(name for package, _, name in modules if package == specs.__name__)
    rules = rules_of(protocol)
    made = {"INFO": rules.INFO, "PROCESS": process, "RELAYS": rules.RELAYS}
    return type(process.__name__, (_Specification,), made)


class _Spelt(Wire):
    """Controls, which have names already."""

    def spell(self, packet: Packet) -> object:
        return cast("Copy", packet.own).control


class _Specification(Rules):
    """A process of a specification, the messages that it sent, and those that it holds."""

    WIRE: ClassVar = _Spelt
    PROCESS: ClassVar[Callable[..., Specified]]

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        known = inspect.signature(self.PROCESS).parameters
        options = {name: value for name, value in view.options.items() if name in known}
        self._process = self.PROCESS(view.members[me], view.members, **options)
        self._sent: list[Message] = []
        self._passed: dict[tuple[str, int], Message] = {}
        """Messages that it sent, and messages of others that it may pass on."""
        self._held: dict[Copy, Packet] = {}

    def stamp(self, message: Message, others: tuple[int, ...], _event: int, after: int) -> None:
        self._sent.append(message)
        self._process.send(frozenset([self.view.members[other] for other in others]), after)
        self._post()

    def link(self, dest: int) -> None:
        cast("Any", self._process).link(self.view.members[dest])
        self._post()

    def tick(self, now: int) -> tuple[int, ...]:
        """Tell the process the time, and ignore what it delivers because of that."""
        self.now = now
        cast("Any", self._process).now = now
        return ()

    def unpack(self, packet: Packet) -> list[Packet]:
        """Let the process receive a copy; return what it delivers."""
        copy = cast("Copy", packet.own)
        if copy.number:
            self._held[copy] = packet
        if copy.sender:
            self._passed[copy.sender, copy.number] = packet.content
        delivered = [self._held.pop(one) for one in self._process.receive(copy)]
        if self.RELAYS:  # the rest was for others, or a repeat
            waiting = self._process.waiting
            self._held = {one: held for one, held in self._held.items() if one in waiting}
        self._post()
        return delivered

    def _post(self) -> None:
        """Move the process's outbox into this one."""
        for copy in self._process.outbox:
            dest = self.view.numbers[copy.dest]
            if copy.number and copy.sender not in ("", self.view.members[self.me]):
                self.outbox.append((dest, self._passed[copy.sender, copy.number], copy))
            elif copy.number:
                self.outbox.append((dest, self._sent[copy.number - 1], copy))
            else:
                self.outbox.append((dest, Message(self.view, self.me, 0, 0, b"", None), copy))
        self._process.outbox.clear()
        self.queued = len(self._held)  # none of these may be left in the end

    def taken(self, _packet: Packet) -> tuple[int, ...]:
        return ()

    def kept(self) -> object:
        return self._process.kept()

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        if "necessity" not in self.INFO.promises:
            return {}
        entries = cast("tuple[tuple[str, int, tuple[str, ...]], ...]", self.kept())
        return {MessageId(s, t): frozenset(dests) for s, t, dests in entries if dests}

    def keep(self, saved: Saved) -> None:
        now = _Saved(self._process, self._sent, self._passed, self._held)
        found = saved.field("all", now, type(now))
        if saved.is_read:
            again = _Saved(found.process, found.sent, found.passed, found.held)
            self._process, self._sent, self._held = again.process, again.sent, again.held
            self._passed = again.passed
            self.queued = len(self._held)


class _Saved:
    """A copy of a process's attributes; two copies are equal if these are."""

    def __init__(
        self,
        process: Specified,
        sent: list[Message],
        passed: dict[tuple[str, int], Message],
        held: dict[Copy, Packet],
    ) -> None:
        self.process = deepcopy(process)
        self.sent = sent.copy()
        self.passed = passed.copy()
        self.held = held.copy()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Saved):
            return NotImplemented
        return vars(self.process) == vars(other.process) and self.held == other.held

    def __hash__(self) -> int:
        return hash(self.process.kept())
