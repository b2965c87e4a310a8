"""Algorithms as their papers print them: with names, step by step, without limits or bytes.

A specification is a module with the name of its protocol and a class ``Process``: one process of
the paper. It is there to be read, and to test the rules against: on the same input both send,
deliver and keep the same things. ``VARIANTS`` names the variants in the protocol's record
(:class:`antecede.endpoint.info.ProtocolInfo`) that it covers besides the default.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, NamedTuple

SPECIFIED: tuple[str, ...] = tuple(sorted(module.name for module in iter_modules(__path__)))
"""The protocols that have a specification."""


class Copy(NamedTuple):
    """One transmission from ``source`` to ``dest``.

    ``number`` counts the messages of the source from 1; a packet that the protocol sends for its
    own purposes has 0 and no ``dests``. ``control`` is what ``Packet.control`` shows. Where
    processes pass messages on, ``sender`` sent this one first and gave it its number, and
    ``place`` is the copy's place among all from ``source`` to ``dest``.
    """

    source: str
    dest: str
    number: int
    dests: frozenset[str]
    control: Any
    sender: str = ""
    place: int = 0


class Specified:
    """One process of a specification; it is made by ``Process(me, names, **options)``.

    It keeps arriving messages until it can deliver them.
    """

    def __init__(self, me: str) -> None:
        self.i = me
        """Its name; i is what most papers call a process."""
        self.number = 0
        """How many messages it has sent."""
        self.outbox: list[Copy] = []
        """Everything to transmit, in order; the caller empties it."""
        self.waiting: list[Copy] = []

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        """Send a message to other processes; it depends on the local events up to ``after``."""
        raise NotImplementedError

    def transmit(self, dests: frozenset[str], control: object) -> None:
        """Send copies of the last message, which all carry the same."""
        for j in sorted(dests):
            self.outbox.append(Copy(self.i, j, self.number, dests, control))

    def receive(self, copy: Copy) -> list[Copy]:
        """Take a copy that arrives for the first time; return the messages delivered, in order."""
        self.waiting.append(copy)
        return self.release()

    def release(self) -> list[Copy]:
        """Deliver messages that are ready, in order of arrival, until none is."""
        delivered = []
        while (ready := next(filter(self.is_ready, self.waiting), None)) is not None:
            self.waiting.remove(ready)
            self.deliver(ready)
            delivered.append(ready)
        return delivered

    def is_ready(self, copy: Copy) -> bool:
        """Return whether a message can be delivered."""
        raise NotImplementedError

    def deliver(self, copy: Copy) -> None:
        """Deliver a message."""
        raise NotImplementedError

    def kept(self) -> object:
        """Return what this process keeps, as ``Endpoint.kept()`` shows it: nothing by default."""


def specification(protocol: str) -> ModuleType:
    """Return the module that specifies a protocol."""
    return import_module(f"{__name__}.{protocol}")
