"""Parcels: packets that carry what it takes to make the other copies of the same message.

If a process crashes for good within a multicast, some destinations have their copy and others have
not. The copies differ only in their number on the channel and in the last part of the control. So
each parcel carries these few bytes for all copies, and whoever has one copy can make the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from os.path import commonprefix
from typing import Final

from antecede.core.messages import Packet, numbered_packet
from antecede.net.fields import Fields, put_bytes, put_number
from antecede.wire.codec import Codec

ALONE: Final = b"\0"
"""Stands before a packet whose message has no other copies."""


def heading(codec: Codec, packets: Iterable[Packet], numbers: Mapping[str, int]) -> bytes:
    """Return what stands before each packet of one message; ``numbers`` are those of the codec."""
    copies = [packet for packet in packets if packet.message is not None]
    if len(copies) < 2:
        return ALONE
    first = copies[0].dest
    heads = [codec.encode(_renamed(packet, first, 1), payload=False) for packet in copies]
    shared = len(commonprefix(heads))  # noqa: RUF071 - any bytes will do, not only paths
    out = bytearray()
    put_number(out, len(codec.members))
    put_number(out, len(copies))
    for packet, head in zip(copies, heads, strict=True):
        put_number(out, numbers[packet.dest])
        put_number(out, packet.n)
        put_bytes(out, head[shared:])
    whole = bytearray()
    put_bytes(whole, bytes(out))
    return bytes(whole)


def packet_in(parcel: bytes) -> bytes:
    """Return the packet in a parcel; raise PeerError for what is not a parcel."""
    if parcel.startswith(ALONE):
        return parcel[1:]
    fields = Fields(parcel)
    fields.bytes()
    return parcel[fields.position :]


def copy_for(codec: Codec, parcel: bytes, dest: str) -> tuple[int, bytes] | None:
    """Return the number and the parcel of the copy for ``dest``; None if there is none."""
    fields = Fields(parcel)
    about = Fields(fields.bytes())
    if not about.left:
        return None
    data = parcel[fields.position :]
    # Its sender may have known fewer members than there are now.
    then = Codec(codec.members[: about.number()])
    rest = {}
    for _ in range(about.count("copies")):
        number = about.number()
        if number >= len(then.members):
            about.fail("name a process that is not a member")
        rest[then.members[number]] = about.number(), about.bytes()
    packet = then.decode(data)
    if dest not in rest or packet.dest not in rest:
        return None
    first = next(iter(rest))
    head = then.encode(_renamed(packet, first, 1), payload=False)
    shared = head[: len(head) - len(rest[packet.dest][1])]
    n, tail = rest[dest]
    other = then.decode(shared + tail + packet.payload)
    return n, parcel[: fields.position] + then.encode(_renamed(other, dest, n))


def _renamed(packet: Packet, dest: str, n: int) -> Packet:
    """Return the same packet with another destination and number."""
    roster = packet.roster
    if roster is None:
        return replace(packet, dest=dest, n=n)
    return numbered_packet(
        roster,
        packet.source_no,
        roster.numbers[dest],
        n,
        packet.seq,
        packet.dest_set,
        packet.payload,
        packet.stamp,
        packet.needs,
    )
