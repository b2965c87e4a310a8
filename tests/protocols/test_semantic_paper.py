"""semantic against [GK00]: definition 5, lemmas 1 to 4, property 2, figures 1 and 2."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from antecede import NOTHING, MessageId
from antecede.check import World
from antecede.check.scripts import run_step
from tests.protocols.support import scripts
from tests.support.prefixes import Prefixes, Vector, all_past, larger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from antecede.endpoint.info import Cast

Rows = tuple[tuple[int, ...], ...]
ALL_CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")


def worlds(count: int, first: int) -> Iterator[tuple[World, Prefixes]]:
    """Yield a world and its prefixes after every step of many scripts."""
    for script in scripts(count, ALL_CASTS, first=first, ranks=True, steps=50):
        world = World("semantic", script.members, fifo=script.fifo)
        prefixes = Prefixes(world.history)
        for step in script.steps:
            run_step(world, step)
            prefixes.follow()
            yield world, prefixes


def matrices(world: World, process: str) -> tuple[Rows, Rows]:
    """Return SENT_PREV and SENT_CONC of a process."""
    return cast("tuple[Rows, Rows]", world.endpoints[process].kept())


def counted(world: World, messages: Iterable[MessageId]) -> Counter[tuple[str, str]]:
    """Return how many copies each process sent to each other, of these messages."""
    return Counter(
        (message.sender, dest)
        for message in messages
        for dest in world.history.dests(message)
        if dest != message.sender
    )


def cells(world: World, *parts: Rows) -> Counter[tuple[str, str]]:
    """Return the sum of matrices as counts by sender and destination."""
    names = world.history.members
    return Counter(
        {
            (sender, dest): total
            for k, sender in enumerate(names)
            for j, dest in enumerate(names)
            if (total := sum(matrix[k][j] for matrix in parts))
        }
    )


def semantic_past(prefixes: Prefixes, process: str, upto: int) -> Vector:
    """Return each process's last event that local events up to a number semantically follow."""
    found = {process: upto}
    local = [event for event in prefixes.history.events if event.process == process][:upto]
    for event in local:
        if event.kind == "deliver" and event.message.sender != process:
            sender, number = prefixes.places[event.message]
            found = larger(found, {sender: number})
            found = larger(found, semantic_past(prefixes, sender, basis(prefixes, event.message)))
    return found


def basis(prefixes: Prefixes, message: MessageId) -> int:
    """Return the number of the last local event that a message depends on."""
    sent = next(
        event
        for event in prefixes.history.events
        if event.kind == "send" and event.message == message
    )
    _, number = prefixes.places[message]
    return number - 1 if sent.after is None else sent.after


def test_definition_4_is_definition_5() -> None:
    """Whether any event that a send depends on lies outside MCV shows in its own process alone."""
    moved: Counter[bool] = Counter()
    for script in scripts(20, ALL_CASTS, first=700, ranks=True, steps=40):
        world = World("semantic", script.members, fifo=script.fifo)
        for step in script.steps:
            run_step(world, step)
        prefixes = Prefixes(world.history)
        prefixes.follow()
        for message, (process, number) in prefixes.places.items():
            before = prefixes.points[process][number - 1].mcv
            last = basis(prefixes, message)
            by_4 = any(
                event > before.get(name, 0)
                for name, event in semantic_past(prefixes, process, last).items()
            )
            assert by_4 == (last > before.get(process, 0)), message
            moved[by_4] += 1
    assert min(moved[True], moved[False]) > 50


def test_lemma_1_the_prefix_holds_every_semantic_cause_and_only_the_past() -> None:
    for world, prefixes in worlds(12, 0):
        if not world.history.events or world.history.events[-1].kind != "send":
            continue
        message = world.history.events[-1].message
        point = prefixes.sends[message]
        assert all(number <= point.ecv.get(name, 0) for name, number in point.mcv.items())
        assert world.history.causes(message) <= prefixes.within(point.mcv) | {message}


def test_lemma_2_the_two_matrices_count_everything_in_the_past() -> None:
    for world, _ in worlds(12, 100):
        past = all_past(world.history)
        for name in world.history.members:
            known = past._named(past._local_of(name)[-1].messages)
            assert cells(world, *matrices(world, name)) == counted(world, known)


