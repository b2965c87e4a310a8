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
    parcels = [parcel for _, parcel in packets]
    numbers = [n for n, _ in packets]
    is_run = bool(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1
    put_number(out, len(numbers))
    out.append(is_run)
    if is_run:
        put_number(out, numbers[0])
    else:
        put_numbers(out, numbers)
    out += struct.pack(f"!{len(parcels)}I", *map(len, parcels))
    return b"".join((out, *parcels))


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
    packets = _packets(fields)
    head = Head(setup, source, b"" if dest == UNKNOWN else dest, view, stable)
    return Frame(head, prefix, above, packets, notes)


def _packets(fields: Fields) -> list[tuple[int, bytes]]:
    """Read numbered packets: mostly a run of numbers, then all lengths, then all bytes."""
    count, is_run = fields.count("packets"), fields.byte()
    first = fields.number() if is_run == 1 else 0
    numbers = range(first, first + count) if is_run == 1 else fields.numbers()
    data, start = fields.data, fields.position
    position = start + 4 * count
    if is_run > 1 or len(numbers) != count or position > len(data):
        fields.fail("do not number their packets")
    packets = []
    for n, size in zip(numbers, struct.unpack_from(f"!{count}I", data, start), strict=True):
        packets.append((n, data[position : position + size]))
        position += size
    if position != len(data):
        fields.fail(f"end with packets that should end at byte {position}")
    return packets
