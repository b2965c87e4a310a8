"""What one malicious member can do under each protocol; docs/threat-model.md states the results.

The members are a, b, c and the malicious m, who has no special role unless a test gives it one. A
lie is a packet that m would send in an invented world, so it always has a valid form.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import cast

import pytest

import antecede
from antecede import PROTOCOLS, HoldFullError, MessageId, Packet, PeerError
from antecede.endpoint.messages import Message
from antecede.protocols.phases import Stamps
from tests.protocols.rig import forged
from tests.support.liars import ANSWERING, MEMBERS, TRANSITIVE, WITH_CONTROL, Net, lie

NAMES = pytest.mark.parametrize("name", list(PROTOCOLS))
LEAST = ("acknowledged", "non_atomic", "optimal", "pruned", "semantic_optimal")


def to_c(packet: Packet) -> bool:
    return packet.dest == "c"


@NAMES
def test_form_and_channel_are_checked(name: str) -> None:
    """Without a trace: what is not for us, of another protocol, or from our own name."""
    net = Net(name)
    net.send("a", "c")
    packet = net.flying[0]
    target = net.endpoints[packet.dest]
    before = target.state()
    other = next(p for p in MEMBERS if p not in (packet.source, packet.dest))
    stranger = antecede.endpoint("matrix", process="a", members=("a", "zz")).send(["zz"])
    for wrong in (*stranger.packets, forged(packet, dest_no=MEMBERS.index(other))):
        with pytest.raises((PeerError, antecede.UsageError)):
            target.receive(wrong)
    assert target.state() == before
    net.run()
    state = target.state()
    net.receive(packet)  # a replay
    assert target.state() == state


@NAMES
def test_without_authentication_a_forged_source_displaces_the_true_message(name: str) -> None:
    net, fiction = Net(name), Net(name)
    fiction.send("b", "c", payload=b"forged")
    forged = next(p for p in fiction.flying if p.source == "b")
    net.receive(forged)
    net.send("b", "c", payload=b"true")
    true = next(p for p in net.flying if p.source == "b" and p.dest == forged.dest)
    assert true.n == forged.n
    net.flying.clear()
    state = net.endpoints[forged.dest].state()
    net.receive(true)
    assert net.endpoints[forged.dest].state() == state
    assert not net.flying


@NAMES
def test_with_authentication_only_relayers_can_forge_a_sender(name: str) -> None:
    """Under ``zones`` every member of the zone passes messages on; see ``history`` below."""
    net = Net(name)
    net.send("m", "c")
    for packet in [p for p in net.flying if p.kind == "data"]:
        codec = antecede.Codec(packet.view)
        data = codec.encode(forged(packet, sender=MEMBERS.index("b"), seq=1))
        with suppress(PeerError):
            net.receive(codec.decode(data))
    assert net.has("c", "b") == (name == "zones")


@pytest.mark.parametrize("name", ["central", "hierarchy"])
def test_a_relay_can_forge_a_sender(name: str) -> None:
    """The relay is the first member, a."""
    net = Net(name)
    net.send("a", "c", payload=b"forged")
    (packet,) = net.flying
    net.receive(forged(packet, sender=MEMBERS.index("b"), seq=1))
    assert net.delivered["c"] == [(MessageId("b", 1), b"forged")]


def test_history_delivers_what_a_relayer_says_another_sent() -> None:
    packets = lie("history", lambda f: f.send("b", "c", "m", payload=b"forged"), "c", hold=to_c)
    net = Net("history")
    net.receive(packets["c"])
    assert net.delivered["c"][0] == (MessageId("b", 1), b"forged")


@pytest.mark.parametrize("name", [name for name in WITH_CONTROL if name != "server"])
def test_members_can_be_told_different_things(name: str) -> None:
    net = Net(name)
    net.send("m", "b", "c", payload=b"yes")
    net.flying = [forged(p, payload=b"no") if p.dest == "c" else p for p in net.flying]
    net.run()
    assert net.delivered["b"] == [(MessageId("m", 1), b"yes")]
    assert net.delivered["c"] == [(MessageId("m", 1), b"no")]


@NAMES
def test_a_withheld_copy_stops_what_depends_on_it(name: str) -> None:
    """``history`` carries the copy along; with a relay or unicast no copy can be withheld."""
    net = Net(name)
    net.send("m", "b", "c")
    for process in ("m", "b"):
        net.run(lambda p: (p.source, p.dest) == ("m", "c"))
        assert net.has("b", "m")
        if process == "m":
            net.send("b", "c")
    goes_on = name in {
        *("buffered", "central", "flooding", "hierarchy"),
        *("history", "server", "synchronous", "tree"),
    }
    assert net.has("c", "b") == goes_on


def far_past(fiction: Net) -> None:
    """Say that a has sent three messages to c."""
    for _ in range(3):
        fiction.send("a", "c")
    fiction.run()
    fiction.send("a", "m")


@pytest.mark.parametrize("name", WITH_CONTROL)
def test_a_lie_about_a_third_party_stops_others(name: str) -> None:
    """Where b waits for all it is told about, the lie stops only m's own message."""
    net = Net(name)
    net.receive(lie(name, far_past, "b")["b"])
    assert net.has("b", "m") == (name not in TRANSITIVE)
    net.send("b", "c")
    net.run()
    assert net.has("c", "b") == (name in TRANSITIVE | {"history", "server", "two_hop"})