def test_lemmas_3_and_4_hold_but_for_the_prefix_s_last_message_at_its_receivers() -> None:
    """SENT_PREV is what MC sent; a received message that moved MCV to itself waits in SENT_CONC."""
    exact = late = 0
    for world, prefixes in worlds(20, 200):
        for name in world.history.members:
            mcv = prefixes.now(name).mcv
            prev = cells(world, matrices(world, name)[0])
            within = prefixes.within(mcv)
            ends = {
                m for m in within if m.sender != name and prefixes.places[m][1] == mcv.get(m.sender)
            }
            upper, lower = counted(world, within), counted(world, within - ends)
            assert lower <= prev <= upper
            own = {key: count for key, count in upper.items() if key[0] == name}
            assert {key: count for key, count in prev.items() if key[0] == name} == own
            exact += prev == upper
            late += prev != upper
    assert exact > late > 0


def test_the_last_local_event_covered_is_definition_5() -> None:
    for world, prefixes in worlds(20, 300):
        for name in world.history.members:
            assert world.endpoints[name].notes()["covered"] == prefixes.now(name).mcv.get(name, 0)


def share_of_the_prefix(dependent: float, *, steps: int = 80) -> float:
    """Return MCV as a share of ECV, by events, where so many of the sends depend on anything."""
    known = past = 0
    for seed, script in enumerate(
        scripts(3200 // steps, ALL_CASTS, first=9000, ranks=True, steps=steps)
    ):
        rng = Random(seed)
        world = World("semantic", script.members, fifo=script.fifo)
        prefixes = Prefixes(world.history)
        for step in script.steps:
            rank = rng.choice((1, 2, 3)) if rng.random() < dependent else 0
            run_step(world, (*step[:3], rank) if step[0] == "send" else step)
            prefixes.follow()
        for name in script.members:
            known += sum(prefixes.now(name).mcv.values())
            past += sum(prefixes.now(name).ecv.values())
    return known / past


def test_the_prefix_is_much_shorter_only_in_short_runs_where_few_sends_depend() -> None:
    assert share_of_the_prefix(0.0) == 0
    assert share_of_the_prefix(0.02) < 0.25
    assert share_of_the_prefix(0.5) > 0.75
    assert share_of_the_prefix(0.02, steps=1280) > 0.5


def test_property_2_nothing_ever_decreases() -> None:
    last: dict[str, tuple[object, int, Rows]] = {}
    for world, _ in worlds(12, 400):
        for name in world.history.members:
            now, covered_now = matrices(world, name)[0], world.endpoints[name].notes()["covered"]
            if name in last and last[name][0] is world:
                _, covered, prev = last[name]
                assert covered <= covered_now
                for old, new in zip(prev, now, strict=True):
                    assert all(a <= b for a, b in zip(old, new, strict=True))
            last[name] = (world, covered_now, now)


def test_figure_1_causal_order_where_everything_depends() -> None:
    world = World("semantic", ["P1", "P2", "P3"])
    m1 = world.send("P1", ["P3"])
    world.send("P1", ["P2"])
    world.arrive_packet("P1", "P2")
    m3 = world.send("P2", ["P3"])
    world.arrive_packet("P2", "P3")
    assert world.endpoints["P3"].held == 1
    world.arrive_packet("P1", "P3")
    assert world.history.deliveries("P3") == [m1, m3]


@pytest.mark.parametrize("after_m2", [False, True])
def test_figure_2_m3_is_not_held_for_m1(after_m2: bool) -> None:
    """M2 does not depend on M1. If M3 depends on M2 all the same, definition 5 takes M1 along."""
    world = World("semantic", ["P1", "P2", "P3"])
    world.send("P1", ["P3"], after=NOTHING)
    world.send("P1", ["P2"], after=NOTHING)
    world.arrive_packet("P1", "P2")
    m3 = world.send("P2", ["P3"], after=1 if after_m2 else NOTHING)
    world.arrive_packet("P2", "P3")
    assert world.history.deliveries("P3") == ([] if after_m2 else [m3])
    assert world.history.causes(m3).isdisjoint(world.history.undelivered("P3"))


def test_figure_2_is_held_by_matrix() -> None:
    world = World("matrix", ["P1", "P2", "P3"])
    world.send("P1", ["P3"])
    world.send("P1", ["P2"])
    world.arrive_packet("P1", "P2")
    world.send("P2", ["P3"])
    world.arrive_packet("P2", "P3")
    assert world.endpoints["P3"].held == 1
