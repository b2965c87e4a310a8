"""Packets that count have one form by numbers, whatever the order of members."""

from contextlib import suppress
from dataclasses import astuple, replace

import pytest

import antecede
from antecede import Codec, Packet, PeerError, UnknownProcessError
from antecede.core.counts import Counts
from antecede.wire.packets import STAMPED, TAGS
from tests.wire.second import Second

COUNTING = ("broadcast", "matrix", "vectors")
MEMBERS = ("cem", "ann", "bob")


def talk(protocol: str, rounds: int = 40) -> list[Packet]:
    """Return the packets of a group whose members all send to all, in turn."""
    ends = {name: antecede.endpoint(protocol, process=name, members=MEMBERS) for name in MEMBERS}
    packets: list[Packet] = []
    for number in range(rounds):
        source = MEMBERS[number % 3 if number % 5 else 0]
        others = tuple(name for name in MEMBERS if name != source)
        packets += ends[source].send(others, b"hi").packets
        for packet in packets[-2:]:
            ends[packet.dest].receive(packet)
    return packets


def is_by_numbers(data: bytes) -> bool:
    tag = data[5] if data[5] < 0x80 else data[5] - 0x80 + 0x80 * data[6]
    return tag % TAGS >= STAMPED


@pytest.mark.parametrize("protocol", COUNTING)
@pytest.mark.parametrize("members", [MEMBERS, ("ann", "bob", "cem"), ("bob", "cem", "ann")])
def test_numbers_and_names_give_the_same_bytes(protocol: str, members: tuple[str, ...]) -> None:
    codec = Codec(members)
    for packet in talk(protocol):
        data = codec.encode(packet)
        assert is_by_numbers(data)
        assert codec.encode(replace(packet)) == data
        again = codec.decode(data)
        assert isinstance(again.stamp, Counts)
        assert again == packet
        assert codec.encode(again) == data
        assert antecede.size(replace(packet)) == antecede.size(packet)


@pytest.mark.parametrize("protocol", COUNTING)
def test_whoever_has_another_order_delivers_the_same(protocol: str) -> None:
    orders = {"ann": ("bob", "cem", "ann"), "bob": ("ann", "bob", "cem"), "cem": MEMBERS}
    codec = Codec(("bob", "ann", "cem"))
    ends = {
        name: antecede.endpoint(protocol, process=name, members=members)
        for name, members in orders.items()
    }
    for packet in talk(protocol):
        (first, *_) = packet.dests
        if packet.dest == first:
            sent = ends[packet.source].send(packet.dests, packet.payload).packets
            assert [one.control for one in sent] == [packet.control] * 2
            for one in sent:
                effects = ends[one.dest].receive(codec.decode(codec.encode(one)))
                assert [d.message for d in effects.deliveries] == [packet.message]


@pytest.mark.parametrize(
    ("protocol", "change"),
    [
        ("matrix", lambda rows: ((rows[0][0], (1, *rows[0][1][1:])), *rows[1:])),  # to itself
        ("vectors", lambda parts: (parts[0], (("ann", tuple(n + 1 for _, n in parts[0])),))),
        ("broadcast", lambda pairs: pairs[:2]),
    ],
)
def test_what_has_another_form_goes_by_names(protocol: str, change: object) -> None:
    packet = talk(protocol)[-1]
    assert callable(change)
    odd = replace(packet, control=change(packet.control))
    codec = Codec(MEMBERS)
    data = codec.encode(odd)
    assert not is_by_numbers(data)
    assert codec.decode(data) == odd


@pytest.mark.parametrize("protocol", COUNTING)
def test_counts_in_a_longer_form_are_refused(protocol: str) -> None:
    """The least count is one too low, and what follows is one too high."""
    codec = Codec(MEMBERS)
    packet = talk(protocol)[-1]
    data = codec.encode(packet, payload=False)
    body = packet.stamp.body
    assert body is not None
    at = len(data) - len(body[1]) + (protocol == "vectors")
    assert data[at] > 0
    values = bytes(value + 1 for value in data[at + 2 : at + 5])
    longer = data[:at] + bytes((data[at] - 1, data[at + 1])) + values + data[at + 5 :]
    with pytest.raises(PeerError, match="not the shortest"):
        codec.decode(longer)


