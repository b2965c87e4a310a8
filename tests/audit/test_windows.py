"""The windowed audit equals the oracle, however the log is cut."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from antecede.audit.api import audit, message_names
from antecede.audit.local_windows import LocalWindows
from antecede.audit.tables import findings
from antecede.audit.windows import window as window_module
from antecede.audit.windows.columns import with_clocks
from antecede.audit.windows.cuts import NO_SEQ, lower, pairs_of
from antecede.audit.windows.matching import Events
from antecede.audit.windows.rounds import Answer, add_chains, check
from antecede.errors import UsageError
from antecede.events import Event
from antecede.events.arrow_schemas import CLOCKS
from antecede.events.hashing import hash_lists, hash_names
from antecede.events.tables import CAUSAL_CYCLE
from tests.support.histories import CLOCKED, RELAYED, SHAPES, Shape, history
from tests.support.oracles import KIND, Truth, oracle
from tests.support.rounds import seeds

if TYPE_CHECKING:
    from antecede.arrays import Ints
#: Logs whose order comes from more than messages that are sent once.
BEYOND = (*RELAYED, *CLOCKED)


def columns(log: list[Event]) -> tuple[Events, list[str], list[tuple[int, int, int]]]:
    names = sorted({e.process for e in log})
    number = {name: p for p, name in enumerate(names)}
    known = np.array([4 * (e.kind == "send" and e.dests is not None) for e in log], np.int8)
    dests = pa.chunked_array([pa.array([e.dests for e in log], pa.list_(pa.string()))])
    events = Events(
        np.array([number[e.process] for e in log], np.int32),
        np.array([e.seq for e in log], np.int64),
        np.array([KIND[e.kind] for e in log], np.int8) + known,
        hash_names([e.message or "" for e in log]),
        hash_lists(dests),
    )
    clocks = [getattr(e, "clock", None) for e in log]
    if not any(clock is not None for clock in clocks):
        return events, names, []
    table = pa.table({"clock": pa.array(clocks, CLOCKS)})
    events, ahead = with_clocks(table, events, names)
    return events, names, ahead


def run(log: list[Event], cuts: Ints | None) -> tuple[Truth, Answer]:
    events, names, ahead = columns(log)

    def lookup(rows: Ints) -> list[tuple[str | None, tuple[str, ...] | None]]:
        return [(log[row].message, log[row].dests) for row in rows]

    arrangement = LocalWindows(events, names, lookup, cuts, ahead=ahead)
    answer = check(arrangement)
    add_chains(arrangement, answer, answer.joined.late)
    return truth_of(arrangement, answer), answer


def truth_of(arrangement: LocalWindows, answer: Answer) -> Truth:
    joined, truth, names = answer.joined, Truth(), arrangement.names
    assert not any(window.collision for window in answer.windows)
    name = message_names(arrangement, answer)
    for late in joined.late:
        key = (names[late.process], name[late.key], late.seq)
        assert key not in truth.violations
        effect = late.effect
        truth.violations[key] = (name[effect.key], effect.seq, late.lateness)
        chain = joined.chains[late.process, late.key]
        assert (chain[0], chain[-1]) == (late.key, effect.key)
        truth.chain_lengths[key] = len(chain)
    for lost in answer.lost:
        truth.missing[names[lost.process], name[lost.key]] = (
            name[lost.effect.key],
            lost.effect.seq,
        )
    for one in findings(answer, names, name, arrangement.ahead):
        truth.findings.add((one.kind, one.process, one.seq, one.message))
    return truth


def random_cuts(log: list[Event], count: int, seed: int, *, fixed: bool) -> Ints:
    """Return cuts at random places of the log, consistent or not."""
    rng = random.Random(seed)
    events, names, _ = columns(log)
    rows = list(zip(events.process.tolist(), events.seq.tolist(), strict=True))
    found = np.zeros((count, len(names)), np.int64)
    for k, place in enumerate(sorted(rng.randint(0, len(log)) for _ in range(count))):
        cut = [0] * len(names)
        for p, seq in rows[:place]:
            cut[p] = max(cut[p], seq if fixed else seq + rng.randint(-1, 1))
        found[k] = lower(np.array(cut), events, pairs_of(events)) if fixed else cut
    assert (found != NO_SEQ).all()
    return np.maximum.accumulate(found, axis=0)


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_one_window_equals_the_oracle(shape: Shape) -> None:
    for seed in seeds(12, 1000):
        log = history(shape, seed)
        random.Random(seed).shuffle(log)
        truth, _ = run(log, None)
        assert truth == oracle(log), f"shape={shape} seed={seed}"


@pytest.mark.parametrize("fixed", [True, False], ids=["consistent", "careless"])
@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_many_windows_equal_the_oracle(shape: Shape, fixed: bool) -> None:
    for seed in seeds(18, 500 * fixed):  # every number of cuts twice
        log = history(shape, seed)
        cuts = random_cuts(log, 1 + seed % 9, seed, fixed=fixed)
        truth, answer = run(log, cuts)
        assert truth == oracle(log), f"shape={shape} seed={seed} cuts={len(cuts)}"
        assert sum(window.events for window in answer.windows) == len(log)


@pytest.mark.parametrize("shape", BEYOND, ids=range(len(BEYOND)))
def test_clocks_and_relays_equal_the_oracle(shape: Shape) -> None:
    for seed in seeds(6, 2000):
        log = history(shape, seed)
        cuts = random_cuts(log, 1 + seed % 7, seed, fixed=seed % 4 > 0)
        truth = oracle(log)
        for where in (None, cuts):
            assert run(log, where)[0] == truth, f"shape={shape} seed={seed} cut={where is not None}"


@pytest.mark.parametrize("shape", [*SHAPES, *BEYOND], ids=range(len(SHAPES) + len(BEYOND)))
def test_every_cut_gives_the_same_chains(shape: Shape) -> None:
    for seed in seeds(3, 1100):
        log = history(shape, seed)
        _, whole = run(log, None)
        _, cut = run(log, random_cuts(log, 4, seed, fixed=True))
        assert cut.joined.chains == whole.joined.chains, f"shape={shape} seed={seed}"


@pytest.mark.parametrize("limit", ["bits", "detailed", "both"])
@pytest.mark.parametrize("shape", [*SHAPES, *BEYOND], ids=range(len(SHAPES) + len(BEYOND)))
def test_windows_that_may_tell_little_are_asked_again(
    shape: Shape, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit != "detailed":
        monkeypatch.setattr(window_module, "BITS_MAX", 0)
        monkeypatch.setattr(window_module, "BITS_PER_PROCESS", 0)
    if limit != "bits":
        monkeypatch.setattr(window_module, "DETAILED_MAX", 0)
    for seed in seeds(2, 1200):
        log = history(shape, seed)
        truth, _ = run(log, random_cuts(log, 1 + seed % 5, seed, fixed=True))
        assert truth == oracle(log), f"shape={shape} seed={seed}"


def tell(process: str, *what: str) -> list[Event]:
    """Return a process's events: "+m" sends m to b, "-m" delivers it, "." is local."""
    kinds = {"+": "send", "-": "deliver", ".": "local"}
    return [
        Event(process, seq, kinds[w[0]], w[1:] or None, ("b",) if w[0] == "+" else None, float(seq))
        for seq, w in enumerate(what, 1)
    ]


