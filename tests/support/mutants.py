"""Protocols broken on purpose, in one step each: the checkers must notice every one of them.

Most are specifications with one changed line. Mutants that an endpoint has to notice change the
rules instead.
"""

from __future__ import annotations

from antecede import Packet
from antecede.check import edited, rules_from
from antecede.endpoint.messages import Message
from antecede.endpoint.rules import Rules
from antecede.protocols.matrix import Matrix
from antecede.protocols.optimal import Optimal


def mutant(name: str, protocol: str, old: str, new: str) -> type[Rules]:
    """Return the rules of a specification in which one text is replaced."""
    rules = rules_from(edited(protocol, (old, new)))
    rules.__name__ = name
    return rules


# Delivers on arrival, as without a protocol.
Unordered = mutant("Unordered", "matrix", "self.deliv[k] >= st_m[k][self.i]", "True")

# Counts a delivered message for the receiver only, not for its other destinations.
OwnColumnOnly = mutant("OwnColumnOnly", "matrix", "in copy.dests:", "in {self.i}:")

# Forgets what the message knew: only FIFO order is left.
NoMerge = mutant("NoMerge", "matrix", "max(self.sent[k][l], st_m[k][l])", "self.sent[k][l]")

# Waits for the message itself too.
CountsItself = mutant(
    "CountsItself", "matrix", "st_m[k][self.i] for", "st_m[k][self.i] + (k == copy.source) for"
)

# Waits for every message it has heard of, even for messages to others.
WaitsForAll = mutant(
    "WaitsForAll", "matrix", "st_m[k][self.i] for k", "sum(st_m[k].values()) * (k != self.i) for k"
)

# SND(3) left out: keeps what a later message replaces (safe, but not the least).
KeepsAll = mutant(
    "KeepsAll", "optimal", "entry: remaining - dests for entry", "entry: remaining for entry"
)

# SND(4) left out: its own messages are not remembered.
ForgetsItself = mutant("ForgetsItself", "optimal", "self.log[self.j, self.clock] = dests", "pass")

# RCV(3) left out: what is delivered here is still said to be open.
NoIntersection = mutant("NoIntersection", "optimal", "o: dests - {self.j} for", "o: dests for")

# SND(2) without "d back where it was named": the constraint itself is dropped.
LosesTheDestination = mutant(
    "LosesTheDestination", "optimal", "(remaining - dests) | {d}", "remaining - dests"
)

# Lookahead as [KS98] 4.5 prints it: RCV(4) and RCV(5) on arrival.
LooksAhead = mutant(
    "LooksAhead",
    "optimal",
    "    def is_ready(",
    """    def receive(self, copy: Copy) -> list[Copy]:
        self.merge(read(copy))
        return super().receive(copy)

    def is_ready(""",
)


class NeverWakes(Matrix):
    """Never reports progress, so held messages stay held."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        super().taken(packet)
        return ()


class Chatty(Optimal):
    """Answers every delivery with a packet of its own, and that packet as well."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        tops, log = self.settled()
        control = tops.copy(), log.copy()
        answer = Message(self.view, self.me, 0, 0, b"", control)
        self.outbox.append((packet.source_no, answer, None))
        return super().taken(packet) if packet.content.seq else ()


MUTANTS: dict[type[Rules], tuple[str, frozenset[str]]] = {
    Unordered: ("matrix", frozenset({"safety"})),
    OwnColumnOnly: ("matrix", frozenset({"safety"})),
    NoMerge: ("matrix", frozenset({"safety"})),
    CountsItself: ("matrix", frozenset({"liveness", "no_overblocking"})),
    NeverWakes: ("matrix", frozenset({"liveness", "no_overblocking"})),
    WaitsForAll: ("matrix", frozenset({"no_overblocking"})),
    Chatty: ("optimal", frozenset({"quiescence"})),
    KeepsAll: ("optimal", frozenset({"necessity"})),
    ForgetsItself: ("optimal", frozenset({"necessity", "safety"})),
    NoIntersection: ("optimal", frozenset({"necessity"})),
    LosesTheDestination: ("optimal", frozenset({"safety"})),
    LooksAhead: ("optimal", frozenset({"safety", "necessity"})),
}
"""Each mutant's protocol, and the promises, one of which it must break first."""
