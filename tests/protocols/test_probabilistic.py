"""probabilistic: few counters that processes share; order is lost by chance."""

import pytest

from antecede.check import World, causal_violations, random_script, run_script
from antecede.endpoint.messages import Packet
from antecede.endpoint.registry import endpoint, size
from antecede.endpoint.rules import Rules
from antecede.errors import UsageError
from antecede.protocols.probabilistic import Probabilistic, counters_of
from tests.protocols.rig import (
    assert_damage_is_harmless,
    assert_refused,
    assert_restarts,
    campaign,
    caught,
    delivered,
    forged,
)


def test_counters_are_few_distinct_and_the_same_everywhere() -> None:
    assert counters_of(3, 10, 4) == counters_of(3, 10, 4)
    for place in range(50):
        own = counters_of(place, 10, 4)
        assert len(set(own)) == 4
        assert set(own) <= set(range(10))
    assert len({counters_of(place, 10, 4) for place in range(50)}) > 40


def test_a_message_waits_for_what_its_sender_had_delivered() -> None:
    world = World("probabilistic", "abc", options={"counters": 20, "own": 3})
    world.send("a", ["b", "c"])
    world.arrive_packet("a", "b")
    world.send("b", ["a", "c"])
    world.arrive_packet("b", "c")
    assert world.endpoints["c"].held == 1
    world.arrive_packet("a", "c")
    assert delivered(world, "c") == [("a", 1), ("b", 1)]
    assert {size(packet) for packet in world.packets} == {(20, 0, 80)}


@pytest.mark.parametrize("pull", [False, True])
def test_an_answer_to_our_own_message_needs_no_room(pull: bool) -> None:
    world = World("probabilistic", "ab", held_max=int(pull), pull=pull)
    world.send("a", ["b"])
    world.drain()
    world.send("b", ["a"])
    assert world.drain()
    world.check()


def test_everything_is_delivered_under_the_oracle() -> None:
    campaign("probabilistic", 30)
    campaign("probabilistic", 10, options={"counters": 2, "own": 1}, pull=True)
    assert_restarts("probabilistic")


def lost_share(counters: int, own: int, *, seeds: int = 10, members: int = 6) -> float:
    """Return the share of deliveries before a cause that is for the same process."""
    early, total = 0, 0
    for seed in range(seeds):
        script = random_script(seed, members=members, casts=("broadcast",), steps=100)
        options = {"counters": counters, "own": own}
        world = run_script(script, "probabilistic", options=options, drain=-1)
        early += len(causal_violations(world.history))
        total += sum(len(delivered(world, name)) for name in script.members)
    return early / total


def test_the_oracle_measures_how_often_order_is_lost() -> None:
    one, few, many = lost_share(1, 1), lost_share(8, 2), lost_share(200, 4)
    assert one > few > many
    assert few > 0
    assert many < 0.001


class TakesAtOnce(Probabilistic):
    """Waits for nothing."""

    def needs(self, packet: Packet) -> list[int]:
        return []


class CountsTheMessageItself(Probabilistic):
    """Waits for the message's own share too."""

    def needs(self, packet: Packet) -> list[int]:
        counts = packet.content.control
        assert isinstance(counts, list)
        return [count << self.shift | place for place, count in enumerate(counts)]


class ForgetsItsOwn(Probabilistic):
    """Does not count its own messages."""

    def arrived(self, packet: Packet) -> None:
        return None


@pytest.mark.parametrize(
    ("mutant", "promises", "expected"),
    [
        (TakesAtOnce, ("safety",), "safety"),
        (CountsTheMessageItself, ("liveness",), "liveness"),
        (ForgetsItsOwn, ("liveness",), "liveness"),
    ],
)
def test_mutants_are_caught(mutant: type[Rules], promises: tuple[str, ...], expected: str) -> None:
    options = {"counters": 4, "own": 2}
    assert caught("probabilistic", mutant, options=options, promises=promises) == expected


def test_what_no_member_sends_is_refused_and_changes_nothing() -> None:
    world = World("probabilistic", "abc", options={"counters": 3, "own": 1})
    world.send("a", ["b", "c"])
    packet = world.in_flight[0]
    assert_refused(world.endpoints["b"], [forged(packet, dests=2)], "not for all")
    nothing = forged(packet, control=[0, 0, 0])
    assert_refused(world.endpoints["b"], [nothing], "has not raised the counters")
    assert_damage_is_harmless(campaign("probabilistic", 3)[-1])


def test_wrong_calls() -> None:
    with pytest.raises(UsageError, match="own=9 is more than counters=4"):
        endpoint("probabilistic", process="a", members=("a", "b"), counters=4, own=9)
    with pytest.raises(UsageError, match="counters=0 is not an integer from 1"):
        endpoint("probabilistic", process="a", members=("a", "b"), counters=0)
