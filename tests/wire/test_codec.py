"""Every protocol's packets go to bytes and back, and each has one encoding."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import antecede
from antecede import MessageId, Packet, UsageError
from antecede.wire import Codec
from tests.wire.runs import Run, names, variants

seeds = st.integers(0, 2**32)
A_PACKET = Packet("a", "b", 7, "data", MessageId("a", 5), ("b", "c"), b"hello", (), "optimal")


@pytest.mark.parametrize(("protocol", "options"), variants())
@settings(max_examples=8)
@given(seed=seeds, count=st.integers(2, 9))
def test_packets_come_back_equal(
    protocol: str, options: dict[str, object], seed: int, count: int
) -> None:
    codec = Codec(names(count))
    run = Run(protocol, codec.members, seed, options).go(60)
    assert run.packets, "the run sent nothing"
    for packet in run.packets:
        data = codec.encode(packet)
        again = codec.decode(data)
        assert again == packet
        assert codec.encode(again) == data
        assert codec.route(data) == (packet.source, packet.dest, packet.n)


@pytest.mark.parametrize("protocol", antecede.PROTOCOLS)
def test_a_header_and_the_payload_make_the_whole(protocol: str) -> None:
    codec = Codec(names(5))
    for packet in Run(protocol, codec.members, 3).go(40).packets:
        head = codec.encode(packet, payload=False)
        assert head + packet.payload == codec.encode(packet)
        assert codec.decode(head) == replace(packet, payload=b"")
        assert 0 <= codec.wire_bytes(packet) < len(head)


@pytest.mark.parametrize("protocol", antecede.PROTOCOLS)
def test_two_codecs_write_the_same_bytes(protocol: str) -> None:
    first, second = Codec(names(6)), Codec(list(names(5)))
    second.add(names(6)[5])
    assert second.members == first.members
    for packet in Run(protocol, first.members, 11).go(40).packets:
        assert first.encode(packet) == second.encode(packet)


def test_no_control_takes_no_bytes() -> None:
    codec = Codec(tuple("abc"))
    for control in ((), None):
        packet = replace(A_PACKET, control=control)
        assert codec.wire_bytes(packet) == 0
        assert codec.decode(codec.encode(packet)) == packet
    assert codec.wire_bytes(replace(A_PACKET, control=0)) == 1


def test_shapes_that_only_some_protocols_send() -> None:
    codec = Codec(tuple("abcd"))
    for packet in (
        replace(A_PACKET, message=MessageId("d", 9)),
        replace(A_PACKET, dests=("c", "b")),
        replace(A_PACKET, dests=("b", "b")),
        replace(A_PACKET, dests=()),
        replace(A_PACKET, protocol="one of tomorrow"),
        Packet("a", "b", 1, "control", None, (), b"", ("ack", 3), "buffered"),
    ):
        assert codec.decode(codec.encode(packet)) == packet


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"source": "x"}, "'x' is not a member of this Codec"),
        ({"dest": "x"}, "'x' is not a member of this Codec"),
        ({"dests": ("b", "x")}, "'x' is not a member of this Codec"),
        ({"message": MessageId("x", 1)}, "'x' is not a member of this Codec"),
        ({"control": (("x", 1, ("a",)),)}, "'x' is not a member of this Codec"),
        ({"control": (("a", 1, ("b", "x")),)}, "'x' is not a member of this Codec"),
        ({"n": 0}, "number 0; expected an integer of at least 1"),
        ({"message": MessageId("a", 0)}, "seq 0; expected an integer of at least 1"),
        ({"message": None}, "a data packet has a message"),
        ({"kind": "control"}, "a control packet has neither"),
        ({"control": [1]}, "type list cannot be encoded in a control"),
        ({"control": 1.5}, "type float cannot be encoded"),
        ({"control": 2**70}, "cannot be encoded"),
        ({"control": (1, 2, 3, 2**70)}, "cannot be encoded"),
        ({"control": "\ud800"}, "not valid Unicode"),
        ({"protocol": ""}, "protocol name ''"),
        ({"protocol": "\ud800"}, "protocol name"),
        ({"payload": "text"}, "payload is str; expected bytes"),
    ],
)
def test_what_cannot_be_encoded_is_the_callers_fault(change: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        Codec(tuple("abc")).encode(replace(A_PACKET, **change))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_deep_and_too_long_are_refused() -> None:
    control: object = ()
    for _ in range(40):
        control = (control,)
    with pytest.raises(UsageError, match="deeper than 32"):
        Codec(tuple("abc")).encode(replace(A_PACKET, control=control))
    with pytest.raises(UsageError, match="at most 67108864 together"):
        Codec(tuple("abc")).encode(replace(A_PACKET, payload=bytes(64 * 1024 * 1024)))
    with pytest.raises(UsageError, match="cannot encode bytes; expected a Packet"):
        Codec(tuple("abc")).encode(b"")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ((), "got 0 members"),
        (("a", "a"), "members names a more than once"),
        (("a", ""), "member '' is not a name"),
        (("a", 3), "member 3 is not a name"),
        ("abc", None),
    ],
)
def test_members_are_checked(members: tuple[str, ...], says: str | None) -> None:
    if says is None:
        with pytest.raises(UsageError, match="members is the string"):
            Codec(members)
    else:
        with pytest.raises(UsageError, match=says):
            Codec(members)


def test_add_is_checked() -> None:
    codec = Codec(["a", "b"])
    for name, says in (("a", "already"), ("", "not a name")):
        with pytest.raises(UsageError, match=says):
            codec.add(name)
    assert codec.members == ("a", "b")
