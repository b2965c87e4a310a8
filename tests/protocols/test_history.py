"""history: [BJ87], where the past travels along and nothing waits."""

import time
from typing import Any

import pytest

from antecede import Codec
from antecede.check import World
from antecede.endpoint.messages import MessageId, Need, Packet, new_message, new_packet
from antecede.endpoint.registry import endpoint, size
from antecede.errors import HoldFullError
from antecede.protocols.history import History
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


def ids(control: object) -> list[tuple[str, int]]:
    """Return the messages that came along."""
    assert isinstance(control, tuple)
    _, entries = control
    return [entry[:2] for entry in entries]


def test_triangle() -> None:
    """The example T1: c brings a along, so both are delivered when c arrives."""
    world = World("history", "abc")
    world.send("a", ["c"], b"first")
    world.send("a", ["b"])
    world.arrive_packet("a", "b")
    world.send("b", ["c"])
    world.arrive_packet("b", "c")
    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    world.drain()
    world.check()

    assert delivered(world, "c") == [("a", 1), ("b", 1)], "the later copy of a is dropped"
    assert ids(control_of(world, "a", 2, "b")) == [("a", 1)]
    assert ids(control_of(world, "b", 1, "c")) == [("a", 1)], "b's own copy was pruned at b"
    assert size(world.packets[2]) == (1, 1, 6 + 2 + len(b"first"))


def test_what_all_have_delivered_no_longer_travels() -> None:
    world = World("history", "ab")
    for sender, dest in ("ab", "ba", "ab", "ba"):
        world.send(sender, [dest])
        world.drain()
    assert [ids(packet.control) for packet in world.packets] == [[], [], [], []]
    assert control_of(world, "a", 2, "b") == (
        (("a", (("a", 1), ("b", 1))), ("b", (("a", 1), ("b", 1)))),
        (),
    )
    assert world.endpoints["a"].kept_entries() == 0


def test_every_cast_under_the_oracle_and_nothing_ever_waits() -> None:
    for world in campaign("history", 30):
        for packet in world.packets:
            assert packet.message is not None
            entries, dests, model_bytes = size(packet)
            causes = world.history.causes(packet.message)
            assert set(ids(packet.control)) <= set(causes), "only the causal past travels"
            assert model_bytes == 6 * entries + 2 * dests
        assert all(endpoint.held == 0 for endpoint in world.endpoints.values())
    campaign("history", 25, pull=True)


def test_pull_mode_counts_what_a_packet_brings_along() -> None:
    world = World("history", "abc", pull=True, held_max=1)
    world.send("a", ["c"])
    world.send("a", ["b"])
    world.arrive_packet("a", "b")
    world.take("b")
    world.send("b", ["c"])
    packet = next(p for p in world.in_flight if p.source == "b")
    before = world.endpoints["c"].state()
    with pytest.raises(HoldFullError, match=r"brings 2 messages, .* must be held, but 0"):
        world.endpoints["c"].receive(packet)
    assert world.endpoints["c"].state() == before
    world.arrive_packet("a", "c")
    assert world.take("c") is not None
    world.arrive_packet("b", "c")
    assert world.take("c") is not None


def test_in_pull_mode_lost_messages_that_come_along_need_no_room() -> None:
    world = World("history", "abc", pull=True, held_max=2)
    *_, last = [world.send("b", ["c"]) for _ in range(3)]
    world.skip("c", "b", 2)
    world.arrive_packet("b", "c", 3)
    assert world.endpoints["c"].waiting() == {last: ()}
    delivery = world.take("c")
    assert delivery is not None
    assert delivery.message == last
    assert world.drain()
    world.check()


def test_in_pull_mode_no_peer_takes_the_places_of_the_others() -> None:
    names = ("a", "b", "c")
    a, b, c = (endpoint("history", process=n, members=names, pull=True, held_max=12) for n in names)
    for _ in range(9):
        a.receive(c.send(["a"]).packets[0])
    (tenth,) = c.send(["a"]).packets
    with pytest.raises(HoldFullError, match="9 of them from 'c'"):
        a.receive(tenth)
    for _ in range(3):
        a.receive(b.send(["a"]).packets[0])
    assert a.held == 12


