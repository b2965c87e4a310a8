"""Packets that count, by numbers: :mod:`antecede.wire.quick` for another kind of stamps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from antecede.core.counts import NO_NEEDS, Counts
from antecede.core.messages import Packet, numbered_packet
from antecede.core.validation import COUNT_MAX, are_names, is_count
from antecede.wire.counts import get_counts, put_counts
from antecede.wire.lanes import ColumnError, read_varint, varint
from antecede.wire.roster import PAIR_MAX
from antecede.wire.stream import CONTROL_BYTES_MAX

if TYPE_CHECKING:
    from antecede.core.stamps import Stamp
    from antecede.wire.quick import Quick

STARTS_MAX: Final = 4096
ALONE: Final = 0
LIST: Final = 1
BITS: Final = 2
DESTS: Final = 3
"""The destinations of a packet with a stamp: one, a list or bits; and how many kinds there are."""
OTHERS: Final = (LIST, b"\0")
"""All but the sender, where that is shorter: a list of nobody."""


def counted_body(quick: Quick, stamp: Stamp) -> bytes | None:
    """Return what all copies of a message that counts carry, if it has the usual form."""
    if not isinstance(stamp, Counts):
        return None
    body = stamp.body
    if body is not None and body[0] is quick.roster:
        return body[1]
    made = put_counts(stamp, len(quick.roster))
    if made is not None:
        stamp.body = quick.roster, made
    return made


def counted_head(quick: Quick, packet: Packet, payload: bytes) -> bytes | None:
    """Return a packet that counts, with this payload, or None if it has to go by names."""
    control = counted_body(quick, packet.stamp)
    if control is None:
        return None
    dest, dests = packet.dest_no, packet.dest_set
    how, listed = ALONE, b""
    if dests != quick.roster.bits[dest]:
        how, listed = quick.listed(dests, packet.source_no)
    place = packet.stamp.PROTOCOL, (how << 16 | packet.source_no) << 16 | dest
    start = quick.counted_starts.get(place)
    if start is None:
        if len(quick.counted_starts) >= STARTS_MAX:
            quick.counted_starts.clear()
        start = quick.counted_starts[place] = quick.start(packet, how)
    n, seq = packet.n, packet.seq
    numbers = bytes((n, seq)) if n < 0x80 and seq < 0x80 else varint(n) + varint(seq)
    return b"".join((start, numbers, listed, control, payload))


def counting_packet(
    quick: Quick, packet: Packet, channel: tuple[int, int], counts: Counts
) -> Packet | None:
    """Return a packet by the numbers of a Codec, if an endpoint would send it."""
    roster, message, dests = quick.roster, packet.message, packet.dests
    source, dest = channel
    if message is None or packet.kind != "data" or not are_names(dests):
        return None
    if not roster.numbers.keys() >= set(dests) or packet.dest not in dests or source == dest:
        return None
    if not is_count(packet.n, 1) or not is_count(message.seq, 1):
        return None
    targets = roster.mask_of(dests)
    return numbered_packet(
        roster, source, dest, packet.n, message.seq, targets, packet.payload, counts, NO_NEEDS
    )


def counted_packet(quick: Quick, data: bytes, at: int, kind: type[Counts], how: int) -> Packet:
    """Read a packet that counts, from behind its tag on."""
    roster = quick.roster
    if quick.wire.is_paired:
        source, dest = data[at] // PAIR_MAX, data[at] % PAIR_MAX
        at += 1
    else:
        source, at = read_varint(data, at)
        dest, at = read_varint(data, at)
    n, at = read_varint(data, at)
    seq, at = read_varint(data, at)
    dests = only = roster.bits[dest]
    if how != ALONE:
        if how >= DESTS:
            msg = f"counts in form {how}, which this version does not know"
            raise ColumnError(msg)
        dests, at = quick.get_dests(data, at, how, source)
    counts, at = get_counts(kind, data, at, roster)
    is_fine = source != dest and dests & only and source < len(roster)
    is_fine = is_fine and (dests == only) == (how == ALONE) and at <= CONTROL_BYTES_MAX
    if not is_fine or not 0 < n <= COUNT_MAX or not 0 < seq <= COUNT_MAX:
        msg = "says what no endpoint sends"
        raise ColumnError(msg)
    return numbered_packet(roster, source, dest, n, seq, dests, data[at:], counts, NO_NEEDS)
