"""Counts that a peer makes up: they are capped, and cannot concern our own sends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

import antecede
from antecede import PROTOCOLS, Packet, PeerError
from antecede.endpoint.messages import COUNT_MAX
from tests.protocols.rig import forged
from tests.support.liars import WITH_CONTROL, Net, lie

HUGE = (COUNT_MAX - 1, COUNT_MAX, COUNT_MAX + 1, 1 << 62, (1 << 63) - 1, 1 << 70)
#: Protocols whose packets carry no count of the receiver's sends that could be too high.
SAY_NOTHING_OF_MINE = {"phases", "probabilistic", "server", "two_hop"}


def talk(net: Net) -> None:
    """Let everyone send, so that controls have counts in them."""
    for source, dest in (("m", "a"), ("a", "m"), ("b", "m"), ("b", "c"), ("m", "b")):
        net.send(source, dest)
        net.run()


@pytest.mark.parametrize("count", HUGE)
@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_no_count_stops_an_endpoint_from_sending_and_saving(name: str, count: int) -> None:
    """Everything that a Codec and c accept leaves c able to go on, with packets others accept."""
    for lied in attacks(hostile(Net(name)), count):
        net = Net(name)
        hostile(net)
        c = net.endpoints["c"]
        codec = antecede.Codec(c)
        before = c.state()
        try:
            c.receive(codec.decode(codec.encode(lied)))
        except (PeerError, OverflowError):
            assert c.state() == before
        codec.restore(codec.snapshot(c), resumed=True)
        with suppress(antecede.UsageError):  # synchronous: an acknowledgement is due first
            for sent in c.send(list(dests(name)), b"x").packets:
                assert codec.decode(codec.encode(sent)) == sent
                with suppress(PeerError):  # c told on a lie about its receiver
                    net.endpoints[sent.dest].receive(sent)


def hostile(net: Net) -> Packet:
    """Let all talk, and return a packet of m to c."""
    talk(net)
    net.run(lambda p: p.source == "m")
    net.send("m", "c")
    if net.endpoints["m"].info.name in ("central", "hierarchy", "serial", "tree"):  # a is first
        net.run(lambda p: p.dest == "c")
    return [p for p in net.flying if p.dest == "c"][-1]


def attacks(packet: Packet, count: int) -> Iterator[Packet]:
    """Yield a packet with made-up numbers."""
    yield forged(packet, n=count)
    if packet.message is not None:
        yield forged(packet, seq=count)
        yield forged(packet, n=count, seq=count)


def dests(name: str) -> tuple[str, ...]:
    """Return the destinations that c may send to."""
    if "multicast" in PROTOCOLS[name].casts or "unicast" in PROTOCOLS[name].casts:
        return ("a",)
    return ("a", "b", "m")


@pytest.mark.parametrize("name", [n for n in WITH_CONTROL if n not in SAY_NOTHING_OF_MINE])
def test_who_knows_of_more_of_my_sends_than_i_made_is_refused(name: str) -> None:
    def tell(fiction: Net) -> None:
        fiction.send("c", "b", "m")
        fiction.send("c", "m")
        fiction.run()

    c = Net(name).endpoints["c"]
    before = c.state()
    with pytest.raises(PeerError):
        c.receive(lie(name, tell, "c")["c"])
    assert c.state() == before
