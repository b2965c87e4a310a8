"""`sim.run`: figures by hand, every protocol, and one line for what cannot be run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import antecede
from antecede import UsageError, sim
from antecede.events.tables import STUDY_COLUMNS
from antecede.protocols import flooding, tree
from antecede.sim.metrics import spreads
from antecede.sim.workloads import bursts, paper, with_semantics

STUDY = STUDY_COLUMNS[STUDY_COLUMNS.index("deliveries") :]


def triangle() -> sim.Schedule:
    """P0 sends a to P2 (slow), then b to P1; P1 answers b with c to P2, which must wait for a."""
    return sim.Schedule(
        n=3,
        sender=np.array([0, 0, 1], np.int32),
        offsets=np.arange(4),
        dests=np.array([2, 1, 2], np.int32),
        delays=np.array([10.0, 1.0, 1.0]),
        time=np.array([0.0, 1.0, np.nan]),
        trigger=np.array([-1, -1, 1]),
        think=np.array([0.0, 0.0, 0.5]),
        rank=np.full(3, -1, np.int32),
        added=sim.Delay.constant(2.0),
    ).validate()


@pytest.mark.parametrize("engine", ["kernel", "plain"])
def test_the_triangle_by_hand(engine: str) -> None:
    run = sim.run("optimal", triangle(), engine=engine, events=True)
    assert run.trace.delivered.tolist() == [10.0, 2.0, 10.0]
    assert run.trace.arrived.tolist() == [10.0, 2.0, 3.5]
    # b carries a's entry with P2; c carries (P0,1) for P2 and (P0,2), which is empty but newest.
    assert run.trace.entries.tolist() == [0, 1, 2]
    assert run.metrics["model_bytes_per_copy"] == pytest.approx((0 + 8 + 14) / 3)
    assert run.metrics["held_fraction"] == pytest.approx(1 / 3)
    assert run.metrics["held_time_max"] == 6.5
    by_entries, by_time = spreads(triangle(), run.trace).values()
    assert (by_entries, by_time) == ({"0": 1, "1": 1, "2": 1}, {"4,096 to 8,192": 1})
    assert run.metrics["latency_mean"] == pytest.approx((10 + 1 + 7.5) / 3)
    assert run.metrics["buffer_peak"] == 1
    assert run.events is not None
    assert [(r["process"], r["kind"], r["message"], r["time"]) for r in run.events.to_pylist()] == [
        ("p0", "send", "p0:1", 0.0),
        ("p0", "send", "p0:2", 1.0),
        ("p1", "deliver", "p0:2", 2.0),
        ("p1", "send", "p1:1", 2.5),
        ("p2", "deliver", "p0:1", 10.0),
        ("p2", "deliver", "p1:1", 10.0),
    ]
    assert run.events.column("seq").to_pylist() == [1, 2, 1, 2, 1, 2]
    assert run.events.column("dests").to_pylist() == [["p2"], ["p1"], None, ["p2"], None, None]


@pytest.mark.parametrize("engine", ["kernel", "plain"])
def test_the_triangle_behind_output_buffers(engine: str) -> None:
    """[MF95] figure 6: b leaves only when a is acknowledged, at 12; so nothing waits at P2."""
    run = sim.run("buffered", triangle(), engine=engine)
    assert run.trace.posted.tolist() == [0.0, 12.0, 13.5]
    assert run.trace.delivered.tolist() == [10.0, 13.0, 14.5]
    assert run.metrics["extra_packets_per_message"] == 1
    assert run.metrics["held_time_max"] == 11.0


def test_a_run_has_the_columns_of_the_study() -> None:
    run = sim.run("optimal", paper(n=4, received=50), wire_sample=20)
    assert set(STUDY) <= set(run.metrics)
    wire = run.metrics["wire_bytes_per_copy"]
    assert isinstance(wire, float)
    assert wire > 0


def test_the_warm_up_is_left_out() -> None:
    schedule = paper(n=5, received=100, warm_up=40, seed=1)
    assert sim.run("optimal", schedule, warm_up=40).metrics["deliveries"] == schedule.copies - 200
    early = sim.run("optimal", schedule).metrics["entries_per_copy"]
    late = sim.run("optimal", schedule, warm_up=40).metrics["entries_per_copy"]
    assert isinstance(early, float)
    assert isinstance(late, float)
    assert late > early
    assert sim.run("optimal", schedule, warm_up=10**6).metrics["deliveries"] == 0


def test_a_queue_at_load_one_is_saturated() -> None:
    """A round trip as long as the mean gap is load 1."""
    for delay, saturated in ((0.03, False), (0.05, True), (0.08, True)):
        metrics = sim.run("buffered", paper(n=20, received=3000, seed=2, delay=delay)).metrics
        assert metrics["saturated"] is saturated
    assert sim.run("optimal", bursts(n=10, received=500, delay=0.5)).metrics["saturated"] is False


def test_what_pruning_saved_adds_up() -> None:
    """Every destination named by a send is removed by one of the four kinds, or still kept."""
    schedule = paper(n=6, cast="multicast", received=300, seed=1)
    metrics = sim.run("pruned", schedule).metrics
    plain = sim.run("pruned", schedule, engine="plain").metrics
    for name in ("just_delivered_per_message", "just_replaced_per_message", "already_per_message"):
        assert metrics[name] == plain[name]
        assert metrics[name] != 0


def test_false_causality_shrinks_with_dependence() -> None:
    schedule = paper(n=6, cast="multicast", received=100, seed=1, delay="exponential:0.2")
    all_of_it = sim.run("matrix", with_semantics(schedule, probability=0.2, reach=2)).metrics
    less = sim.run("semantic", with_semantics(schedule, probability=0.2, reach=2)).metrics
    most = sim.run("matrix", with_semantics(schedule, probability=1.0, reach=1)).metrics
    pairs = [float(one["false_pairs_per_message"] or 0) for one in (most, all_of_it)]
    assert 0 < pairs[0] < pairs[1]
    assert float(less["false_delay_mean"] or 0) < float(all_of_it["false_delay_mean"] or 0)
    assert float(less["added_delay_mean"] or 0) < float(all_of_it["added_delay_mean"] or 0)


@pytest.mark.parametrize("protocol", list(antecede.PROTOCOLS))
def test_every_protocol_runs_on_some_schedule(protocol: str) -> None:
    info = antecede.PROTOCOLS[protocol]
    cast = next((c for c in ("multicast", "broadcast", "unicast") if c in info.casts), None)
    if protocol == "server" or cast is None:  # needs its own pattern of traffic, or groups
        with pytest.raises(UsageError):
            sim.run(protocol, paper(n=4, received=30, cast="multicast"))
        return
    run = sim.run(protocol, paper(n=4, received=30, cast=cast, delay=0.02))
    assert run.engine == ("kernel" if protocol in sim.KERNELS else "plain")
    assert (run.metrics["undelivered"] == 0) == ("liveness" in info.promises)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"protocol": "optimum"}, "unknown protocol 'optimum'; did you mean optimal"),
        ({"engine": "fast"}, "unknown engine 'fast'"),
        ({"protocol": "history", "engine": "kernel"}, "no kernel for 'history'"),
        ({"protocol": "bounded", "options": {"k": 2}}, "k=2 is out of bounds"),
        ({"protocol": "optimal", "options": {"k": 2}}, "optimal has no option 'k'"),
        ({"protocol": "buffered"}, "buffered carries only unicast messages"),
        ({"warm_up": -1}, "warm_up=-1"),
        (
            {"engine": "kernel", "options": {"lookahead": True, "differential": True}},
            "no kernel with option differential and lookahead",
        ),
    ],
)
def test_what_cannot_be_run_is_one_line(arguments: dict[str, object], told: str) -> None:
    schedule = paper(n=4, received=30, cast="multicast")
    wrong: Any = {"protocol": "optimal", "schedule": schedule, **arguments}
    with pytest.raises(UsageError) as error:
        sim.run(**wrong)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_options_without_a_kernel_run_on_the_plain_engine() -> None:
    groups = {"all": ("p0", "p1", "p2", "p3")}
    schedule = paper(n=4, cast="broadcast", received=20)
    assert sim.run("broadcast", schedule, options={"groups": groups}).engine == "plain"
    assert sim.run("broadcast", schedule).engine == "kernel"


def test_all_kernels_compile() -> None:
    sim.warm()
    assert set(sim.KERNELS) >= {"matrix", "direct", "pruned", "optimal", "semantic", "bounded"}
    assert "buffered" in sim.KERNELS


@pytest.mark.parametrize("protocol", ["central", "hierarchy"])
def test_a_relay_among_the_destinations_leaves_no_copy_without_figures(protocol: str) -> None:
    schedule = paper(n=5, received=60, cast="multicast", seed=3)
    run = sim.run(protocol, schedule)
    assert run.metrics["undelivered"] == 0
    assert not np.isnan(run.trace.posted).any()
    figures = [value for value in run.metrics.values() if isinstance(value, float)]
    assert np.isfinite(figures).all()


def test_what_comes_within_another_message_has_waited_for_nothing() -> None:
    schedule = paper(n=5, received=60, cast="multicast", seed=3, delay="exponential:0.3")
    run = sim.run("history", schedule)
    own = run.trace.posted + schedule.delays
    assert (run.trace.delivered < own).any()
    assert run.metrics["added_delay_mean"] == 0
    assert float(run.metrics["latency_mean"] or 0) < schedule.delays.mean()


def test_the_beginning_of_a_short_run_is_no_saturation() -> None:
    schedule = paper(n=6, received=80, mean_gap=0.05, delay="exponential:0.4", seed=1)
    assert sim.run("optimal", schedule).metrics["saturated"] is False


@pytest.mark.parametrize("protocol", ["flooding", "tree"])
def test_kernels_with_links_run_more_processes_than_pairs_would_fit(protocol: str) -> None:
    n, modules = 70_000, {"flooding": flooding, "tree": tree}
    schedule = paper(n=n, received=1, cast="broadcast", mean_gap=n)
    run = sim.run(protocol, schedule)
    assert run.metrics["undelivered"] == 0
    links = modules[protocol].default_links(n)
    own = sum((np.array(links) == sender).sum() for sender in schedule.sender)
    # Everybody sends over all its links, but for the one that brought the message.
    assert run.trace.added.sum() + own == schedule.messages * (2 * len(links) - (n - 1))
    with pytest.raises(UsageError, match=r"optimal with 70,000 processes is too many: 65,536"):
        sim.run("optimal", schedule)
