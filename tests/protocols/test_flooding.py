"""flooding: links that keep order, and links that are opened while messages flow."""

from typing import Any

import pytest

from antecede.check import World, explore, random_script, run_script
from antecede.check.promises import BrokenPromiseError, Script
from antecede.endpoint.messages import Message, Packet
from antecede.endpoint.registry import endpoint, size
from antecede.endpoint.rules import Rules
from antecede.errors import UsageError
from antecede.protocols.flooding import Flooding
from tests.protocols.rig import (
    assert_damage_is_harmless,
    assert_refused,
    assert_restarts,
    campaign,
    delivered,
    forged,
)
from tests.support.rounds import TIMES, some

LINE = {"links": (("a", "b"), ("b", "c"))}


def worlds(count: int, rules: type[Rules] | None = None, **more: Any) -> list[World]:
    """Run scripts that open links, on a line of five."""
    links = {"links": tuple(zip("abcd", "bcde", strict=True))}
    return [
        run_script(
            random_script(seed, members=5, casts=("broadcast",), steps=60, link_share=0.2, **more),
            "flooding",
            options=links,
            rules=rules,
            drain=(0, -1)[seed % 2],
        )
        for seed in range(count)
    ]


def test_each_message_crosses_every_link_once_or_twice() -> None:
    world = World("flooding", "abc", options={"links": (("a", "b"), ("b", "c"), ("c", "a"))})
    world.send("a", ["b", "c"])
    world.drain()
    world.check()
    assert [p.source + p.dest for p in world.packets] == ["ab", "ac", "bc", "cb"]
    assert {size(packet) for packet in world.packets} == {(1, 0, 6)}


def test_a_new_link_is_used_when_its_ping_is_answered() -> None:
    """The paper's example: a broadcasts x, links c, broadcasts y; c must not get y first."""
    world = World("flooding", "abc", options=LINE)
    world.send("a", ["b", "c"])
    world.link("a", "c")
    world.send("a", ["b", "c"])
    assert [p.source + p.dest for p in world.in_flight] == ["ab"] * 3
    assert world.endpoints["a"].kept_entries() == 1
    world.drain()
    world.check()
    assert delivered(world, "c") == [("a", 1), ("a", 2)]
    assert ("a", "c", ("a", 2)) in [(p.source, p.dest, p.message) for p in world.packets]
    assert world.endpoints["a"].kept_entries() == 0
    world.send("c", ["a", "b"])
    assert {p.dest for p in world.in_flight} == {"a", "b"}, "the link serves both ways"


def test_random_scripts_that_open_links_keep_every_promise() -> None:
    assert sum(len(world.packets) for world in worlds(some(60))) > 1000
    worlds(12, restart_share=0.1)
    worlds(12, pull=True)


def test_restarts_and_pulling() -> None:
    campaign("flooding", 10, pull=True)
    assert_restarts("flooding")


