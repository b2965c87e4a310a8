"""Protocols broken on purpose, one line each: the checkers must notice every one of them."""

from collections.abc import Iterable, Iterator

from antecede import Effects, Need, Packet
from antecede.core.casts import Targets
from antecede.core.counts import Counts
from antecede.core.endpoint import Endpoint
from antecede.core.logs import CausalLog
from antecede.protocols.matrix import Matrix, SentBefore
from antecede.protocols.optimal import Optimal


class Unordered(Matrix):
    """Delivers on arrival: what one gets without us."""

    def _wanted(self, packet: Packet) -> Iterator[tuple[str, int]]:
        return iter(())


class OwnColumnOnly(Matrix):
    """Counts a delivered message for the receiver only, not for its other destinations."""

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        source, me = self._index[packet.source], self._me
        self._counts[source] += 1
        for number, theirs in enumerate(self._carried(packet).rows):
            self._sent[number] = tuple(map(max, self._sent[number], theirs))
        row = list(self._sent[source])
        row[me] = max(row[me], self._counts[source])
        self._sent[source] = tuple(row)
        return (Need(packet.source, self._counts[source], "count"),)


class NoMerge(Matrix):
    """Forgets what the message knew: only FIFO order is left."""

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        source = self._index[packet.source]
        self._counts[source] += 1
        return (Need(packet.source, self._counts[source], "count"),)


class CountsItself(Matrix):
    """Attaches the matrix after counting the message: it waits for itself."""

    def _count_sends(self, to: Targets) -> Counts:
        super()._count_sends(to)
        return SentBefore(self._sent.copy())

    def _check_claims(self, packet: Packet) -> None:
        """Accept what the mutant sends; the real one refuses it."""


class NeverWakes(Matrix):
    """Reaches no level, so what is held stays held."""

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        super()._absorb(packet)
        return ()


class WaitsForAll(Matrix):
    """Waits for every message it has heard of, also those for others."""

    def _wanted(self, packet: Packet) -> Iterator[tuple[str, int]]:
        rows = self._carried(packet).rows
        for member, row, count in zip(self._names, rows, self._counts, strict=True):
            if member != self.process and count < sum(row):
                yield member, sum(row)


class Deaf(Matrix):
    """Forgets which packets it has seen: duplicates count as news."""

    def receive(self, packet: Packet) -> Effects:
        self._channels.prefix.clear()
        self._channels.ahead.clear()
        return super().receive(packet)


class Chatty(Matrix):
    """Answers every delivery with a packet of its own, and that one too."""

    def _check(self, packet: Packet) -> None:
        if packet.kind == "data":
            super()._check(packet)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        self._emit_control(packet.source, ())
        return super()._absorb(packet)

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        self._emit_control(packet.source, ())
        return ()


class KeepsAll(Optimal):
    """SND(3) left out: keeps what a later message replaces (safe, but not the least)."""

    def _stamped(self, to: Targets, payload: bytes) -> tuple[Packet, ...]:
        before = self._known.log.copy()
        packets = super()._stamped(to, payload)
        self._known.log |= before
        return packets


class ForgetsItself(Optimal):
    """SND(4) left out: its own messages are not remembered."""

    def _stamped(self, to: Targets, payload: bytes) -> tuple[Packet, ...]:
        packets = super()._stamped(to, payload)
        del self._known.log[self._seq << self._roster.shift | self._me]
        return packets


class NoIntersection(Optimal):
    """RCV(3) left out: what is delivered here is still said to be open."""

    def _merge(self, packet: Packet, key: int) -> None:
        super()._merge(packet, key)
        log = self._known.log
        log[key] = log.get(key, 0) | self._roster.bits[self._me]


class LosesTheDestination(Optimal):
    """SND(2) without "d back where it was named": the constraint itself is dropped."""

    def _stamped(self, to: Targets, payload: bytes) -> tuple[Packet, ...]:
        packets = super()._stamped(to, payload)
        for packet in packets:
            packet.needs = []
        return packets


class PurgesByWord(Optimal):
    """Lookahead as [KS98] 4.5 can be read: purges on arrival and takes over nothing else."""

    def _start(self) -> None:
        super()._start()
        self._looks_ahead = True
        self._find_bounds()

    def _on_arrival(self, packet: Packet) -> None:
        both = CausalLog(self._roster, self._me)
        both.tops, both.log = self._known.tops, self._known.log
        both.merge(self._carried(packet), packet.stamp.tops[packet.source_no], 0)
        self._known.log = {key: both.log[key] for key in self._known.log if key in both.log}


MUTANTS: dict[type[Endpoint], tuple[str, frozenset[str]]] = {
    Unordered: ("matrix", frozenset({"safety"})),
    OwnColumnOnly: ("matrix", frozenset({"safety"})),
    NoMerge: ("matrix", frozenset({"safety"})),
    CountsItself: ("matrix", frozenset({"liveness", "no_overblocking"})),
    NeverWakes: ("matrix", frozenset({"liveness", "no_overblocking"})),
    WaitsForAll: ("matrix", frozenset({"no_overblocking"})),
    Deaf: ("matrix", frozenset({"integrity", "no_overblocking", "safety"})),
    Chatty: ("matrix", frozenset({"quiescence"})),
    KeepsAll: ("optimal", frozenset({"necessity"})),
    ForgetsItself: ("optimal", frozenset({"necessity", "safety"})),
    NoIntersection: ("optimal", frozenset({"necessity"})),
    LosesTheDestination: ("optimal", frozenset({"safety"})),
    PurgesByWord: ("optimal", frozenset({"safety", "necessity"})),
}
"""Each mutant with the protocol it spoils and the promises of which it may break one first."""
