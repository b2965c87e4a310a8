"""The endpoint base: properties of every protocol, shown on optimal and matrix."""

from __future__ import annotations

from typing import Any

import pytest

import antecede
from antecede.endpoint.registry import restored, rules_of
from antecede.endpoint.rules import Rules
from tests.protocols.rig import forged

MEMBERS = ("a", "b", "c")


def group(protocol: str = "optimal", **options: Any) -> dict[str, antecede.Endpoint]:
    return {
        name: antecede.endpoint(protocol, process=name, members=MEMBERS, **options)
        for name in MEMBERS
    }


def triangle(
    protocol: str = "optimal", **options: object
) -> tuple[dict[str, antecede.Endpoint], antecede.Packet, antecede.Packet]:
    """Return endpoints, the question (a to c, still on its way) and the reply (b to c)."""
    ends = group(protocol, **options)
    question = ends["a"].send(["c"], b"question").packets[0]
    hint = ends["a"].send(["b"], b"hint").packets[0]
    ends["b"].receive(hint)
    ends["b"].take() if ends["b"].pull else None
    reply = ends["b"].send(["c"], b"reply").packets[0]
    return ends, question, reply


def ids(effects: antecede.Effects) -> list[str]:
    return [str(delivery.message) for delivery in effects.deliveries]


def test_an_effect_waits_for_its_cause() -> None:
    ends, question, reply = triangle()
    assert ids(ends["c"].receive(reply)) == []
    assert ends["c"].held == 1
    assert ends["c"].waiting() == {("b", 1): (antecede.Need("a", 1),)}
    assert str(ends["c"].waiting()[antecede.MessageId("b", 1)][0]) == "message 1 of a"
    effects = ends["c"].receive(question)
    assert ids(effects) == ["a:1", "b:1"]
    assert [delivery.event for delivery in effects.deliveries] == [1, 2]
    assert [delivery.source for delivery in effects.deliveries] == ["a", "b"]
    assert ends["c"].held == 0
    assert ends["c"].waiting() == {}


def test_duplicates_are_dropped_wherever_they_come() -> None:
    ends, question, reply = triangle()
    ends["c"].receive(reply)
    assert ends["c"].receive(reply) == antecede.Effects(event=0)
    assert ends["c"].held == 1
    assert ids(ends["c"].receive(question)) == ["a:1", "b:1"]
    for packet in (question, reply, question):
        assert ends["c"].receive(packet) == antecede.Effects(event=2)


def test_duplicate_memory_is_one_number_a_channel_and_what_came_early() -> None:
    ends = group()
    packets = [ends["a"].send(["c"]).packets[0] for _ in range(200)]
    for packet in packets[1:]:
        ends["c"].receive(packet)
    assert ends["c"].state()["ahead"] == [[*range(2, 201)], [], []]
    ends["c"].receive(packets[0])
    assert ends["c"].state()["prefix"] == [200, 0, 0]
    assert ends["c"].state()["ahead"] == [[], [], []]


def test_packets_are_numbered_by_channel_and_name_all_destinations() -> None:
    ends = group()
    first = ends["a"].send(["c", "b"], b"x")
    second = ends["a"].send(["c"], b"y")
    assert [(p.dest, p.n, p.kind, p.dests) for p in first.packets] == [
        ("b", 1, "data", ("b", "c")),
        ("c", 1, "data", ("b", "c")),
    ]
    assert [(p.dest, p.n) for p in second.packets] == [("c", 2)]
    assert (first.event, second.event) == (1, 2)
    assert second.packets[0].message == antecede.MessageId("a", 2)


def test_a_message_to_oneself_is_delivered_at_once() -> None:
    end = antecede.endpoint("matrix", process="a", members=MEMBERS)
    effects = end.send(["a", "b"], b"x")
    assert effects.event == 1
    assert [(d.message, d.event, d.payload) for d in effects.deliveries] == [(("a", 1), 2, b"x")]
    assert [packet.dest for packet in effects.packets] == ["b"]
    alone = end.send(["a"], b"y")
    assert alone.packets == ()
    assert ids(alone) == ["a:2"]


def test_only_a_packet_that_must_be_held_is_refused() -> None:
    ends = group(held_max=1)
    packets = [ends["a"].send(["c"]).packets[0] for _ in range(3)]
    ends["c"].receive(packets[1])
    before = ends["c"].state()
    with pytest.raises(antecede.HoldFullError, match=r"packet 3 from 'a'.*held_max=1"):
        ends["c"].receive(packets[2])
    assert ends["c"].state() == before
    assert ends["c"].receive(packets[1]).deliveries == ()
    assert ids(ends["c"].receive(packets[0])) == ["a:1", "a:2"]
    assert ids(ends["c"].receive(packets[2])) == ["a:3"]


def test_a_delivery_wakes_only_what_waited_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cls: type[Rules] = rules_of("optimal")
    looked_at: list[str] = []
    blocker = cls.blocker

    def spy(self: Rules, packet: antecede.Packet) -> int:
        looked_at.append(str(packet.message))
        return blocker(self, packet)

    monkeypatch.setattr(cls, "blocker", spy)
    ends = group()
    from_a = [ends["a"].send(["c"]).packets[0] for _ in range(50)]
    from_b = [ends["b"].send(["c"]).packets[0] for _ in range(50)]
    for packet in from_a[1:] + from_b[1:]:
        ends["c"].receive(packet)
    looked_at.clear()
    ends["c"].receive(from_b[0])
    assert not any(name.startswith("a:") for name in looked_at)
    assert len(looked_at) <= 3 * 50


