"""Errors carry their values as attributes, so that no code has to read the text."""

from __future__ import annotations

import pickle

import pytest

import antecede
from antecede import HoldFullError, QueueFullError, UnknownProcessError

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


def test_an_unknown_process_is_named() -> None:
    a = antecede.endpoint("optimal", process="a", members=("a", "b", "new"))
    b = antecede.endpoint("optimal", process="b", members=("a", "b"))
    (packet,) = (p for p in a.send(["b", "new"]).packets if p.dest == "b")
    with pytest.raises(UnknownProcessError) as caught:
        b.receive(packet)
    assert caught.value.process == "new"
    assert caught.value.members == ("a", "b")


def test_a_codec_that_knows_too_few_members_says_which_it_knows() -> None:
    a = antecede.endpoint("optimal", process="a", members=("a", "b"))
    (packet,) = a.send(["b"]).packets
    data = antecede.Codec(("a", "b", "new")).encode(packet)
    with pytest.raises(UnknownProcessError) as caught:
        antecede.Codec(("a", "b")).decode(data)
    assert caught.value.process is None
    assert caught.value.members == ("a", "b")


def test_errors_travel_between_processes() -> None:
    for error in (
        UnknownProcessError("text", process="x", members=("a",)),
        HoldFullError("text", held=3, held_max=4),
        QueueFullError("text", queued=3, queue_max=4),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == "text"
        assert vars(again) == vars(error)
