"""Order between non-atomic events that span processes: definition, sets, enumeration, mutants."""

from __future__ import annotations

from random import Random

import pytest

from antecede import sim
from antecede.protocols.specs import Copy
from antecede.sim.workloads import paper
from antecede.study.experiments.spanning import ALONE, Entry, Process, read, size, united
from antecede.study.timed import play
from tests.support.spanning_rig import Group, Name, explored


def play_script(seed: int, process: type[Process] = Process) -> Group:
    rng = Random(seed)
    group = Group("abcde"[: rng.randint(2, 5)], process)
    for _ in range(rng.randint(5, 40)):
        if group.flying and rng.random() < 0.6:
            group.arrive(rng.randrange(len(group.flying)))
        else:
            name = rng.choice(group.names)
            others = [other for other in group.names if other != name]
            dests = rng.sample(others, rng.randint(1, len(others)))
            last = group.processes[name].group
            kind = rng.choice([ALONE, last, last, 1, 2, rng.randint(3, 9)])
            group.send(name, "".join(dests), kind)
    group.finish(rng)
    return group


def test_order_is_kept_and_nothing_waits_or_is_kept_without_need() -> None:
    for seed in range(400):
        assert play_script(seed).broken == []


class NoGuards(Process):
    """A message stands for the earlier ones, as in [KS98], for its own group as well."""

    def guarded(self, dests: frozenset[str], group: int) -> dict[Name, Entry]:
        return {
            name: Entry(entry.group, {d: g for d, g in entry.guards.items() if d not in dests})
            for name, entry in self.log.items()
        }


class OneGuard(Process):
    """One message of another group is taken to be enough for all."""

    def guarded(self, dests: frozenset[str], group: int) -> dict[Name, Entry]:
        found = super().guarded(dests, group)
        return {
            name: Entry(e.group, {d: guard for d, guard in e.guards.items() if guard == ALONE})
            for name, e in found.items()
        }


class ForgetsItself(Process):
    """RCV(3) as printed: the receiver leaves every entry, delivered or not."""

    def deliver(self, copy: Copy) -> None:
        super().deliver(copy)
        for entry in self.log.values():
            entry.guards.pop(self.j, None)


class CountsDeliveries(Process):
    """A later message of the same sender is taken to tell that the earlier ones are delivered."""

    def is_ready(self, copy: Copy) -> bool:
        group, _, o_m = read(copy)
        return all(
            any(i == name[0] and n >= name[1] for i, n in self.delivered)
            for name, entry in o_m.items()
            if self.j in entry.guards and (group == ALONE or entry.group != group)
        )


class WaitsForItsOwn(Process):
    """Parts of one event wait for each other."""

    def is_ready(self, copy: Copy) -> bool:
        return all(
            name in self.delivered for name, e in read(copy).log.items() if self.j in e.guards
        )


MUTANTS = (NoGuards, OneGuard, ForgetsItself, CountsDeliveries, WaitsForItsOwn)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_what_is_broken_on_purpose_is_caught(mutant: type[Process]) -> None:
    assert any(play_script(seed, mutant).broken for seed in range(200))


def test_every_small_computation_is_right() -> None:
    """Three messages take longer: ``python -m tests.support.spanning_rig 3``."""
    situations = list(explored(Group("abc"), 2))
    assert len(situations) > 1000
    assert [one.broken for one in situations if one.broken] == []


def test_the_enumeration_catches_a_broken_variant() -> None:
    assert any(one.broken for one in explored(Group("abc", NoGuards), 2))


def test_without_events_it_carries_what_optimal_carries() -> None:
    for cast in ("unicast", "multicast", "broadcast"):
        schedule = paper(n=6, cast=cast, seed=5, received=30, delay="exponential:0.05")
        processes = [Process(name, schedule.names) for name in schedule.names]

        def send(_row: int, place: int, dests: frozenset[str]) -> None:
            processes[place].send(dests, ALONE)  # noqa: B023 - called in this round only

        ours = play(schedule, processes, send, size, warm_up=0)
        theirs = sim.run("optimal", schedule).metrics
        for name in (
            "model_bytes_per_copy", "latency_mean", "held_fraction", "size_drift", "latency_drift"
        ):  # fmt: skip
            assert ours[name] == pytest.approx(theirs[name])


def test_two_guards_of_different_groups_are_enough() -> None:
    guarded = [Entry(7, {"d": guard}) for guard in (ALONE, 1, 2)]
    assert united(guarded[0], guarded[1]).guards == {"d": 1}
    assert united(guarded[1], guarded[1]).guards == {"d": 1}
    assert united(guarded[1], guarded[2]).guards == {}
