"""Cases that once went wrong: removals, damaged heads, wrong calls, gaps that do not block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import antecede

BAD = antecede.AntecedeError


def make(process: str, members: str, protocol: str = "optimal", **more: Any) -> antecede.Endpoint:
    return antecede.endpoint(protocol, process=process, members=tuple(members), **more)


def test_a_newcomer_can_be_told_who_has_left() -> None:
    a, b, x = (make(name, "abx") for name in "abx")
    for packet in x.send(["a", "b"], b"hi").packets:
        {"a": a, "b": b}[packet.dest].receive(packet)
    for end in (a, b):
        end.remove("x")
        end.add("d")
    welcome = a.send(["d"], b"welcome").packets[0]
    with pytest.raises(antecede.UnknownProcessError, match=r"removed=\('x',\)"):
        make("d", "abd").receive(welcome)
    d = make("d", "abd", removed=("x",))
    assert [delivery.payload for delivery in d.receive(welcome).deliveries] == [b"welcome"]
    with pytest.raises(antecede.UsageError, match="cannot come back"):
        d.add("x")
    with pytest.raises(antecede.UsageError, match="'a' is both a member and removed"):
        make("d", "abd", removed=("a",))
    with pytest.raises(antecede.UsageError, match="fixed membership"):
        make("d", "abd", "direct", removed=("x",))


def test_a_held_message_of_a_removed_process_still_comes_before_its_effects() -> None:
    b, c, x, y = (make(name, "bcxy") for name in "bcxy")
    from_y = {packet.dest: packet for packet in y.send(["b", "x"]).packets}
    x.receive(from_y["x"])
    from_x = {packet.dest: packet for packet in x.send(["b", "c"]).packets}
    c.receive(from_x["c"])
    reply = c.send(["b"]).packets[0]
    b.receive(from_x["b"])
    b.receive(reply)
    assert b.remove("x").deliveries == ()
    delivered = b.receive(from_y["b"]).deliveries
    assert [str(delivery.message) for delivery in delivered] == ["y:1", "x:1", "c:1"]
    assert all(delivery.unmet == () for delivery in delivered)


def test_a_duplicate_from_a_removed_process_is_still_a_duplicate() -> None:
    a, b = make("a", "abc"), make("b", "abc")
    packet = b.send(["a"]).packets[0]
    a.receive(packet)
    a.remove("b")
    assert a.receive(packet) == antecede.Effects(event=1)


def test_what_is_given_up_is_not_waited_for() -> None:
    ends = {name: make(name, "abcy") for name in "abcy"}
    ends["a"].send(["c"])
    ends["y"].send(["c"])
    for name in "ay":
        ends["b"].receive(ends[name].send(["b"]).packets[0])
    ends["c"].receive(ends["b"].send(["c"]).packets[0])
    ends["c"].remove("a")
    assert ends["c"].waiting() == {("b", 1): (antecede.Need("y", 1),)}


@pytest.mark.parametrize("protocol", list(antecede.PROTOCOLS))
@pytest.mark.parametrize(
    "damage",
    [
        {"dests": None},
        {"dests": 5},
        {"dests": (["b"],)},
        {"dests": "ab"},
        {"dests": ["b"]},
        {"dests": ("b", "b")},
        {"source": ["a"]},
        {"dest": None},
        {"payload": None},
        {"payload": "x"},
        {"message": ("a", 1)},
        {"message": antecede.MessageId(["a"], 1)},  # type: ignore[arg-type]
        {"kind": "control"},
        {"kind": None},
        {"n": "1"},
        {"control": 10**5000},
        {"control": ["a"]},
    ],
    ids=lambda damage: (
        "-".join(f"{key}={str(value)[:8]}" for key, value in damage.items())
        if isinstance(damage.get("control"), list) or "control" not in damage
        else "control=huge"
    ),
)
def test_a_damaged_packet_is_our_error_and_changes_nothing(
    protocol: str, damage: dict[str, object]
) -> None:
    a, b = make("a", "ab", protocol), make("b", "ab", protocol)
    packets = a.send(["b"], b"x").packets
    if not packets:
        return  # serial sends nothing before it has the token
    before = b.state()
    with pytest.raises(BAD) as caught:
        b.receive(replace(packets[0], **damage))
    assert "\n" not in str(caught.value)
    assert b.state() == before
    b.receive(packets[0])


@pytest.mark.parametrize("dests", [None, 5, [["b"]], [None], [5]])
def test_destinations_that_are_no_names_are_refused(dests: object) -> None:
    a = make("a", "ab")
    with pytest.raises(antecede.UsageError):
        a.send(dests)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [["x"], None, 5])
def test_names_that_are_no_names_are_refused(name: object) -> None:
    a = make("a", "ab", pull=True)
    for call in (a.add, a.remove):
        with pytest.raises(antecede.UsageError):
            call(name)  # type: ignore[arg-type]
    if name is not None:
        with pytest.raises(antecede.UsageError):
            a.take(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        {"protocol": []},
        {"protocol": None},
        {"members": None},
        {"members": 5},
        {"members": ([],)},
        {"process": ["a"]},
        {"pull": "no"},
        {"pull": 1},
    ],
)
def test_wrong_calls_are_usage_errors(call: dict[str, object]) -> None:
    right: dict[str, object] = {"protocol": "optimal", "process": "a", "members": ("a", "b")}
    with pytest.raises(antecede.UsageError):
        antecede.endpoint(**(right | call))  # type: ignore[arg-type]


def test_the_size_of_nothing_is_a_usage_error() -> None:
    with pytest.raises(antecede.UsageError, match="takes a Packet"):
        antecede.size(None)  # type: ignore[arg-type]


def test_a_gap_that_does_not_block_costs_one_interval() -> None:
    a, b = make("a", "ab", "semantic"), make("b", "ab", "semantic")
    packets = [a.send(["b"], after=antecede.NOTHING).packets[0] for _ in range(300)]
    for packet in packets[1:]:
        b.receive(packet)
    channels = b.state()["channels"]
    assert isinstance(channels, dict)
    assert channels["ahead"] == {"a": [(2, 300)]}
    assert b.receive(packets[150]).deliveries == ()
    assert len(b.receive(packets[0]).deliveries) == 1
    channels = b.state()["channels"]
    assert isinstance(channels, dict)
    assert channels["ahead"] == {}
    assert channels["prefix"] == {"a": 300}


def test_a_refused_broadcast_names_those_that_broadcast() -> None:
    end = make("a", "abcd", "buffered")
    with pytest.raises(antecede.UsageError) as caught:
        end.send(["b", "c", "d"])
    for name in ("broadcast", "context", "optimal", "central"):
        assert name in str(caught.value)


def test_groups_may_be_sets() -> None:
    groups = {"g": {"a", "b"}, "all": {"a", "b", "c"}}
    end = make("a", "abc", "broadcast", groups=groups)
    assert [packet.dest for packet in end.send("g").packets] == ["b"]


def test_before_the_first_event_after_says_what_is_left() -> None:
    with pytest.raises(
        antecede.UsageError, match="after=3 is not a local event; there is none yet"
    ):
        make("a", "ab").send(["b"], after=3)
