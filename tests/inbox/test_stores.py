"""Every store keeps the rule: it equals the specification on the same scripts, step by step."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from antecede.inbox import Inbox, Message
from tests.inbox.explore import STEPS, Both
from tests.inbox.specification import Specification

if TYPE_CHECKING:
    from tests.inbox.conftest import Make


class Kept(Both):
    """An inbox and the specification, taken through the same steps."""

    def __init__(self, causes: dict[str, tuple[str, ...]], inbox: Inbox) -> None:
        self.given, self.inbox = causes, inbox
        self.truth = Specification({"a", "b"})
        self.last: dict[str, tuple[str, ...]] = {}

    def take(self, step: str, key: str) -> None:
        inbox, truth = self.inbox, self.truth
        if step == "offer":
            topic, _, name = key.partition("/")
            inbox.offer(name, key, causes=self.given[key], topic=topic)
            truth.offer(key, self.given[key])
        elif step == "finish":
            with message_of(inbox, key) as transaction:
                assert transaction.message.body == key
                assert set(transaction.message.unmet) == truth.unmet.get(key, set())
                assert transaction.message.late == (key in truth.late)
            truth.finish(key)
        else:
            getattr(inbox, step)(key)
            getattr(truth, step)(key)

    def take_all(self, key: str) -> None:
        """Offer a message and handle all ready ones, as programs do."""
        topic, _, name = key.partition("/")
        truth = self.truth
        truth.offer(key, self.given[key])
        for message in self.inbox.offer(name, key, causes=self.given[key], topic=topic):
            with message:
                assert message.body == message.key
                assert set(message.unmet) == truth.unmet.get(message.key, set())
                assert message.late == (message.key in truth.late)
            truth.finish(message.key)

    def check(self) -> None:
        inbox, truth = self.inbox, self.truth
        assert {message.key for message in inbox.ready()} == truth.ready()
        waiting = {one.key: set(one.lacks) for one in inbox.waiting()}
        assert waiting == {key: truth.lacks(key) for key in truth.waiting()}
        assert {one.key for one in inbox.parked()} == truth.parked
        report = inbox.report()
        counts = (report.waiting, report.ready, report.parked, report.done)
        found = (truth.waiting(), truth.ready(), truth.parked, truth.done)
        assert counts == tuple(len(each) for each in found)


def message_of(inbox: Inbox, key: str) -> Message:
    """Return a message that is ready, and leave the others."""
    (found,) = [message for message in inbox.ready() if message.key == key]
    return found


@pytest.mark.parametrize("seed", range(30))
def test_a_group_equals_the_specification(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    keys = [f"{rng.choice('ab')}/{number}" for number in range(12)]
    given = {}
    for at, key in enumerate(keys):
        pool = [*keys[:at], *(["a/never", *keys] if rng.random() < 0.1 else [])]
        given[key] = tuple(rng.sample(pool, min(len(pool), int(rng.expovariate(0.7)))))
    with Inbox(tmp_path / "x.db", topics={"a", "b"}) as inbox:
        kept = Kept(given, inbox)
        for _ in range(10):
            with inbox.group():
                for _ in range(rng.randrange(1, 20)):
                    step = rng.choices(STEPS, [9, 3, 0.3, 0.3, 0.5])[0]
                    able = [key for key in keys if kept.can(step, key)]
                    if step == "offer" and able:
                        key = rng.choice(keys if rng.random() < 0.2 else able)
                        kept.take_all(key)
                    elif able:
                        kept.take(step, rng.choice(able))
            kept.check()


@pytest.mark.parametrize("seed", range(6))
def test_a_store_equals_the_specification(seed: int, make: Make) -> None:
    rng = random.Random(seed)
    keys = [f"{rng.choice('ab')}/{number}" for number in range(rng.choice([4, 8, 12]))]
    named = [*keys, "a/never", "c/elsewhere"]
    given = {}
    for at, key in enumerate(keys):
        pool = named if rng.random() < 0.3 else [*keys[:at], "a/never"]
        given[key] = tuple(rng.sample(pool, min(len(pool), int(rng.expovariate(1)))))
    kept = Kept(given, make())
    for _ in range(8 * len(keys)):
        step = rng.choices(STEPS, [5, 6, 1, 1, 2])[0]
        able = [key for key in keys if kept.can(step, key)]
        if able:
            kept.take(step, rng.choice(able))
            kept.check()
