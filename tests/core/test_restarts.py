"""Endpoints restored from old snapshots: new incarnations, and what the others make of them."""

from __future__ import annotations

import pytest

import antecede
from antecede import PROTOCOLS, Codec, Endpoint, MessageId, Packet, PeerError, Restart
from antecede.core.numbered import Numbered
from antecede.core.registry import protocol_class

MEMBERS = ("a", "b", "c")
CODEC = Codec(MEMBERS)
ABLE = [name for name in PROTOCOLS if issubclass(protocol_class(name), Numbered)]
UNABLE = [name for name in PROTOCOLS if name not in ABLE]


def group(protocol: str, **options: object) -> dict[str, Endpoint]:
    return {
        name: antecede.endpoint(protocol, process=name, members=MEMBERS, pull=False, **options)
        for name in MEMBERS
    }


def sent(end: Endpoint, *dests: str, payload: bytes = b"") -> dict[str, Packet]:
    return {packet.dest: packet for packet in end.send(dests, payload).packets}


@pytest.mark.parametrize("protocol", ABLE)
def test_new_messages_are_not_taken_for_old_ones(protocol: str) -> None:
    ends = group(protocol)
    saved = CODEC.snapshot(ends["a"])
    ends["b"].receive(sent(ends["a"], "b", payload=b"pay 5")["b"])
    again = CODEC.restore(saved)
    assert (again.incarnation, again.process) == (1, "a")
    packet = CODEC.decode(CODEC.encode(sent(again, "b", payload=b"pay 999")["b"]))
    assert packet.incarnation == 1
    effects = ends["b"].receive(packet)
    assert [delivery.payload for delivery in effects.deliveries] == [b"pay 999"]
    assert effects.restarts == (Restart("a", 1, 0),)
    assert ends["b"].receive(packet).restarts == ()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_with_proof_nothing_is_new(protocol: str) -> None:
    end = group(protocol)["a"]
    again = CODEC.restore(CODEC.snapshot(end), resumed=True)
    assert again.state() == end.state()
    assert again.incarnation == 0


@pytest.mark.parametrize("protocol", UNABLE)
def test_where_nobody_can_go_on_everyone_says_so(protocol: str) -> None:
    """Nothing is dropped in silence, also not what the new incarnation sends by way of others."""
    ends = group(protocol)
    dest = "b" if protocol not in ("serial", "central", "hierarchy") else "a"
    source = "a" if dest == "b" else "b"
    again = CODEC.restore(CODEC.snapshot(ends[source]))
    dests = ["b"] if "unicast" in PROTOCOLS[protocol].casts else [m for m in MEMBERS if m != source]
    if source == "b":
        dests = ["a"]
    packet = next(p for p in again.send(dests).packets if p.dest == dest)
    before = ends[dest].state()
    with pytest.raises(PeerError, match="restored from an old snapshot"):
        ends[dest].receive(packet)
    assert ends[dest].state() == before


@pytest.mark.parametrize("protocol", ABLE)
def test_the_gap_is_reported_and_what_rests_on_it_says_so(protocol: str) -> None:
    """b's message rests on one of a's that was under way to c when a restarted."""
    ends = group(protocol)
    saved = CODEC.snapshot(ends["a"])
    lost = sent(ends["a"], "b", "c")
    ends["b"].receive(lost["b"])
    late = sent(ends["a"], "c")["c"]  # arrives, and waits for the first
    assert ends["c"].receive(late).deliveries == ()
    waits = sent(ends["b"], "c", payload=b"reply")["c"]
    assert ends["c"].receive(waits).deliveries == ()
    hello = sent(CODEC.restore(saved), "c", payload=b"hello")["c"]
    effects = ends["c"].receive(hello)
    assert effects.restarts == (Restart("a", 1, 1),)
    found = {d.payload: [need.message for need in d.unmet] for d in effects.deliveries}
    assert found[b"reply"] == found[b""] == [MessageId("a", 1)]
    assert ends["c"].held == 0
    with pytest.raises(PeerError, match=r"incarnation 0 of 'a', which has restarted since"):
        ends["c"].receive(lost["c"])


@pytest.mark.parametrize("protocol", ABLE)
def test_a_restart_is_heard_of_from_others(protocol: str) -> None:
    ends = group(protocol)
    saved = CODEC.snapshot(ends["a"])
    old = sent(ends["a"], "c")["c"]
    again = CODEC.restore(saved)
    ends["b"].receive(sent(again, "b")["b"])
    effects = ends["c"].receive(sent(ends["b"], "c")["c"])
    assert effects.restarts == (Restart("a", 1, 0),)
    with pytest.raises(PeerError, match="has restarted since"):
        ends["c"].receive(old)
    assert len(ends["c"].receive(sent(again, "c")["c"]).deliveries) == 1


@pytest.mark.parametrize("protocol", ABLE)
def test_a_newcomer_and_a_snapshot_know_of_the_incarnation(protocol: str) -> None:
    ends = group(protocol)
    again = CODEC.restore(CODEC.snapshot(ends["a"]))
    ends["b"].receive(sent(again, "b")["b"])
    ends["b"] = CODEC.restore(CODEC.snapshot(ends["b"]), resumed=True)
    again.add("d")
    assert sent(again, "d")["d"].incarnation == 1
    assert ends["b"].receive(sent(ends["c"], "b")["b"]).restarts == ()
    second = CODEC.restore(CODEC.snapshot(group(protocol)["a"]))
    assert second.incarnation == 1


def test_packets_that_bring_only_changes_need_all_of_their_channel() -> None:
    ends = group("optimal", differential=True)
    again = CODEC.restore(CODEC.snapshot(ends["a"]))
    with pytest.raises(PeerError, match="restored from an old snapshot"):
        ends["b"].receive(sent(again, "b")["b"])


def test_a_restart_speaks_plainly() -> None:
    assert str(Restart("a", 2, 1)) == ("a restarted (incarnation 2), at least 1 packets lost")


@pytest.mark.parametrize("protocol", ABLE)
def test_what_a_restart_releases_goes_in_causal_order(protocol: str) -> None:
    """d:1 waits for r:1 and b:2, which follows it, for r:2; both are lost with r's incarnation."""
    members = ("b", "c", "d", "r")
    b, c, d, r = (antecede.endpoint(protocol, process=p, members=members) for p in members)
    codec = Codec(members)
    saved = codec.snapshot(r)
    d.receive(sent(r, "c", "d")["d"])
    first = sent(d, "b", "c")
    b.receive(first["b"])
    r.receive(sent(b, "r")["r"])
    b.receive(sent(r, "b", "c")["b"])
    c.receive(sent(b, "c")["c"])
    c.receive(first["c"])
    assert c.held == 2
    found = c.receive(sent(codec.restore(saved), "c")["c"])
    assert [d.message.sender for d in found.deliveries] == ["d", "b", "r"]
