"""Packets that are refused change nothing, whatever they tell of others."""

from __future__ import annotations

import pytest

import antecede
from antecede import Codec, Endpoint, HoldFullError, Packet, Restart
from antecede.core.numbered import Numbered
from antecede.core.registry import protocol_class

ABLE = [name for name in antecede.PROTOCOLS if issubclass(protocol_class(name), Numbered)]


def make(protocol: str, process: str, members: str, held_max: int = 100) -> Endpoint:
    return antecede.endpoint(protocol, process=process, members=tuple(members), held_max=held_max)


def sent(end: Endpoint, *dests: str) -> dict[str, Packet]:
    return {packet.dest: packet for packet in end.send(dests).packets}


def refused(end: Endpoint, packet: Packet) -> None:
    before = end.state()
    with pytest.raises(HoldFullError):
        end.receive(packet)
    assert end.state() == before


@pytest.mark.parametrize("protocol", ABLE)
def test_a_packet_that_shows_a_restart_but_does_not_fit(protocol: str) -> None:
    a, b, c = make(protocol, "a", "abc", held_max=0), *(make(protocol, p, "abc") for p in "bc")
    codec = Codec(("a", "b", "c"))
    saved = codec.snapshot(b)
    old = sent(b, "a")["a"]
    b = codec.restore(saved)
    cause = sent(c, "a", "b")
    b.receive(cause["b"])
    effect = sent(b, "a")["a"]
    refused(a, effect)
    effects = a.receive(old)
    assert (len(effects.deliveries), effects.restarts) == (1, ())
    assert a.receive(cause["a"]).restarts == ()
    effects = a.receive(effect)
    assert (len(effects.deliveries), effects.restarts) == (1, (Restart("b", 1, 0),))


@pytest.mark.parametrize("protocol", ABLE)
def test_what_a_restart_releases_makes_room_for_the_packet_that_shows_it(protocol: str) -> None:
    """What is held waits for a lost message; the packet's turn is after what is held."""
    a, b = (make(protocol, p, "ab", held_max=1) for p in "ab")
    saved = Codec(("a", "b")).snapshot(b)
    sent(b, "a")
    a.receive(sent(b, "a")["a"])
    assert a.held == 1
    effects = a.receive(sent(Codec(("a", "b")).restore(saved), "a")["a"])
    assert [delivery.message.seq for delivery in effects.deliveries] == [2, (1 << 32) + 1]
    assert effects.restarts == (Restart("b", 1, 1),)


@pytest.mark.parametrize("protocol", ABLE)
def test_a_packet_of_a_newcomer_that_does_not_fit(protocol: str) -> None:
    """That the newcomer does not know who left is noted when a packet of it is accepted."""
    a = make(protocol, "a", "abc", held_max=0)
    a.remove("c")
    a.add("d")
    d = make(protocol, "d", "abd")
    first, second = sent(d, "a")["a"], sent(d, "a")["a"]
    refused(a, second)
    a.receive(first)
    a.receive(second)
    assert d.members == a.members
    partings = a.state()["own"]["_partings"]
    assert partings == {"c": (False, {"d"}, {"d": 0}, {"d": 0}, {"d"})}


@pytest.mark.parametrize("protocol", ABLE)
def test_news_only_of_those_whom_nobody_here_knows_are_no_news(protocol: str) -> None:
    """b is done with x, of which d never heard; d holds b's packet as its state brings it back."""
    a, b, x = (make(protocol, p, "abx") for p in "abx")
    del x
    ends = {"a": a, "b": b}
    for end in ends.values():
        end.remove("x")
        end.add("d")
    d = make(protocol, "d", "abd")
    codec = Codec(("a", "b", "d", "x"))
    for _ in range(3):  # until both have said that they are done
        for name, other in ("ab", "ba"):
            if b.departed:
                ends[other].receive(sent(ends[name], other)[other])
    sent(b, "d")
    packet = sent(b, "d")["d"]  # its turn is after the one that is missing
    assert packet.stamp.news is not None
    d.receive(packet)
    assert d.held == 1
    assert codec.restore(codec.snapshot(d), resumed=True).state() == d.state()
