"""The holding buffer knows which messages it holds, also when two packets bring the same."""

from dataclasses import replace
from typing import Any

import pytest

import antecede
from antecede import MessageId, Packet, UsageError
from antecede.core.hold import HoldingBuffer
from antecede.core.tally import Tally

FIRST = Packet("a", "c", 1, "data", MessageId("a", 1), ("c",), b"x", (), "history")
SECOND = replace(FIRST, n=2, message=MessageId("a", 2))


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_a_message_is_held_until_the_last_packet_that_brings_it_is_gone(
    is_asked_before: bool,
) -> None:
    hold = HoldingBuffer(Tally())
    if is_asked_before:
        assert not hold.has(FIRST.message)
    places = [hold.take_in(packet) for packet in (FIRST, SECOND, replace(FIRST, source="b"))]
    assert hold.has(FIRST.message)
    assert hold.has(SECOND.message)
    hold.take_out(places[0])
    assert hold.has(FIRST.message)
    hold.take_out(places[2])
    assert not hold.has(FIRST.message)
    hold.put_back(places[0], FIRST)
    assert hold.has(FIRST.message)
    assert len(hold) == 2


@pytest.mark.parametrize("protocol", ["matrix", "optimal", "central"])
def test_a_payload_that_is_not_bytes_is_refused_and_changes_nothing(protocol: str) -> None:
    one = antecede.endpoint(protocol, process="a", members=("a", "b"))
    text: Any = "text"
    for _ in range(2):  # the second time by what the first has left behind
        before = one.state()
        with pytest.raises(UsageError, match="payload"):
            one.send(("b",), text)
        with pytest.raises(UsageError, match="after"):
            one.send(("b",), b"x", after=9)
        assert one.state() == before
        one.send(("b",), b"x")
