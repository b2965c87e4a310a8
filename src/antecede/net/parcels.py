"""Parcels: packets with the bytes needed to make the other copies of the same message.

If a process crashes for good within a multicast, some destinations have their copy and others do
not. The copies differ only in their number on the channel and in the control that each has alone.
So each parcel carries these few bytes for all copies, and whoever has one copy can make the others.

A process often sends several messages in a row to the same destination and delivers nothing in
between: a *run*. The second packet then says only that it comes after the first, by one byte in
place of its control. A frame begins with a whole packet, and a packet that follows another comes
right after it in the same frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from antecede.endpoint.messages import Packet, new_packet
from antecede.endpoint.rules import Wire
from antecede.endpoint.view import View
from antecede.errors import PeerError
from antecede.net.fields import Fields, put_bytes, put_number
from antecede.wire.codec import CONTROL, Codec

ALONE: Final = b"\0"
"""Precedes a packet whose message has no other copies."""
NEXT: Final = b"\1"
"""Precedes the payload of a packet that continues a run. No other parcel begins with it."""
SPELT_BYTES: Final = 1 << 20
SPELT_TIMES: Final = 10
"""When spelt out, a run may take this many bytes, and this many times its own bytes."""


def heading(view: View, ticket: int, copies: Iterable[Packet]) -> bytes:
    """Return the bytes that precede each packet of one message."""
    wire = cast("Wire", view.forms)
    out = bytearray()
    put_number(out, ticket)
    for packet in copies:
        put_number(out, packet.dest_no)
        put_number(out, packet.n)
        put_bytes(out, wire.put_own(packet))
    whole = bytearray()
    put_bytes(whole, bytes(out))
    return bytes(whole)


def packet_in(parcel: bytes) -> bytes:
    """Return the packet in a parcel; raise PeerError if it is malformed."""
    if parcel.startswith(ALONE):
        return parcel[1:]
    fields = Fields(parcel)
    fields.bytes()
    return parcel[fields.position :]


def is_control(parcel: bytes) -> bool:
    """Return whether a parcel has a control packet, which fills no inbox."""
    return parcel.startswith(ALONE) and len(parcel) > 1 and bool(parcel[1] & CONTROL)


def ticket_of(parcel: bytes) -> int:
    """Return the ticket of a parcel whose message has several copies."""
    return Fields(Fields(parcel).bytes()).number()


def copy_for(codec: Codec, parcel: bytes, dest: str) -> tuple[int, bytes] | None:
    """Return the number and the parcel of the copy for ``dest``; None if there is none."""
    fields = Fields(parcel)
    about = Fields(fields.bytes())
    packet = codec.decode(parcel[fields.position :])
    view = packet.view
    about.number()
    while about.left:
        number, n, own = about.number(), about.number(), about.bytes()
        if number == view.numbers.get(dest):
            made = new_packet(packet.content, packet.source_no, number, n, None)
            made.own, end = cast("Wire", view.forms).get_own(own, 0, made)
            if end != len(own):
                about.fail("say more than one copy does")
            return n, parcel[: fields.position] + codec.encode(made)
    return None


def later(first: Packet | None, n: int, payload: bytes) -> Packet:
    """Return packet ``n`` of the run that ``first`` is in; raise PeerError if there is none."""
    made = None
    if first is not None and n > first.n:
        made = cast("Wire", first.view.forms).later(first, n - first.n, payload)
    if made is None:
        msg = f"packet {n} should follow packet {n - 1}, which was not accepted before it"
        raise PeerError(msg)
    return made


def packet_of(codec: Codec, last: Packet | None, n: int, parcel: bytes) -> Packet:
    """Return the packet in a parcel; ``last`` is the previous packet of the same frame."""
    if not parcel.startswith(NEXT):
        return codec.decode(packet_in(parcel))
    if last is not None and last.n + 1 != n:
        last = None
    return later(last, n, parcel[1:])


def standing_alone(codec: Codec, packets: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return the packets of a frame in a form in which each can be read without the others.

    If this takes far more bytes, the last packets are left out: they will be resent.
    """
    made: list[tuple[int, bytes]] = []
    last: Packet | None = None
    room = SPELT_BYTES + SPELT_TIMES * sum([len(parcel) for _, parcel in packets])
    for place, (n, parcel) in enumerate(packets):
        if not parcel.startswith(NEXT):
            last = None
            made.append((n, parcel))
            continue
        if last is None and place:
            last = codec.decode(packet_in(made[-1][1]))
        last = packet_of(codec, last, n, parcel)
        made.append((n, ALONE + codec.encode(last)))
        room -= len(made[-1][1])
        if room < 0:
            break
    return made
