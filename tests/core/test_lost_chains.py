"""Messages lost with a removed process: which order can be kept, and why not more.

d sends m1 to b and c; its copy to c is late. d also sends to r, which knows of m1 from that. r
sends a message to c, which is lost, and then one to b. b, which has delivered m1 itself, sends m2
to c. So m1 comes before m2 by two chains: one passes through the lost message of r, the other does
not.
"""

from __future__ import annotations

import pytest

import antecede
from antecede import Effects, Endpoint, MessageId, Packet
from antecede.core.numbered import Numbered
from antecede.core.registry import protocol_class

MULTICAST = [
    name for name, info in antecede.PROTOCOLS.items() if info.dynamic and "multicast" in info.casts
]
MINIMAL = [name for name in MULTICAST if issubclass(protocol_class(name), Numbered)]
FULL = [name for name in MULTICAST if name not in MINIMAL]


def sent(end: Endpoint, *dests: str) -> dict[str, Packet]:
    return {packet.dest: packet for packet in end.send(dests).packets}


def told(protocol: str, *dests: str) -> tuple[dict[str, Endpoint], dict[str, Packet], Packet]:
    """Let d send m1 to ``dests``; return the endpoints, the copies of m1, and m2 for c."""
    members = ("b", "c", "d", "r")
    ends = {
        name: antecede.endpoint(protocol, process=name, members=members, pull=False)
        for name in members
    }
    first = sent(ends["d"], *dests)
    ends["b"].receive(first["b"])
    ends["r"].receive(sent(ends["d"], "r")["r"])
    sent(ends["r"], "c")
    ends["b"].receive(sent(ends["r"], "b")["b"])
    return ends, first, sent(ends["b"], "c")["c"]


def settled(ends: dict[str, Endpoint], effects: Effects) -> list[antecede.Delivery]:
    """Carry questions and answers back and forth; return what c delivers."""
    found = list(effects.deliveries)
    todo = list(effects.packets)
    while todo:
        packet = todo.pop(0)
        effects = ends[packet.dest].receive(packet)
        todo += effects.packets
        found += effects.deliveries if packet.dest == "c" else ()
    return found


@pytest.mark.parametrize("protocol", FULL)
def test_who_carries_everything_keeps_the_order_of_the_other_chain(protocol: str) -> None:
    ends, first, second = told(protocol, "b", "c")
    ends["b"].remove("r")
    ends["d"].remove("r")
    effects = ends["c"].receive(second)
    assert effects.deliveries == ()
    assert settled(ends, ends["c"].remove("r")) == []
    found = settled(ends, ends["c"].receive(first["c"]))
    assert [delivery.message for delivery in found] == [MessageId("d", 1), MessageId("b", 1)]
    assert [need.process for need in found[1].unmet] == ["r"]


@pytest.mark.parametrize("protocol", MINIMAL)
def test_who_carries_the_least_cannot_tell_whether_there_is_another_chain(protocol: str) -> None:
    """m2 is the same, byte by byte, whether m1 goes to c or not.

    If it does, c would have to wait for m1. If it does not, nothing will ever arrive, so c must not
    wait. c delivers m2 and says what is missing.
    """
    codec = antecede.Codec(("b", "c", "d", "r"))
    both, _, second = told(protocol, "b", "c")
    one, _, alike = told(protocol, "b")
    states = [codec.snapshot(ends["c"]) for ends in (both, one)]
    assert states[0] == states[1]
    assert codec.encode(second) == codec.encode(alike)
    for ends, packet in ((both, second), (one, alike)):
        ends["c"].receive(packet)
        (delivery,) = ends["c"].remove("r").deliveries
        assert delivery.message == MessageId("b", 1)
        assert [need.message for need in delivery.unmet] == [MessageId("r", 1)]


@pytest.mark.parametrize("protocol", MULTICAST)
def test_a_message_to_oneself_says_what_it_rests_on(protocol: str) -> None:
    """c has delivered m2, which rests on the lost message of r, before it sends to itself."""
    ends, _, second = told(protocol, "b")
    assert [d.unmet for d in ends["c"].send(["c"]).deliveries] == [()]
    found = settled(ends, ends["c"].receive(second))
    for name in "bd":
        ends[name].remove("r")
    found += settled(ends, ends["c"].remove("r"))
    assert [need.process for need in found[0].unmet] == ["r"]
    for dests in (["c"], ["b", "c"]):
        (own,) = ends["c"].send(dests).deliveries
        assert own.unmet == found[0].unmet
