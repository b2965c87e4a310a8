"""A control of 1 MiB from a hostile member is refused or decoded in time linear in its length."""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random

import pytest

from antecede import PROTOCOLS, MessageId, Packet, PeerError
from antecede.core.entries import Entries
from antecede.wire import Codec
from tests.wire.runs import names

SHORT, LONG = 1 << 16, 1 << 20
FACTOR_MAX = 6 * LONG / SHORT
ENOUGH = 0.2  # seconds; less is quick, whatever the factor
CODEC = Codec(names(9))
MEMBERS = CODEC.members


def seconds(data: bytes, codec: Codec = CODEC) -> float:
    best = 1e9
    for _ in range(1 if len(data) > SHORT else 3):
        start = time.process_time()
        with suppress(PeerError):
            codec.decode(data)
        best = min(best, time.process_time() - start)
    return best


def head(protocol: str) -> bytes:
    """Return a packet's bytes up to its control."""
    source, dest = MEMBERS[:2]
    message = MessageId(source, 1)
    packet = Packet(source, dest, 1, "data", message, (dest,), b"", (0, 1), protocol)
    return CODEC.encode(packet)[: -CODEC.wire_bytes(packet)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_long_control_takes_linear_time(protocol: str) -> None:
    chance = Random(protocol)
    units = [b"\x01", b"\xc2", b"\xff", chance.randbytes(50)]
    slow = {}
    for unit in units:
        for begin in (b"", b"\xc2"):
            short, long = ((head(protocol) + begin + unit * size)[:size] for size in (SHORT, LONG))
            taken = seconds(long)
            if taken > ENOUGH and taken > FACTOR_MAX * seconds(short):
                slow[begin + unit[:4]] = taken
    assert slow == {}


@pytest.mark.parametrize("dests", [MEMBERS[2:3], MEMBERS[2:5], MEMBERS[2:]])
def test_a_long_log_takes_linear_time(dests: tuple[str, ...]) -> None:
    def data(count: int) -> bytes:
        source, dest, other = MEMBERS[:3]
        log: Entries = tuple((other, clock, dests) for clock in range(1, count + 1))
        message = MessageId(source, 1)
        return CODEC.encode(Packet(source, dest, 1, "data", message, (dest,), b"", log, "optimal"))

    taken = seconds(data(48_000))
    assert taken < ENOUGH or taken < 6 * 16 * seconds(data(3_000))


def test_a_payload_does_not_make_room_for_a_longer_control() -> None:
    codec = Codec(tuple(f"m{number:04}" for number in range(1000)))
    source, dest, other = codec.members[:3]
    half = codec.members[3::2]
    log: Entries = tuple((other, clock, half) for clock in range(1, 1001))
    message = MessageId(source, 1)
    packet = Packet(source, dest, 1, "data", message, (dest,), b"", log, "optimal")
    data = codec.encode(packet) + bytes(40 << 20)
    count = bytes([1000 & 0x7F | 0x80, 1000 >> 7])
    place = data.index(count, len(data) - len(bytes(40 << 20)) - codec.wire_bytes(packet))
    most = bytes([0x80, 0x80, 0x08])  # 2 ** 17 entries, of which each takes 125 bytes
    with pytest.raises(PeerError):
        codec.decode(data[:place] + most + data[place + 2 :])
    assert seconds(data[:place] + most + data[place + 2 :], codec) < 50 * seconds(data, codec)
