"""tree: messages along a tree of links that keep order."""

from typing import Any

import pytest

import antecede
from antecede import Codec
from antecede.check import World
from antecede.check.campaign import judge, script_for
from antecede.endpoint.messages import Message, Need, Packet
from antecede.endpoint.registry import endpoint, size
from antecede.errors import PeerError, UsageError
from antecede.protocols.tree import Tree
from tests.protocols.rig import (
    assert_damage_is_harmless,
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    delivered,
    forged,
)

LINE = {"links": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"))}


def test_a_message_goes_only_where_it_has_destinations() -> None:
    world = World("tree", "abcdefg")
    world.send("d", ["b", "g"])
    world.drain()
    world.check()
    hops = [(packet.source, packet.dest) for packet in world.packets]
    assert hops == [("d", "b"), ("b", "a"), ("a", "c"), ("c", "g")]
    assert all(size(packet) == (0, 0, 0) for packet in world.packets)


def test_the_triangle_takes_one_path() -> None:
    world = World("tree", "abcde", options=LINE)
    world.send("a", ["d"])
    world.send("a", ["b"])
    for number in (1, 2):
        world.arrive_packet("a", "b", number)
    world.send("b", ["d"])
    world.arrive_packet("b", "c", 2)
    assert world.endpoints["c"].waiting() == {("b", 1): (Need("a", 1),)}
    world.drain()
    world.check()
    assert delivered(world, "d") == [("a", 1), ("b", 1)]


@pytest.mark.parametrize(
    ("protocol", "options"),
    [("tree", {"links": (("a", "b"), ("b", "c"))}), ("central", {"relay": "b"})],
)
def test_a_relay_still_brings_what_a_process_sent_before_it_was_gone(
    protocol: str, options: dict[str, Any]
) -> None:
    a, b, c = (
        antecede.endpoint(protocol, process=name, members=("a", "b", "c"), **options)
        for name in "abc"
    )
    (first,) = b.send(["a"]).packets
    (second,) = b.receive(c.send(["a"]).packets[0]).packets
    (third,) = b.send(["a"]).packets
    assert not a.skip("c").deliveries
    assert not a.receive(third).deliveries, "what b sent before c's message may still come"
    assert a.waiting() == {("b", 2): (Need("c", 1),)}
    a = Codec(a.view).restore(Codec(a.view).snapshot(a), resumed=True)
    deliveries = a.receive(first).deliveries
    assert [one.message for one in deliveries] == [("b", 1), ("b", 2)]
    assert [one.unmet for one in deliveries] == [(), (Need("c", 1),)]
    with pytest.raises(PeerError, match="comes after what followed it"):
        a.receive(second)


def test_what_a_relay_does_not_bring_is_given_up_by_the_number_of_what_waits() -> None:
    world = World("tree", "abc", options={"links": (("a", "b"), ("b", "c"))})
    world.send("b", ["a"])
    world.send("c", ["a"])
    world.arrive_packet("c", "b")
    world.send("b", ["a"])
    world.lose_packet("b", "a", 1)
    world.lose_packet("b", "a", 2)
    world.skip("a", "c")
    world.arrive_packet("b", "a")
    assert world.endpoints["a"].waiting() == {("b", 2): (Need("c", 1),)}
    assert world.settle()
    world.check()
    assert delivered(world, "a") == [("b", 2)]


def test_what_waits_only_for_a_process_that_is_gone_is_delivered_at_once() -> None:
    world = World("tree", "abc", options={"links": (("a", "b"), ("b", "c"))})
    world.send("c", ["a"])
    world.arrive_packet("c", "b")
    world.send("b", ["a"])
    world.lose_packet("b", "a", 1)
    world.skip("a", "c")
    world.arrive_packet("b", "a")
    assert delivered(world, "a") == [("b", 1)]


def test_a_skipped_message_takes_along_no_other_that_its_relay_still_brings() -> None:
    case, script = script_for("tree", "loss", 3711)
    judge(case, script, 3711)


@pytest.mark.parametrize("options", [None, LINE])
def test_every_cast_under_the_oracle(options: dict[str, object] | None) -> None:
    campaign("tree", 20, options=options, sizes=(5,))
    campaign("tree", 6, options=options, sizes=(5,), pull=True)
    assert_restarts("tree", options, sizes=(5,))


@pytest.mark.parametrize(
    ("links", "complaint"),
    [
        ("ab", "are not pairs of members"),
        ((("a", "b"),), "do not connect a with c"),
        ((("a", "b"), ("b", "c"), ("c", "a")), "3 links for 3 members: a tree has one fewer"),
        ((("a", "b"), ("b", "a")), "name a link more than once"),
        ((("a", "a"), ("b", "c")), "names a member more than once"),
        ((("a", "x"), ("b", "c")), "'x', which is not a member"),
    ],
)
def test_links_that_form_no_tree_are_refused(links: object, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        endpoint("tree", process="a", members=("a", "b", "c"), links=links)


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("tree", "abcde", options=LINE)
    world.send("b", ["d"])
    packet = world.in_flight[0]
    wrong = [forged(packet, source_no=0), forged(packet, sender=4), forged(packet, dests=1)]
    assert_refused(world.endpoints["c"], wrong, "comes along the tree")
    assert_refused(world.endpoints["c"], [forged(packet, n=2)], "name the message before")
    assert_damage_is_harmless(campaign("tree", 3, options=LINE, sizes=(5,))[-1])


class TrustsTheNetwork(Tree):
    """Takes what arrives, in any order."""

    def check(self, packet: Packet) -> str:
        return ""

    def needs(self, packet: Packet) -> list[int]:
        return []


class TakesAShortCut(Tree):
    """Sends directly to each destination, instead of along the tree."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        for dest in others:
            self.post(dest, message)

    def check(self, packet: Packet) -> str:
        return ""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        return super(Tree, self).taken(packet)


@pytest.mark.parametrize("mutant", [TrustsTheNetwork, TakesAShortCut])
def test_mutants_are_caught(mutant: type[Tree]) -> None:
    assert caught("tree", mutant, options=LINE, sizes=(5,)) == "safety"
