"""Restored endpoints are told of those whom they had forgotten; copies share nothing."""

from __future__ import annotations

import copy

import pytest

import antecede
from antecede import Codec, Endpoint, Packet, UnknownProcessError, UsageError
from antecede.core.restarts import FORGOTTEN_MAX

DYNAMIC = [name for name, info in antecede.PROTOCOLS.items() if info.dynamic]
ONES = [name for name in DYNAMIC if "multicast" in antecede.PROTOCOLS[name].casts]


def make(protocol: str, process: str, members: str, removed: tuple[str, ...] = ()) -> Endpoint:
    return antecede.endpoint(protocol, process=process, members=tuple(members), removed=removed)


def late(protocol: str) -> tuple[Endpoint, Packet]:
    """Return a, which has forgotten c, and a newcomer's packet that names a message of c."""
    ends = {name: make(protocol, name, "abc") for name in "abc"}

    def hand_over(packets: tuple[Packet, ...]) -> None:
        for packet in packets:
            hand_over(ends[packet.dest].receive(packet).packets if packet.dest in ends else ())

    hand_over(ends["c"].send(["a", "b"]).packets)
    del ends["c"]
    for end in list(ends.values()):
        hand_over(end.remove("c").packets)
    while True:
        under_way = ends["a"].send(["b"]).packets
        if not ends["a"].departed:
            break  # and this has not reached b, which still lists c
        hand_over(under_way)
        hand_over(ends["b"].send(["a"]).packets)
    for end in list(ends.values()):
        hand_over(end.add("d").packets)
    ends["d"] = make(protocol, "d", "abd", ends["b"].departed)
    hand_over(ends["b"].send(["a", "d"]).packets)
    return ends["a"], ends["d"].send(["a"], b"hello").packets[0]


@pytest.mark.parametrize("protocol", ONES)
def test_a_restored_endpoint_can_be_told_whom_it_had_forgotten(protocol: str) -> None:
    a, packet = late(protocol)
    codec = Codec(("a", "b", "c", "d"))
    saved = codec.snapshot(a)
    assert a.receive(packet).deliveries[-1].payload == b"hello"
    again = codec.restore(saved, resumed=True)
    before = again.state()
    with pytest.raises(UnknownProcessError, match=r"call recall\(\('c',\)\)"):
        again.receive(packet)
    again.recall(["c"])
    assert again.state() == before
    assert again.receive(packet).deliveries[-1].payload == b"hello"
    with pytest.raises(UsageError, match="cannot come back"):
        again.add("c")


@pytest.mark.parametrize("protocol", DYNAMIC)
def test_members_and_those_who_are_leaving_are_left_as_they_are(protocol: str) -> None:
    a = make(protocol, "a", "abc")
    a.remove("c")
    before, forgotten = a.state(), dict(a._forgotten)
    a.recall(["a", "b", "c"])
    assert (a.state(), a._forgotten) == (before, forgotten)


def test_the_last_names_are_remembered() -> None:
    a = make("optimal", "a", "ab")
    a.recall([f"x{number}" for number in range(FORGOTTEN_MAX + 1)])
    assert list(a._forgotten) == [f"x{number}" for number in range(1, FORGOTTEN_MAX + 1)]
    a.add("x0")


def test_what_is_recalled_are_names_of_a_group_that_changes() -> None:
    with pytest.raises(UsageError, match="expected a sequence of names"):
        make("optimal", "a", "ab").recall("xy")
    with pytest.raises(UsageError, match="fixed membership"):
        make("direct", "a", "ab").recall(["x"])
    make("direct", "a", "ab").recall([])


@pytest.mark.parametrize("protocol", antecede.PROTOCOLS)
def test_a_copy_shares_nothing(protocol: str) -> None:
    a, b = make(protocol, "a", "ab"), make(protocol, "b", "ab")
    twin, before = copy.copy(b), b.state()
    packets = twin.send(["a"], b"hello").packets
    assert b.state() == before
    assert b.send(["a"], b"hello").packets == packets
    assert twin.state() == b.state() != before
    for packet in packets:
        if packet.dest == "a":
            twin, before = copy.copy(a), a.state()
            twin.receive(packet)
            assert a.state() == before != twin.state()
