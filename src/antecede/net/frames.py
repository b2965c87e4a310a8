"""Frames between nodes: an acknowledgement and any number of packets, for one peer.

Every frame says which setup its sender runs, which store it comes from and which store it is meant
for. So a node that lost its state, or runs another protocol, is noticed at its first frame,
whatever the transport did with the frames before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from antecede.errors import PeerError
from antecede.net.fields import Fields, put_bytes, put_number, put_numbers
from antecede.net.setups import DIGEST_BYTES

VERSION: Final = 2
IDENTITY_BYTES: Final = 8
ABOVE_MAX: Final = 1024
"""How many packets behind a gap one acknowledgement names."""
_HEAD: Final = struct.Struct(f"!B{DIGEST_BYTES}s{IDENTITY_BYTES}s{IDENTITY_BYTES}s")
UNKNOWN: Final = bytes(IDENTITY_BYTES)


class Head(NamedTuple):
    """Who sends a frame to whom, as far as the sender knows.

    ``view`` is the number of the sender's view, ``stable`` that of its message up to which all
    destinations have all of its messages.
    """

    setup: bytes
    source: bytes
    dest: bytes
    view: int = 0
    stable: int = 0


class Frame(NamedTuple):
    """A frame: packets up to ``prefix`` and those ``above`` are saved; here are more.

    ``notes`` concern the group; they are to be read before the packets.
    """

    head: Head
    prefix: int
    above: list[int]
    packets: list[tuple[int, bytes]]
    notes: list[bytes]


def encode(
    head: Head,
    prefix: int,
    above: Iterable[int],
    packets: Sequence[tuple[int, bytes]],
    notes: Sequence[bytes] = (),
) -> bytes:
    """Return a frame as bytes."""
    out = bytearray(_HEAD.pack(VERSION, head.setup, head.source, head.dest or UNKNOWN))
    put_number(out, head.view)
    put_number(out, head.stable)
    put_number(out, prefix)
    put_numbers(out, sorted(above)[:ABOVE_MAX])
    put_number(out, len(notes))
    for note in notes:
        put_bytes(out, note)
    for n, packet in packets:
        put_number(out, n)
        put_number(out, len(packet))
        out += packet
    return bytes(out)


def decode(data: bytes) -> Frame:
    """Return the frame; raise PeerError for anything else."""
    if len(data) < _HEAD.size:
        msg = f"a frame of {len(data)} bytes is too short; the peer does not speak our protocol"
        raise PeerError(msg)
    version, setup, source, dest = _HEAD.unpack_from(data)
    if version != VERSION:
        msg = (
            f"a frame has version {version}, expected {VERSION}; run the same version of antecede "
            "on both sides"
        )
        raise PeerError(msg)
    fields = Fields(data, _HEAD.size)
    view, stable = fields.number(), fields.number()
    prefix, above = fields.number(), fields.numbers()
    notes = [fields.bytes() for _ in range(fields.count("notes"))]
    packets, end = [], len(data)
    while fields.position < end:
        packets.append((fields.number(), fields.bytes()))
    head = Head(setup, source, b"" if dest == UNKNOWN else dest, view, stable)
    return Frame(head, prefix, above, packets, notes)
