"""Errors carry their values as attributes, so that no code has to read the text."""

from __future__ import annotations

import pickle

import pytest

import antecede
from antecede import HoldFullError, OtherViewError, QueueFullError

MEMBERS = ("a", "b", "c")


def test_a_full_holding_buffer_says_how_full() -> None:
    a = antecede.endpoint("optimal", process="a", members=MEMBERS)
    b = antecede.endpoint("optimal", process="b", members=MEMBERS, held_max=0)
    a.send(["b"])
    (late,) = a.send(["b"]).packets
    with pytest.raises(HoldFullError) as caught:
        b.receive(late)
    assert (caught.value.held, caught.value.held_max) == (0, 0)
    assert not isinstance(caught.value, QueueFullError)


@pytest.mark.parametrize("protocol", ["buffered", "serial"])
def test_a_full_queue_says_how_full(protocol: str) -> None:
    b = antecede.endpoint(protocol, process="b", members=MEMBERS, queue_max=2)
    while b.queued < 2:
        b.send(["a"])
    with pytest.raises(QueueFullError) as caught:
        b.send(["a"])
    assert (caught.value.queued, caught.value.queue_max) == (2, 2)
    assert (caught.value.held, caught.value.held_max) == (2, 2)


def test_a_packet_of_another_view_says_which() -> None:
    old, new = (
        antecede.endpoint("optimal", process="a", members=MEMBERS, view=view) for view in (3, 4)
    )
    b = antecede.endpoint("optimal", process="b", members=MEMBERS, view=4)
    (packet,) = old.send(["b"]).packets
    with pytest.raises(OtherViewError) as caught:
        b.receive(packet)
    assert (caught.value.number, caught.value.current) == (3, 4)
    assert len(b.receive(new.send(["b"]).packets[0]).deliveries) == 1


def test_errors_travel_between_processes() -> None:
    for error in (
        OtherViewError("text", number=3, current=4),
        HoldFullError("text", held=3, held_max=4),
        QueueFullError("text", queued=3, queue_max=4),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == "text"
        assert vars(again) == vars(error)
