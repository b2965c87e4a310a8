"""The state machine of a bucket against a sequential oracle, with its state saved and loaded."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from antecede.errors import UsageError
from antecede.reorder import bucket as buckets
from antecede.reorder import machine as machines
from antecede.reorder.bucket import Bucket, Policy
from antecede.reorder.machine import TOO_LATE, Came, Runs
from antecede.reorder.store import DictStore
from tests.support.streams import Oracle, Sent, audited, check_order, stream, table_of

SECOND = 1_000_000


def policy(**changes: Any) -> Policy:
    given: dict[str, Any] = {"timeout": None, "horizon": 3600 * SECOND, "fixed": "{}"}
    return Policy(**(given | changes))


class Driver:
    """Feeds a bucket batch by batch; between some of them reloads it, or lets a copy catch up."""

    def __init__(self, told: Policy, rng: random.Random | None = None) -> None:
        self.told, self.rng = told, rng or random.Random(0)
        self.store = DictStore()
        self.bucket = Bucket(told)
        self.spare = Bucket(told)
        self.now = self.caught_up = 0
        self.out: list[dict[str, Any]] = []

    def give(self, *rows: Sent, at: float | None = None, **more: Any) -> list[dict[str, Any]]:
        return self._done(self.bucket.offer(table_of(rows, **more), self._time(at)))

    def wait(self, at: float) -> list[dict[str, Any]]:
        self._time(at)
        return self._done(self.bucket.expire(self.now))

    def _time(self, at: float | None) -> int:
        self.now = self.now + SECOND if at is None else int(at * SECOND)
        return self.now

    def _done(self, table: pa.Table | None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
        self.bucket.save(self.store, self.now)
        chance = self.rng.random()
        if chance < 0.3:
            self.bucket = Bucket.load(self.told, self.store)
        elif chance < 0.7:
            self._take_turns()
        self.out += rows
        return rows

    def _take_turns(self) -> None:
        """Go on with the copy that another worker has, which lacks some batches."""
        head = json.loads(self.store.head() or "{}")
        self.bucket, self.spare = self.spare, self.bucket
        is_of_this_state = self.bucket.trail and self.bucket.trail[-1] in head["trail"]
        if is_of_this_state and self.bucket.catch_up(self.store, head):
            self.caught_up += 1
            assert contents(self.bucket) == contents(Bucket.load(self.told, self.store))
        else:
            self.bucket = Bucket.load(self.told, self.store)


def contents(bucket: Bucket) -> dict[str, Any]:
    """Return all that a bucket knows, for comparison."""
    machine = bucket.machine
    return {
        "head": bucket.head(),
        "positions": machine.positions,
        "seen": {c: (list(runs), runs.floor) for c, runs in machine.seen.items()},
        "known": sorted(k for g in machine.memory.generations.values() for k in g.keys.tolist()),
        "pinned": machine.memory.pinned,
        "held": list(machine.held.items()),
        "waiting": {cause: set(waiters) for cause, waiters in machine.waiting.items()},
        "overdue": machine.overdue,
        "chunks": {n: (c.table.to_pylist(), c.dead) for n, c in bucket.chunks.items()},
    }


@pytest.mark.parametrize("seed", range(25))
def test_each_batch_delivers_what_it_can_and_no_more(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(buckets, "LOG_ENTRIES", rng.choice([1, 3, 32]))
    monkeypatch.setattr(machines, "HELD_SHARE", rng.choice([0, 0.5, 8]))
    lost = rng.choice([0, 0, 0.03])
    copies, batches, history = stream(rng, messages=rng.choice([5, 60, 200]), lost=lost)
    driver, oracle = Driver(policy(), rng), Oracle()
    for batch in batches:
        expected = oracle.take(batch)
        found = [(row["dest"], row["id"]) for row in driver.give(*batch)]
        assert len(found) == len(set(found))
        assert set(found) == expected
    check_order(driver.out, copies)
    if driver.out:
        assert audited(history, driver.out).summary["violations"] == 0
    waiting = {at for at in oracle.came if at not in oracle.out}
    assert len(driver.bucket.machine.held) == len(waiting)
    assert sum(len(chunk) for chunk in driver.bucket.chunks.values()) == len(waiting)
    if not waiting:
        assert not driver.store.parts()["held"]
        assert not driver.bucket.machine.waiting


@pytest.mark.parametrize("seed", range(12))
def test_a_repeated_batch_in_another_order_gives_the_same_positions(seed: int) -> None:
    rng = random.Random(seed)
    _, batches, _ = stream(rng, messages=80)
    first, second = Driver(policy(), random.Random(1)), Driver(policy(), random.Random(2))
    for batch in batches:
        shuffled = rng.sample(batch, len(batch))
        assert first.give(*batch) == second.give(*shuffled)


@pytest.mark.parametrize("seed", range(12))
def test_with_a_timeout_everything_comes_out_in_time_and_marked(seed: int) -> None:
    rng = random.Random(seed)
    _, batches, _ = stream(rng, messages=120, lost=0.1)
    driver = Driver(policy(timeout=5 * SECOND), rng)
    for batch in batches:
        driver.give(*batch)
        driver.wait(driver.now / SECOND)
    for _ in range(5):
        driver.wait(driver.now / SECOND + 1)
    came = {(row.dest, row.id): row for batch in batches for row in batch}
    assert {(row["dest"], row["id"]) for row in driver.out} == set(came)
    assert len(driver.out) == len(came)
    assert max(row["held_seconds"] for row in driver.out) <= 5
    place = {(row["dest"], row["id"]): row["position"] for row in driver.out}
    missed = set()
    for row in driver.out:
        at = (row["dest"], row["id"])
        lacked = [c for c in came[at].causes if place.get((at[0], c), 10**9) > place[at]]
        assert row["released"] == bool(lacked), row
        missed |= {(at[0], cause) for cause in lacked}
    assert {(r["dest"], r["id"]) for r in driver.out if r["late"]} == missed & set(came)
    assert not driver.bucket.machine.held
    assert not driver.bucket.machine.waiting


def test_copies_catch_up() -> None:
    caught_up = 0
    for seed in range(10):
        rng = random.Random(seed)
        _, batches, _ = stream(rng, messages=120, lost=0.05)
        driver = Driver(policy(timeout=5 * SECOND), rng)
        for batch in batches:
            driver.give(*batch)
            driver.wait(driver.now / SECOND)
        caught_up += driver.caught_up
    assert caught_up > 20


def test_a_copy_of_a_batch_that_failed_is_not_used() -> None:
    driver = Driver(policy(), random.Random(0))
    driver.give(Sent("a", "d", "s", 1, ()))
    failed = Bucket.load(driver.told, driver.store)
    failed.offer(table_of([Sent("b", "d", "s", 2, ())]), 5 * SECOND)
    failed.save(DictStore(), 5 * SECOND)
    driver.give(Sent("c", "d", "s", 3, ()))
    head = json.loads(driver.store.head() or "{}")
    assert failed.trail[-1] not in head["trail"]


def test_held_rows_know_how_long_and_a_late_cause_is_marked() -> None:
    driver = Driver(policy(timeout=10 * SECOND))
    one, two = Sent("1", "d", "a", 1, ()), Sent("2", "d", "a", 2, ("1",))
    three = Sent("3", "d", "b", 1, ("2",))
    assert driver.give(three, at=0) == []
    assert driver.give(two, at=4) == []
    assert driver.wait(9.9) == []
    rows = driver.wait(10)
    assert [(r["id"], r["held_seconds"], r["released"], r["late"]) for r in rows] == [
        ("2", 6.0, True, False),
        ("3", 10.0, False, False),
    ]
    (row,) = driver.give(one, at=20)
    assert (row["id"], row["position"], row["late"], row["held_seconds"]) == ("1", 3, True, 0.0)


def test_a_cycle_of_causes_is_held_and_the_timeout_ends_it() -> None:
    driver = Driver(policy(timeout=SECOND))
    driver.give(Sent("1", "d", "a", 1, ("2",)), Sent("2", "d", "b", 1, ("1",)), at=0)
    rows = driver.wait(1)
    assert {row["id"] for row in rows} == {"1", "2"}
    assert [row["released"] for row in rows] == [True, False]


def test_rejected_rows_leave_at_once_with_their_reason() -> None:
    driver = Driver(policy(keeps_rejected=True))
    rows = driver.give(
        Sent("1", "d", "a", 1, ()), Sent("", "d", "a", 2, ()), reasons=[None, "id is missing"]
    )
    assert [(r["rejected"], r["position"]) for r in rows] == [(None, 1), ("id is missing", None)]
    silent = Driver(policy())
    assert len(silent.give(Sent("1", "d", "a", 1, ()), reasons=["id is missing"])) == 0


def test_state_is_bounded_by_the_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers with gaps for ever, a batch a second: neither ids nor runs pile up."""
    monkeypatch.setattr(buckets, "LOG_ENTRIES", 4)
    driver = Driver(policy(horizon=10 * SECOND, keeps_rejected=True))
    sizes = []
    for step in range(1, 200):
        driver.give(Sent(f"m{step}", "d", "a", 3 * step, (f"m{step - 1}",) if step > 1 else ()))
        sizes.append(sum(len(v) for part in driver.store.parts().values() for v in part.values()))
    assert len(driver.out) == 199
    assert max(sizes[100:]) <= 1.2 * max(sizes[:100])
    machine = driver.bucket.machine
    assert len(machine.memory) <= 20
    (runs,) = machine.seen.values()
    assert len(runs) <= 20
    # Within the horizon a duplicate is dropped; beyond it, a gap cannot be told from a duplicate.
    assert driver.give(Sent("m198", "d", "a", 3 * 198, ())) == []
    (row,) = driver.give(Sent("new", "d", "a", 4, ()))
    assert row["rejected"] == TOO_LATE


