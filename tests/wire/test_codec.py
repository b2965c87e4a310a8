"""Packets as bytes: every protocol, every size, one form, and refusals in one line."""

import random

import pytest

import antecede
from antecede import Codec, OtherViewError, PeerError, UsageError
from antecede.endpoint.messages import COUNT_MAX, PAYLOAD_MAX
from tests.support.rounds import some
from tests.support.wire_runs import Run, names, variants
from tests.wire.fuzz import Campaign

VARIANTS = variants()
LABELS = [f"{name} {' '.join(options)}".strip() for name, options in VARIANTS]


def codec_of(run: Run) -> Codec:
    return Codec(run.endpoints[run.members[0]])


@pytest.mark.parametrize(("protocol", "options"), VARIANTS, ids=LABELS)
@pytest.mark.parametrize("count", [2, 3, 7, 16, 17, 40])
def test_what_is_encoded_can_be_decoded(
    protocol: str, options: dict[str, object], count: int
) -> None:
    run = Run(protocol, names(count), count, options).go(some(180 if count < 20 else 90))
    codec = codec_of(run)
    assert run.packets
    for packet in run.packets:
        data = codec.encode(packet)
        again = codec.decode(data)
        assert again == packet
        assert codec.encode(again) == data
        assert codec.route(data) == (packet.source, packet.dest, packet.n)
        bare = codec.encode(packet, payload=False)
        assert data == bare + packet.payload
        assert codec.decode(bare).payload == b""
        assert 0 <= codec.wire_bytes(packet) < len(bare)


COUNTED = {"matrix", "semantic", "bounded"}
"""Here numbers of messages travel beside the paper's own; ``Packet.control`` omits them."""


@pytest.mark.parametrize(("protocol", "options"), VARIANTS, ids=LABELS)
def test_every_cut_and_every_flipped_bit_is_refused_or_means_something_else(
    protocol: str, options: dict[str, object]
) -> None:
    run = Run(protocol, names(4), 5, options).go(60)
    codec = codec_of(run)
    refusals: list[str] = []
    for packet in run.packets[-3:]:
        data = codec.encode(packet, payload=False)
        for length in range(len(data)):
            with pytest.raises(PeerError):
                codec.decode(data[:length])
        for place in range(len(data) * 8):
            other = bytearray(data)
            other[place >> 3] ^= 1 << (place & 7)
            try:
                found = codec.decode(bytes(other))
            except PeerError as error:
                refusals.append(str(error))
            else:
                assert found != packet or protocol in COUNTED
                assert codec.encode(found) == bytes(other)
    assert refusals
    assert not [text for text in refusals if "\n" in text]


