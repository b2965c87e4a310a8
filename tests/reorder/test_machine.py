"""The state machine of a bucket against a sequential oracle, with its state saved and loaded."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from antecede.errors import UsageError
from antecede.reorder import bucket as buckets
from antecede.reorder.bucket import Bucket, Policy
from antecede.reorder.machine import DROPPED, TOO_LATE, Came, Runs
from antecede.reorder.packets import number_of
from antecede.reorder.store import DictStore, read_head
from tests.support.rounds import seeds
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
        self.now = self.caught_up = self.duplicates = 0
        self.out: list[dict[str, Any]] = []

    def give(self, *rows: Sent, at: float | None = None, **more: Any) -> list[dict[str, Any]]:
        return self._done(self.bucket.offer(table_of(rows, **more), self._time(at)))

    def wait(self, at: float) -> list[dict[str, Any]]:
        self._time(at)
        return self._done(self.bucket.expire(self.now))

    def tell(self, *commands: tuple[str, int]) -> list[dict[str, Any]]:
        return self._done(self.bucket.obey(commands, self._time(None)))

    def _time(self, at: float | None) -> int:
        self.now = self.now + SECOND if at is None else int(at * SECOND)
        return self.now

    def _done(self, table: pa.Table | None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
        self.bucket.save(self.store)
        machine = self.bucket.machine
        self.duplicates, machine.duplicates = self.duplicates + machine.duplicates, 0
        chance = self.rng.random()
        if chance < 0.3:
            self.bucket = Bucket.load(self.told, self.store)
        elif chance < 0.7:
            self._take_turns()
        self.out += rows
        return rows

    def _take_turns(self) -> None:
        """Continue with another worker's copy, which lacks some batches."""
        head = read_head(self.store)
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
        "lives": (machine.since, machine.last),
        "seen": {c: (list(runs), runs.floor, runs.dest) for c, runs in machine.seen.items()},
        "known": sorted(k for g in machine.memory.generations.values() for k in g.keys.tolist()),
        "pinned": machine.memory.pinned,
        "held": list(machine.held.items()),
        "waiting": {cause: set(waiters) for cause, waiters in machine.waiting.items()},
        "overdue": machine.overdue,
        "dropped": machine.dropped,
        "chunks": {n: (c.table.to_pylist(), c.dead) for n, c in bucket.chunks.items()},
    }


