"""serial: sends one at a time, by a token."""

import pytest

from antecede.check import World
from antecede.core.messages import Need, Packet
from antecede.core.registry import endpoint, size
from antecede.errors import QueueFullError
from antecede.protocols.serial import Latest, Serial
from tests.protocols.rig import (
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    control_of,
    delivered,
)


def test_the_token_brings_the_order() -> None:
    world = World("serial", "abc")
    world.send("b", ["c"])
    world.send("b", ["a", "c"])
    assert world.endpoints["b"].queued == 2
    assert [(p.dest, p.control) for p in world.in_flight] == [("a", ("wish",))]
    world.arrive_packet("b", "a")
    world.arrive_packet("a", "b")
    world.send("a", ["c"])
    assert world.endpoints["a"].queued == 1, "the token is on its way back"
    world.arrive_packet("b", "a", 3)
    assert world.endpoints["a"].queued == 0
    world.arrive_packet("a", "c")
    assert world.endpoints["c"].waiting() == {("a", 1): (Need("b", 2),)}
    world.drain(-1)
    world.check()

    assert control_of(world, "b", 1, "c") == ()
    assert control_of(world, "b", 2, "c") == ("b", 1)
    assert control_of(world, "b", 2, "a") == ()
    assert control_of(world, "a", 1, "c") == ("b", 2)
    assert delivered(world, "c") == [("b", 1), ("b", 2), ("a", 1)]


def test_one_pair_on_every_copy_and_at_most_n_on_the_token() -> None:
    for world in campaign("serial", 40):
        for packet in world.packets:
            entries, dests, model_bytes = size(packet)
            limit = 1 if packet.kind == "data" else len(world.endpoints)
            assert entries <= limit
            assert (dests, model_bytes) == (0, 6 * entries)
        turns = sum(packet.control == ("wish",) for packet in world.packets)
        assert sum(p.kind == "control" for p in world.packets) == 3 * turns
    campaign("serial", 30, pull=True)


def test_as_printed_a_copy_carries_an_entry_for_each_process() -> None:
    """[KS98] section 7.1: serialised multicasts carry up to n entries, and nothing else changes."""
    most = 0
    for own, every in zip(
        campaign("serial", 20), campaign("serial", 20, options={"entries": "all"}), strict=True
    ):
        assert own.history.events == every.history.events
        for one, other in zip(own.packets, every.packets, strict=True):
            if one.kind == "data":
                assert size(one).entries <= size(other).entries <= len(own.endpoints)
                most = max(most, size(other).entries)
            else:
                assert one.control == other.control
    assert most == 5
    assert_restarts("serial", {"entries": "all"})


def test_malformed_entries_are_refused() -> None:
    world = World("serial", "abc", options={"entries": "all"})
    world.send("a", ["b"])
    bad: list[object] = [None, ("a", 1), (("b", "a", 0),), (("x", "a", 1),), (("b", "x", 1),)]
    assert_refused(world.endpoints["b"], world.in_flight[0], bad)


def test_serialised_broadcasts_need_two_different_pairs_at_most() -> None:
    for world in campaign("serial", 40, casts=["broadcast"], sizes=(3, 5)):
        for packet in world.packets:
            if packet.kind == "control" and packet.control != ("wish",):
                assert isinstance(packet.control, tuple)
                assert len({entry[1:] for entry in packet.control}) <= 2


def test_an_idle_system_sends_nothing_and_the_home_sends_at_once() -> None:
    home = endpoint("serial", process="a", members=("a", "b"))
    assert [p.kind for p in home.send(["b"]).packets] == ["data"]
    other = endpoint("serial", process="b", members=("a", "b"))
    assert other.send(["b"]).packets == ()


def test_what_waits_for_the_token_is_bounded() -> None:
    one = endpoint("serial", process="b", members=("a", "b"), queue_max=1)
    one.send(["a"])
    before = one.state()
    with pytest.raises(QueueFullError, match=r"1 messages of 'b' already wait.*queue_max=1"):
        one.send(["a"])
    assert one.state() == before
    one.send(["b"])


def test_malformed_control_is_refused_and_changes_nothing() -> None:
    world = World("serial", "abc")
    world.send("a", ["b"])
    bad: list[object] = [None, ("a",), ("a", 0), ("x", 1), (1, 1), [], ("a", 1, 2)]
    assert_refused(world.endpoints["b"], world.in_flight[0], bad)
    world.send("b", ["c"])
    wish = world.in_flight[-1]
    bad = [None, ("wash",), 0, (("b", "a"),), (("b", "a", 0),), (("x", "a", 1),), (("b", "x", 1),)]
    assert_refused(world.endpoints["a"], wish, bad)
    world.arrive_packet("b", "a")
    token = world.in_flight[-1]
    assert token.control == (("b", "a", 1),)
    assert_refused(world.endpoints["b"], token, [("wish",), (("b", "a", 1), ("a", "b", 1))])


def test_going_on_after_a_restart() -> None:
    assert_restarts("serial")


class CountsItsOwn(Serial):
    """Lets a sender's message stand for what the sender has not delivered itself."""

    def _send_queue(self, token: Latest) -> None:
        last = self._queue[-1][0] if self._queue else None
        super()._send_queue(token)
        if last is not None:
            token[self.process] = (last.sender, last.seq)
            self._newest[self.process] = last.seq

    def _check_awaited(self, packet: Packet) -> None:
        """Accept what others of this kind send."""


class ForgetsTheTokensEntries(Serial):
    """Passes the token on without what was sent under it."""

    def _pass_on(self, token: Latest, dest: str) -> None:
        super()._pass_on({}, dest)


def test_mutants_are_caught() -> None:
    assert caught("serial", CountsItsOwn) == "safety"
    assert caught("serial", ForgetsTheTokensEntries) == "safety"
