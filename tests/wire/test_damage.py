"""Bytes that no Codec made give a PeerError or a valid packet, nothing else, and quickly."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import antecede
from antecede import MessageId, Packet, PeerError, UnknownProcessError, UsageError
from antecede.wire import Codec, roster
from antecede.wire.codec import PACKET_BYTES_MAX
from tests.wire.fuzz import Campaign
from tests.wire.runs import Run, names

CODEC = Codec(names(5))


def encoded(protocol: str, count: int, seed: int = 9) -> tuple[Codec, list[bytes]]:
    codec = Codec(names(count))
    packets = Run(protocol, codec.members, seed).go(60).packets
    assert packets
    return codec, [codec.encode(packet) for packet in packets[-6:]]


def is_harmless(codec: Codec, data: bytes) -> bool:
    """Decode; whatever is accepted must be what encodes to the same bytes."""
    try:
        route = codec.route(data)
    except PeerError:
        route = None
    try:
        packet = codec.decode(data)
    except PeerError as error:
        return "\n" not in str(error)
    if route != (packet.source, packet.dest, packet.n):
        return False
    return type(packet) is Packet and Codec(codec.members[: data[1]]).encode(packet) == data


@pytest.mark.parametrize("protocol", antecede.PROTOCOLS)
def test_cut_at_every_byte(protocol: str) -> None:
    codec, some = encoded(protocol, 5)
    for data in some:
        assert all(is_harmless(codec, data[:length]) for length in range(len(data)))


@pytest.mark.parametrize("protocol", ["optimal", "pruned", "broadcast", "matrix", "vectors"])
def test_a_packet_with_a_stamp_has_no_other_form(protocol: str) -> None:
    codec = Codec(names(5))
    packets = Run(protocol, codec.members, 9).go(60).packets
    for packet in packets:
        if codec._now.head(packet) is not None:
            other = codec._head(packet, codec._now) + packet.payload  # by names
            with pytest.raises(PeerError, match="not in canonical form"):
                codec.decode(other)
            assert codec.decode(codec.encode(packet)) == packet


@pytest.mark.parametrize("protocol", antecede.PROTOCOLS)
def test_every_bit_flipped_in_turn(protocol: str) -> None:
    codec, some = encoded(protocol, 5)
    for data in some:
        for bit in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[bit >> 3] ^= 1 << (bit & 7)
            assert is_harmless(codec, bytes(flipped))


@pytest.mark.parametrize("protocol", antecede.PROTOCOLS)
def test_five_members_meet_a_packet_of_six(protocol: str) -> None:
    _, some = encoded(protocol, 6)
    five = Codec(names(5))
    for data in some:
        with pytest.raises(UnknownProcessError, match="assumes 6 members, this Codec has 5"):
            five.decode(data)
    five.add(names(6)[5])
    assert all(five.encode(five.decode(data)) == data for data in some)


@pytest.mark.parametrize("protocol", antecede.PROTOCOLS)
def test_a_codec_that_grew_reads_packets_from_before(protocol: str) -> None:
    five, some = encoded(protocol, 5)
    six = Codec(names(6))
    for data in some:
        assert six.decode(data) == five.decode(data)


def test_another_version_is_named() -> None:
    _, some = encoded("optimal", 5)
    for version in [0, 1, *range(3, 8)]:
        with pytest.raises(PeerError, match=f"in version {version} of the format"):
            CODEC.decode(bytes((0xA0 + version,)) + some[0][1:])
    with pytest.raises(PeerError, match="starts with 0xb2, so it is not a packet"):
        CODEC.decode(b"\xb2" + some[0][1:])


@pytest.mark.parametrize("data", ["text", None, 3, ["a"]])
def test_only_bytes_are_decoded(data: bytes) -> None:
    with pytest.raises(UsageError, match="expected bytes"):
        CODEC.decode(data)


def test_other_buffers_are_bytes_too() -> None:
    _, some = encoded("optimal", 5)
    for data in (memoryview(some[0]), bytearray(some[0])):
        assert CODEC.decode(data) == CODEC.decode(some[0])  # type: ignore[arg-type]


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    assert is_harmless(CODEC, data)


@settings(max_examples=600)
@given(st.sampled_from((0xC3, 0xE5, 0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6)), st.binary(max_size=60))
def test_any_control(tag: int, data: bytes) -> None:
    """A good header, then a control of each form made of any bytes."""
    head = CODEC.encode(
        Packet("p03", "p10", 1, "data", MessageId("p03", 1), ("p10",), b"", 0, "optimal")
    )
    assert head[-1] == 0
    assert is_harmless(CODEC, head[:-1] + bytes((tag,)) + data)


def test_a_short_campaign_finds_nothing() -> None:
    """The ten-minute form is ``python -m tests.wire.fuzz``; docs/wire.md describes it."""
    campaign = Campaign(seed=2)
    for _ in range(6000):
        campaign.step()
    assert campaign.findings == []
    assert campaign.counts["packets accepted"] > 100
    assert campaign.counts["decode: PeerError"] > 1000
    assert campaign.counts["snapshots accepted"] > 5


def test_huge_promises_cost_nothing() -> None:
    """Lengths are compared with what is left before anything is made of them."""
    head = CODEC.encode(
        Packet("p03", "p10", 1, "data", MessageId("p03", 1), ("p10",), b"", 0, "optimal")
    )[:-1]
    most = b"\xff" * 8 + b"\x7f"
    start = time.process_time()
    for control in (b"\xe5", b"\xe6", b"\xe8", b"\xf1", b"\xf4" + most, b"\xf6" + most):
        with pytest.raises(PeerError):
            CODEC.decode(head + control + most)
        with pytest.raises(PeerError):
            CODEC.decode(head + control + most + bytes(1000))
    assert time.process_time() - start < 1
    with pytest.raises(PeerError, match="longer than the 67108864"):
        CODEC.decode(bytes(PACKET_BYTES_MAX + 1))


def test_nesting_is_bounded() -> None:
    head = CODEC.encode(
        Packet("p03", "p10", 1, "data", MessageId("p03", 1), ("p10",), b"", 0, "optimal")
    )[:-1]
    with pytest.raises(PeerError, match="nests deeper than 32 levels"):
        CODEC.decode(head + b"\xc1" * 100_000 + b"\x00")


def test_complements_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A complement makes many names of a few bits; past the grant, bit sets are used and due."""
    count = 200
    monkeypatch.setattr(roster, "GRANT", count * (count + 1))
    big = Codec(tuple(f"m{number:04}" for number in range(count)))
    a, b = big.members[:2]
    log = tuple((name, 1, big.members) for name in big.members)
    packet = Packet(a, b, 1, "data", MessageId(a, 1), (b,), b"", log, "optimal")
    once = big.encode(packet)
    assert len(once) < 3 * count
    assert big.decode(once) == packet
    twice = big.encode(replace(packet, control=(log, log)))
    assert len(twice) > len(once) + count * count // 8
    assert big.decode(twice).control == (log, log)
    control = once[-big.wire_bytes(packet) :]
    with pytest.raises(PeerError, match="more complements than are allowed"):
        big.decode(once[: -len(control)] + b"\xc2" + control + control)