@pytest.mark.parametrize("count", [64, 100, 255, 256, 257, 366, 700])
def test_groups_of_any_size_write_what_they_read(count: int) -> None:
    """A group of 366 wrote packets of optimal that nobody could read."""
    members = tuple(f"p{number}" for number in range(count))
    chance = random.Random(count)
    ends = [antecede.endpoint("optimal", process=name, members=members) for name in members]
    codec = Codec(ends[0])
    for step in range(some(3 * min(count, 256))):
        sender = step % count
        dests = chance.sample(members, chance.choice((1, 2, 3, count // 2)))
        for packet in ends[sender].send(dests).packets[:40]:
            data = codec.encode(packet)
            again = codec.decode(data)
            assert codec.encode(again) == data
            if chance.random() < 0.3:
                ends[members.index(packet.dest)].receive(again)


def test_a_dense_log_of_a_large_group_can_be_read() -> None:
    """Every process has sent to every other, and nobody has heard of a delivery."""
    count = 366
    members = tuple(f"p{number}" for number in range(count))
    last = antecede.endpoint("optimal", process=members[-1], members=members)
    codec = Codec(last)
    for name in members[:-1]:
        end = antecede.endpoint("optimal", process=name, members=members)
        for packet in end.send(members).packets:
            if packet.dest == members[-1]:
                last.receive(packet)
    packet = last.send([members[0]]).packets[0]
    data = codec.encode(packet)
    assert codec.decode(data) == packet
    assert len(packet.control) == count - 1  # type: ignore[arg-type]


def test_numbers_near_their_limit_are_encoded() -> None:
    ends = {
        name: antecede.endpoint("optimal", process=name, members=("a", "b", "c")) for name in "abc"
    }
    codec = Codec(ends["a"])
    text = codec.snapshot(ends["a"]).decode().replace('"seq":0,"events":0', '"seq":%d,"events":%d')
    high = codec.restore((text % (COUNT_MAX >> 1, COUNT_MAX >> 1)).encode(), resumed=True)
    packet = high.send(["b"]).packets[0]
    assert codec.decode(codec.encode(packet)) == packet
    (delivery,) = ends["b"].receive(codec.decode(codec.encode(packet))).deliveries
    assert delivery.message == antecede.MessageId("a", (COUNT_MAX >> 1) + 1)
    later = ends["b"].send(["c"]).packets[0]
    assert codec.decode(codec.encode(later)) == later


def test_a_payload_that_cannot_be_encoded_is_refused_before_anything_changes() -> None:
    end = antecede.endpoint("optimal", process="a", members=("a", "b"))
    before = Codec(end).snapshot(end)
    with pytest.raises(UsageError, match="at most 67108864 can be sent"):
        end.send(["b"], bytes(PAYLOAD_MAX + 1))
    with pytest.raises(UsageError, match="payload is str"):
        end.send(["b"], "text")  # type: ignore[arg-type]
    assert Codec(end).snapshot(end) == before
    largest = end.send(["b"], bytes(PAYLOAD_MAX)).packets[0]
    assert Codec(end).decode(Codec(end).encode(largest)).payload == largest.payload


def test_a_codec_of_members_learns_its_view() -> None:
    members = ("a", "b", "c")
    sender = antecede.endpoint("broadcast", process="a", members=members, view=4)
    packet = sender.send(["b", "c"], b"hello").packets[0]
    data = Codec(members).encode(packet)
    assert Codec(members).decode(data) == packet
    assert Codec(sender).decode(data) == packet
    assert Codec(sender.view).members == members
    odd = antecede.endpoint("optimal", process="a", members=members, differential=True)
    data = Codec(odd).encode(odd.send(["b"]).packets[0])
    with pytest.raises(PeerError, match="does not know"):
        Codec(members).decode(data)


def test_packets_of_other_views_are_refused_with_both_numbers() -> None:
    members = ("a", "b")
    old, new = (
        antecede.endpoint("optimal", process="a", members=members, view=number) for number in (1, 2)
    )
    packets = {number: end.send(["b"]).packets[0] for number, end in ((1, old), (2, new))}
    with pytest.raises(OtherViewError, match="drop it") as late:
        Codec(new).decode(Codec(old).encode(packets[1]))
    assert (late.value.number, late.value.current) == (1, 2)
    with pytest.raises(OtherViewError, match="offer it again in view 2") as early:
        Codec(old).decode(Codec(new).encode(packets[2]))
    assert (early.value.number, early.value.current) == (2, 1)
    with pytest.raises(UsageError, match="make one for it"):
        Codec(old).encode(packets[2])
    other = antecede.endpoint("matrix", process="a", members=members, view=1)
    with pytest.raises(PeerError, match="another view with the same number 1"):
        Codec(old).decode(Codec(other).encode(other.send(["b"]).packets[0]))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x20\x00", bytes(40), b"\x34" * 9])
def test_bytes_that_are_no_packet(data: bytes) -> None:
    end = antecede.endpoint("optimal", process="a", members=("a", "b"))
    for codec in (Codec(end), Codec(("a", "b"))):
        with pytest.raises(PeerError) as caught:
            codec.decode(data)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="expected bytes"):
        Codec(end).decode("text")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="expected a Packet"):
        Codec(end).encode(b"bytes")  # type: ignore[arg-type]


def test_bytes_of_an_older_version_are_refused_in_one_line() -> None:
    end = antecede.endpoint("optimal", process="a", members=("a", "b"))
    data = Codec(end).encode(end.send(["b"]).packets[0])
    with pytest.raises(PeerError, match="version 2, not 3: its sender runs another release"):
        Codec(end).decode(bytes((0x20 | data[0] & 15,)) + data[1:])


def test_a_short_campaign_of_damaged_bytes_finds_nothing() -> None:
    campaign = Campaign(seed=7)
    for _ in range(4500):
        campaign.step()
    assert not campaign.findings
    assert campaign.counts["packets accepted"] > 50
    assert campaign.counts["snapshots accepted"] > 50
