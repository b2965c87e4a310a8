"""Members that differ, come and go: bytes are decoded under the right names or not at all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import antecede
from antecede import MessageId, Packet, PeerError, UnknownProcessError, UsageError
from antecede.wire import Codec, stream
from antecede.wire.codec import PREFIX_CELLS_MAX
from tests.wire.runs import Run, names

PROTOCOLS = sorted(antecede.PROTOCOLS)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_added_in_another_order_are_noticed(protocol: str) -> None:
    one, other = Codec(("a", "b")), Codec(("a", "b"))
    for name, twin in (("x", "y"), ("y", "x")):
        one.add(name)
        other.add(twin)
    packet = Packet("b", "x", 1, "data", MessageId("b", 1), ("x",), b"", (), protocol)
    ours, theirs = (codec._now.wire.roster.digest.hex() for codec in (one, other))
    with pytest.raises(PeerError, match=f"digests are {ours} and {theirs}.*same order") as caught:
        other.decode(one.encode(packet))
    assert not isinstance(caught.value, UnknownProcessError)
    with pytest.raises(antecede.SnapshotError, match=f"{ours} and {theirs}"):
        other.restore(one.snapshot(antecede.endpoint("optimal", process="b", members=("b", "x"))))


def test_a_newcomer_after_a_removal_reads_nothing_under_wrong_names() -> None:
    ends = {name: antecede.endpoint("optimal", process=name, members=tuple("abc")) for name in "bc"}
    codec = Codec(tuple("abc"))
    for end in ends.values():
        end.remove("a")
        end.add("d")
    codec.add("d")
    newcomer = Codec(ends["b"].members)
    assert newcomer.members == ("b", "c", "d")
    with pytest.raises(PeerError):
        newcomer.decode(codec.encode(ends["b"].send(["d"]).packets[0]))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_packets_from_before_a_change_are_still_read(protocol: str) -> None:
    codec = Codec(names(5))
    before = [(p, codec.encode(p)) for p in Run(protocol, codec.members, 5).go(40).packets]
    codec.add("late")
    codec.remove(names(5)[1])
    codec.remove("late")
    few = tuple(name for name in names(5) if name != names(5)[1])
    assert codec.members == few
    after = [(p, codec.encode(p)) for p in Run(protocol, few, 5).go(40).packets]
    for one, two in zip(before, after, strict=False):  # by turns
        for packet, data in (one, two):
            assert codec.decode(data) == packet


def test_who_can_be_removed() -> None:
    codec = Codec(("a", "b"))
    with pytest.raises(UsageError, match="'x' is not a member of this Codec"):
        codec.remove("x")
    codec.remove("a")
    with pytest.raises(UsageError, match="'b' is the last member"):
        codec.remove("b")


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), count=st.sampled_from((2, 3, 8, 9, 15, 16, 17, 63, 64, 130)))
def test_the_quick_and_the_general_way_agree(seed: int, count: int) -> None:
    """A packet made from names has the same bytes, and those give an equal packet by numbers."""
    codec = Codec(tuple(f"m{number:03}" for number in range(count)))
    for packet in Run("optimal", codec.members, seed).go(80).packets:
        data = codec.encode(packet)
        assert codec.encode(replace(packet)) == data
        again = codec.decode(data)
        assert again == packet
        assert again.roster is packet.roster
        assert (again.stamp.tops, again.stamp.log) == (packet.stamp.tops, packet.stamp.log)
        assert sorted(again.needs) == sorted(packet.needs)


def test_an_endpoint_takes_a_packet_that_numbers_members_in_another_way() -> None:
    members = tuple("abcd")
    ends = {n: antecede.endpoint("optimal", process=n, members=members[::-1]) for n in "abc"}
    codec = Codec(members)
    ends["a"].send(["b"])
    ends["c"].receive(codec.decode(codec.encode(ends["a"].send(["c"]).packets[0])))
    onward = ends["c"].send(["b", "d"]).packets[0]
    again = codec.decode(codec.encode(onward))
    assert again == onward
    assert ends["b"].receive(again).deliveries == ()
    assert list(ends["b"].waiting().values()) == [(antecede.Need("a", 1),)]


def test_a_control_has_its_own_limit() -> None:
    codec = Codec(("a", "b"))
    packet = Packet("a", "b", 1, "data", MessageId("a", 1), ("b",), bytes(1 << 21), (), "history")
    assert codec.decode(codec.encode(packet)) == packet
    long = replace(packet, payload=b"", control=bytes(stream.CONTROL_BYTES_MAX + 300))
    with pytest.raises(UsageError, match=r"at most 1048576 bytes of control"):
        codec.encode(long)
    short = codec.encode(replace(long, control=bytes(300)))
    claim = short[: short.index(b"\xe6") + 1] + b"\xff\xff\x7f" + bytes(1 << 21)
    with pytest.raises(PeerError, match=r"claims 2097151 bytes, but \d+ are left"):
        codec.decode(claim)


def test_rosters_that_a_peer_names_are_forgotten_before_our_own() -> None:
    many = tuple(f"m{number}" for number in range(600))
    codec = Codec(("gone", *many))
    old = codec.encode(Packet("gone", many[0], 1, "control", None, (), b"", (), "optimal"))
    codec.remove("gone")
    short = Codec(many[:2])
    whole = antecede.endpoint("optimal", process=many[0], members=short.members)
    tail = short.encode(whole.send([many[1]]).packets[0])[5:]
    digests = codec._now.wire.roster.digests
    kept = []
    for count in range(2, 601):
        identity = bytearray()
        stream.put_varint(identity, count)
        identity += digests[count - 1]
        with suppress(PeerError):
            codec.decode(bytes((0xA2, *identity)) + tail)
        kept.append(sum(len(known.wire) ** 2 for known in codec._known.values()))
    assert max(kept) <= PREFIX_CELLS_MAX + 2 * 601**2
    assert codec._now in codec._known.values()
    assert codec.decode(old).source == "gone"
    codec.remove(many[-1])  # its beginning was a peer's, and is now our own
    assert codec._now in codec._known.values()
    assert codec._now.wire.identity not in codec._prefixes