def what_was(fiction: Net) -> None:
    """Tell the truth: c sent to m, a sent to c, then to b and m, and a's message to c is late."""
    fiction.send("c", "m")
    fiction.run()
    a_sends(fiction)


def a_sends(fiction: Net) -> None:
    fiction.send("a", "c")
    if "multicast" in fiction.casts:
        fiction.send("a", "b", "m")


def all_is_delivered(fiction: Net) -> None:
    """Say that c had delivered a's first message when it sent its own."""
    a_sends(fiction)
    fiction.run()
    fiction.send("c", "m")


def c_is_ahead(net: Net) -> None:
    """Let c send as often as the lie says, so that the lie is not refused for that."""
    net.send("c", "a")
    net.flying = [packet for packet in net.flying if packet.source != "c"]


@pytest.mark.parametrize("name", [name for name in WITH_CONTROL if name != "server"])
@pytest.mark.parametrize(
    ("told_b", "is_c_told", "liable"),
    [
        (all_is_delivered, False, {"history", *LEAST}),
        (all_is_delivered, True, {"bounded", "direct", "history", *LEAST}),
        (what_was, True, {"bounded", "context", "direct", *LEAST}),
    ],
)
def test_a_lie_can_make_others_overtake(
    name: str, told_b: Callable[[Net], None], is_c_told: bool, liable: set[str]
) -> None:
    """The message from a to c is late, and b knows of it until m replaces that by its own past.

    If m sends to c too, it says there that it knows of nothing.
    """
    net = Net(name)
    if name == "optimal" and told_b is all_is_delivered:
        c_is_ahead(net)
    what_was(net)
    net.run(to_c)
    dests = ("b", "c") if is_c_told else ("b",)
    net.receive(lie(name, told_b, *dests)["b"])
    if is_c_told:
        last = net.last_number("m", "c") if name in ANSWERING else 0  # m has acknowledged before
        net.receive(forged(lie(name, lambda _: None, *dests)["c"], n=last + 1))
    net.send("b", "c")
    net.run(lambda p: (p.source, p.dest) == ("a", "c"))
    assert (net.has("c", "b") and not net.has("c", "a")) == (name in liable)