def test_few_bits_cannot_become_too_many_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = CODEC.members[:2]
    shapes = (
        (0,) * 400,
        ((0, 0),) * 200,
        ((a, 1),) * 200,
        (((a, 1),), ((b, 1),) * 150),
        tuple((a, clock, (b,)) for clock in range(1, 401)),
        (((0,) * 190, b"x"),) * 2,
    )
    for control in shapes:
        packet = Packet(a, b, 1, "control", None, (), b"", control, "history")
        data = CODEC.encode(packet)
        with monkeypatch.context() as patch:
            patch.setattr(roster, "CELLS_MAX", 300)
            with pytest.raises(UsageError, match="control has more than 300 numbers"):
                CODEC.encode(packet)
            with pytest.raises(PeerError, match="control has more than 300 numbers"):
                CODEC.decode(data)


def test_time_is_linear_in_the_input() -> None:
    """Ten times the input takes about ten times as long, in every form."""
    codec = Codec(names(9))
    a, b, c = codec.members[:3]
    assert b < c
    shapes: dict[str, Callable[[int], tuple[object, ...]]] = {
        "numbers": lambda size: (1,) * 3 * size,
        "tuples": lambda size: (((),) * 30,) * (size // 10),
        "others": lambda size: (b"x", "y", None, -5) * size,
        "records": lambda size: tuple((codec.members[k % 9], k, k) for k in range(size)),
        "groups": lambda size: tuple(((codec.members[k % 9], k),) for k in range(size)),
        "logs": lambda size: tuple((a, k + 1, (b, c)) for k in range(size)),
    }
    slow = {}
    for name, shape in shapes.items():
        small, large = (
            codec.encode(Packet(a, b, 1, "control", None, (), b"", shape(size), "history"))
            for size in (300, 3000)
        )
        ratio = seconds(codec, large) / seconds(codec, small)
        if ratio > 50:
            slow[name] = ratio
    assert slow == {}


def seconds(codec: Codec, data: bytes) -> float:
    best = 1e9
    for _ in range(3):
        start = time.process_time()
        codec.decode(data)
        best = min(best, time.process_time() - start)
    return best
