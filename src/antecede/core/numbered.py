"""The base of protocols that work on numbers: see :mod:`antecede.core.roster`.

Packets made by endpoints or a Codec with the same roster are taken as they are. Others are first
put into terms of ours, which costs as much as they are long: packets of endpoints with other
members, or with the same in another order, and packets made from names, which are checked.

After a removal, the base keeps what [KS98] does not speak of. Two messages of one channel are
delivered in order, whatever was lost. A message that rests on one lost with a removed process says
so in ``unmet``, and so do messages that rest on such a message.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from antecede.core.membership import Membership
from antecede.core.messages import (
    INCARNATION_SHIFT,
    Delivery,
    Effects,
    MessageId,
    Need,
    Packet,
    delivery_of,
    effects_of,
    incarnation_of,
    numbered_packet,
)
from antecede.core.roster import UNKNOWN, Roster
from antecede.core.stamps import Translation
from antecede.core.validation import check_address, check_message, checked_basis, not_bytes
from antecede.errors import PeerError, UnknownProcessError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from antecede.core.casts import Targets

FREE: Final = -1
TURN: Final = -2
"""Instead of the key that a packet waits for: nothing, or earlier packets of its channel."""
BEHIND: Final = -3
"""BEHIND - source: what is held of the previous incarnation of a process that restarted."""


class Numbered(Membership):
    """One process's side of a protocol that carries :class:`Stamp` and needs."""

    def _number_targets(self, to: Targets) -> None:
        roster, numbers = self._roster, self._roster.numbers
        to.numbers = [numbers[name] for name in to.others]
        to.others_mask = to.mask = sum(map(roster.bits.__getitem__, to.numbers))
        if to.has_me:
            to.mask |= roster.bits[self._me]

    # What a protocol defines.

    def _stamped(self, to: Targets, payload: bytes) -> tuple[Packet, ...]:
        """Return the packets of a send (never empty), and record it."""
        raise NotImplementedError

    def _merge(self, packet: Packet, key: int) -> None:
        """Merge what a packet carried, when it is delivered."""
        raise NotImplementedError

    # Send and receive.

    def send(
        self, dests: Iterable[str] | str, payload: bytes = b"", *, after: int | None = None
    ) -> Effects:
        """Send ``payload`` to ``dests``; see :meth:`Endpoint.send`."""
        to = self._targets.known.get(dests) if type(dests) is tuple else None
        if to is None:
            to = self._targets.find(dests)
        if not isinstance(payload, bytes):
            raise UsageError(not_bytes(payload))
        if after is not None:
            checked_basis(after, self._events)
        self._seq += 1
        self._events = event = self._events + 1
        packets = self._stamped(to, payload) if to.numbers else ()
        if self._gone:
            self._tell(packets, to.others_mask)
        if not to.has_me:
            return effects_of(packets, (), event)
        self._events += 1
        message, unmet = MessageId(self.process, self._seq), self._own_unmet()
        delivery = Delivery(message, to.names, payload, self._events, unmet)
        return Effects(packets, (delivery,), event)

    def receive(self, packet: Packet) -> Effects:
        """Accept a packet from the network; return what it released, in order."""
        roster, me = self._roster, self._me
        if (
            type(packet) is not Packet
            or packet.roster is not roster
            or packet.dest_no != me
            or type(packet.stamp) is not self._kind
        ):
            if self._fifo:
                return self._receive_in_order(packet)
            packet = self._adopted(packet)
        source, n, stamp = packet.source_no, packet.n, packet.stamp
        links = self._links
        expected = links.prefix.get(source, 0) + 1
        is_odd = self._is_odd or not stamp.is_plain
        if n != expected:
            if (n ^ expected) >> INCARNATION_SHIFT:
                self._check_past(packet, incarnation_of(expected))
                is_odd = True
            elif n < expected or (source in links.ahead and links.is_seen(source, n)):
                return effects_of((), (), self._events)
        if is_odd or stamp.tops[me] >> roster.shift > self._seq:
            self._check_claims(packet)
            self._notice(packet)
            return self._receive_oddly(packet)
        need, reached, low = FREE, self._reached, roster.low
        for key in packet.needs:  # _blocker() for the usual case
            if key > reached[key & low]:
                need = key
                break
        if need != FREE:
            self._hold_back(packet, need)
            return effects_of((), (), self._events)
        if n == expected and source not in links.ahead:
            links.prefix[source] = n
        else:
            links.accept(source, n)
        if source in self._hold.waiting:
            return self._deliver_all(packet)
        # What follows is _deliver() where nothing waits for it and nobody has left: the usual case.
        self._events = event = self._events + 1
        reached[source] = key = packet.seq << roster.shift | source
        self._turns[source] = n
        self._merge(packet, key)
        return effects_of((), (delivery_of(packet, event),), event)

    def _receive_oddly(self, packet: Packet) -> Effects:
        """Accept a packet that tells of someone who left, or where not all is as usual."""
        need = self._blocker(packet)
        if need != FREE or self.pull:
            self._hold_back(packet, need)
        else:
            self._links.accept(packet.source_no, packet.n)
            if self._looks_ahead:
                self._on_arrival(packet)
            self._deliver(packet)
        self._drain()
        self._hear(packet)
        return self._flush()

    def _deliver_all(self, packet: Packet) -> Effects:
        """Deliver a packet, and what waited for it."""
        hold, low, shift = self._hold, self._roster.low, self._roster.shift
        deliveries: list[Delivery] = []
        while True:
            source = packet.source_no
            self._events = event = self._events + 1
            deliveries.append(delivery_of(packet, event))
            self._reached[source] = key = packet.seq << shift | source
            self._turns[source] = packet.n
            self._merge(packet, key)
            for arrival in hold.wake_at(source, key) if source in hold.waiting else ():
                need = self._blocker(hold.packets[arrival])
                if need == FREE:
                    heappush(hold.ready, arrival)
                else:
                    hold.file_at(arrival, need & low, need)
            if not hold.ready:
                return effects_of((), tuple(deliveries), event)
            packet = hold.take_out(heappop(hold.ready))

    def _receive_in_order(self, packet: Packet) -> Effects:
        """Accept a packet where a protocol handles those of a channel in their order."""
        raise NotImplementedError

    def _check_claims(self, packet: Packet) -> None:
        """Refuse what well-formed packets can say, but nobody can know."""
        if self._gone and self._gone >> packet.source_no & 1:
            msg = f"packet {packet.n} comes from {packet.source!r}, which was removed; drop it"
            raise PeerError(msg)
        claimed = packet.stamp.tops[self._me] >> self._roster.shift
        if claimed > self._seq:
            msg = (
                f"packet {packet.n} from {packet.source!r} knows of message {claimed} of "
                f"{self.process!r}, which has sent {self._seq}; it was restored from an old "
                "state, or the peer is faulty"
            )
            raise PeerError(msg)

    def _hold_back(self, packet: Packet, need: int) -> None:
        if not self._tally.is_low(self, packet):
            self._check_space(packet, is_blocked=need != FREE)
        source, n, links = packet.source_no, packet.n, self._links
        if source not in links.ahead and n == links.prefix.get(source, 0) + 1:
            links.prefix[source] = n
        else:
            links.accept(source, n)
        if self._looks_ahead:
            self._on_arrival(packet)
        arrival = self._hold.take_in(packet)
        if need > FREE:
            self._hold.file_at(arrival, need & self._roster.low, need)
        else:
            self._file(arrival, packet, need)

    def _on_arrival(self, packet: Packet) -> None:
        """Look at a packet when it arrives, whether it is held or not."""

    def _blocker(self, packet: Packet) -> int:
        """Return the key of a message that the packet waits for, FREE or TURN."""
        reached, low, is_rough = self._reached, self._roster.low, self._rough
        for key in packet.needs:
            if key > reached[key & low] and (not is_rough or self._may_come(key)):
                return key
        if not is_rough:
            return FREE
        if packet.n > self._turns[packet.source_no] + 1:
            return TURN
        return self._first_behind(packet) if self._closed and self._departures.order else FREE

    def _first_behind(self, packet: Packet) -> int:
        """Return FREE, or what a packet waits for whose sender knew of a restart.

        Since then nobody carries what concerns the previous incarnation, so a message must not
        overtake what is held of that.
        """
        shift, tops = self._roster.shift, packet.stamp.tops
        for source, numbers in self._departures.order.items():
            now = self._incarnation_of(source)
            is_told = source != packet.source_no and incarnation_of(tops[source] >> shift) >= now
            if is_told and incarnation_of(numbers[-1]) < now:  # its oldest
                return BEHIND - source
        return FREE

    def _deliver(self, packet: Packet) -> None:
        source = packet.source_no
        key = packet.seq << self._roster.shift | source
        unmet = self._lost(packet, key) if self._rough else ()
        self._events = event = self._events + 1
        self._delivered.append(delivery_of(packet, event, unmet))
        if not self._rough:
            self._reached[source] = key
            self._turns[source] = packet.n
        elif self._is_departed(packet):
            turn = self._departures.note_delivery(packet, key)
            if source not in self._departures.order:  # now those behind it can go, if it restarted
                turn = max(turn, self._incarnation_of(source) << INCARNATION_SHIFT)
            self._turns[source] = turn
        else:
            # Only what we had delivered before a restart, and forgot, can be older than these.
            self._reached[source] = max(key, self._reached[source])
            self._turns[source] = max(packet.n, self._turns[source])
        self._merge(packet, key)
        if self._rough or source in self._hold.waiting:
            self._rouse(source, key)

    def _rouse(self, source: int, key: int) -> None:
        """File again what waited for a message, and what waited for its turn behind it."""
        hold = self._hold
        woken = hold.wake_at(source, key)
        if self._rough:
            woken += hold.wake_at(~source, self._turns[source])
        for arrival in woken:
            packet = hold.packets[arrival]
            self._file(arrival, packet, self._blocker(packet))

    def _file(self, arrival: int, packet: Packet, need: int) -> None:
        if need == FREE:
            self._hold.file(arrival, None)
        elif need == TURN:
            self._hold.file_at(arrival, ~packet.source_no, packet.n - 1)
        elif need < TURN:
            source = BEHIND - need
            base = self._incarnation_of(source) << INCARNATION_SHIFT
            self._hold.file_at(arrival, ~source, base)
        else:
            self._hold.file_at(arrival, need & self._roster.low, need)

    def _drain(self) -> None:
        ready = self._hold.ready
        while ready and not self.pull:
            self._deliver_next()

    def _deliver_next(self, source: str | None = None) -> bool:
        while (ready := self._hold.pop_ready(source)) is not None:
            arrival, packet = ready
            need = self._blocker(packet) if self._rough else FREE
            if need == FREE:
                self._deliver(packet)
                return True
            self._hold.put_back(arrival, packet)
            self._file(arrival, packet, need)
        return False

    # Packets that are not in our terms.

    def _adopted(self, packet: Packet) -> Packet:
        """Return a packet by our numbers; refuse one that is not for us or malformed."""
        is_numbered = isinstance(packet, Packet) and packet.roster is not None
        if not is_numbered or type(packet.stamp) is not self.STAMP:
            self._check_packet(packet)
            if packet.source in self._removed:  # a duplicate, or it would have been refused
                return self._seen_before(packet)
            return self._numbered(packet)
        check_address(self, packet)
        roster = packet.roster
        assert roster is not None
        if roster is self._roster:
            return packet
        if self._is_seen(packet):  # whatever it says; it may name those who are forgotten
            return self._seen_before(packet)
        return self._translated(packet, roster)

    def _regained(self, packet: Packet) -> Packet:
        """Return a packet that was held when a state was taken, by our numbers."""
        if packet.roster is not None:
            return self._translated(packet, packet.roster, forgets=True)
        check_address(self, packet)
        check_message(self, packet)
        self._check(packet)
        return self._numbered(packet)

    def _seen_before(self, packet: Packet) -> Packet:
        """Return an empty packet of this number."""
        stamp = self.STAMP(list(range(len(self._roster))), {})
        source = self._roster.numbers[packet.source]
        return numbered_packet(self._roster, source, self._me, packet.n, 1, 0, b"", stamp, [])

    def _translated(self, packet: Packet, roster: Roster, *, forgets: bool = False) -> Packet:
        """Return a packet by our numbers; it may name those with whom its sender is done."""
        ours, news = self._roster, packet.stamp.news
        source = ours.numbers.get(packet.source, UNKNOWN)
        if source == UNKNOWN:
            raise self._unknown(packet, packet.source)
        by = Translation(roster, ours)
        stamp = self.STAMP(by.tops(packet.stamp.tops), by.log(packet.stamp.log))
        needs, dests = by.keys(packet.needs), by.mask(packet.dest_set)
        strange = by.missing & ~news[1] if news else by.missing
        for number in roster.members(0 if forgets else strange):
            if not self._is_gone(roster.names[number]):
                raise self._unknown(packet, roster.names[number])
        if news and (left := by.mask(news[0])):
            stamp.news = left, by.mask(news[1])
        made = numbered_packet(
            ours, source, self._me, packet.n, packet.seq, dests, packet.payload, stamp, needs
        )
        if self._gone and not forgets:
            left_names = [ours.names[number] for number in ours.members(self._gone)]
            unknown = [ours.numbers[name] for name in left_names if name not in roster.numbers]
            self._farewells.unaware = made, unknown
        return made

    def _unknown(self, packet: Packet, name: str) -> PeerError:
        try:
            self._check_names(packet, (name,))
        except UnknownProcessError as error:
            return error
        return PeerError(f"packet {packet.n} comes from {name!r}, which was removed; drop it")

    def _is_seen(self, packet: Packet) -> bool:
        return self._links.is_seen(self._roster.numbers.get(packet.source, UNKNOWN), packet.n)

    # Introspection.

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        """Yield what a packet waits for: RCV(1), the Delivery Condition, or its turn."""
        if packet.roster is not self._roster:
            packet = self._adopted(packet)
        reached, low = self._reached, self._roster.low
        missing = [k for k in packet.needs if k > reached[k & low] and self._may_come(k)]
        if missing:
            yield from sorted(map(self._need, missing))
        elif (need := self._blocker(packet)) == TURN:
            yield Need(packet.source, packet.n - 1, "channel")
        elif need < TURN:
            source = BEHIND - need
            base = self._incarnation_of(source) << INCARNATION_SHIFT
            yield Need(self._roster.names[source], base, "channel")
