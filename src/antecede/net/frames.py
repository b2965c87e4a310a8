"""Frames between nodes: an acknowledgement and any number of packets, for one peer.

Every frame says which setup its sender runs, which store it comes from and which store it is for.
So a node that lost its state, or runs another protocol, is noticed at its first frame, whatever the
transport did with earlier frames.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Final

from antecede.errors import PeerError
from antecede.net.fields import Fields, put_bytes, put_numbers
from antecede.net.settings import DIGEST_BYTES

VERSION: Final = 4
IDENTITY_BYTES: Final = 8
ABOVE_MAX: Final = 1024
"""How many packets after a gap one acknowledgement names."""
PACKETS_MAX: Final = 1 << 10
NOTES_MAX: Final = 1 << 10
"""How many packets and notes a frame may have: even a short one takes much memory."""
_WHO: Final = struct.Struct(f"!B{DIGEST_BYTES}s{IDENTITY_BYTES}s{IDENTITY_BYTES}sIIIII")
"""The version, the sender and the receiver: the same in all frames until one of them restarts."""
_WHAT: Final = struct.Struct("!QQQHHIQ")
"""The numbers of one frame; see :func:`encode`."""
_HEAD_BYTES: Final = _WHO.size + _WHAT.size
UNKNOWN: Final = bytes(IDENTITY_BYTES)
_PARCEL: Final = itemgetter(1)


class Head:
    """The sender and the receiver of a frame, as far as the sender knows.

    ``view`` is the number of the view of packets and acknowledgements, ``stable`` the sender's
    ticket up to which all destinations have its messages in that view. ``opening`` says how often
    the sender's store was opened, ``mark`` is chosen at random each time; ``known`` and
    ``known_mark`` are the receiver's, as the sender knows them. The receiver has already
    acknowledged all packets below number ``low``.
    """

    __slots__ = (
        "dest",
        "known",
        "known_mark",
        "low",
        "mark",
        "opening",
        "setup",
        "source",
        "stable",
        "view",
        "who",
    )

    def __init__(
        self,
        setup: bytes,
        source: bytes,
        dest: bytes = b"",
        view: int = 0,
        opening: int = 1,
        mark: int = 0,
        known: int = 0,
        known_mark: int = 0,
        stable: int = 0,
        low: int = 0,
    ) -> None:
        self.setup = setup
        self.source = source
        self.dest = dest
        self.view = view
        self.opening = opening
        self.mark = mark
        self.known = known
        self.known_mark = known_mark
        self.stable = stable
        self.low = low
        self.who = _WHO.pack(
            VERSION, setup, source, dest or UNKNOWN, view, opening, mark, known, known_mark
        )
        """All fields but ``stable`` and ``low``, as bytes."""


class Frame:
    """A frame: its sender has saved packets up to ``prefix`` and those ``above``, and sends more.

    ``notes`` concern the group; they must be processed before the packets.
    """

    __slots__ = ("above", "head", "notes", "packets", "prefix")

    def __init__(
        self,
        head: Head,
        prefix: int,
        above: list[int],
        packets: list[tuple[int, bytes]],
        notes: list[bytes],
    ) -> None:
        self.head = head
        self.prefix = prefix
        self.above = above
        self.packets = packets
        self.notes = notes


def encode(
    head: Head,
    prefix: int,
    above: Collection[int],
    packets: Sequence[tuple[int, bytes]],
    notes: Sequence[bytes] = (),
) -> bytes:
    """Return a frame as bytes."""
    behind = sorted(above)[:ABOVE_MAX] if above else []
    count, notes = len(packets), notes[:NOTES_MAX]  # lost notes are sent again
    first = packets[0][0] if count and packets[-1][0] - packets[0][0] == count - 1 else 0
    numbers = _WHAT.pack(head.stable, head.low, prefix, len(behind), len(notes), count, first)
    parts = [head.who, numbers]
    if behind or notes or (count and not first):
        out = bytearray()
        if behind:
            put_numbers(out, behind)
        for note in notes:
            put_bytes(out, note)
        if count and not first:
            put_numbers(out, [n for n, _ in packets])
        parts.append(bytes(out))
    if count:
        parcels = list(map(_PARCEL, packets))
        parts.append(struct.pack(f"!{count}I", *map(len, parcels)))
        parts += parcels
    return b"".join(parts)


def decode(data: bytes, last: Head | None = None) -> Frame:
    """Return the frame; raise PeerError for anything else.

    If sender and receiver are as in ``last``, that head is updated and used again.
    """
    if len(data) < _HEAD_BYTES:
        msg = f"a frame of {len(data)} bytes is too short; the peer does not speak our protocol"
        raise PeerError(msg)
    stable, low, prefix, behind, noted, count, first = _WHAT.unpack_from(data, _WHO.size)
    if last is None or not data.startswith(last.who):
        head = _head(data, stable, low)
    else:
        head = last
        head.stable, head.low = stable, low
    if count > PACKETS_MAX or noted > NOTES_MAX:
        msg = f"a frame claims {count} packets and {noted} notes, which is too many"
        raise PeerError(msg)
    if not behind and not noted and (first or not count):
        return Frame(head, prefix, [], _packets(data, _HEAD_BYTES, count, first, ()), [])
    fields = Fields(data, _HEAD_BYTES)
    above = fields.numbers(ABOVE_MAX) if behind else []
    notes = [fields.bytes() for _ in range(noted)]
    places = fields.numbers(count) if count and not first else []
    packets = _packets(data, fields.position, count, first, places)
    return Frame(head, prefix, above, packets, notes)


def _head(data: bytes, stable: int, low: int) -> Head:
    version, setup, source, dest, view, opening, mark, known, known_mark = _WHO.unpack_from(data)
    if version != VERSION:
        msg = (
            f"a frame has version {version}, expected {VERSION}; run the same version of antecede "
            "on both sides"
        )
        raise PeerError(msg)
    dest = b"" if dest == UNKNOWN else dest
    return Head(setup, source, dest, view, opening, mark, known, known_mark, stable, low)


def _packets(
    data: bytes, start: int, count: int, first: int, numbers: Sequence[int]
) -> list[tuple[int, bytes]]:
    """Read packets after all their lengths; they are numbered from ``first``, or as given."""
    position, end = start + 4 * count, len(data)
    is_ascending = not numbers or all(a < b for a, b in pairwise(numbers))
    if position > end or (count and not first and len(numbers) != count) or not is_ascending:
        Fields(data, start).fail("do not number their packets")
    ends = list(accumulate(struct.unpack_from(f"!{count}I", data, start), initial=position))
    if ends[-1] != end:
        Fields(data, start).fail(f"end with packets that should end at byte {ends[-1]}")
    places = range(first, first + count) if first else numbers
    return [(n, data[a:b]) for n, a, b in zip(places, ends, ends[1:], strict=False)]
