"""Second looks at a run, against the kernels and against small cases done by hand."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from antecede import sim
from antecede.check import World, causal_violations, rules_from
from antecede.protocols.specs import optimal
from antecede.sim import workloads
from antecede.sim.semantics import false_causality, with_semantics
from antecede.sim.workloads import paper
from antecede.study.replays import ENCODINGS, KINDS, Lengths, encodings, redundancy


@pytest.mark.parametrize("cast", ["unicast", "multicast", "broadcast"])
def test_with_all_kinds_pruned_the_replay_is_pruned_itself(cast: str) -> None:
    schedule = paper(n=6, cast=cast, seed=4, received=60, warm_up=20, delay="exponential:0.1")
    run = sim.run("pruned", schedule, warm_up=20)
    replay = redundancy(schedule, run.trace, warm_up=20)
    for name in ("entries_per_copy", "destinations_per_copy", "model_bytes_per_copy"):
        assert replay[name] == pytest.approx(run.metrics[name])
    assert 0 < replay["constraints_per_copy"] < replay["entries_per_copy"]


@pytest.mark.parametrize("kind", KINDS)
def test_leaving_out_a_kind_never_carries_less(kind: str) -> None:
    schedule = paper(n=5, cast="multicast", seed=2, received=60, delay="exponential:0.1")
    trace = sim.run("optimal", schedule).trace
    with_all = redundancy(schedule, trace, warm_up=10)
    without = redundancy(schedule, trace, warm_up=10, without=kind)
    assert without["model_bytes_per_copy"] >= with_all["model_bytes_per_copy"]
    assert without[f"pruned_{kind}"] == 0
    assert with_all[f"pruned_{kind}"] > 0


def test_every_hold_is_false_when_nothing_depends_on_anything() -> None:
    schedule = paper(n=5, cast="multicast", seed=3, received=60, delay="exponential:0.3")
    schedule = with_semantics(schedule, probability=0.0, reach=1)
    run = sim.run("matrix", schedule)
    found = false_causality(schedule, run.trace)
    assert found["false_share_of_holds"] == 1.0
    assert found["false_age"] > 0
    assert found["false_held_fraction"] == pytest.approx(run.metrics["held_fraction"])
    assert found["false_delay_mean"] == pytest.approx(run.metrics["added_delay_mean"])


def test_no_hold_is_false_when_everything_depends_on_everything() -> None:
    schedule = paper(n=5, cast="multicast", seed=3, received=60, delay="exponential:0.3")
    run = sim.run("matrix", schedule)
    assert run.metrics["held_fraction"]
    assert np.all(schedule.rank < 0)
    assert false_causality(schedule, run.trace)["false_held_fraction"] == 0.0


def differences_share(n: int, *, ring: bool = False) -> float:
    """Return what RST's matrices carry as differences on each channel, as a share of n² cells.

    Receivers must be able to rebuild each matrix: a channel's messages are merged in their order.
    Cells of what is no channel stay 0: that is what a known topology leaves out.
    """
    workload = workloads.ring if ring else paper
    schedule = workload(n=n, received=200, seed=1)
    trace = sim.run("matrix", schedule).trace
    sent = np.zeros((n, n, n), int)
    before: dict[tuple[int, int], np.ndarray[Any, Any]] = {}
    carried: dict[int, np.ndarray[Any, Any]] = {}
    cells = copies = 0
    for event in (int(value) for value in trace.order if value >= 0):
        if event >= schedule.messages:
            copy = event - schedule.messages
            place, message = int(schedule.dests[copy]), int(schedule.message[copy])
            sent[place] = np.maximum(sent[place], carried[message])
            continue
        sender = int(schedule.sender[event])
        for dest in schedule.dests[schedule.offsets[event] : schedule.offsets[event + 1]]:
            last = before.get((sender, int(dest)), np.zeros((n, n), int))
            changed = sent[sender] != last
            cells, copies = cells + int(changed.sum()), copies + 1
            assert np.array_equal(np.where(changed, sent[sender], last), sent[sender])
            before[sender, int(dest)] = sent[sender].copy()
        carried[event] = sent[sender].copy()
        dests = schedule.dests[schedule.offsets[event] : schedule.offsets[event + 1]]
        sent[sender][sender, dests] += 1
        carried[event][sender, dests] += 1
    senders = schedule.sender[schedule.message]
    channels = set(zip(senders.tolist(), schedule.dests.tolist(), strict=True))
    assert np.count_nonzero(sent.any(axis=0)) == len(channels)
    return cells / copies / n**2


def test_differences_and_a_known_topology_make_matrices_smaller() -> None:
    """A changed cell takes twice the bytes of a cell, so differences hardly pay without a ring."""
    assert 0.4 < differences_share(12) < 0.5
    assert differences_share(12, ring=True) < 0.1


@pytest.mark.parametrize("cast", ["unicast", "multicast", "broadcast"])
def test_the_logs_that_are_encoded_are_those_of_optimal(cast: str) -> None:
    schedule = paper(n=6, cast=cast, seed=4, received=60, warm_up=20, delay="exponential:0.1")
    run = sim.run("optimal", schedule, warm_up=20)
    found = encodings(schedule, run.trace, warm_up=20)
    for name in ("entries_per_copy", "destinations_per_copy"):
        assert found[name] == pytest.approx(run.metrics[name])
    assert found["bytes_printed"] == pytest.approx(run.metrics["model_bytes_per_copy"])
    assert found["bytes_both"] <= min(found["bytes_grouped"], found["bytes_complements"])


def test_an_encoding_by_hand() -> None:
    """Two entries of one sender: one with three destinations of four, one without any."""
    log = Lengths(senders=1, entries=2, units=3, complements=1, nulls=1)
    sizes = {name: size(log) for name, size in ENCODINGS.items()}
    assert sizes == {"printed": 18, "grouped": 16, "array": 24, "complements": 14, "both": 12}


def test_what_is_stored_was_sent_on_every_channel_only_where_channels_are_missing() -> None:
    """Section 3.5 of [KS98]: what names d leaves the log with the first message to d."""
    complete = paper(n=6, seed=4, received=60, delay="exponential:0.1")
    groups = workloads.groups(n=9, seed=4, received=60, delay="exponential:0.1")
    shares = [
        encodings(schedule, sim.run("optimal", schedule).trace, warm_up=10)["sent_everywhere"]
        for schedule in (complete, groups)
    ]
    assert shares[0] == 0
    assert shares[1] > 0.3


CHANNELS = {"a": "bc", "b": "ad", "c": "bd", "d": "ac"}


class DropsWhatWasSentEverywhere(optimal.Process):
    """[KS98] as printed, without what was sent on each outgoing channel (section 3.5)."""

    def __init__(self, me: str, names: tuple[str, ...]) -> None:
        super().__init__(me, names)
        self.told: dict[tuple[tuple[str, int], str], frozenset[str]] = {}

    def send(self, dests: frozenset[str], after: int | None = None) -> None:
        super().send(dests, after)
        every, own = frozenset(CHANNELS[self.j]), (self.j, self.clock)
        units = {(o, d) for o, left in self.log.items() if o != own for d in left}
        self.told = {unit: self.told.get(unit, frozenset()) | dests for unit in units}
        gone = {unit for unit, told in self.told.items() if told >= every}
        self.log = {o: frozenset(d for d in ds if (o, d) not in gone) for o, ds in self.log.items()}
        self.log = optimal.purge_null_entries(self.log)


@pytest.mark.parametrize(
    ("process", "is_safe"), [(optimal.Process, True), (DropsWhatWasSentEverywhere, False)]
)
def test_dropping_what_was_sent_on_every_channel_loses_order(
    process: type[optimal.Process], is_safe: bool
) -> None:
    """Absence then no longer means delivered. Channels are FIFO, and known."""
    lost = 0
    for seed in range(150):
        rng = Random(seed)
        world = World("optimal", "abcd", fifo=True, rules=rules_from(process), promises=())
        for _ in range(60):
            if world.in_flight and rng.random() < 0.5:
                world.arrive(rng.randrange(len(world.in_flight)))
            else:
                sender = rng.choice("abcd")
                world.send(sender, rng.sample(CHANNELS[sender], rng.randint(1, 2)))
        world.drain(rng)
        lost += bool(causal_violations(world.history))
    assert (lost == 0) == is_safe
