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
from antecede.net.fields import Fields, put_number, put_numbers
from antecede.net.machine import DIGEST_BYTES

VERSION: Final = 1
IDENTITY_BYTES: Final = 8
ABOVE_MAX: Final = 1024
"""How many packets behind a gap one acknowledgement names."""
_HEAD: Final = struct.Struct(f"!B{DIGEST_BYTES}s{IDENTITY_BYTES}s{IDENTITY_BYTES}s")
UNKNOWN: Final = bytes(IDENTITY_BYTES)


class Head(NamedTuple):
    """Who sends a frame to whom, as far as the sender knows."""

    setup: bytes
    source: bytes
    dest: bytes


class Frame(NamedTuple):
    """A frame: packets up to ``prefix`` and those ``above`` are saved; here are more."""

    head: Head
    prefix: int
    above: list[int]
    packets: list[tuple[int, bytes]]


def encode(
    head: Head, prefix: int, above: Iterable[int], packets: Sequence[tuple[int, bytes]]
) -> bytes:
    """Return a frame as bytes."""
    out = bytearray(_HEAD.pack(VERSION, head.setup, head.source, head.dest or UNKNOWN))
    put_number(out, prefix)
    put_numbers(out, sorted(above)[:ABOVE_MAX])
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
    prefix, above = fields.number(), fields.numbers()
    packets = []
    while fields.left:
        packets.append((fields.number(), fields.bytes()))
    return Frame(Head(setup, source, b"" if dest == UNKNOWN else dest), prefix, above, packets)