@NAMES
def test_one_member_can_fill_the_holding_buffer(name: str) -> None:
    """Relays and the server, a, hold what arrives early, and so do most others."""
    net = Net(name, held_max=3)
    target = "a" if name in ("central", "hierarchy", "server") else "b" if name == "tree" else "c"
    if name == "synchronous":  # holds all while it waits for an acknowledgement
        net.send("c", "m")
    for n in range(2, 9):
        fiction = Net(name)
        if name in ("serial", "synchronous"):  # without the token, or an acknowledgement
            view = net.endpoints["c"].view
            own = None if name == "synchronous" else 999 << view.shift | MEMBERS.index("a")
            message = Message(view, MEMBERS.index("m"), n, 1 << MEMBERS.index("c"), b"", None)
            packet = Packet(message, MEMBERS.index("m"), MEMBERS.index("c"), n, own)
        else:
            for _ in range(n):
                fiction.send("m", target)
                fiction.run(lambda p: p.kind == "data" and p.source == "m")
            packet = [p for p in fiction.flying if (p.source, p.dest) == ("m", target)][-1]
        with suppress(HoldFullError):
            net.receive(packet)
    held = net.endpoints[target].held
    assert held == (0 if name in ("buffered", "history") else 3)


@pytest.mark.parametrize("quiet", ["m", "a"])
@NAMES
def test_silence_stops_others_where_they_need_an_answer(name: str, quiet: str) -> None:
    """The first member, a, is a relay, the home of the token, and the root of ``tree``."""
    net = Net(name)
    x, y, z = (member for member in MEMBERS if member != quiet)
    net.send(x, quiet)
    net.run(lambda p: p.dest == quiet)
    stuck = []
    for source, dest in ((x, y), (y, x), (z, y)):
        with suppress(antecede.UsageError):
            net.send(source, dest)
        net.run(lambda p: p.dest == quiet)
        stuck.append(not net.has(dest, source))
    needed = {"central", "hierarchy", "serial", "tree"} if quiet == "a" else set()
    if name in needed | {"synchronous"}:
        assert all(stuck)
    elif name == "buffered":  # only the sender that waits for the acknowledgement
        assert stuck == [True, False, False]
    elif name == "phases":  # all that follows the first message waits for the answer
        assert stuck == [False, True, True]
    else:
        assert not any(stuck)


def test_who_keeps_the_token_stops_all_others() -> None:
    net = Net("serial")
    net.send("m", "b")
    net.run(lambda p: p.dest == "m")
    net.send("b", "c")
    net.send("a", "c")
    net.run(lambda p: p.dest == "m")
    assert not net.delivered["c"]


@pytest.mark.parametrize("token", [{}, {2: 999 << 2 | 3}])
def test_the_token_can_bring_a_lie(token: dict[int, int]) -> None:
    """It says for each process which message it must deliver first; none, or one made up."""
    net = Net("serial")
    what_was(net)
    net.run(to_c)
    net.send("m", "b")
    net.run(lambda p: to_c(p) or p.dest == "m")
    net.run(lambda p: to_c(p) or p.source == "m")
    net.flying = [
        forged(p, control=token) if (p.source, p.dest) == ("m", "a") else p for p in net.flying
    ]
    net.run(to_c)
    assert net.has("b", "m")
    net.send("b", "c")
    net.run(lambda p: (p.source, p.dest) == ("a", "c"))
    assert net.has("c", "b") == (not token)
    net.run()
    assert net.has("c", "a")
    assert net.has("c", "b") == (not token)


@pytest.mark.parametrize("is_lie", [False, True])
def test_the_server_waits_for_requests_withheld_or_made_up(is_lie: bool) -> None:
    """The server is a. Clients never wait."""
    net = Net("server")
    if is_lie:

        def tell(fiction: Net) -> None:
            fiction.send("c", "a")
            fiction.send("c", "m")

        net.receive(lie("server", tell, "b")["b"])
    else:
        net.send("m", "a")
        net.send("m", "b")
    net.run(lambda p: (p.source, p.dest) == ("m", "a"))
    net.send("b", "a")
    net.run(lambda p: p.source == "m")
    assert net.has("b", "m")
    assert not net.has("a", "b")


