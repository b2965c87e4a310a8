"""serial: sends one at a time, by a token."""

import pytest

from antecede.check import World
from antecede.endpoint.messages import Need
from antecede.endpoint.registry import endpoint, size
from antecede.errors import QueueFullError
from antecede.protocols.serial import Serial, Token
from tests.protocols.rig import (
    assert_damage_is_harmless,
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    control_of,
    delivered,
    forged,
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
    with pytest.raises(QueueFullError, match=r"1 messages wait to be sent already \(queue_max=1\)"):
        one.send(["a"])
    assert one.state() == before
    one.send(["b"])


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("serial", "abc")
    world.send("b", ["c"])
    wish = world.in_flight[-1]
    world.arrive_packet("b", "a")
    token = world.in_flight[-1]
    assert (wish.control, token.control) == (("wish",), ())
    knowing = forged(token, control={0: 1 << 2 | 1, 2: 9 << 2 | 1})
    assert_refused(world.endpoints["b"], [knowing], "knows of more messages")
    stray = forged(token, source_no=2)
    assert_refused(world.endpoints["b"], [stray], "neither from its home nor to it")
    assert_damage_is_harmless(campaign("serial", 5, sizes=(3,))[-1])
    every = campaign("serial", 5, sizes=(3,), options={"entries": "all"})[-1]
    assert_damage_is_harmless(every)


@pytest.mark.parametrize("gone", ["a", "b"])
def test_a_token_that_is_lost_with_its_holder_or_home_is_replaced(gone: str) -> None:
    world = World("serial", "abc")
    world.send("b", ["c"])
    world.arrive_packet("b", "a")
    world.send("c", ["b" if gone == "a" else "a"])
    world.crash(gone)
    world.settle()
    world.check()
    assert all(one.queued == 0 for one in world.endpoints.values())


def test_going_on_after_a_restart() -> None:
    assert_restarts("serial")


class CountsItsOwn(Serial):
    """Lets a sender's message stand for what the sender has not delivered itself."""

    def _send_queue(self, token: Token) -> None:
        last = self._queue[-1].seq if self._queue else 0
        super()._send_queue(token)
        if last:
            token[self.me] = self.reached[self.me] = last << self.view.shift | self.me


class ForgetsTheTokensEntries(Serial):
    """Passes the token on without what was sent under it."""

    def say(self, dest: int, word: object) -> None:
        super().say(dest, None if word is None else {})


def test_mutants_are_caught() -> None:
    assert caught("serial", CountsItsOwn) == "safety"
    assert caught("serial", ForgetsTheTokensEntries) == "safety"
