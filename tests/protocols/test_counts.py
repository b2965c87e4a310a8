"""Counts that a peer makes up: they are capped, and cannot concern our own sends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from antecede.core.validation import COUNT_MAX

import antecede
from antecede import PROTOCOLS, MessageId, Packet, PeerError
from tests.protocols.liars import MEMBERS, WITH_CONTROL, Net, lie

HUGE = (COUNT_MAX - 1, COUNT_MAX, COUNT_MAX + 1, 1 << 62, (1 << 63) - 1, (1 << 63) + 127, 1 << 70)
#: These carry nothing about the sends of the receiver that could be too much.
SAY_NOTHING_OF_MINE = {"phases", "server", "two_hop"}


def inflated(value: object, count: int) -> Iterator[object]:
    """Yield ``value`` with one of its integers replaced, for each of them, and with all."""
    if type(value) is int:
        yield count
    elif type(value) is tuple:
        options = [list(inflated(part, count)) for part in value]
        for place, parts in enumerate(options):
            for part in parts:
                yield (*value[:place], part, *value[place + 1 :])
        yield tuple(
            parts[-1] if parts else part for part, parts in zip(value, options, strict=True)
        )


def talk(net: Net) -> None:
    """Let everyone send, so that controls have counts in them."""
    for source, dest in (("m", "a"), ("a", "m"), ("b", "m"), ("b", "c"), ("m", "b")):
        net.send(source, dest)
        net.run()


@pytest.mark.parametrize("count", HUGE)
@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_no_count_stops_an_endpoint_from_sending_and_saving(name: str, count: int) -> None:
    """Everything that c accepts leaves it able to go on, with packets that others accept."""
    codec = antecede.Codec(MEMBERS)
    for lied in attacks(hostile(Net(name)), count):
        net = Net(name)
        hostile(net)
        c = net.endpoints["c"]
        before = c.state()
        try:
            c.receive(lied)
        except PeerError:
            assert c.state() == before
        codec.restore(codec.snapshot(c), resumed=True)
        with suppress(antecede.UsageError):  # synchronous: an acknowledgement is due first
            for sent in c.send(list(dests(name)), b"x").packets:
                assert codec.decode(codec.encode(sent)) == sent
                try:
                    net.endpoints[sent.dest].receive(sent)
                except PeerError as error:  # c told on a lie about its receiver
                    assert "knows of" in str(error)  # noqa: PT017 - most are accepted


def hostile(net: Net) -> Packet:
    """Let all talk, and return a packet of m to c."""
    talk(net)
    net.run(lambda p: p.source == "m")
    net.send("m", "c")
    if net.endpoints["m"].INFO.name in ("central", "hierarchy", "serial"):  # a is first
        net.run(lambda p: p.dest == "c")
    return [p for p in net.flying if p.dest == "c"][-1]


def attacks(packet: Packet, count: int) -> Iterator[Packet]:
    for control in inflated(packet.control, count):
        yield replace(packet, control=control)
    yield replace(packet, n=count)
    if packet.message is not None:
        for control in (packet.control, *inflated(packet.control, count)):
            yield replace(packet, message=packet.message._replace(seq=count), control=control)


def dests(name: str) -> tuple[str, ...]:
    if "multicast" in PROTOCOLS[name].casts or "unicast" in PROTOCOLS[name].casts:
        return ("a",)
    return ("a", "b", "m")


@pytest.mark.parametrize("name", [n for n in WITH_CONTROL if n not in SAY_NOTHING_OF_MINE])
def test_who_knows_of_more_of_my_sends_than_i_made_is_refused(name: str) -> None:
    def tell(fiction: Net) -> None:
        fiction.send("c", "b", "m")
        fiction.send("c", "m")
        fiction.run()

    net = Net(name)
    c = net.endpoints["c"]
    before = c.state()
    with pytest.raises(PeerError, match="'c'"):
        c.receive(lie(name, tell, "c")["c"])
    assert c.state() == before


#: A packet of m to c, its third message: what its control says, and why no endpoint could say it.
IMPOSSIBLE: tuple[tuple[str, dict[str, object], object], ...] = (
    ("serial", {}, ("c", 1)),
    ("serial", {}, ("m", 3)),
    ("serial", {"entries": "all"}, (("c", "c", 1),)),
    ("serial", {"entries": "all"}, (("c", "m", 3),)),
    ("context", {}, (("m", 3),)),
    ("two_hop", {}, ((0, 0, 0, 0), (0, 0, 0, 3))),
    ("direct", {}, ((), (), (("m", 3),), ())),
)


@pytest.mark.parametrize(("name", "options", "control"), IMPOSSIBLE, ids=str)
def test_a_message_waits_neither_for_itself_nor_for_its_receiver(
    name: str, options: dict[str, object], control: object
) -> None:
    c = antecede.endpoint(name, process="c", members=MEMBERS, pull=False, **options)
    dests = ("c",) if "unicast" in PROTOCOLS[name].casts else ("a", "b", "c")
    c.send([dest for dest in MEMBERS if dest != "c"] if len(dests) > 1 else ["a"])
    before = c.state()
    packet = Packet("m", "c", 1, "data", MessageId("m", 3), dests, b"", control, name)
    with pytest.raises(PeerError, match="malformed"):
        c.receive(packet)
    assert c.state() == before