def test_the_past_of_a_request_cannot_be_erased() -> None:
    def tell(fiction: Net) -> None:
        fiction.send("c", "a")
        fiction.run()
        fiction.send("a", "m")

    net = Net("server")
    net.send("c", "a")
    net.send("c", "b")
    net.run(lambda p: p.dest == "a")
    net.receive(lie("server", tell, "b")["b"])
    net.send("b", "a")
    net.run(lambda p: p.source == "c")
    assert not net.has("a", "b")
    net.run()
    assert net.has("a", "b")


def test_a_gateway_can_forge_a_sender_and_cut_its_zones_apart() -> None:
    """Here b is the gateway between a and the others."""
    net = Net("zones", zones=(("a", "b"), ("b", "c", "m")))
    net.send("a", "b")
    net.run(lambda p: p.source == "b")
    assert net.has("b", "a")
    assert not net.has("c", "a")
    net.flying = [forged(p, payload=b"forged") for p in net.flying]
    net.run()
    assert net.delivered["c"] == [(MessageId("a", 1), b"forged")]


@pytest.mark.parametrize("name", ["optimal", "pruned", "matrix", "broadcast", "context"])
def test_a_member_can_hide_its_own_past(name: str) -> None:
    """m has a's message, and sends as if it had not: c gets the answer before the question."""
    net = Net(name)
    net.send("a", "c", "m", payload=b"question")
    net.run(to_c)
    assert net.has("m", "a")
    net.receive(lie(name, lambda _: None, "c")["c"])
    net.run()
    assert [message.sender for message, _ in net.delivered["c"]] == ["m", "a"]


@pytest.mark.parametrize("name", ["optimal", "matrix"])
def test_a_lie_sets_members_against_each_other(name: str) -> None:
    """m tells b of messages of c that c never sent; c then turns away what b sends."""

    def past(fiction: Net) -> None:
        for _ in range(3):
            fiction.send("c", "a")
        fiction.run(lambda p: p.dest == "a")
        fiction.send("c", "m")

    net = Net(name)
    net.receive(lie(name, past, "b", hold=lambda p: p.dest == "a")["b"])
    assert net.has("b", "m")
    net.send("b", "c")
    (packet,) = net.flying
    with pytest.raises(PeerError, match="more messages of this process than the 0 that it sent"):
        net.receive(packet)


def test_packets_can_be_read_by_whoever_carries_them() -> None:
    net = Net("optimal")
    net.send("m", "b", payload=b"in plain sight")
    (packet,) = net.flying
    assert b"in plain sight" in antecede.Codec(packet.view).encode(packet)


def test_the_digest_of_the_members_can_be_forged() -> None:
    """Two lists of members with one digest are found among a few thousand."""
    known: dict[bytes, tuple[str, ...]] = {}
    for number in range(20_000):
        view = antecede.endpoint("optimal", process="a", members=("a", str(number))).view
        if known.setdefault(view.digest, view.members) != view.members:
            return
    pytest.fail("no two lists of members share a digest")


def test_the_clock_of_phases_is_used_up_by_many_messages_and_not_by_one() -> None:
    net, jump = Net("phases"), 1 << 32
    net.send("m", "b")
    packet = next(p for p in net.flying if p.dest == "b")
    _, past = cast("Stamps", packet.control)
    with pytest.raises(PeerError, match="far ahead"):
        net.receive(forged(packet, control=(jump + 1, past)))
    net.receive(forged(packet, control=(jump, past)))
    net.send("b", "m")
    assert cast("Stamps", net.flying[-1].control)[0] == jump + 1


def test_a_snapshot_is_believed() -> None:
    """Whoever can write it decides what the endpoint knows: here, that it has a's first packet."""
    a, b = (antecede.endpoint("matrix", process=name, members=("a", "b")) for name in "ab")
    codec = antecede.Codec(b)
    changed = codec.snapshot(b).replace(b'"prefix":[0,0]', b'"prefix":[1,0]')
    (packet,) = a.send(["b"], b"one").packets
    assert b.receive(packet).deliveries
    assert not codec.restore(changed, resumed=True).receive(packet).deliveries