@pytest.mark.parametrize("protocol", ["matrix", "optimal"])
def test_pull_mode_delivers_one_at_a_time(protocol: str) -> None:
    ends, question, reply = triangle(protocol, pull=True)
    c = ends["c"]
    assert c.receive(reply).deliveries == ()
    assert c.take().deliveries == ()
    c.receive(question)
    assert c.held == 2
    assert c.take("b").deliveries == ()
    assert ids(c.take("a")) == ["a:1"]
    assert ids(c.take("b")) == ["b:1"]
    assert c.take() == antecede.Effects(event=2)


def test_pull_mode_counts_what_was_not_taken_against_the_limit() -> None:
    ends = group(pull=True, held_max=1)
    packets = [ends["a"].send(["c"]).packets[0] for _ in range(2)]
    ends["c"].receive(packets[0])
    with pytest.raises(antecede.HoldFullError):
        ends["c"].receive(packets[1])
    ends["c"].take()
    ends["c"].receive(packets[1])
    assert ids(ends["c"].take()) == ["a:2"]


def test_take_needs_pull_mode_and_a_known_source() -> None:
    with pytest.raises(antecede.UsageError, match="pull=True"):
        group()["a"].take()
    with pytest.raises(antecede.UsageError, match="'x' is not a member"):
        group(pull=True)["a"].take("x")


def test_a_restored_state_goes_on_as_if_nothing_had_happened() -> None:
    ends, question, reply = triangle()
    ends["c"].receive(reply)
    twin = restored(ends["c"].view, ends["c"].state(), resumed=True)
    assert twin.state() == ends["c"].state()
    assert twin.receive(question) == ends["c"].receive(question)
    assert twin.send(["a"], b"z") == ends["c"].send(["a"], b"z")


def test_a_state_is_a_copy() -> None:
    ends, question, reply = triangle()
    saved = ends["c"].state()
    ends["c"].receive(reply)
    ends["c"].receive(question)
    again = restored(ends["c"].view, saved, resumed=True)
    assert again.held == 0
    assert again.receive(question).event == 1


def test_packets_of_others_are_refused_in_one_line_and_change_nothing() -> None:
    ends, _, reply = triangle()
    ends["c"].receive(reply)
    packet = ends["a"].send(["c"]).packets[0]
    matrix = antecede.endpoint("matrix", process="a", members=MEMBERS).send(["c"]).packets[0]
    control: Any = packet.content.control
    tops, log = control
    knowing = forged(packet, control=([tops[0], tops[1], 7 << 2 | 2], log))
    before = ends["c"].state()
    for wrong, error, words in (
        (forged(packet, dest_no=1), antecede.UsageError, "is for 'b', but this endpoint is 'c'"),
        (matrix, antecede.PeerError, "protocol 'matrix'"),
        (knowing, antecede.PeerError, "knows of more messages of this process than the 0"),
    ):
        with pytest.raises(error, match=words) as caught:
            ends["c"].receive(wrong)
        assert "\n" not in str(caught.value)
        assert ends["c"].state() == before


@pytest.mark.parametrize(
    ("dests", "words"),
    [
        ([], "empty"),
        (["x"], "'x'.*members are a, b, c"),
        ("b", r"write \['b'\]"),
        (["b", "y"], "'y'"),
    ],
)
def test_bad_destinations_are_refused(dests: list[str] | str, words: str) -> None:
    end = group()["a"]
    before = end.state()
    with pytest.raises(antecede.UsageError, match=words):
        end.send(dests)
    assert end.state() == before


def test_payload_and_after_are_checked() -> None:
    end = group()["a"]
    with pytest.raises(antecede.UsageError, match="payload is str; expected bytes"):
        end.send(["b"], "text")  # type: ignore[arg-type]
    with pytest.raises(
        antecede.UsageError, match="after=7 is not a local event; there is none yet"
    ):
        end.send(["b"], after=7)
    with pytest.raises(antecede.UsageError, match="takes a Packet, got b''; decode"):
        end.receive(b"")  # type: ignore[arg-type]
    assert end.send(["b"]).event == 1


def test_nobody_keeps_dependencies_but_the_protocols_that_do() -> None:
    assert group("matrix")["a"].dependencies() == {}


@pytest.mark.parametrize("held_max", [1, 2])
def test_in_pull_mode_blocked_packets_never_fill_the_last_place(held_max: int) -> None:
    ends, question, reply = triangle(pull=True, held_max=held_max)
    if held_max == 1:
        with pytest.raises(antecede.HoldFullError):
            ends["c"].receive(reply)
    else:
        ends["c"].receive(reply)
    ends["c"].receive(question)
    assert ids(ends["c"].take()) == ["a:1"]
    ends["c"].receive(reply)
    assert ids(ends["c"].take()) == ["b:1"]
