"""Protocols broken on purpose, one line each: the checkers must notice every one of them."""

from __future__ import annotations

from typing import Any

from antecede import Packet
from antecede.endpoint.logs import merged
from antecede.endpoint.messages import FREE, Message
from antecede.endpoint.rules import ALIKE, Own, Rules
from antecede.endpoint.view import View
from antecede.protocols.matrix import Matrix
from antecede.protocols.optimal import Optimal, Remarks


class Unordered(Matrix):
    """Delivers on arrival: what one gets without us."""

    def blocker(self, packet: Packet) -> int:
        return FREE


class OwnColumnOnly(Matrix):
    """Counts a delivered message for the receiver only, not for its other destinations."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        content = packet.content
        alone = Message(content.view, content.sender, content.seq, 1 << self.me, b"", None)
        alone.control = content.control
        return super().taken(Packet(alone, packet.source_no, packet.dest_no, packet.n, None))


class NoMerge(Matrix):
    """Forgets what the message knew: only FIFO order is left."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        self.reached[packet.source_no] = self.key(packet)
        return self.places[packet.source_no]


class CountsItself(Matrix):
    """Attaches the matrix after counting the message: it waits for itself."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        super().stamp(message, others, event, after)
        message.control = self._sent.copy(), self._tops.copy()
        return ALIKE

    def check(self, packet: Packet) -> str:
        """Accept what the mutant sends; the real one refuses it."""
        return ""


class NeverWakes(Matrix):
    """Says of no place that it was reached, so what is held stays held."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        super().taken(packet)
        return ()


class WaitsForAll(Matrix):
    """Waits for every message it has heard of, also those for others."""

    def blocker(self, packet: Packet) -> int:
        rows: Any = packet.content.control
        shift = self.view.shift
        for k, row in enumerate(rows[0]):
            if k != self.me and self.reached[k] >> shift < sum(row):
                return int(sum(row) << shift | k)
        return FREE


class Chatty(Optimal):
    """Answers every delivery with a packet of its own, and that one too."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        tops, log = self._settled()
        control = tops.copy(), log.copy()
        answer = Message(self.view, self.me, 0, 0, b"", control)
        self.outbox.append((packet.source_no, answer, None))
        return super().taken(packet) if packet.content.seq else ()


class KeepsAll(Optimal):
    """SND(3) left out: keeps what a later message replaces (safe, but not the least)."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        before = self._settled()[1].copy()
        needs = super().stamp(message, others, event, after)
        self._settled()
        self._log |= before
        return needs


class ForgetsItself(Optimal):
    """SND(4) left out: its own messages are not remembered."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        needs = super().stamp(message, others, event, after)
        self._settled()
        del self._log[message.seq << self.view.shift | self.me]
        return needs


class NoIntersection(Optimal):
    """RCV(3) left out: what is delivered here is still said to be open."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        places = super().taken(packet)
        self._settled()
        key = self.key(packet)
        self._log[key] = self._log.get(key, 0) | 1 << self.me
        return places


class LosesTheDestination(Optimal):
    """SND(2) without "d back where it was named": the constraint itself is dropped."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        super().stamp(message, others, event, after)
        return ALIKE


class PurgesByWord(Remarks):
    """Lookahead as [KS98] 4.5 can be read: purges on arrival and takes over nothing else."""

    def arrived(self, packet: Packet) -> None:
        their_tops, their_log = self._carried(packet)
        bounds = their_tops.copy()
        bounds[packet.content.sender] = self.key(packet)
        _, both = merged(self._tops, self._log, bounds, their_log, self.view.low)
        self._log = {key: both[key] for key in self._log if key in both}

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._looks_ahead = False  # the rest is merged in its turn, as usual


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
    PurgesByWord: ("optimal", frozenset({"safety", "necessity"})),
}
"""Each mutant with the protocol it spoils and the promises of which it may break one first."""