class LinksAtOnce(Flooding):
    """Opens a link to everybody with its first message: for the explorer, which only sends."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        super().stamp(message, others, event, after)
        if self.me == 0 and message.seq == 1:
            self.link(others[-1])


def test_opening_a_link_is_exhausted() -> None:
    """With two messages, and with three in ``make soak``."""
    messages = min(1 + TIMES, 3)
    found = explore("flooding", 3, messages, options=LINE, casts=("broadcast",), rules=LinksAtOnce)
    assert found.is_clean, f"{found}\n{found.script!r}"
    assert found.situations > 200


class UsesALinkAtOnce(LinksAtOnce):
    """Sends over a new link without waiting for an answer."""

    def link(self, dest: int) -> None:
        super().link(dest)
        self._use(dest)

    def check(self, packet: Packet) -> str:
        return ""


class KeepsNothingForALink(Flooding):
    """Forgets what was delivered while a link was opened."""

    def _use(self, dest: int) -> None:
        self._opening[dest] = []
        super()._use(dest)


class TrustsTheNetwork(Flooding):
    """Takes what arrives, in any order."""

    def needs(self, packet: Packet) -> list[int]:
        return []


class PassesNothingOn(Flooding):
    """Leaves it to the sender to reach everybody; pings are passed on."""

    def _spread(self, message: Message, source: int) -> None:
        if source == self.me or not message.seq:
            super()._spread(message, source)


@pytest.mark.parametrize(
    ("mutant", "promise"),
    [
        (UsesALinkAtOnce, "safety"),
        (KeepsNothingForALink, "safety"),
        (TrustsTheNetwork, "safety"),
        (PassesNothingOn, "safety"),
    ],
)
def test_mutants_are_caught(mutant: type[Flooding], promise: str) -> None:
    with pytest.raises(BrokenPromiseError) as caught:
        worlds(200, mutant)
    assert caught.value.promise == promise


def test_the_explorer_finds_a_link_that_is_used_too_early() -> None:
    found = explore("flooding", 3, 2, options=LINE, casts=("broadcast",), rules=UsesALinkAtOnce)
    assert found.promise == "safety"


class KeepsNoPings(Flooding):
    """Keeps messages for new links, but not pings."""

    def _spread(self, message: Message, source: int) -> None:
        before = {dest: len(kept) for dest, kept in self._opening.items()}
        super()._spread(message, source)
        if not message.seq:
            for dest, count in before.items():
                del self._opening[dest][count:]


def links_left_open(rules: type[Rules] | None) -> int:
    """Count the processes that wait for an answer although everything has arrived."""
    found = worlds(40, rules, send_share=0.2)
    ends = [end for world in found for end in world.endpoints.values()]
    return sum(bool(end.state()["rules"]["opening"]) for end in ends)  # type: ignore[index]


def test_pings_are_kept_for_new_links_too() -> None:
    """Otherwise a later ping overtakes an earlier one, which is then taken for a repeat."""
    assert links_left_open(None) == 0
    assert links_left_open(KeepsNoPings) > 0


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("flooding", "abc", options=LINE)
    world.send("a", ["b", "c"])
    world.link("a", "c")
    data, ping = world.in_flight
    assert_refused(world.endpoints["b"], [forged(data, dests=2)], "not for all")
    stray = forged(data, dest_no=2)
    assert_refused(world.endpoints["c"], [stray], "has no link to this one")
    pong = forged(ping, control=None)
    assert_refused(world.endpoints["b"], [forged(pong, sender=2)], "answers for another")
    mine = forged(ping, sender=1)
    assert_refused(world.endpoints["b"], [mine], "wants more links of this process than the 0")
    assert_refused(
        world.endpoints["b"], [forged(data, sender=1, dests=5)], "knows of more messages"
    )
    assert_damage_is_harmless(worlds(3)[-1])


def test_wrong_calls() -> None:
    one = endpoint("flooding", process="a", members=("a", "b", "c"))
    with pytest.raises(UsageError, match="cannot link 'a' with itself"):
        one.link("a")
    with pytest.raises(UsageError, match="'x' is not a member"):
        one.link("x")
    with pytest.raises(UsageError, match="optimal opens no links"):
        endpoint("optimal", process="a", members=("a", "b")).link("b")
    with pytest.raises(UsageError, match="flooding does not go by time"):
        one.tick(1)


def test_what_arrives_after_it_was_declared_lost_stays_lost() -> None:
    """A process may hold it, to pass it on, while it skips another process."""
    everyone = ("a", "b", "c", "d")
    steps = (
        ("send", "b", ("a", "c", "d"), None),
        ("packet", "b", "c", 1, False),
        ("send", "c", ("a", "b", "d"), None),
        ("send", "c", everyone, None),
        ("packet", "c", "d", 2, False),
        ("link", "c", "a"),
        ("send", "b", ("a", "c", "d"), None),
        ("packet", "c", "d", 1, False),
        ("packet", "d", "a", 1, False),
        ("crash", "c", 15813),
        ("packet", "c", "b", 2, False),
        ("packet", "c", "b", 3, False),
        ("skip", "a", "c", None),
        ("skip", "b", "c", None),
        ("send", "b", ("a", "c", "d"), None),
        ("crash", "b", 10017),
        ("packet", "b", "a", 4, False),  # c:2, behind what is lost
        ("skip", "d", "b", None),
        ("packet", "b", "a", 3, False),
        ("packet", "d", "a", 2, False),
        ("packet", "c", "d", 4, False),
        ("skip", "d", "c", None),
        ("packet", "b", "a", 5, False),
        ("skip", "a", "b", None),
        ("packet", "b", "a", 2, False),
    )
    ring = {"links": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))}
    world = run_script(
        Script(everyone, steps), "flooding", options=ring, promises=("liveness",), drain=0
    )
    assert ("c", 2) not in delivered(world, "a")


def test_after_a_skip_messages_come_in_the_order_in_which_they_were_passed_on() -> None:
    """r gives up a:1, which then comes by s: r passes it on after a:2; z loses what came before."""
    square = (("a", "r"), ("a", "s"), ("s", "r"), ("r", "z"))
    world = World("flooding", "arsz", options={"links": square})
    world.send("r", [*"asz"])
    one, two = (world.send("a", [*"rsz"]) for _ in "12")
    world.arrive_packet("a", "r", 2)
    world.skip("r", "a", 1)
    world.arrive_packet("a", "s", 1)
    world.arrive_packet("s", "r", 1)
    world.arrive_packet("r", "z", 2)
    world.arrive_packet("r", "z", 3)
    assert world.history.deliveries("z") == []
    world.skip("z", "r", 1)
    assert world.history.deliveries("z") == [two, one]
