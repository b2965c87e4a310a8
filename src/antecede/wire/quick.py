"""Packets that carry a stamp, by numbers.

Reading checks everything on the way, so a packet read here is known to be well-formed, and an
endpoint takes it as it is. A packet that no endpoint would send is left to the general way
(:mod:`antecede.wire.packets`).
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import Final

from antecede.core.counts import Counts
from antecede.core.messages import INCARNATION_SHIFT, Packet, numbered_packet
from antecede.core.registry import PROTOCOLS
from antecede.core.roster import Roster
from antecede.core.stamps import Stamp, Translation, new_stamp
from antecede.core.validation import COUNT_MAX, are_names
from antecede.wire.counted import (
    ALONE,
    BITS,
    DESTS,
    LIST,
    NEWS,
    OTHERS,
    Odd,
    counted_body,
    counted_head,
    counted_packet,
    counting_packet,
    kind_of,
    kind_of_tag,
    odd_control,
    odd_head,
)
from antecede.wire.lanes import ColumnError, read_varint, varint
from antecede.wire.packets import STAMPED, TAGS
from antecede.wire.roster import PAIR_MAX, WireRoster
from antecede.wire.stamps import ENTRIES_MAX, Stamps
from antecede.wire.stream import (
    CONTROL_BYTES_MAX,
    INTEGER_MAX,
    PACKET_MARK,
    VERSION,
    Reader,
    put_varint,
)

CACHE_MAX: Final = 4096
MARK: Final = PACKET_MARK + VERSION


@lru_cache(maxsize=256)
def quick_of(names: tuple[str, ...]) -> Quick:
    """Return the quick way for these members; Codecs of the same members share it."""
    return Quick(WireRoster(names))


class Quick:
    """Writes and reads packets of one roster; starts and sets recur, so they are remembered."""

    def __init__(self, wire: WireRoster) -> None:
        self.wire = wire
        self.roster = wire.roster
        self._stamps = Stamps(wire.roster)
        self._starts: dict[type[Stamp], dict[int, bytes]] = defaultdict(dict)
        self.counted_starts: dict[tuple[str, int], bytes] = {}
        self.odd: tuple[type[Stamp], object, Odd | None] | None = None
        """The last control that was not about exactly the members: copies share it."""
        self.dests: dict[int, tuple[int, bytes]] = {}
        self._tag_at = 1 + len(wire.identity)
        self._kinds: dict[int, tuple[type[Stamp], int]] = {}
        """Those whose control is a log, with forms, by tags; these take one byte."""
        self._count = len(wire)
        self._set_bytes = (len(wire) + 7) // 8
        self._is_paired = wire.is_paired
        everyone = (1 << len(wire)) - 1
        self.others = [everyone ^ bit if self._set_bytes > 1 else 0 for bit in self.roster.bits]
        """For each member, all others, if these take more bytes than :data:`OTHERS`."""

    # Write.

    def head(self, packet: Packet, payload: bytes = b"") -> bytes | None:
        """Return a packet with this payload, or None if it is of another kind."""
        roster = self.roster
        if packet.roster is not roster:
            kind = kind_of(packet.protocol)
            adopted = None if kind is None else self._adopted(packet, kind)
            if adopted is None:
                return None if kind is None else odd_head(self, packet, kind, payload)
            packet = adopted
        stamp = packet.stamp
        if not stamp.IS_LOG:
            return counted_head(self, packet, payload)
        body = stamp.body
        if body is None or body[0] is not roster:
            body = self._body(stamp, packet)
        dest, dests = packet.dest_no, packet.dest_set
        how, listed = ALONE, b""
        if dests != roster.bits[dest]:
            how, listed = self.listed(dests, packet.source_no)
        control, needs = body[1], b"\0"
        if packet.needs:
            needs = self._stamps.put_needs(stamp.tops, packet.needs)
        elif not control:
            how += DESTS
            needs = b""
        if stamp.news is not None:
            how += NEWS
            listed += self.put_news(stamp.news)
        start = self._starts[type(stamp)].get((how << 16 | packet.source_no) << 16 | dest)
        if start is None:
            start = self._start(packet, how)
        n, seq = varint(packet.n), varint(packet.seq)
        return b"".join((start, n, seq, listed, control, needs, payload))

    def control_bytes(self, packet: Packet) -> int | None:
        """Return the length of a control, or None if it is of another kind."""
        if packet.roster is not self.roster:
            kind = kind_of(packet.protocol)
            adopted = None if kind is None else self._adopted(packet, kind)
            if adopted is None:
                odd = None if kind is None else odd_control(self, kind, packet.control)
                return None if odd is None else len(odd.body)
            packet = adopted
        stamp = packet.stamp
        if not stamp.IS_LOG:
            counts = counted_body(self, stamp)
            return None if counts is None else len(counts)
        body = self._body(stamp, packet)[1]
        return len(body + self._stamps.put_needs(stamp.tops, packet.needs)) if body else 0

    def _body(self, stamp: Stamp, packet: Packet) -> tuple[Roster, bytes]:
        """Return what the controls of all copies share, encoded; b"" if they know nothing."""
        tops, low = stamp.tops, self.roster.low
        is_known = tops[packet.source_no] > low or max(tops) > low
        made = self._stamps.put(tops, stamp.log, packet.seq) if is_known else b""
        stamp.body = body = self.roster, made
        return body

    def _start(self, packet: Packet, how: int) -> bytes:
        starts = self._starts[type(packet.stamp)]
        if len(starts) >= CACHE_MAX:
            starts.clear()
        start = self.start(packet, how)
        starts[(how << 16 | packet.source_no) << 16 | packet.dest_no] = start
        return start

    def start(self, packet: Packet, how: int) -> bytes:
        """Return what comes before the numbers of a packet with a stamp."""
        source, dest = packet.source_no, packet.dest_no
        out = bytearray((MARK,)) + self.wire.identity
        put_varint(out, TAGS * PROTOCOLS[packet.stamp.PROTOCOL].wire_number + STAMPED + how)
        if self.wire.is_paired:
            out.append(PAIR_MAX * source + dest)
        else:
            put_varint(out, source)
            put_varint(out, dest)
        return bytes(out)

    def put_news(self, news: tuple[int, int]) -> bytes:
        """Return who left and who is done, as bits."""
        return self.put_set(news[0]) + self.put_set(news[1])

    def put_set(self, mask: int) -> bytes:
        """Return members as bits."""
        return mask.to_bytes(self._set_bytes, "little")

    def listed(self, mask: int, source: int) -> tuple[int, bytes]:
        """Return the form of several destinations of a message by ``source``, and these."""
        if mask == self.others[source]:
            return OTHERS
        return self.dests.get(mask) or self.put_dests(mask)

    def put_dests(self, mask: int) -> tuple[int, bytes]:
        """Return destinations: their count and numbers where that is shorter, else bits."""
        if len(self.dests) >= CACHE_MAX:
            self.dests.clear()
        numbers = self.roster.members(mask)
        result = LIST, b"".join(map(varint, (len(numbers), *numbers)))
        if len(result[1]) >= self._set_bytes:
            result = BITS, mask.to_bytes(self._set_bytes, "little")
        self.dests[mask] = result
        return result

    def _adopted(self, packet: Packet, kind: type[Stamp]) -> Packet | None:
        """Return a packet by our numbers, or None if no endpoint would send it."""
        numbers, roster = self.roster.numbers, packet.roster
        source, dest = numbers.get(packet.source), numbers.get(packet.dest)
        if source is None or dest is None:
            return None
        if roster is None:
            return self._numbered(packet, kind, source, dest)
        if isinstance(packet.stamp, Counts):
            counts = packet.stamp.moved(roster, self.roster)
            return None if counts is None else counting_packet(self, packet, (source, dest), counts)
        by = Translation(roster, self.roster)
        stamp = type(packet.stamp)(by.tops(packet.stamp.tops), by.log(packet.stamp.log))
        needs, dests = by.keys(packet.needs), by.mask(packet.dest_set)
        if by.missing:
            return None
        if packet.stamp.news:
            stamp.news = by.mask(packet.stamp.news[0]), by.mask(packet.stamp.news[1])
            stamp.news = stamp.news if stamp.news[0] else None
        return numbered_packet(
            self.roster, source, dest, packet.n, packet.seq, dests, packet.payload, stamp, needs
        )

    def _numbered(self, packet: Packet, kind: type[Stamp], source: int, dest: int) -> Packet | None:
        """Return a packet that was made from names by our numbers, if an endpoint would send it."""
        message, roster = packet.message, self.roster
        if message is None or message.sender != packet.source:
            return None
        if issubclass(kind, Counts):
            counts = kind.read(packet.control, roster)
            return None if counts is None else counting_packet(self, packet, (source, dest), counts)
        if not are_names(packet.dests) or not roster.numbers.keys() >= {*packet.dests}:
            return None
        if packet.kind != "data" or not _is_number(packet.n) or not _is_number(message.seq):
            return None
        read = kind.of_control(packet.control, roster, dest)
        if read is None:
            return None
        dests, payload = roster.mask_of(packet.dests), packet.payload
        made = numbered_packet(roster, source, dest, packet.n, message.seq, dests, payload, *read)
        is_whole = made.control == packet.control  # only a sender's newest entry may name nobody
        return made if is_whole and _is_fine(made, self._stamps.entries_max) else None

    # Read.

    def packet(self, data: bytes) -> Packet | None:
        """Return a packet, or None if it has to be read in the general way."""
        if len(data) <= self._tag_at or data[0] != MARK:
            return None
        tag = data[self._tag_at]
        found = self._kinds.get(tag)
        try:
            if found is not None:
                return self._packet(data, found[0], found[1])
            tag, at = read_varint(data, self._tag_at)
            form = tag % TAGS - STAMPED
            kind = kind_of_tag(tag) if form >= 0 else None
            if kind is None:
                return None
            if issubclass(kind, Counts):
                return counted_packet(self, data, at, kind, form)
            if tag > 0x7F:  # logs have low numbers
                return None
            self._kinds[tag] = kind, form
            return self._packet(data, kind, form)
        except IndexError:
            reader = Reader(data, len(data))
            reader.position = len(data)
            reader.fail("ends too early, or names a process that is not a member")
        except ColumnError as error:
            Reader(data, len(data)).fail(f"{error}")

    def _packet(self, data: bytes, kind: type[Stamp], form: int) -> Packet:
        roster, at = self.roster, self._tag_at + 1
        source = data[at]
        at += 1
        if self._is_paired:
            source, dest = source >> 4, source & 15
        else:
            if source > 0x7F:
                source, at = read_varint(data, at - 1)
            dest, at = read_varint(data, at)
        n, seq = data[at], data[at + 1]
        at += 2
        if n > 0x7F or seq > 0x7F:
            n, at = read_varint(data, at - 2)
            seq, at = read_varint(data, at)
        dests = roster.bits[dest]
        news = None
        if form:  # ALONE, with a control and without news, is 0
            dests, news, form, at = self._get_rest(data, at, source, dests, form)
        needs: list[int] = []
        is_plain = news is None
        if form >= DESTS:
            tops, log = list(range(len(roster))), dict[int, int]()
        else:
            tops, log, newest, at = self._stamps.get(data, at, seq, dest)
            if newest >> INCARNATION_SHIFT:
                is_plain = False
            if data[at]:
                needs, at = self._stamps.get_needs(data, at, tops)
            else:
                at += 1
        is_fine = tops[source] >> roster.shift < seq and source != dest and dests >> dest & 1
        if not is_fine or not 0 < n <= COUNT_MAX or seq > COUNT_MAX or at > CONTROL_BYTES_MAX:
            msg = "says what no endpoint sends"
            raise ColumnError(msg)
        stamp = new_stamp(kind, tops, log, is_plain)
        if news is not None:
            stamp.news = news
        return numbered_packet(roster, source, dest, n, seq, dests, data[at:], stamp, needs)

    def _get_rest(
        self, data: bytes, at: int, source: int, only: int, form: int
    ) -> tuple[int, tuple[int, int] | None, int, int]:
        """Read destinations and news; return also the form without what it says of them."""
        dests, news = only, None
        if form % DESTS != ALONE:
            dests, at = self.get_dests(data, at, form % DESTS, source)
            if dests == only:
                msg = "lists its destination although it has no other"
                raise ColumnError(msg)
        if form >= NEWS:
            form -= NEWS
            news, at = self.get_news(data, at)
        return dests, news, form, at

    def get_set(self, data: bytes, at: int) -> tuple[int, int]:
        """Read bits, which may end too early, and return the place behind them."""
        end = at + self._set_bytes
        return int.from_bytes(data[at:end], "little"), end

    def get_news(self, data: bytes, at: int) -> tuple[tuple[int, int], int]:
        """Read who left and who is done, and return the place behind them."""
        left, at = self.get_set(data, at)
        done, end = self.get_set(data, at)
        if end > len(data) or not left or left >> self._count or done & ~left:
            msg = "has news that end too early, or are not about members that left"
            raise ColumnError(msg)
        return (left, done), end

    def get_dests(self, data: bytes, at: int, how: int, source: int) -> tuple[int, int]:
        """Read destinations as a mask, and return the place behind them."""
        others = self.others[source]
        if how == LIST and others and not data[at]:
            return others, at + 1
        if how == BITS and self._count <= 0x80:
            end = at + self._set_bytes
            mask = int.from_bytes(data[at:end], "little")
            is_short = mask.bit_count() + 1 >= self._set_bytes
        else:
            mask, end, is_short = self._get_many(data, at, how)
        if end > len(data) or mask >> self._count or not mask:
            msg = "has destinations that end too early, or are not members"
            raise ColumnError(msg)
        if not is_short or mask == others:
            msg = "has destinations in a form that is not the shortest"
            raise ColumnError(msg)
        return mask, end

    def _get_many(self, data: bytes, at: int, how: int) -> tuple[int, int, bool]:
        """Read destinations in any form, and tell whether it is the shortest."""
        mask, end = 0, at + self._set_bytes
        if how == BITS:
            mask = int.from_bytes(data[at:end], "little")
        else:
            count, end = read_varint(data, at)
            if count > self._count:
                msg = f"claims {count} destinations, but there are {self._count} members"
                raise ColumnError(msg)
            for _ in range(count):
                number, end = read_varint(data, end)
                mask |= self.roster.bits[number]
        if mask >> self._count or not mask:
            return 0, end, False
        return mask, end, (self.dests.get(mask) or self.put_dests(mask)) == (how, data[at:end])


def _is_fine(packet: Packet, entries_max: int) -> bool:
    """Tell whether an endpoint could have sent a packet whose parts are well-formed.

    It is for its destination, which is not its source, its message is newer than those it knows of
    its sender, and its log is not too long to be read quickly.
    """
    roster, source = packet.roster, packet.source_no
    assert roster is not None
    if packet.stamp.tops[source] >= packet.seq << roster.shift | source:
        return False
    if len(packet.stamp.log) > entries_max or len(packet.needs) > ENTRIES_MAX:
        return False
    return source != packet.dest_no and packet.dest_set >> packet.dest_no & 1 == 1


def _is_number(value: object) -> bool:
    return type(value) is int and 1 <= value <= INTEGER_MAX
