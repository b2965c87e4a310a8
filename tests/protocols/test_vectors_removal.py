"""vectors after a removal: questions, answers, and what is said to be lost."""

from typing import Any

import pytest

import antecede
from antecede import Endpoint, Need, Packet


def group(held_max: int = 100) -> tuple[Endpoint, Endpoint, Endpoint]:
    """Return a, b and r; r left, and its message to a is lost, on which all of b's rest."""
    names = ("a", "b", "r")
    a, b, r = (
        antecede.endpoint("vectors", process=name, members=names, held_max=held_max)
        for name in names
    )
    r.receive(b.send(["r"]).packets[0])
    b.receive(next(packet for packet in r.send(["a", "b"]).packets if packet.dest == "b"))
    return a, b, r


def payloads(end: Endpoint, *packets: Packet) -> list[bytes]:
    return [one.payload for packet in packets for one in end.receive(packet).deliveries]


def test_an_old_answer_may_complete_what_came_before_a_new_one() -> None:
    a, b, _ = group()
    a.remove("r")
    b.remove("r")
    m1, m2 = (b.send(["a"], payload).packets[0] for payload in (b"1", b"2"))
    (question,) = a.receive(m2).packets
    (old_answer,) = b.receive(question).packets
    m3, m4 = (b.send(["a"], payload).packets[0] for payload in (b"3", b"4"))
    (question,) = a.receive(m4).packets
    (answer,) = b.receive(question).packets
    assert payloads(a, m3, answer, m1, old_answer) == [b"1", b"2", b"3", b"4"]
    assert a.held == 0


def test_a_question_may_complete_what_came_before_an_answer() -> None:
    names = ("a", "b", "c", "r")
    a, b, c, r = (antecede.endpoint("vectors", process=name, members=names) for name in names)
    for end in (a, b):
        r.receive(end.send(["r"]).packets[0])
    c.receive(next(packet for packet in r.send(["a", "b", "c"]).packets if packet.dest == "c"))
    for end in (a, b, c):
        end.remove("r")
    to_a, to_b = c.send(["a", "b"], b"y").packets
    (question,) = [packet for packet in b.receive(to_b).packets if packet.dest == "a"]
    (mine,) = [packet for packet in a.receive(to_a).packets if packet.dest == "b"]
    (answer,) = b.receive(mine).packets
    assert payloads(a, answer, question) == [b"y"]


def test_a_full_buffer_takes_the_next_packet_of_a_channel() -> None:
    a, b, _ = group(held_max=2)
    a.remove("r")
    m1, m2, m3 = (b.send(["a"], payload).packets[0] for payload in (b"1", b"2", b"3"))
    assert payloads(a, m3, m2) == []
    assert payloads(a, m1) == [b"1", b"2", b"3"]


def test_a_message_that_is_next_on_its_channel_needs_no_answer_of_its_sender() -> None:
    a, b, _ = group()
    a.remove("r")
    effects = a.receive(b.send(["a"]).packets[0])
    assert (len(effects.deliveries), effects.packets) == (1, ())


def test_what_rests_on_a_lost_message_says_so_although_the_clock_has_passed_it() -> None:
    names = ("a", "b", "r")
    a, b, r = (antecede.endpoint("vectors", process=name, members=names) for name in names)
    _, to_b = r.send(["a", "b"]).packets  # the copy to a is lost
    r.send(["a"])  # and so is this
    (late,) = r.send(["a"]).packets
    b.receive(to_b)
    a.receive(late)
    (first,) = a.remove("r").deliveries
    (second,) = a.receive(b.send(["a"]).packets[0]).deliveries
    assert [first.unmet, second.unmet] == [(Need("r", 2, "event"),), (Need("r", 1, "event"),)]


def test_what_rests_on_a_delivered_message_names_no_lost_one() -> None:
    names = ("a", "b", "r")
    a, b, r = (antecede.endpoint("vectors", process=name, members=names) for name in names)
    (to_b,) = r.send(["b"]).packets
    r.send(["a"])  # lost
    (late,) = r.send(["a"]).packets
    a.receive(late)
    (first,) = a.remove("r").deliveries
    b.receive(to_b)
    rest = [a.receive(b.send(["a"]).packets[0]).deliveries[0] for _ in range(3)]
    assert [one.unmet for one in (first, *rest)] == [(Need("r", 2, "event"),), (), (), ()]


def test_a_removal_asks_nobody_if_all_is_delivered_and_else_each_once() -> None:
    a, b, _ = group()
    held = [b.send(["a"]).packets[0] for _ in range(20)]
    for packet in held[1:]:
        a.receive(packet)
    (question,) = a.remove("r").packets
    assert question.dest == "b"
    assert len(a.receive(held[0]).deliveries) == 20

    names = ("a", "b", "r")
    a, b, r = (antecede.endpoint("vectors", process=name, members=names) for name in names)
    b.receive(next(packet for packet in r.send(["a", "b"]).packets if packet.dest == "b"))
    for _ in range(20):
        a.receive(b.send(["a"]).packets[0])
    effects = a.remove("r")
    assert (len(effects.deliveries), effects.packets) == (20, ())


def crowd(**limits: Any) -> tuple[Endpoint, Endpoint, Endpoint]:
    """Return a, b and c; what r told a is lost, and b's messages ask for events of c."""
    names = ("a", "b", "c", "r")
    a, b, c, r = (
        antecede.endpoint("vectors", process=name, members=names, **limits) for name in names
    )
    r.receive(c.send(["r"]).packets[0])
    b.receive(next(packet for packet in r.send(["a", "b"]).packets if packet.dest == "b"))
    for end in (a, b, c):
        end.remove("r")
    return a, b, c


def test_a_full_buffer_takes_a_message_that_answers_for_what_is_held() -> None:
    a, b, c = crowd(held_max=1)
    to_a, to_c = b.send(["a", "c"], b"x").packets
    (question,) = a.receive(to_a).packets
    c.receive(to_c)
    (after,) = c.send(["a"], b"y").packets
    (answer,) = c.receive(question).packets
    assert payloads(a, answer, after) == [b"x", b"y"]
    assert a.held == 0


def test_what_is_refused_for_lack_of_space_answers_for_what_is_offered_next() -> None:
    a, b, c = crowd(held_max=1)
    to_a, to_c = b.send(["a", "c"], b"x").packets
    (held,) = b.send(["a"], b"z").packets
    c.receive(to_c)
    (after,) = c.send(["a"], b"y").packets
    a.receive(held)
    before = a.state()
    for packet in (to_a, after):
        with pytest.raises(antecede.HoldFullError):
            a.receive(packet)
        assert a.state() == before
    assert payloads(a, to_a, after) == [b"x", b"z", b"y"]


def test_what_is_too_large_for_the_buffer_answers_for_what_is_held() -> None:
    a, b, c = crowd(held_bytes_max=1)
    to_a, to_c = b.send(["a", "c"], b"x").packets
    a.receive(to_a)
    c.receive(to_c)
    (after,) = c.send(["a"], b"large").packets
    with pytest.raises(antecede.HoldFullError):
        a.receive(after)
    assert [one.payload for one in a.send(["b"]).deliveries] == [b"x"]
    assert payloads(a, after) == [b"large"]
