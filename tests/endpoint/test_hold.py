"""The holding buffer: who waits where, who is woken, and in which order."""

from typing import Any

import pytest

import antecede
from antecede import Packet, UsageError
from antecede.endpoint.hold import Hold
from antecede.endpoint.messages import FREE

LOW = 3


def packets(count: int) -> list[Packet]:
    a = antecede.endpoint("optimal", process="a", members=("a", "b", "c"))
    return [a.send(["c"], bytes(10)).packets[0] for _ in range(count)]


def key(number: int, place: int) -> int:
    return number << 2 | place


def test_only_what_waits_at_a_place_for_so_much_is_woken_in_order_of_arrival() -> None:
    hold = Hold(3, LOW, 10, 1000, pull=False)
    for packet, need in zip(packets(4), (key(3, 0), key(2, 0), key(2, 1), key(3, 0)), strict=True):
        hold.add(packet, need)
    assert hold.wake(0, key(2, 0)) == [2]
    assert hold.wake(0, key(9, 0)) == [1, 4]
    assert 0 not in hold.waiting
    assert hold.wake(1, key(2, 1)) == [3]
    assert not hold.waiting


def test_what_is_ready_goes_in_order_of_arrival_or_by_sender() -> None:
    hold = Hold(3, LOW, 10, 1000, pull=True)
    for packet in packets(3):
        hold.add(packet, FREE)
    assert hold.pop_ready(1) == 0
    assert hold.pop_ready(0) == 1
    assert hold.pop_ready() == 2
    hold.file(1, FREE)
    assert hold.pop_ready() == 1


def test_counts_and_bytes_go_up_and_down() -> None:
    hold = Hold(3, LOW, 10, 1000, pull=False)
    for packet in packets(3):
        hold.add(packet, key(1, 1))
    assert (hold.count, hold.bytes, hold.counts, hold.sizes) == (3, 30, [3, 0, 0], [30, 0, 0])
    for arrival in hold.wake_all():
        hold.take(arrival)
    assert (hold.count, hold.bytes, hold.counts, hold.sizes) == (0, 0, [0, 0, 0], [0, 0, 0])


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
