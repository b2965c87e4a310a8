"""Links of limited bandwidth, senders that stay with their receivers, and queues at any load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import antecede
from antecede import UsageError, sim
from antecede.sim.metrics import output_queue
from antecede.sim.workloads import paper, sessions, with_links
from tests.support.same_runs import PROTOCOLS, differences, random_schedule


def test_the_packets_of_a_link_leave_one_after_the_other() -> None:
    """Two messages at once from 0 to 1, and one from 0 to 2: 40 + 60 bytes at 100 bytes/s."""
    schedule = sim.Schedule(
        n=3,
        sender=np.array([0, 0, 0], np.int32),
        offsets=np.array([0, 1, 2, 3]),
        dests=np.array([1, 1, 2], np.int32),
        delays=np.array([0.5, 0.5, 0.5]),
        time=np.array([0.0, 0.0, 0.25]),
        trigger=np.full(3, -1),
        think=np.zeros(3),
        rank=np.full(3, -1, np.int32),
    )
    slow = with_links(schedule, bandwidth=100.0, payload=60)
    for engine in ("kernel", "plain"):
        assert sim.run("buffered", schedule, engine=engine).trace.arrived.tolist() == [
            0.5,
            1.0,
            1.5,
        ]
        trace = sim.run("buffered", slow, engine=engine).trace
        # An acknowledgement has a header only: 0.4 s on its link, and no delay here.
        assert trace.arrived.tolist() == pytest.approx([1.5, 3.4, 5.3])
    matrix = sim.run("matrix", slow)
    assert matrix.trace.arrived.tolist() == pytest.approx([1.86, 3.22, 2.11])  # and 36 bytes each
    assert matrix.metrics["link_load_peak"] == pytest.approx(2 * 1.36 / 0.25)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kernels_agree_on_limited_links(protocol: str) -> None:
    for seed, cast in ((1, "unicast"), (2, "multicast"), (3, "broadcast")):
        schedule = with_links(random_schedule(seed, 5, 80, cast=cast), bandwidth=3000.0, payload=50)
        if not schedule.casts & set(antecede.PROTOCOLS[protocol].casts):
            continue
        kernel, plain = (sim.run(protocol, schedule, engine=e) for e in ("kernel", "plain"))
        assert differences(kernel.trace, plain.trace) == []
        assert kernel.metrics["link_load"] == plain.metrics["link_load"]


def test_metadata_costs_time_where_links_are_slow() -> None:
    schedule = paper(n=12, received=60, delay="exponential:0.01", seed=1)
    latency = {
        (protocol, bandwidth): float(
            sim.run(protocol, with_links(schedule, bandwidth=bandwidth)).metrics["latency_mean"]
            or 0
        )
        for protocol in ("matrix", "optimal")
        for bandwidth in (5e3, 1e7)
    }
    assert latency["matrix", 5e3] > 1.5 * latency["optimal", 5e3]
    assert latency["matrix", 1e7] == pytest.approx(latency["optimal", 1e7], rel=0.02)


def test_links_are_kept_with_the_schedule(tmp_path: Path) -> None:
    schedule = with_links(paper(n=3, received=5), bandwidth=1234.5, payload=7)
    schedule.write(tmp_path / "s.parquet")
    back = sim.Schedule.read(tmp_path / "s.parquet")
    assert (back.bandwidth, back.payload) == (1234.5, 7)
    with pytest.raises(UsageError, match="bandwidth=-1"):
        with_links(schedule, bandwidth=-1.0)
    with pytest.raises(UsageError, match="payload=-2"):
        replace(schedule, payload=-2).validate()


@pytest.mark.parametrize("stay", [0.0, 0.5, 0.95])
def test_senders_stay_with_their_receivers(stay: float) -> None:
    n = 6
    schedule = sessions(n=n, received=2000, stay=stay, seed=2)
    same = total = 0
    for sender in range(n):
        dests = schedule.dests[schedule.sender == sender]
        same += int((np.diff(dests) == 0).sum())
        total += len(dests) - 1
    assert same / total == pytest.approx(stay + (1 - stay) / (n - 1), abs=0.03)
    with pytest.raises(UsageError, match="stay=2 is not a probability"):
        sessions(stay=2.0)


@pytest.mark.parametrize("load", [0.2, 0.6, 0.9, 1.2])
def test_a_queue_is_saturated_by_its_load_alone(load: float) -> None:
    for seed in range(4):
        schedule = paper(n=10, received=1500, seed=seed, delay=load / 20)
        run = sim.run("buffered", schedule)
        assert run.metrics["saturated"] is (load > 1)
        queue = output_queue(schedule, run.trace)
        assert queue is not None
        assert queue.load == pytest.approx(load, rel=0.15 if load < 0.5 else 0.05)
        assert (queue.drift > 0.05) == (load > 1)


def test_the_queue_is_m_e2_1() -> None:
    """[MF95]: a message occupies its sender's buffer for a round trip of two exponential delays."""
    for load in (0.4, 0.8):
        schedule = paper(n=10, received=15_000, warm_up=3_000, seed=5, delay=load / 20)
        run = sim.run("buffered", schedule, warm_up=3_000)
        delays = float(run.metrics["latency_mean"] or 0) / (load / 20)
        assert delays == pytest.approx(1 + 1.5 * load / (1 - load), rel=0.06)
