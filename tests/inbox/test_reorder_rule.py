"""``reorder`` keeps the same rule: its machine against the specification of declared causes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from antecede.inbox.causes import Specification

np = pytest.importorskip("numpy")
machines = pytest.importorskip("antecede.reorder.machine")


@pytest.mark.parametrize("seed", range(40))
def test_reorder_delivers_what_the_specification_says(seed: int) -> None:
    """One destination is an inbox of one topic whose handler is done at once."""
    rng = random.Random(seed)
    count = rng.choice([4, 10, 30])
    timeout = rng.choice([None, 5])
    machine = machines.Machine(timeout=timeout)
    truth = Specification({"d"})
    came: dict[int, int] = {}
    order = rng.sample(range(1, count + 1), count)
    for now, number in enumerate(order):
        pool = [*range(1, number), *([999] if rng.random() < 0.1 else [])]
        causes = rng.sample(pool, min(len(pool), int(rng.expovariate(1))))
        arrival = machines.Arrival(number, 0, number, 0, number, causes)
        found = [(out.row, out.released) for out in machine.offer([arrival], 0, now)]
        truth.offer(f"d/{number}", [f"d/{cause}" for cause in causes])
        came[number] = now
        remember(machine)
        expected = _handled(truth)
        assert sorted(found) == sorted(expected)
        if timeout is not None:
            found = [(out.row, out.released) for out in machine.expire(now)]
            due = [n for n in sorted(came, key=lambda n: (came[n], n)) if came[n] <= now - timeout]
            late = []
            for each in due:
                if f"d/{each}" in truth.waiting():
                    truth.release(f"d/{each}")
                    late += _handled(truth)
            assert sorted(found) == sorted(late)
            remember(machine)
        assert {f"d/{key}" for key in machine.held} == truth.waiting()
        for key, message in machine.held.items():
            assert {f"d/{cause}" for cause in message.lacking} == truth.lacks(f"d/{key}")


def remember(machine: Any) -> None:
    """Remember what was delivered, as a bucket does after each batch."""
    keys, machine.changes.keys = machine.changes.keys, []
    number = len(machine.memory.generations) + 1
    machine.memory.add(number, 0, np.array(keys, np.int64))


def _handled(truth: Specification) -> list[tuple[int, bool]]:
    """Finish all that is ready; return it, and whether it was released without a cause."""
    found = []
    while ready := truth.ready():
        for key in sorted(ready):
            truth.finish(key)
            found.append((int(key[2:]), bool(truth.unmet.get(key))))
    return found
