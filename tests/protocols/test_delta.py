"""delta: order within deadlines, on networks that lose messages."""

import pytest

from antecede.check import World, random_script, run_script
from antecede.check.promises import BrokenPromiseError
from antecede.endpoint.messages import MessageId, Packet
from antecede.endpoint.registry import endpoint, size
from antecede.endpoint.rules import Rules
from antecede.errors import UsageError
from antecede.protocols.delta import Delta
from tests.protocols.rig import (
    assert_damage_is_harmless,
    assert_refused,
    assert_restarts,
    campaign,
    delivered,
    forged,
)

TEN = {"lifetime": 10}


def chain() -> World:
    """At 1 a sends; at 2 b has it and sends; b's message is with c at 3, and a's is not."""
    world = World("delta", "abc", options=TEN)
    world.tick(1)
    world.send("a", ["b", "c"])
    world.tick(1)
    world.arrive_packet("a", "b")
    world.send("b", ["a", "c"])
    world.tick(1)
    world.arrive_packet("b", "c")
    assert [str(need) for need in world.endpoints["c"].waiting()[MessageId("b", 1)]] == [
        "stamp 1 of a"
    ]
    return world


def test_a_cause_that_comes_in_time_is_waited_for() -> None:
    world = chain()
    world.tick(8)
    world.arrive_packet("a", "c")
    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    assert {size(packet) for packet in world.packets} == {(4, 0, 16)}


def test_a_cause_that_is_lost_is_waited_for_until_its_deadline_has_passed() -> None:
    world = chain()
    world.lose_packet("a", "c", 1)
    world.tick(8)
    assert delivered(world, "c") == []
    world.tick(1)
    assert (world.now, delivered(world, "c")) == (12, [("b", 1)])


def test_a_cause_that_comes_too_late_is_dropped() -> None:
    world = chain()
    world.tick(9)
    world.arrive_packet("a", "c")
    assert delivered(world, "c") == [("b", 1)]
    world.settle()
    world.check()


def test_whoever_is_told_the_time_too_late_delivers_nothing_old() -> None:
    world = chain()
    assert world.endpoints["c"].tick(100).deliveries == ()
    assert world.endpoints["c"].held == 0


def test_without_the_time_it_is_a_causal_broadcast() -> None:
    campaign("delta", 40)
    campaign("delta", 10, pull=True)
    assert_restarts("delta")


def worlds(count: int, rules: type[Rules] | None = None) -> list[World]:
    """Run scripts in which time passes, and in every second one messages get lost."""
    return [
        run_script(
            random_script(
                seed,
                members=3 + seed % 3,
                casts=("broadcast",),
                steps=50,
                tick_share=0.25,
                loss_share=0.1 * (seed % 2),
            ),
            "delta",
            options={"lifetime": 6},
            rules=rules,
            drain=(0, -1)[seed % 2],
        )
        for seed in range(count)
    ]


def test_deadlines_and_losses_under_the_oracle() -> None:
    found = worlds(150)
    copies = sum(len(world.history.members) - 1 for world in found for _ in world.history.messages)
    handed = sum(len(delivered(world, name)) for world in found for name in world.history.members)
    assert 0.3 < handed / copies < 0.9, "some are lost or late, most are not"


class AtTheEnd(Delta):
    """Waits no longer when a lifetime ends, and delivers what comes right then."""

    def tick(self, now: int) -> tuple[int, ...]:
        places = super().tick(now + 1)
        self.now = now
        return places


class DeliversLate(Delta):
    """Delivers whatever comes."""

    def drops(self, packet: Packet) -> bool:
        return False


class WaitsForLost(Delta):
    """Waits for messages whose lifetime is over."""

    def tick(self, now: int) -> tuple[int, ...]:
        self.now = now
        return ()


class ForgetsOthers(Delta):
    """Tells of its own messages only."""

    def needs(self, packet: Packet) -> list[int]:
        return [key for key in super().needs(packet) if key & self.low == packet.source_no]


@pytest.mark.parametrize(
    ("mutant", "promises"),
    [
        (AtTheEnd, {"safety"}),
        (DeliversLate, {"deadlines", "safety"}),
        (WaitsForLost, {"no_overblocking", "liveness"}),
        (ForgetsOthers, {"safety"}),
    ],
)
def test_mutants_are_caught(mutant: type[Delta], promises: set[str]) -> None:
    with pytest.raises(BrokenPromiseError) as caught:
        worlds(300, mutant)
    assert caught.value.promise in promises


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("delta", "abc")
    world.send("a", ["b", "c"])
    packet = world.in_flight[0]
    assert_refused(world.endpoints["b"], [forged(packet, dests=2)], "not for all")
    newer = forged(packet, control=(9, [0, 5 << 2 | 1, 2]))
    assert_refused(world.endpoints["b"], [newer], "a later message of this process")
    assert_damage_is_harmless(worlds(3)[-1])


@pytest.mark.parametrize("now", [3, True, 5.0, "6", 1 << 70])
def test_a_time_that_is_none_is_refused(now: object) -> None:
    one = endpoint("delta", process="a", members=("a", "b"))
    one.tick(5)
    with pytest.raises(UsageError, match="is no time; expected 5 or later, an integer"):
        one.tick(now)  # type: ignore[arg-type]


def test_wrong_calls() -> None:
    with pytest.raises(UsageError, match="lifetime=0 is not an integer from 1"):
        endpoint("delta", process="a", members=("a", "b"), lifetime=0)
    with pytest.raises(UsageError, match="optimal does not go by time"):
        endpoint("optimal", process="a", members=("a", "b")).tick(1)
