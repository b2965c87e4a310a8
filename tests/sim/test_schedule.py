"""Schedules: read what was written, same seed same bytes, one line for what is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from antecede import UsageError, sim
from antecede.sim.workloads import WORKLOADS, Delay, delay, gossip, paper
from tests.support.same_runs import random_schedule

COLUMNS = ("sender", "time", "trigger", "think", "rank", "offsets", "dests", "delays")


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_same_seed_same_bytes(workload: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        WORKLOADS[workload](n=4, received=20, seed=9).write(tmp_path / name)
    WORKLOADS[workload](n=4, received=20, seed=10).write(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert (tmp_path / "one").read_bytes() != (tmp_path / "other").read_bytes()


@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_is_read(seed: int, tmp_path: Path) -> None:
    schedule = random_schedule(seed, 5, 60, cast="multicast")
    schedule = replace(schedule, added=Delay.links(np.full((5, 5), 0.1), "exponential"))
    schedule.write(tmp_path / "schedule.parquet")
    back = sim.Schedule.read(tmp_path / "schedule.parquet")
    for name in COLUMNS:
        a, b = getattr(schedule, name), getattr(back, name)
        assert a.dtype == b.dtype
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    assert (back.n, back.names, back.seed, back.fifo) == (5, schedule.names, seed, schedule.fifo)
    assert sim.run("bounded", back).trace.order.tolist() == (
        sim.run("bounded", schedule).trace.order.tolist()
    )


def changed(**changes: Any) -> sim.Schedule:
    """Return a good schedule of three messages with some of it replaced."""
    good = sim.Schedule(
        n=3,
        sender=np.array([0, 1, 2], np.int32),
        offsets=np.array([0, 1, 2, 3]),
        dests=np.array([1, 2, 0], np.int32),
        delays=np.array([0.1, 0.1, 0.1]),
        time=np.array([0.0, np.nan, 1.0]),
        trigger=np.array([-1, 0, -1]),
        think=np.zeros(3),
        rank=np.full(3, -1, np.int32),
    )
    return replace(good, **changes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"dests": np.array([1, 7, 0], np.int32)}, "unknown destination 7 in row 1; processes"),
        ({"sender": np.array([0, 1, 3], np.int32)}, "unknown sender 3 in row 2"),
        ({"delays": np.array([0.1, -0.5, 0.1])}, "delay -0.5 in row 1; delays are finite"),
        ({"delays": np.array([0.1, np.nan, 0.1])}, "delay nan in row 1"),
        ({"time": np.array([2.0, np.nan, 1.0])}, "time 1 in row 2 goes backwards; sort"),
        ({"time": np.array([0.0, 0.5, 1.0])}, "either a time or a trigger"),
        ({"time": np.array([0.0, np.nan, np.inf])}, "times are finite"),
        ({"trigger": np.array([-1, 2, -1])}, "trigger 2 in row 1; a trigger is an earlier row"),
        ({"sender": np.array([0, 0, 2], np.int32)}, "message 1 is triggered by message 0"),
        ({"dests": np.array([1, 1, 0], np.int32)}, "message to its own sender"),
        ({"think": np.array([0.0, -1.0, 0.0])}, "think -1 in row 1"),
        ({"rank": np.array([-1, -2, 0], np.int32)}, "rank -2 in row 1"),
        ({"offsets": np.array([0, 1, 1, 3])}, "number of destinations 0 in row 1"),
        ({"offsets": np.array([0, 1, 2, 4])}, "offsets end at 4"),
        ({"n": 1}, "n=1 processes"),
        ({"names": ("a", "a", "b")}, "2 process names; need 3 different ones"),
        ({"think": np.zeros(2)}, "columns of lengths [2, 3]"),
    ],
)
def test_a_bad_schedule_is_one_line(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as error:
        changed(**changes).validate()
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_destination_named_twice_is_refused() -> None:
    twice = changed(
        sender=np.array([0], np.int32), offsets=np.array([0, 2]), dests=np.array([1, 1], np.int32),
        delays=np.array([0.1, 0.1]), time=np.zeros(1), trigger=np.array([-1]), think=np.zeros(1),
        rank=np.array([-1], np.int32),
    )  # fmt: skip
    with pytest.raises(UsageError, match="destination 1 named twice by message 0"):
        twice.validate()


def test_a_table_that_is_no_schedule_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no column 'sender'"):
        sim.Schedule.from_arrow(pa.table({"a": [1]}))
    with pytest.raises(UsageError, match="cannot read schedule"):
        sim.Schedule.read(tmp_path / "none.parquet")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UsageError, match="cannot read schedule"):
        sim.Schedule.read(tmp_path / "text")


def test_the_head_is_a_schedule_of_its_own() -> None:
    schedule = gossip(n=6, received=40)
    head = schedule.head(20).validate()
    assert head.messages == 20
    assert head.copies == schedule.offsets[20]
    assert schedule.head(10**9).messages == schedule.messages


BAD_DELAYS = """ fast constant exponential:x uniform:0.1 uniform:2:1 constant:-1 lognormal:0
exponential:inf"""


@pytest.mark.parametrize("text", ["", *BAD_DELAYS.split()])
def test_a_bad_delay_is_one_line(text: str) -> None:
    with pytest.raises(UsageError) as error:
        delay(text)
    assert "\n" not in str(error.value)


def test_delays_per_link_must_fit() -> None:
    with pytest.raises(UsageError, match="square table"):
        Delay.links([[0.1, 0.2]])
    with pytest.raises(UsageError, match="for 3 processes, but the workload has 4"):
        paper(n=4, received=5, delay=Delay.links(np.ones((3, 3))))
