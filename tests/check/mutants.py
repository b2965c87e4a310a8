"""Protocols broken on purpose, one line each: the checkers must notice every one of them."""

from collections.abc import Iterable, Iterator
from typing import cast

from antecede import Effects, Need, Packet
from antecede.core.endpoint import Endpoint
from antecede.core.entries import Log, purged
from antecede.core.messages import Sending
from antecede.protocols.matrix import Matrix
from antecede.protocols.optimal import Optimal, merged


class Unordered(Matrix):
    """Delivers on arrival: what one gets without us."""

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        return iter(())


class OwnColumnOnly(Matrix):
    """Counts a delivered message for the receiver only, not for its other destinations."""

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        rows, source = packet.control, self._positions[packet.source]
        me = self._positions[self.process]
        self._counts[source] += 1
        for mine, theirs in zip(self._sent, cast("tuple[tuple[int, ...], ...]", rows), strict=True):
            mine[:] = map(max, mine, theirs)
        self._sent[source][me] = max(self._sent[source][me], self._counts[source])
        return (Need(packet.source, self._counts[source], "count"),)


class NoMerge(Matrix):
    """Forgets what the message knew: only FIFO order is left."""

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        source = self._positions[packet.source]
        self._counts[source] += 1
        return (Need(packet.source, self._counts[source], "count"),)


class CountsItself(Matrix):
    """Attaches the matrix after counting the message: it waits for itself."""

    def _stamp(self, sending: Sending) -> dict[str, object]:
        super()._stamp(sending)
        return dict.fromkeys(sending.others, tuple(map(tuple, self._sent)))

    def _check(self, packet: Packet) -> None:
        """Accept what the mutant sends; the real one refuses it."""


class NeverWakes(Matrix):
    """Reaches no level, so what is held stays held."""

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        super()._absorb(packet)
        return ()


class WaitsForAll(Matrix):
    """Waits for every message it has heard of, also those for others."""

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        rows = cast("tuple[tuple[int, ...], ...]", packet.control)
        for k, member in enumerate(self.members):
            if member != self.process and self._counts[k] < sum(rows[k]):
                yield Need(member, sum(rows[k]), "count")


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

    def _stamp(self, sending: Sending) -> dict[str, object]:
        before = {sender: dict(entries) for sender, entries in self._log.items()}
        controls = super()._stamp(sending)
        for sender, entries in before.items():
            for clock, dests in entries.items():
                self._log.setdefault(sender, {})[clock] = dests
        return controls


class ForgetsItself(Optimal):
    """SND(4) left out: its own messages are not remembered."""

    def _stamp(self, sending: Sending) -> dict[str, object]:
        controls = super()._stamp(sending)
        self._log[self.process][sending.message.seq] = frozenset()
        return controls


class NoIntersection(Optimal):
    """RCV(3) left out: what is delivered here is still said to be open."""

    def _merge(self, packet: Packet) -> None:
        me, self.process = self.process, "nobody"
        try:
            super()._merge(packet)
        finally:
            self.process = me


class LosesTheDestination(Optimal):
    """SND(2) without "d back where it was named": the constraint itself is dropped."""

    def _stamp(self, sending: Sending) -> dict[str, object]:
        controls = super()._stamp(sending)
        return {
            dest: tuple(
                (sender, clock, tuple(d for d in dests if d not in sending.others))
                for sender, clock, dests in cast("tuple[tuple[str, int, tuple[str, ...]], ...]", c)
            )
            for dest, c in controls.items()
        }


class PurgesByWord(Optimal):
    """Lookahead as [KS98] 4.5 can be read: purges on arrival and takes over nothing else."""

    def _on_data(self, packet: Packet) -> None:
        log: Log = {sender: dict(entries) for sender, entries in self._log.items()}
        both = merged(log, self._carried(packet))
        self._log = purged(
            {
                sender: {clock: both.get(sender, {}).get(clock, frozenset()) for clock in entries}
                for sender, entries in log.items()
            }
        )
        Endpoint._on_data(self, packet)


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