def changing(protocol: str) -> list[Packet]:
    """Return packets sent while eve leaves and dan joins, in the order of sending."""
    names = ("eve", *MEMBERS)
    ends = {name: antecede.endpoint(protocol, process=name, members=names) for name in MEMBERS}
    packets: list[Packet] = []
    for number in range(12):
        end = ends[MEMBERS[number % 3]]
        if number >= 3 and "eve" in end.members:
            packets += end.remove("eve").packets
        if number >= 6 and "dan" not in end.members:
            packets += end.add("dan").packets
        others = tuple(name for name in end.members if name != end.process)
        sent = end.send(others, b"hi").packets
        for packet in sent:
            if packet.dest in ends and packet.source in ends[packet.dest].members:
                with suppress(UnknownProcessError):
                    ends[packet.dest].receive(packet)
        packets += sent
    return packets


@pytest.mark.parametrize("protocol", COUNTING)
@pytest.mark.parametrize("more", [(), ("fay",)], ids=len)
def test_packets_are_by_numbers_while_members_come_and_go(
    protocol: str, more: tuple[str, ...]
) -> None:
    codec = Codec(("dan", *MEMBERS, *more, "eve"))
    seen: set[bool] = set()
    for packet in [packet for packet in changing(protocol) if packet.kind == "data"]:
        data = codec.encode(packet)
        assert is_by_numbers(data)
        assert Second(data, codec.members).packet() == astuple(packet)
        assert codec.encode(replace(packet)) == data
        again = codec.decode(data)
        assert (again, codec.encode(again)) == (packet, data)
        assert codec.wire_bytes(packet) == codec.wire_bytes(again)
        seen.add(type(packet.control) is tuple and packet.control[0] is None)
        general = codec._head(packet, codec._now) + packet.payload
        with pytest.raises(PeerError):
            codec.decode(general)
        for place in range(6, len(data)):
            bent = data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
            with suppress(PeerError):
                assert codec.encode(codec.decode(bent)) == bent
        for length in range(6, len(data) - len(packet.payload)):
            with pytest.raises(PeerError):
                codec.decode(data[:length])
    assert seen == {False, True}


def test_a_large_matrix_can_be_sent_after_a_removal() -> None:
    names = tuple(f"m{number:03}" for number in range(515))
    ann, bob = (antecede.endpoint("matrix", process=name, members=names) for name in names[:2])
    codec = Codec(names)
    for end in (ann, bob):
        end.remove(names[-1])
    packet = codec.decode(codec.encode(ann.send([bob.process], b"hi").packets[0]))
    assert [one.payload for one in bob.receive(packet).deliveries] == [b"hi"]


@pytest.mark.parametrize("protocol", COUNTING)
def test_a_packet_that_counts_a_newcomer_is_taken_once_it_is_added(protocol: str) -> None:
    ann, bob, dan = (
        antecede.endpoint(protocol, process=name, members=members)
        for name, members in (
            ("ann", MEMBERS),
            ("bob", MEMBERS),
            ("dan", (*MEMBERS, "dan")),
        )
    )
    ann.add("dan")
    here, there = Codec((*MEMBERS, "dan")), Codec(MEMBERS)
    dests = ("ann", "bob", "cem")
    for packet in dan.send(dests, b"1").packets:
        if packet.dest == "ann":
            ann.receive(here.decode(here.encode(packet)))
    (packet,) = [p for p in ann.send(("bob", "cem", "dan"), b"2").packets if p.dest == "bob"]
    data = here.encode(packet)
    with pytest.raises(UnknownProcessError):
        there.decode(data)
    before = bob.state()
    for one in (packet, here.decode(data), replace(packet)):
        for _ in range(2):
            with pytest.raises(UnknownProcessError):
                bob.receive(one)
        assert bob.state() == before
    there.add("dan")
    bob.add("dan")
    bob.receive(there.decode(data))
    assert list(bob.waiting()) == [packet.message]