def test_a_delivery_cut_out_of_a_cycle_stays_with_those_that_repeat_it() -> None:
    # b's first delivery of y reaches y's send, so it is left out, and the second is a repeat,
    # which is no effect of x either: x did not come late.
    log = tell("a", "-z", "+x", "+y") + tell("b", "-y", "+z", ".", "-y", "-x")
    cuts = np.array([[3, 3]])
    truth, _ = run(log, cuts)
    assert truth == oracle(log)
    assert not truth.violations
    assert (CAUSAL_CYCLE, "b", 1, "y") in truth.findings


@pytest.mark.parametrize("cuts", [None, np.array([[2, 1, 0]])], ids=["whole", "cut"])
def test_of_a_message_sent_twice_the_first_send_states_the_destinations(cuts: Ints | None) -> None:
    first = [Event("a", 1, "send", "x", ("b",), 1.0), Event("a", 2, "send", "y", ("b", "c"), 2.0)]
    got = [Event("b", 1, "deliver", "y", None, 3.0), Event("c", 1, "deliver", "y", None, 3.0)]
    second = [Event("b", 2, "send", "x", ("c",), 4.0)]
    truth, _ = run(first + got + second, cuts)
    assert truth == oracle(first + got + second)
    assert set(truth.missing) == {("b", "x")}


def test_violations_planted_one_by_one_are_found_and_nothing_else() -> None:
    planted = 0
    for seed in range(60):
        shape = Shape(processes=5, sends=40, fan_out=2, delay=0.01, own=0.0, local=0.0)
        log = history(shape, seed)
        clean, _ = run(log, None)
        if clean.violations:
            continue
        spoilt, place = plant(log, seed)
        truth, _ = run(spoilt, random_cuts(spoilt, 3, seed, fixed=True))
        assert truth == oracle(spoilt), f"seed={seed}"
        assert {late[:2] for late in truth.violations} <= {place}
        planted += len(truth.violations)
    assert planted > 15


def plant(log: list[Event], seed: int) -> tuple[list[Event], tuple[str, str]]:
    """Move one delivery later, behind some of its process's other deliveries."""
    rng = random.Random(seed)
    victim = rng.choice([e for e in log if e.kind == "deliver"])
    mine = [e for e in log if e.process == victim.process and e.seq >= victim.seq]
    span = []
    for e in mine:  # Only over deliveries: moving a send would change what causes what.
        if e.kind != "deliver":
            break
        span.append(e)
    moved = {e.seq: replace(e, seq=e.seq - 1) for e in span[1:]}
    moved[victim.seq] = replace(victim, seq=span[-1].seq)
    spoilt = [moved.get(e.seq, e) if e.process == victim.process else e for e in log]
    return spoilt, (victim.process, str(victim.message))


def test_a_call_with_something_else_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="events is 42; give a"):
        audit(42, engine="local")
