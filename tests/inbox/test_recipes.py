"""The recipes of docs/inbox.md at a larger size: replaying a day, workers, upsert if newer."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from antecede.inbox import Inbox

if TYPE_CHECKING:
    from tests.inbox.conftest import Make

STEPS = ("orders", "payments", "shipments")


def day(orders: int = 30) -> list[dict[str, Any]]:
    """Return the records of a day in no order, as in an archive."""
    found = [
        {
            "id": str(order),
            "topic": topic,
            "causes": [f"{STEPS[at - 1]}/{order}"] if at else [],
            "body": {"order": order},
        }
        for order in range(orders)
        for at, topic in enumerate(STEPS)
    ]
    random.Random(17).shuffle(found)
    return found


def replay(inbox: Inbox, records: list[dict[str, Any]]) -> list[str]:
    """Offer records and handle ready ones; return those handled."""
    handled = []
    for record in records:
        for message in inbox.offer(**record):
            with message:
                handled.append(message.key)
    return handled


def check(handled: list[str], orders: int = 30) -> None:
    """Each message once, after its causes."""
    assert sorted(handled) == sorted(f"{topic}/{n}" for topic in STEPS for n in range(orders))
    for order in range(orders):
        places = [handled.index(f"{topic}/{order}") for topic in STEPS]
        assert places == sorted(places)


def test_a_day_is_replayed_into_a_new_inbox(make: Make) -> None:
    inbox = make(topics=set(STEPS))
    check(replay(inbox, day()))
    assert replay(inbox, day()) == []


def test_a_replay_into_the_old_inbox_fills_gaps_and_repeats_nothing(make: Make) -> None:
    inbox = make(topics=set(STEPS), remember=48 * 3600)
    lost = random.Random(5).sample(day(), 20)
    before = replay(inbox, [record for record in day() if record not in lost])
    assert len(before) < 70
    check(before + replay(inbox, day()))
    assert inbox.waiting() == []


def test_a_worker_offers_in_its_task_whatever_the_queue_of_tasks_is(make: Make) -> None:
    """As with Celery: several workers run tasks; each handles whatever is ready."""
    inbox = make(topics=set(STEPS))
    tasks, handled, lock = day() + day(10), list[str](), threading.Lock()

    def take(record: dict[str, Any]) -> None:
        for message in inbox.offer(**record):
            with message:
                handled.append(message.key)

    def worker() -> None:
        while True:
            with lock:
                if not tasks:
                    return
                task = tasks.pop()
            take(task)

    threads = [threading.Thread(target=worker) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    handled += [message.key for message in inbox.ready()]
    check(handled)


@pytest.mark.parametrize("mode", ["shadow", "enforce"])
def test_upsert_if_newer_needs_no_order_until_a_message_needs_what_it_follows(mode: str) -> None:
    versions = [(thing, version) for thing in range(5) for version in range(1, 5)]
    random.Random(3).shuffle(versions)
    rows: dict[int, int] = {}
    diffs: dict[int, list[int]] = {}
    inbox = Inbox(None, topics={"things"}, mode=mode)
    for thing, version in versions:
        causes = [f"{thing}-{version - 1}"] if version > 1 else []
        for message in inbox.offer(f"{thing}-{version}", [thing, version], causes=causes):
            with message:
                mine, new = message.body
                rows[mine] = max(rows.get(mine, 0), new)  # the whole state: newer wins
                diffs.setdefault(mine, []).append(new)  # what changed: order matters
    assert rows == dict.fromkeys(range(5), 4)
    is_ordered = all(each == sorted(each) for each in diffs.values())
    assert is_ordered == (mode == "enforce")
    assert (inbox.report().early > 0) == (mode == "shadow")