@pytest.mark.parametrize("seed", seeds(12))
def test_each_batch_delivers_what_it_can_and_no_more(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(buckets, "LOG_ENTRIES", rng.choice([1, 3, 32]))
    lost = rng.choice([0, 0, 0.03])
    copies, batches, history = stream(rng, messages=rng.choice([5, 60, 200]), lost=lost)
    driver, oracle = Driver(policy(), rng), Oracle()
    for batch in batches:
        expected = oracle.take(batch)
        found = [(row["dest"], row["id"]) for row in driver.give(*batch)]
        assert len(found) == len(set(found))
        assert set(found) == expected
    came = [(row.dest, row.id) for batch in batches for row in batch]
    assert driver.duplicates == len(came) - len(set(came))
    check_order(driver.out, copies)
    if driver.out:
        assert audited(history, driver.out).summary["violations"] == 0
    waiting = {at for at in oracle.came if at not in oracle.out}
    assert len(driver.bucket.machine.held) == len(waiting)
    assert sum(len(chunk) for chunk in driver.bucket.chunks.values()) == len(waiting)
    if not waiting:
        assert not driver.store.parts()["held"]
        assert not driver.bucket.machine.waiting


@pytest.mark.parametrize("seed", seeds(6))
def test_a_repeated_batch_in_another_order_gives_the_same_positions(seed: int) -> None:
    rng = random.Random(seed)
    _, batches, _ = stream(rng, messages=80)
    first, second = Driver(policy(), random.Random(1)), Driver(policy(), random.Random(2))
    for batch in batches:
        shuffled = rng.sample(batch, len(batch))
        assert first.give(*batch) == second.give(*shuffled)


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("spread", [5, 60, 1000])
def test_live_and_loaded_buckets_release_in_the_same_order(
    seed: int, spread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is a function of what is saved: a batch that is repeated finds it, or a copy."""
    rng = random.Random(seed)
    monkeypatch.setattr(buckets, "LOG_ENTRIES", rng.choice([1, 3, 32]))
    _, batches, _ = stream(rng, messages=150, lost=rng.choice([0, 0.05]), spread=spread)
    told = policy(timeout=rng.choice([None, 8 * SECOND]), horizon=rng.choice([5, 3600]) * SECOND)
    live, store, now = Bucket(told), DictStore(), 0
    for batch in reversed(batches) if seed % 2 else batches:  # Effects often come before causes.
        now += rng.choice([-1, 1, 1, 2]) * SECOND  # A clock may be set back.
        loaded = Bucket.load(told, DictStore(store.parts()))
        shuffled = rng.sample(batch, len(batch))
        assert live.offer(table_of(batch), now).equals(loaded.offer(table_of(shuffled), now))
        live.save(store)
        loaded = Bucket.load(told, DictStore(store.parts()))
        assert contents(live) == contents(loaded)
        first, second = live.expire(now), loaded.expire(now)
        assert (first is None and second is None) or (first is not None and first.equals(second))
        live.save(store)


@pytest.mark.parametrize("seed", seeds(6))
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
    failed.save(DictStore())
    driver.give(Sent("c", "d", "s", 3, ()))
    head = read_head(driver.store)
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


def test_a_destination_of_one_batch_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "LOG_ENTRIES", 4)
    driver, sizes = Driver(policy(horizon=10 * SECOND)), []
    for step in range(100):
        dest = f"correlation {step}"
        chain = [Sent(f"m{n}", dest, "a", n, (f"m{n - 1}",) if n else ()) for n in range(5)]
        found = driver.give(*chain, Sent(f"x{step}", "always", "a", step, ()))
        assert [row["position"] for row in found if row["dest"] == dest] == [1, 2, 3, 4, 5]
        sizes.append(sum(len(v) for part in driver.store.parts().values() for v in part.values()))
    machine = driver.bucket.machine
    assert len(machine.positions) == len(machine.since) == len(machine.last) <= 15
    assert len(machine.seen) <= 15
    assert max(sizes[80:]) <= 1.1 * max(sizes[20:40])
    (row,) = driver.give(Sent("more", "always", "a", 1000, ()))
    assert row["position"] == 101, "a destination that lived longer than the horizon is kept"


def test_a_forgotten_destination_that_returns_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within the horizon it counts on. Later nothing is left of it, so ids tell its rows apart."""
    monkeypatch.setattr(buckets, "LOG_ENTRIES", 1)
    driver = Driver(policy(horizon=5 * SECOND), random.Random(2))
    driver.give(Sent("1", "d", "a", 1, ()), Sent("2", "d", "a", 2, ("1",)), at=1)
    (row,) = driver.give(Sent("3", "d", "a", 3, ("2",)), at=5)
    assert row["position"] == 3
    for step in range(3):
        driver.give(Sent(f"{step}", "other", "a", step, ()), at=20 + step)
    assert len(driver.bucket.machine.positions) == 1, "nothing is left behind"
    rows = driver.give(Sent("5", "d", "a", 5, ("4",)), Sent("4", "d", "a", 4, ()), at=30)
    assert [(row["id"], row["position"]) for row in rows] == [("4", 1), ("5", 2)]
    places = [(row["dest"], row["position"], row["id"]) for row in driver.out]
    assert len(places) == len(set(places))


def test_a_destination_with_held_rows_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "LOG_ENTRIES", 1)
    driver = Driver(policy(horizon=2 * SECOND))
    driver.give(Sent("1", "d", "a", 1, ()), Sent("3", "d", "a", 3, ("2",)))
    for step in range(9):
        driver.give(Sent(f"{step}", f"d{step}", "a", 1, ()))
    found = driver.give(Sent("2", "d", "a", 2, ()))
    assert [(row["id"], row["position"]) for row in found] == [("2", 2), ("3", 3)]


def test_a_cause_that_never_comes_costs_what_waits_for_it() -> None:
    """Each batch leaves a row waiting for ever; what a batch does must not grow with them."""
    driver = Driver(policy(), random.Random(1))
    driver.give(*(Sent(f"h{n}", "d", "h", n, ("never", f"x{n}")) for n in range(3000)))
    for step in range(60):
        driver.give(
            Sent(f"w{step}", "d", "w", step, ("never",)), Sent(f"x{step}", "d", "x", step, ())
        )
        assert len(driver.bucket.chunks) <= 12
    touched = 0

    class Watched(dict):  # type: ignore[type-arg]
        def values(self) -> Any:
            nonlocal touched
            for value in super().values():
                touched += 1
                yield value

    machine = driver.bucket.machine
    machine.held = Watched(machine.held)
    found = driver.give(Sent("x500", "d", "x", 500, ()))
    assert [row["id"] for row in found] == ["x500"]
    assert touched <= 1, "a batch went through everything that is held"


def test_more_held_bytes_than_allowed_are_refused_in_one_line() -> None:
    driver = Driver(policy(held_bytes_max=20_000))
    with pytest.raises(UsageError, match=r"would hold 500 rows of .* held_bytes_max is 20,000"):
        driver.give(*(Sent(f"h{n}", "d", "h", n, ("never",)) for n in range(500)))
    again = Bucket.load(policy(held_bytes_max=1 << 20), driver.store)
    assert not again.machine.held, "nothing was saved"


def test_a_person_releases_and_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(name: str) -> int:
        return number_of("d", name)

    for entries in (1, 32):
        monkeypatch.setattr(buckets, "LOG_ENTRIES", entries)
        driver = Driver(policy(keeps_rejected=True), random.Random(entries))
        names = [("2", ("1",)), ("3", ("2", "9")), ("4", ("3",)), ("5", ("poison",)), ("6", ("5",))]
        driver.give(*(Sent(name, "d", "a", int(name), causes) for name, causes in names))
        assert driver.tell(("release", key("none")), ("drop", key("none"))) == []
        out = driver.tell(("release", key("3")))
        assert [(r["id"], r["position"], r["released"]) for r in out] == [
            ("2", 1, True), ("3", 2, True), ("4", 3, False)]  # fmt: skip
        out = driver.tell(("drop", key("5")))
        assert [(r["id"], r["position"], r["rejected"], r["released"]) for r in out] == [
            ("5", None, DROPPED, False), ("6", 4, None, True)]  # fmt: skip
        assert driver.give(Sent("5", "d", "a", 5, ("poison",))) == [], "it was dropped"
        (late,) = driver.give(Sent("1", "d", "a", 1, ()))
        assert late["late"]
        driver.give(Sent("8", "d", "a", 8, ("7", "5")))
        (row,) = driver.tell(("drop", key("7")))
        assert (row["id"], row["released"]) == ("8", True)
        (row,) = driver.give(Sent("10", "d", "a", 10, ("7",)))
        assert (row["id"], row["released"]) == ("10", True)
        assert not driver.bucket.machine.held


def test_without_numbers_ids_alone_tell_duplicates() -> None:
    driver = Driver(policy(numbered=False))
    rows = [Sent("2", "d", "", 0, ("1",)), Sent("1", "d", "", 0, ()), Sent("2", "d", "", 0, ("1",))]
    assert [row["id"] for row in driver.give(*rows)] == ["1", "2"]
    assert driver.give(*rows) == []
    assert not driver.bucket.machine.seen


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
