"""The world that runs protocols: its networks, its judgement, and what it says when one fails."""

import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from antecede import Delivery, Effects, Endpoint, Need, Packet, UsageError
from antecede.check import BrokenPromiseError, Script, World, random_script, run_script, shrunk
from antecede.check.cases import chain_of_groups
from antecede.check.scripts import run_step
from antecede.endpoint.messages import Message
from antecede.endpoint.rules import Rules
from antecede.endpoint.saved import Saved
from antecede.protocols.matrix import Matrix
from antecede.protocols.optimal import Optimal
from tests.support.mutants import MUTANTS, NoMerge, Unordered


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_random_scripts_find_every_mutant(mutant: type[Rules]) -> None:
    protocol, promises = MUTANTS[mutant]
    for seed in range(60):
        script = random_script(seed, members=3 + seed % 3, casts=("multicast",), steps=45)
        try:
            run_script(script, protocol, rules=mutant, drain=Random(seed))
        except BrokenPromiseError as error:
            found = error.promise
            break
    else:
        pytest.fail(f"no script out of 60 noticed {mutant.__name__}")
    assert found in promises | {"quiescence", "liveness"}


@pytest.mark.parametrize("seed", range(20))
def test_a_missing_prune_is_no_breach_of_order(seed: int) -> None:
    """KeepsAll keeps too much, which only necessity notices."""
    keeps_all = next(one for one in MUTANTS if one.__name__ == "KeepsAll")
    script = random_script(seed, members=4, casts=("multicast",), steps=45)
    promises = {"safety", "liveness", "quiescence", "no_overblocking"}
    run_script(script, "optimal", rules=keeps_all, promises=promises, drain=0)


def test_a_send_that_repeats_channel_numbers_loses_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Harm done in the endpoint, not in the rules."""
    real = Endpoint.send

    def forgetful(one: Endpoint, *given: Any, **named: Any) -> Effects:
        state = {**one.state(), "sent": [0] * one.view.n}
        one.load(Saved("state", {k: v for k, v in state.items() if k not in MADE}), resumed=True)
        return real(one, *given, **named)

    monkeypatch.setattr(Endpoint, "send", forgetful)
    world = World("optimal", "ab")
    world.send("a", ["b"])
    world.send("a", ["b"])
    with pytest.raises(BrokenPromiseError, match="b holds a:2, although every cause"):
        world.drain()
    world = World("optimal", "ab", promises={"liveness"})
    world.send("a", ["b"])
    world.send("a", ["b"])
    world.drain()
    with pytest.raises(BrokenPromiseError, match="b never delivers a:2; it is not held"):
        world.check()


MADE = {"process", "pull", "held_max", "held_bytes_max", "queue_max"}
"""The parts of a state that are the endpoint's arguments."""


def spoilt(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Delivery], Delivery]) -> World:
    """Return a world whose endpoints deliver wrong messages."""
    real = Endpoint.receive

    def receive(one: Endpoint, packet: Packet) -> Effects:
        effects = real(one, packet)
        return Effects(effects.packets, tuple(map(spoil, effects.deliveries)), effects.event)

    monkeypatch.setattr(Endpoint, "receive", receive)
    world = World("matrix", "ab")
    world.send("a", ["b"], b"hello")
    return world


def test_wrong_event_numbers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = spoilt(monkeypatch, lambda one: Delivery(one.content, one.event + 1, ()))
    with pytest.raises(BrokenPromiseError, match="as event 2, but it is event 1"):
        world.drain()


def test_a_changed_payload_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def garbled(one: Delivery) -> Delivery:
        old = one.content
        other = Message(old.view, old.sender, old.seq, old.dests, b"?", old.control)
        return Delivery(other, one.event, ())

    with pytest.raises(BrokenPromiseError, match="with another payload"):
        spoilt(monkeypatch, garbled).drain()


def test_a_mark_without_a_loss_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = (Need("a", 7),)
    with pytest.raises(BrokenPromiseError, match="b delivers a:1 and calls message 7 of a lost"):
        spoilt(monkeypatch, lambda one: Delivery(one.content, one.event, lost)).drain()


def test_a_failure_prints_a_script_that_shows_it_again() -> None:
    world = World("matrix", "abc", rules=NoMerge)
    world.send("a", ["c"])
    world.send("a", ["b"])
    world.arrive_packet("a", "b")
    world.send("b", ["c"])
    with pytest.raises(BrokenPromiseError) as caught:
        world.arrive_packet("b", "c")
    text = str(caught.value)
    assert "matrix broke safety: a:1 comes before b:1: because a sent a:1" in text
    printed = re.search(r"run_script\((Script\(.*\)), 'matrix'", text)
    assert printed is not None
    script = eval(printed.group(1), {"Script": Script})
    with pytest.raises(BrokenPromiseError, match="a:1 comes before b:1"):
        run_script(script, "matrix", rules=NoMerge)


