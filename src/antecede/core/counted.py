"""The base of protocols that count by names, and whose members may join and leave.

A control gives *levels*: for each process, how far it had come in the past of the message. A packet
waits until every process has reached, here, the level that the packet asks for. Controls name the
processes that they count, so members may be added in any order, and a packet of someone with other
members can be read.

A removed process sends nothing more. What is held of it is still delivered, in order; the rest is
lost. A packet then waits for the levels of a removed process only as far as packets up to them are
held, and its delivery names the newest one that is lost in ``unmet``. Nothing else is left out of a
control, so order holds among all messages that are delivered.

While someone who left is not forgotten, controls are wrapped: they say who has left and who is
done; see :mod:`antecede.core.farewells`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from antecede.core.counted_membership import CountedMembership
from antecede.core.counts import NO_NEEDS, Counts
from antecede.core.messages import (
    INCARNATION_SHIFT,
    Effects,
    Need,
    Packet,
    Sending,
    delivery_of,
    effects_of,
    numbered_packet,
)
from antecede.core.validation import (
    are_names,
    checked_basis,
    malformed,
    not_bytes,
)
from antecede.errors import UnknownProcessError, UsageError

if TYPE_CHECKING:
    from antecede.core.casts import Targets


class Counted(CountedMembership):
    """One process's side of a protocol that carries levels by name."""

    # Send and receive.

    def _number_targets(self, to: Targets) -> None:
        numbers = self._index
        to.numbers = [numbers[name] for name in to.others]
        to.mask = self._roster.mask_of(to.names)

    def send(
        self, dests: Iterable[str] | str, payload: bytes = b"", *, after: int | None = None
    ) -> Effects:
        """Send ``payload`` to ``dests``; see :meth:`Endpoint.send`."""
        to = self._targets.known.get(dests) if type(dests) is tuple else None
        if to is None or self._removed or self._kind is None or to.has_me or not to.numbers:
            return super().send(dests, payload, after=after)
        if not isinstance(payload, bytes):
            raise UsageError(not_bytes(payload))
        if after is not None:
            checked_basis(after, self._events)
        self._seq = seq = self._seq + 1
        self._events = event = self._events + 1
        return effects_of(self._packets(to, payload, seq), (), event)

    def _packets(self, to: Targets, payload: bytes, seq: int) -> tuple[Packet, ...]:
        """Return the packets of a send while nobody is departing, and record it."""
        roster, me, mask = self._roster, self._me, to.mask
        stamp, number = self._count_sends(to), self._channels.next_number
        return tuple(
            [
                numbered_packet(roster, me, dest, number(name), seq, mask, payload, stamp, NO_NEEDS)
                for dest, name in zip(to.numbers, to.others, strict=True)
            ]
        )

    def _post(self, sending: Sending) -> None:
        to = self._targets.find(sending.dests)
        if not self._removed and self._kind is not None:
            self._out.extend(self._packets(to, sending.payload, sending.message.seq))
            return
        control = self._count_sends(to).control(self._roster, self._me, NO_NEEDS)
        if self._removed:
            gone = self._mask(self._removed)
            left, done = map(self._roster.sorted_names, self._farewells.news(gone))
            control = (None, left, done, control)
        for dest in sending.others:
            self._emit(dest, control, sending)
        if self._removed:
            self._farewells.tell(self._mask(set(sending.others)))
            self._part()

    def receive(self, packet: Packet) -> Effects:
        """Accept a packet from the network; return what it released, in order."""
        if (
            type(packet) is not Packet
            or packet.roster is not self._roster
            or packet.dest_no != self._me
            or type(packet.stamp) is not self._kind
            or self._removed
            or self.pull
        ):
            return super().receive(packet)
        source, n, channels = packet.source, packet.n, self._channels
        expected = channels.prefix.get(source, 0) + 1
        if n != expected:
            if (n ^ expected) >> INCARNATION_SHIFT:
                return super().receive(packet)
            if channels.is_seen(source, n):
                return effects_of((), (), self._events)
        self._check_claims(packet)
        need = self._first_unmet(packet)
        if need is not None:
            if not self._tally.is_low(self, packet):
                self._check_space(packet, is_blocked=True)
            channels.accept(source, n)
            self._hold.file(self._hold.take_in(packet), need)
            return effects_of((), (), self._events)
        channels.accept(source, n)
        self._hold.arrivals += 1
        self._deliver(packet)
        if self._hold.ready:
            self._drain()
        return self._flush()

    def _carried(self, packet: Packet) -> Counts:
        """Return what a packet carries by our numbers."""
        if packet.roster is self._roster:
            return cast("Counts", packet.stamp)
        if self._last[0] is not packet:
            self._last = packet, self._aligned(self._bare(packet))
        return self._last[1]

    def _check_packet(self, packet: Packet) -> None:
        try:
            super()._check_packet(packet)
        except UnknownProcessError:  # a duplicate may name those who are forgotten
            if not self._is_seen(packet):
                raise

    def _check(self, packet: Packet) -> None:
        if packet.roster is self._roster and type(packet.stamp) is self._kind:
            self._check_claims(packet)
            return
        control = packet.control
        done: frozenset[object] = frozenset()
        bare = self._bare(packet)
        if bare is not control:
            _, left, done_names, _ = cast("tuple[object, ...]", control)
            if not are_names(left) or not left or not are_names(done_names):
                raise malformed(packet, "sorted names of those who left, and of those done with")
            done = frozenset(cast("tuple[str, ...]", done_names))
            if not done <= set(cast("tuple[str, ...]", left)):
                raise malformed(packet, "that its sender is done only with those who left")
        self._check_form(packet, bare)
        self._check_claims(packet)
        names = self._names_in(bare)
        if names != self._names:
            if packet.source not in names or self.process not in names:
                raise malformed(packet, f"levels of {packet.source!r} and {self.process!r} too")
            strange = [name for name in names if name not in self._index and name not in done]
            if strange:  # one that it only names, and that we have forgotten, does not matter
                counted = self._counted(bare)
                self._check_names(packet, (name for name in strange if name in counted))

    def _on_data(self, packet: Packet) -> None:
        is_known = packet.roster is self._roster
        if self._removed or (not is_known and packet.control is not self._bare(packet)):
            super()._on_data(packet)
            self._hear(packet)
        elif self.pull or self._first_unmet(packet) is not None:
            super()._on_data(packet)
        else:  # it is the only one that is ready, so it need not enter the holding buffer
            self._hold.arrivals += 1
            self._deliver(packet)
            self._drain()

    def _arrive(self, packet: Packet) -> None:
        if self._levels is not None:
            insort(self._levels.setdefault(packet.source, []), self._level(packet))
        super()._arrive(packet)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        for process, level in self._wanted(packet):
            yield self._need(process, level)

    def _first_unmet(self, packet: Packet) -> Need | None:
        if self._removed:
            return super()._first_unmet(packet)
        for process, level in self._wanted(packet):
            return self._need(process, level)
        return None

    def _awaited_needs(self, packet: Packet) -> Iterator[Need]:
        """Yield what the packet waits for and what may still come."""
        if not self._removed:
            yield from self._unmet(packet)
            return
        for process, level in self._wanted(packet):
            if process not in self._removed and not self._is_assured(process, level):
                yield self._need(process, level)
            elif (held := self._newest_held(process, level)) is not None:
                yield self._need(process, held)

    def _deliver(self, packet: Packet) -> None:
        unmet = tuple(self._lost(packet)) if self._removed else ()
        self._events += 1
        self._delivered.append(delivery_of(packet, self._events, unmet))
        if self._levels is not None:
            self._no_longer_held(packet)
        reached = self._absorb(packet)
        if self._hold.waiting:
            for need in reached:
                self._refile(self._hold.wake(need))
