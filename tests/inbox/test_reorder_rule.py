"""One rule: the inbox's machine and the buckets of ``reorder`` against the one specification.

One destination is an inbox of one topic whose handler finishes at once. Both get the same scripts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from antecede.inbox.causes import Causes
from tests.inbox.specification import Specification

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")
from antecede.reorder.bucket import Bucket, Policy
from antecede.reorder.packets import number_of
from antecede.reorder.store import DictStore
from tests.support.streams import Sent, table_of

#: The output: the message, whether it lacked a cause, and whether an effect preceded it.
Out = set[tuple[str, bool, bool]]


@dataclass
class Specified:
    """The rule as it is written down."""

    truth: Specification = field(default_factory=lambda: Specification({"d"}))

    def offer(self, batch: list[Sent], now: int) -> Out:
        for row in batch:
            self.truth.offer(f"d/{row.id}", [f"d/{cause}" for cause in row.causes])
        return self._handled()

    def release(self, name: str, now: int) -> Out:
        self.truth.release(f"d/{name}")
        return self._handled()

    def _handled(self) -> Out:
        found: Out = set()
        while ready := self.truth.ready():
            for key in sorted(ready):
                self.truth.finish(key)
                found.add((key[2:], bool(self.truth.unmet.get(key)), key in self.truth.late))
        return found

    def lacks(self) -> dict[str, set[str]]:
        waiting = self.truth.waiting()
        return {key[2:]: {cause[2:] for cause in self.truth.lacks(key)} for key in waiting}


@dataclass
class Inbox:
    """The machine of an inbox."""

    causes: Causes = field(default_factory=lambda: Causes(["d"]))

    def offer(self, batch: list[Sent], now: int) -> Out:
        for row in batch:
            self.causes.offer(f"d/{row.id}", tuple(f"d/{cause}" for cause in row.causes), now)
        return self._handled(now)

    def release(self, name: str, now: int) -> Out:
        self.causes.release(f"d/{name}", now)
        return self._handled(now)

    def _handled(self, now: int) -> Out:
        found: Out = set()
        while (entry := self.causes.take()) is not None:
            self.causes.done(entry, now)
            found.add((entry.key[2:], bool(entry.unmet), entry.late))
        return found

    def lacks(self) -> dict[str, set[str]]:
        entries = self.causes.waiting.values()
        return {entry.key[2:]: {cause[2:] for cause in entry.lacks} for entry in entries}


class Reorder:
    """A bucket of ``reorder``, which is reloaded now and then."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.store, self.names = rng, DictStore(), dict[int, str]()
        self.policy = Policy(None, 10**15, "{}", numbered=rng.random() < 0.5)
        self.bucket = Bucket(self.policy)

    def offer(self, batch: list[Sent], now: int) -> Out:
        for row in batch:
            self.names |= {number_of("d", name): name for name in (row.id, *row.causes)}
        return self._saved(self.bucket.offer(table_of(batch), now))

    def release(self, name: str, now: int) -> Out:
        return self._saved(self.bucket.obey([("release", number_of("d", name))], now))

    def _saved(self, table: Any) -> Out:
        self.bucket.save(self.store)
        if self.rng.random() < 0.5:
            self.bucket = Bucket.load(self.policy, self.store)
        rows = [] if table is None else table.to_pylist()
        return {(row["id"], row["released"], row["late"]) for row in rows}

    def lacks(self) -> dict[str, set[str]]:
        held, names = self.bucket.machine.held, self.names
        return {names[key]: {names[c] for c in each.lacking} for key, each in held.items()}


@pytest.mark.parametrize("seed", range(40))
def test_inbox_and_reorder_keep_the_one_rule(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([4, 10, 30])
    rows = []
    for number in range(1, count + 1):
        pool = [str(cause) for cause in range(1, number)]
        pool += ["never"] if rng.random() < 0.1 else []
        causes = rng.sample(pool, min(len(pool), int(rng.expovariate(1))))
        rows.append(Sent(str(number), "d", "s", number, tuple(causes)))
    arriving = rng.sample(rows, count) + rng.sample(rows, count // 3)  # some come twice
    everyone = (Specified(), Inbox(), Reorder(rng))
    for now in range(10 * count):
        truth = everyone[0].lacks()
        if truth and (not arriving or rng.random() < 0.2):
            name = rng.choice(sorted(truth))
            found = [each.release(name, now) for each in everyone]
        else:
            size = rng.randint(1, 6)
            batch, arriving = arriving[:size], arriving[size:]
            found = [each.offer(batch, now) for each in everyone]
        assert found[0] == found[1] == found[2]
        assert everyone[0].lacks() == everyone[1].lacks() == everyone[2].lacks()
        if not arriving and not everyone[0].lacks():
            break
    assert not arriving