def test_a_forgotten_cause_is_remembered_as_long_as_someone_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(buckets, "LOG_ENTRIES", 1)
    driver = Driver(policy(horizon=2 * SECOND), random.Random(3))
    driver.give(Sent("1", "d", "a", 1, ()))
    driver.give(Sent("3", "d", "c", 1, ("1", "2")))
    for step in range(8):
        driver.give(Sent(f"x{step}", "d", "x", step, ()))
    driver.bucket = Bucket.load(driver.told, driver.store)
    assert len(driver.bucket.machine.memory.pinned) == 1
    assert [r["id"] for r in driver.give(Sent("2", "d", "b", 1, ()))] == ["2", "3"]
    driver.give(Sent("x8", "d", "x", 8, ()))
    assert not driver.bucket.machine.memory.pinned


def test_another_version_or_another_query_is_refused() -> None:
    driver = Driver(policy(fixed='{"buckets": 8}'))
    driver.give(Sent("1", "d", "a", 1, ()))
    with pytest.raises(UsageError, match="state has version 2, this antecede reads version 3"):
        Bucket.load(policy(version=3, fixed='{"buckets": 8}'), driver.store)
    with pytest.raises(UsageError, match="buckets=8, the query has buckets=16"):
        Bucket.load(policy(fixed='{"buckets": 16}'), driver.store)


def test_runs_join_and_close() -> None:
    runs = Runs()
    for number in (5, 7, 6, 1, 2):
        assert runs.add(number, number) is Came.NEW
    assert [run[:2] for run in runs] == [(1, 2), (5, 7)]
    assert runs.add(6, 9) is Came.SEEN
    runs.forget(8)
    assert [run[:2] for run in runs] == [(5, 7)]
    assert runs.add(2, 9) is Came.FORGOTTEN
    assert runs.add(3, 9) is Came.NEW