def test_in_pull_mode_an_empty_buffer_takes_a_whole_packet() -> None:
    names = ("a", "b", "c")
    a, _, c = (endpoint("history", process=n, members=names, pull=True, held_max=12) for n in names)
    packets = [c.send(["a"]).packets[0] for _ in range(12)]
    a.receive(packets[-1])
    assert a.held == 12


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("history", "abc")
    world.send("a", ["b"], b"x")
    world.send("a", ["b", "c"])
    packet = world.in_flight[1]
    assert packet.control == ((("a", (("a", 1),)),), (("a", 1, ("b",), b"x"),))
    control: Any = packet.content.control
    rows, past = control
    knowing = [(0, 1, 0), *rows[1:]]
    mine = (new_message(world.view, 1, 1, 1, b"", None),)
    wrong = [forged(packet, control=(knowing, past)), forged(packet, control=(rows, mine))]
    assert_refused(world.endpoints["b"], wrong, "knows of more messages")
    wrong = [forged(packet, source_no=2), forged(packet, own=([], [0, 1, 2]))]
    assert_refused(world.endpoints["b"], wrong, "of another process as if it were alone")
    world.endpoints["b"].receive(packet)
    assert_damage_is_harmless(campaign("history", 5, sizes=(3,))[-1])


def test_what_was_declared_lost_is_not_delivered_although_it_comes_along() -> None:
    """And what depends on it says so."""
    world = World("history", "abc")
    world.send("a", ["c"])
    world.send("a", ["b"])
    world.arrive_packet("a", "b")
    world.send("b", ["c"])
    (delivery,) = [
        *world.endpoints["c"].skip("a", 1).deliveries,
        *world.endpoints["c"].receive(world.in_flight[-1]).deliveries,
    ]
    assert delivery.message == ("b", 1)
    assert delivery.unmet == (Need("a", 1),)


def test_going_on_after_a_restart() -> None:
    assert_restarts("history")


class PrunesTooSoon(History):
    """Takes what one destination has for known everywhere."""

    def _prune(self) -> None:
        super()._prune()
        self._past = {
            key: old
            for key, old in self._past.items()
            if not any(self._known[d][old.sender] >= old.seq for d in self.view.list(old.dests))
        }


class KeepsOnlyItsOwnMail(History):
    """Leaves messages that are not addressed to it out of the past that it carries."""

    def arrived(self, packet: Packet) -> None:
        control: Any = packet.content.control
        rows, past = control
        mine = tuple([old for old in past if old.dests >> self.me & 1])
        super().arrived(forged(packet, control=(rows, mine)))


def test_mutants_are_caught() -> None:
    assert caught("history", PrunesTooSoon) in {"safety", "liveness"}
    assert caught("history", KeepsOnlyItsOwnMail) == "safety"


@pytest.mark.parametrize("pull", [False, True])
def test_what_a_packet_brings_is_taken_in_linear_time(pull: bool) -> None:
    """A packet of 100 kB kept its receiver busy for two minutes, or took all of its memory."""
    count = 500 if pull else 5000
    c = endpoint("history", process="c", members=("a", "b", "c"), pull=pull)
    past = tuple([new_message(c.view, 1, seq, 4, b"", None) for seq in range(1, count)])
    control = [(0, 0, 0)] * 3, past
    packet = new_packet(new_message(c.view, 0, 1, 4, b"", control), 0, 2, 1, None)
    start = time.process_time()
    found = [delivery.message.seq for delivery in c.receive(packet).deliveries]
    assert len(Codec(c).snapshot(c)) < 150 * count
    while pull and (taken := c.take().deliveries):
        found.append(taken[0].message.seq)
    assert found == [*range(1, count), 1]
    assert time.process_time() - start < 1.5, "it is 0.05 s; by squares it would be 2 s or more"


def test_in_pull_mode_a_message_waits_for_all_before_it_in_its_packet() -> None:
    """Also for those that another packet has brought, and that are still held."""
    a, b, c, d = (
        endpoint("history", process=name, members=tuple("abcd"), pull=True) for name in "abcd"
    )
    (early,) = a.send(["d"]).packets
    to_b, to_d = b.send(["c", "d"]).packets
    c.receive(to_b)
    c.take()
    (late,) = c.send(["d"]).packets
    d.receive(to_d)
    d.receive(late)
    d.receive(early)
    assert d.waiting()[MessageId("c", 1)] == (Need("b", 1),)
    assert d.take("c").deliveries == ()
    taken = [d.take().deliveries[0].message.sender for _ in range(3)]
    assert taken == ["b", "c", "a"]
