"""Processes that join and leave at run time ([KS98] 4.5), on every dynamic protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest

import antecede

DYNAMIC = [name for name, info in antecede.PROTOCOLS.items() if info.dynamic]
#: Those whose packets speak of messages to third parties.
TELLING = [name for name in DYNAMIC if antecede.PROTOCOLS[name].bytes_per_entry != 0]
FIXED = [name for name, info in antecede.PROTOCOLS.items() if not info.dynamic]


def make(protocol: str, process: str, members: tuple[str, ...]) -> antecede.Endpoint:
    return antecede.endpoint(protocol, process=process, members=members)


def sent(end: antecede.Endpoint, *dests: str, payload: bytes = b"") -> dict[str, antecede.Packet]:
    """Send to some processes, or to all if the protocol only broadcasts; return packets by dest."""
    if "unicast" not in antecede.PROTOCOLS[end.INFO.name].casts:
        dests = tuple(name for name in end.members if name != end.process)
    return {packet.dest: packet for packet in end.send(dests, payload).packets}


@pytest.mark.parametrize("protocol", DYNAMIC)
def test_a_packet_of_a_joining_process_may_be_offered_again(protocol: str) -> None:
    b = make(protocol, "b", ("a", "b"))
    c = make(protocol, "c", ("a", "b", "c"))
    packet = sent(c, "b", payload=b"hello")["b"]
    before = b.state()
    with pytest.raises(antecede.UnknownProcessError, match=r"names process 'c'.*after add"):
        b.receive(packet)
    assert b.state() == before
    b.add("c")
    assert [d.payload for d in b.receive(packet).deliveries] == [b"hello"]
    assert sent(b, "c")["c"].dest == "c"


@pytest.mark.parametrize("protocol", TELLING)
def test_a_packet_about_a_joining_process_may_be_offered_again(protocol: str) -> None:
    a, b = make(protocol, "a", ("a", "b")), make(protocol, "b", ("a", "b"))
    a.add("c")
    if "unicast" in antecede.PROTOCOLS[protocol].casts:
        sent(a, "c")
    packet = sent(a, "b")["b"]
    with pytest.raises(antecede.UnknownProcessError):
        b.receive(packet)
    b.add("c")
    assert len(b.receive(packet).deliveries) == 1


@pytest.mark.parametrize("protocol", TELLING)
def test_what_waits_for_a_removed_process_is_released_and_says_so(protocol: str) -> None:
    ends = {name: make(protocol, name, ("a", "b", "c")) for name in "abc"}
    for dest in ("c", "b"):
        for packet in sent(ends["a"], dest).values():
            if packet.dest == "b":
                ends["b"].receive(packet)
    reply = sent(ends["b"], "c", payload=b"reply")["c"]
    assert ends["c"].receive(reply).deliveries == ()
    released = ends["c"].remove("a").deliveries
    assert [delivery.payload for delivery in released] == [b"reply"]
    assert [need.process for need in released[0].unmet] == ["a"]
    assert ends["c"].held == 0


@pytest.mark.parametrize("protocol", DYNAMIC)
def test_a_removed_name_never_comes_back(protocol: str) -> None:
    a, b = make(protocol, "a", ("a", "b", "c")), make(protocol, "b", ("a", "b", "c"))
    late = sent(b, "a")["a"]
    a.remove("b")
    with pytest.raises(antecede.UsageError, match="cannot come back"):
        a.add("b")
    with pytest.raises(antecede.PeerError, match="which was removed"):
        a.receive(late)
    with pytest.raises(antecede.UsageError, match="not a member"):
        a.send(["b"])
    with pytest.raises(antecede.UsageError, match="not a member"):
        a.remove("b")
    with pytest.raises(antecede.UsageError, match="cannot remove itself"):
        a.remove("a")


@pytest.mark.parametrize("protocol", TELLING)
def test_packets_that_speak_of_a_removed_process_are_fine(protocol: str) -> None:
    ends = {name: make(protocol, name, ("a", "b", "c", "d")) for name in "abcd"}
    for dest in ("c", "b"):
        for packet in sent(ends["d"], dest).values():
            if packet.dest == "b":
                ends["b"].receive(packet)
    about = sent(ends["b"], "a", "d")
    ends["a"].remove("d")
    assert len(ends["a"].receive(about["a"]).deliveries) == 1
    onward = sent(ends["a"], "c")["c"]
    for packet in (onward, *filter(None, [about.get("c")])):
        assert ends["c"].receive(packet).deliveries == ()
    assert ends["c"].remove("d").deliveries[-1].message == onward.message


@pytest.mark.parametrize("protocol", FIXED)
def test_a_fixed_membership_says_so(protocol: str) -> None:
    end = make(protocol, "a", ("a", "b", "c"))
    for change in (end.add, end.remove):
        with pytest.raises(antecede.UsageError, match=f"{protocol} has a fixed membership"):
            change("b")


def test_names_are_checked_on_joining() -> None:
    end = make("optimal", "a", ("a", "b"))
    for name, words in (("a", "already a member"), ("", "not a name"), (7, "not a name")):
        with pytest.raises(antecede.UsageError, match=words):
            end.add(name)  # type: ignore[arg-type]
    assert end.members == ("a", "b")
    packet = make("optimal", "b", ("a", "b")).send(["a"]).packets[0]
    assert end.receive(replace(packet)).event == 1


def test_nothing_is_awaited_of_a_process_that_left() -> None:
    """Under ``buffered``, a message to it may be all that the others wait for."""
    a = make("buffered", "a", ("a", "b", "c"))
    assert len(a.send(["b"]).packets) == 1
    assert a.send(["b"]).packets == a.send(["c"], b"next").packets == ()
    (packet,) = a.remove("b").packets
    assert (packet.dest, packet.payload, a.queued) == ("c", b"next", 0)
