"""Runs: packets that follow one another on a channel, of which only the first is spelt out.

A process often sends several messages in a row to the same destination and hears nothing new in
between. The second packet then says only that it comes after the first: it rests on the first, and
carries otherwise the same. So instead of its control it gets one byte. A frame begins with a whole
packet, and what rests on another packet stands right behind it in the same frame.
"""

from __future__ import annotations

from typing import Final

from antecede.core.messages import Packet, incarnation_of, numbered_packet
from antecede.core.stamps import new_stamp
from antecede.core.validation import COUNT_MAX
from antecede.errors import PeerError
from antecede.net.copies import ALONE, packet_in
from antecede.wire.codec import Codec

NEXT: Final = b"\1"
"""Stands before the payload of a packet that follows the one before. No other parcel begins so."""


def is_next(last: Packet, packet: Packet) -> bool:
    """Tell whether :func:`next_packet` makes ``packet`` from the one before on its channel."""
    roster = packet.roster
    if roster is None or packet.n != last.n + 1 or roster is not last.roster:
        return False
    if packet.seq != last.seq + 1 or packet.dest_set != last.dest_set:
        return False
    stamp, before = packet.stamp, last.stamp
    if (
        not stamp.IS_LOG
        or stamp.log != before.log
        or stamp.news is not None
        or before.news is not None
    ):
        return False
    source = packet.source_no
    key = last.seq << roster.shift | source
    tops = before.tops.copy()
    tops[source] = key
    return packet.needs == [key] and stamp.tops == tops


def next_packet(last: Packet | None, n: int, payload: bytes) -> Packet:
    """Return the packet that follows ``last``; raise PeerError if none can."""
    if last is None or last.n + 1 != n:
        msg = f"packet {n} should follow packet {n - 1}, which was not accepted before it"
        raise PeerError(msg)
    return later_packet(last, n, payload)


def later_packet(first: Packet, n: int, payload: bytes) -> Packet:
    """Return packet ``n`` of the run that ``first`` begins; raise PeerError if there is none."""
    seq = first.seq + n - first.n - 1 if first.roster is not None else 0
    if first.roster is None or seq >= COUNT_MAX:
        msg = f"packet {n} should follow packet {n - 1}, which was not accepted before it"
        raise PeerError(msg)
    roster, source, stamp = first.roster, first.source_no, first.stamp
    if stamp.news is not None or not stamp.IS_LOG:
        msg = f"packet {n} should follow packet {n - 1}, which has to be followed by a whole packet"
        raise PeerError(msg)
    key = seq << roster.shift | source
    tops = stamp.tops.copy()
    tops[source] = key
    after = new_stamp(type(stamp), tops, stamp.log, stamp.is_plain and not incarnation_of(seq))
    return numbered_packet(
        roster, source, first.dest_no, n, seq + 1, first.dest_set, payload, after, [key]
    )


def packet_of(codec: Codec, last: Packet | None, n: int, parcel: bytes) -> Packet:
    """Return the packet in a parcel; ``last`` is the one before in the same frame."""
    if parcel.startswith(NEXT):
        return next_packet(last, n, parcel[1:])
    return codec.decode(packet_in(parcel))


def standing_alone(codec: Codec, packets: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return the packets of a frame such that each can be read without the others."""
    made: list[tuple[int, bytes]] = []
    last: Packet | None = None
    for place, (n, parcel) in enumerate(packets):
        if not parcel.startswith(NEXT):
            last = None
            made.append((n, parcel))
            continue
        if last is None and place:
            last = codec.decode(packet_in(made[-1][1]))
        last = next_packet(last, n, parcel[1:])
        made.append((n, ALONE + codec.encode(last)))
    return made
