"""A process that restarted is removed: who waits for what it sent in which incarnation."""

from __future__ import annotations

import pytest

import antecede
from antecede import Codec, Endpoint, Packet
from antecede.core.numbered import Numbered
from antecede.core.registry import protocol_class

ABLE = [name for name in antecede.PROTOCOLS if issubclass(protocol_class(name), Numbered)]
MEMBERS = ("a", "b", "c", "r")
CODEC = Codec(MEMBERS)


def group(protocol: str) -> list[Endpoint]:
    return [antecede.endpoint(protocol, process=name, members=MEMBERS) for name in MEMBERS]


def sent(end: Endpoint, *dests: str, payload: bytes = b"") -> dict[str, Packet]:
    return {packet.dest: packet for packet in end.send(dests, payload).packets}


def delivered(end: Endpoint, packet: Packet) -> list[bytes]:
    return [delivery.payload for delivery in end.receive(packet).deliveries]


@pytest.mark.parametrize("protocol", ABLE)
def test_nobody_waits_behind_what_the_last_incarnation_sent(protocol: str) -> None:
    """x, which is held, follows m; so m must not wait for it, although b knew of the restart."""
    a, b, _, r = group(protocol)
    r = CODEC.restore(CODEC.snapshot(r))
    b.receive(sent(r, "a", "b")["b"])
    m = sent(b, "a", "r", payload=b"m")
    r.receive(m["r"])
    assert delivered(a, sent(r, "a", payload=b"x")["a"]) == []
    a.remove("r")
    assert delivered(a, m["a"]) == [b"m", b"x"]
    assert a.held == 0


@pytest.mark.parametrize("protocol", ABLE)
@pytest.mark.parametrize("is_removed_first", [False, True])
def test_who_waits_behind_an_ended_incarnation_goes_on_after_it(
    protocol: str, *, is_removed_first: bool
) -> None:
    """x is of the incarnation that ended and waits for m; y, whose sender knew, goes after it."""
    a, b, c, r = group(protocol)
    saved = CODEC.snapshot(r)
    m = sent(c, "a", "r", payload=b"m")
    r.receive(m["r"])
    assert delivered(a, sent(r, "a", payload=b"x")["a"]) == []
    r = CODEC.restore(saved)
    told = sent(r, "a", "b", payload=b"told")
    b.receive(told["b"])
    y = sent(b, "a", payload=b"y")["a"]
    if is_removed_first:
        assert delivered(a, told["a"]) == []
        a.remove("r")
    assert delivered(a, y) == []
    if not is_removed_first:
        assert a.remove("r").deliveries == ()
    released = [b"m", b"x", b"told", b"y"] if is_removed_first else [b"m", b"x", b"y"]
    assert delivered(a, m["a"]) == released
    assert a.held == 0