def test_a_failing_script_shrinks_to_what_matters() -> None:
    def run(script: Script) -> None:
        run_script(script, "matrix", rules=Unordered, drain=-1)

    long = random_script(3, members=5, casts=("multicast",), steps=80)
    error = shrunk(long, run)
    assert len(error.script.steps) <= 4
    with pytest.raises(UsageError, match="breaks no promise"):
        shrunk(Script(("a", "b"), ()), run)


def test_a_fifo_network_keeps_each_channel_in_order() -> None:
    world = World("matrix", "ab", fifo=True, rules=Unordered)
    sent = [world.send("a", ["b"]) for _ in range(4)]
    while world.in_flight:
        world.arrive(-1, keep=True)
    assert world.history.deliveries("b") == sent


def test_a_full_holding_buffer_refuses_and_later_accepts() -> None:
    world = World("optimal", "ab", held_max=1)
    sent = [world.send("a", ["b"]) for _ in range(3)]
    assert world.arrive_packet("a", "b", 3)
    assert not world.arrive_packet("a", "b", 2)
    assert [p.n for p in world.in_flight] == [1, 2]
    assert world.drain(-1)
    world.check()
    assert world.history.deliveries("b") == sent


@pytest.mark.parametrize("seed", range(20))
def test_small_holding_buffers_never_lose_or_block(seed: int) -> None:
    script = random_script(seed, members=4, casts=("multicast",), steps=60)
    run_script(script, "optimal", held_max=seed % 3, drain=Random(seed))


def test_pull_mode_judges_what_could_be_taken() -> None:
    class Stubborn(Optimal):
        def blocker(self, packet: Packet) -> int:
            return 1 << self.view.shift | packet.source_no

        def missing(self, packet: Packet) -> list[int]:
            return [self.blocker(packet)]

    world = World("optimal", "ab", pull=True, rules=Stubborn)
    world.send("a", ["b"])
    with pytest.raises(BrokenPromiseError, match="b holds a:1, although"):
        world.drain()


def test_the_same_seed_gives_the_same_script_and_another_another() -> None:
    scripts = [random_script(seed, members=3, casts=("multicast",), steps=30) for seed in (1, 1, 2)]
    assert scripts[0] == scripts[1]
    assert scripts[0] != scripts[2]


def test_random_scripts_reorder_and_duplicate() -> None:
    kept = late = 0
    for seed in range(30):
        script = random_script(seed, members=3, casts=("unicast",), steps=60)
        world = run_script(script, "matrix")
        arrivals = [step for step in world.steps if step[0] == "packet"]
        kept += sum(bool(step[4]) for step in arrivals)
        numbers: dict[object, int] = {}
        for _, source, dest, n, _ in arrivals:
            late += isinstance(n, int) and n < numbers.get((source, dest), 0)
            numbers[source, dest] = max(int(str(n)), numbers.get((source, dest), 0))
    assert kept > 100
    assert late > 50


def test_steps_take_restart_lose_and_crash() -> None:
    world = World("optimal", "abc", pull=True)
    run_step(world, ("send", "a", ("b", "c"), None))
    run_step(world, ("packet", "a", "c", 1, False))
    run_step(world, ("take", "c", None))
    run_step(world, ("restart", "c"))
    run_step(world, ("lose", 5))  # the only packet in flight
    assert not world.in_flight
    run_step(world, ("lose", 5))
    run_step(world, ("loss", "a", "b", 1))
    run_step(world, ("crash", "a", -1))
    run_step(world, ("send", "a", ("b",), None))  # it is gone, so nothing happens
    run_step(world, ("settle",))
    run_step(world, ("skip", "b", "c", None))  # it is there, so this is a part of something else
    assert [step[0] for step in world.steps] == [
        "send", "packet", "take", "restart", "loss", "crash", "take", "take", "skip", "skip",
        "take", "take",
    ]  # fmt: skip
    assert [str(event) for event in world.history.events] == [
        "a sends a:1 to b, c",
        "c delivers a:1",
    ]
    world.check()
    with pytest.raises(ValueError, match="unknown step"):
        run_step(world, ("dance",))


def test_a_script_may_restart_endpoints_also_with_rules_of_ones_own() -> None:
    made = random_script(1, members=3, casts=("multicast",), steps=40, restart_share=0.3)
    restarts = [step for step in made.steps if step[0] == "restart"]
    assert restarts
    world = World("matrix", made.members, rules=Matrix)
    for step in made.steps:
        run_step(world, step)
    world.drain()
    world.check()


def test_too_few_for_a_ring_are_one_group() -> None:
    assert chain_of_groups(("a", "b")) == {"all": ("a", "b")}


def test_order_is_judged_also_after_the_fact() -> None:
    world = World("matrix", "ab", rules=Unordered, promises=())
    world.send("a", ("b",))
    world.send("a", ("b",))
    world.arrive(1)
    world.check()
    world.promises = frozenset({"safety"})
    with pytest.raises(BrokenPromiseError, match="b delivered a:2 first"):
        world.check()
