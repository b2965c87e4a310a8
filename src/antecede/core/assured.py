"""Questions and answers after a removal, where a message may ask for events that bring nothing.

Under [SES89] a message may ask for events of a process that no message to its receiver will ever
bring, if what knew of these events is lost with one who left. So the receiver asks that process,
which answers with its clock. Everything that it sent before has a smaller number on the channel.
When all of that has arrived, the process is *assured* up to that clock: nothing more can come. A
message with no gap before it is an answer too.

So is a message that is refused because the holding buffer is full: everything that its source sent
before it has arrived. If that were not noted, it might wait for what waits for the answer, and all
of them for ever. What is noted then (*glimpsed*) is true of the channel, whatever becomes of the
message; it is no part of the state, because the message will be offered again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, cast

from antecede.core.counted import Counted
from antecede.core.kinds import NAME
from antecede.core.messages import Effects, Need, Packet
from antecede.errors import HoldFullError

ASK, PROMISE = "ask", "promise"


class Assured(Counted):
    """An endpoint that asks others, after a removal, how far they have come."""

    STATE: ClassVar[dict[str, object]] = Counted.STATE | {
        "_asked": {NAME: int},
        "_promised": {NAME: (int, int)},
        "_assured": {NAME: int},
    }

    _clock: tuple[int, ...]

    def _start(self) -> None:
        self._asked: dict[str, int] = {}
        self._promised: dict[str, tuple[int, int]] = {}
        """Answers that arrived before earlier packets of their channel: their number and clock."""
        self._assured: dict[str, int] = {}
        """The clock up to which everything that a process sent us has arrived."""
        self._glimpsed: dict[str, int] = {}
        """The same, by messages that were refused for lack of space; not part of the state."""
        self._refiled: list[int] = []
        """What was filed since something last left this endpoint; not part of the state."""

    def _is_assured(self, process: str, level: int) -> bool:
        return level <= max(self._assured.get(process, 0), self._glimpsed.get(process, 0))

    # Questions.

    def _refile(self, arrivals: Iterable[int]) -> None:
        arrivals = list(arrivals)
        super()._refile(arrivals)
        if self._removed:
            self._refiled.extend(arrivals)

    def _flush(self, event: int | None = None) -> Effects:
        if self._glimpsed and self._hold.ready:
            self._drain()
        if self._refiled:
            self._inquire()
        return super()._flush(event)

    def _inquire(self) -> None:
        """Ask others how far they have come, if what is still held rests on what is lost.

        This is done once, when all that could be delivered is: each is asked for the highest level.
        """
        levels: dict[str, int] = {}
        for arrival in self._refiled:
            packet = self._hold.packets.get(arrival)
            wanted = {} if packet is None else dict(self._wanted(packet))
            if not self._removed.isdisjoint(wanted):
                for name, level in wanted.items():
                    levels[name] = max(level, levels.get(name, 0))
        self._refiled.clear()
        for name, level in levels.items():
            known = max(self._assured.get(name, 0), self._asked.get(name, 0))
            if name not in self._removed and level > known:
                self._asked[name] = level
                self._emit_control(name, (ASK, level))

    # Answers.

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        source = packet.source
        word, clock = cast("tuple[str, int]", packet.control)
        if word == ASK:
            self._emit_control(source, (PROMISE, self._clock[self._me]))
        elif clock >= self._asked.get(source, clock + 1):  # else nobody asks, or not any more
            self._promised[source] = (packet.n, clock)
        return self._kept_promise(source)

    def _on_data(self, packet: Packet) -> None:
        source, level = packet.source, 0
        if self._removed and self._channels.prefix.get(source, 0) >= packet.n:
            # Whatever it sent before this message is here: it is as good as an answer.
            level = self._level(packet)
            self._assured[source] = max(level, self._assured.get(source, 0))
        super()._on_data(packet)
        if level and self._removed:
            self._advance((Need(source, level, "event"),))
        self._advance(self._kept_promise(source))

    def _kept_promise(self, source: str) -> Iterable[Need]:
        """Note, after any packet, if everything that a process sent before its answer is here."""
        n, clock = self._promised.get(source, (0, 0))
        if not n or self._channels.prefix.get(source, 0) < n:
            return ()
        del self._promised[source]
        self._assured[source] = max(clock, self._assured.get(source, 0))
        return (Need(source, clock, "event"),)

    # A full holding buffer.

    def _is_blocked(self, packet: Packet) -> bool:
        """Tell whether it must wait, even if it is itself what its source would answer."""
        if not super()._is_blocked(packet):
            return False
        source = packet.source
        if not self._removed or not self._channels.is_next(source, packet.n):
            return True
        return any(
            name != source or self._newest_held(source, level) is not None
            for name, level, _, _ in self._awaited_needs(packet)
        )

    def _check_space(self, packet: Packet, *, is_blocked: bool) -> None:
        try:
            super()._check_space(packet, is_blocked=is_blocked)
        except HoldFullError:
            if not self._removed or not self._channels.is_next(packet.source, packet.n):
                raise
            self._glimpse(packet.source, self._level(packet) - 1)
            if not is_blocked or self.pull or not self._makes_room(packet):
                raise

    def _glimpse(self, source: str, level: int) -> None:
        """Note that everything is here that a process sent up to a level."""
        if not self._is_assured(source, level):
            self._glimpsed[source] = level
            self._refile(self._hold.wake(Need(source, level, "event")))

    def _makes_room(self, packet: Packet) -> bool:
        """Tell whether a packet fits as soon as those are delivered that are ready."""
        ready = [self._hold.packets[arrival] for arrival in self._hold.ready]
        size = len(packet.payload) - sum([len(one.payload) for one in ready])
        return bool(ready) and self._tally.bytes + size <= self.held_bytes_max

    # Membership.

    def _left(self, process: str) -> None:
        for kept in (self._asked, self._promised, self._assured, self._glimpsed):
            kept.pop(process, None)

    def _settled(self) -> None:
        super()._settled()
        for kept in (self._asked, self._promised, self._assured, self._glimpsed):
            kept.clear()
