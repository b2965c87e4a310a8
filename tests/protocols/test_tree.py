"""tree: messages along a tree of links that keep order."""

import pytest

from antecede.check import World
from antecede.endpoint.messages import Message, Need, Packet
from antecede.endpoint.registry import endpoint, size
from antecede.errors import UsageError
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
