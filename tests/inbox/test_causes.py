"""The rule of declared causes: the machine equals the specification, sends carry enough."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from antecede.errors import UsageError
from antecede.inbox import causes as rule
from antecede.inbox.causes import Causes, carried, check_causes, check_id, check_topic, joined
from tests.inbox.explore import STEPS, Both, explore_sends, explore_steps, graphs, some_graphs


def handle(inbox: Causes, key: str, now: float) -> None:
    entry = inbox.take_one(key)
    assert entry is not None
    inbox.done(entry, now)


def test_what_a_send_carries_is_enough_for_subscribers_of_any_topics() -> None:
    cases, broken = explore_sends(4, 3)
    assert cases > 20_000
    assert not broken, broken[0]


@pytest.mark.parametrize(
    "carry",
    [
        lambda key, causes: (key,),
        lambda key, causes: causes,
        lambda key, causes: (key, *(c for c in causes if c[0] == key[0])),
    ],
    ids=["only the parent", "not the parent", "only of its own topic"],
)
def test_less_is_not_enough(carry: Any) -> None:
    _, broken = explore_sends(3, 3, carry)
    assert broken


def test_causes_of_the_topic_of_the_message_need_not_be_carried() -> None:
    assert carried("orders/2", ("orders/1", "stock/5")) == ("orders/2", "stock/5")


def test_a_chain_carries_at_most_one_id_per_topic() -> None:
    rng = random.Random(1)
    key = "a/0"
    causes: tuple[str, ...] = ()
    for number in range(1, 2000):
        causes = carried(key, causes)
        key = f"{rng.choice('abcde')}/{number}"
        topics = [rule.topic_of(cause) for cause in causes]
        assert len(topics) == len(set(topics)) <= 5


def test_a_topic_that_only_begins_alike_is_another() -> None:
    assert carried("order/2", ("orders/1",)) == ("order/2", "orders/1")
    assert joined(("a/1", "b/1"), ("b/1", "c/1")) == ("a/1", "b/1", "c/1")


def test_the_machine_equals_the_specification_in_every_small_case() -> None:
    assert explore_steps(graphs(2)) > 1000
    assert explore_steps(itertools.islice(graphs(3), 0, None, 401)) > 200
    assert explore_steps(some_graphs(5, 5), STEPS[:2]) > 100


@pytest.mark.parametrize("seed", range(40))
def test_the_machine_equals_the_specification_on_random_scripts(seed: int) -> None:
    rng = random.Random(seed)
    keys = [f"{rng.choice('ab')}/{number}" for number in range(rng.choice([4, 8, 20]))]
    named = [*keys, "a/never", "c/elsewhere"]
    weight = rng.choice([0.5, 1, 2])
    given = {}
    for at, key in enumerate(keys):
        pool = named if rng.random() < 0.2 else [*keys[:at], "a/never"]
        count = min(len(pool), int(rng.expovariate(1 / weight)))
        given[key] = tuple(rng.sample(pool, count))
    both = Both(given, {"a", "b"})
    for _ in range(12 * len(keys)):
        step = rng.choices(STEPS, [5, 6, 1, 1, 2])[0]
        able = [key for key in keys if both.can(step, key)]
        if able:
            both.take(step, rng.choice(able))
            both.check()


def test_patience_releases_what_waits_after_its_causes_that_are_here() -> None:
    inbox = Causes({"a"})
    inbox.offer("a/3", ("a/2",), 0.0)
    inbox.offer("a/2", ("a/1",), 5.0)
    assert inbox.expire(-1.0, "release", 9.0) == []
    assert inbox.expire(0.0, "release", 10.0) == ["a/2"]
    assert list(inbox.ready) == ["a/2"]
    handle(inbox, "a/2", 10.0)
    assert list(inbox.ready) == ["a/3"]
    assert inbox.ready["a/3"].unmet == ()
    late = inbox.offer("a/1", (), 11.0)
    assert late is not None
    assert late.late


def test_patience_parks_with_the_reason() -> None:
    inbox = Causes({"a"})
    inbox.offer("a/2", ("a/1",), 0.0)
    assert inbox.expire(1.0, "wait", 30.0) == []
    assert inbox.expire(1.0, "park", 30.0) == ["a/2"]
    assert inbox.parked["a/2"].reason == "waited 30 s for a/1"
    inbox.offer("a/1", (), 40.0)
    handle(inbox, "a/1", 40.0)
    assert list(inbox.parked) == ["a/2"]
    inbox.retry("a/2", 41.0)
    assert list(inbox.ready) == ["a/2"]


def test_cycles_say_who_waits_for_whom() -> None:
    inbox = Causes({"a"})
    inbox.offer("a/1", ("a/1",), 0.0)
    assert inbox.parked["a/1"].reason == "it names itself as a cause"
    inbox.offer("a/2", ("a/3",), 0.0)
    inbox.offer("a/3", ("a/2",), 0.0)
    assert inbox.parked["a/2"].reason == "it waits for itself, through a/3"
    assert inbox.parked["a/3"].reason == "it waits for itself, through a/2"


def test_an_old_message_need_not_wait_for_what_would_be_forgotten() -> None:
    inbox = Causes({"a"})
    inbox.offer("a/9", (), 0.0)
    handle(inbox, "a/9", 0.0)
    assert inbox.forget(50.0) == 1
    inbox.offer("a/2", ("a/1",), 100.0, sent=10.0)
    inbox.offer("a/3", ("a/2",), 100.0, sent=10.0)
    inbox.offer("a/4", ("a/9",), 100.0)
    inbox.outdate(50.0)
    assert list(inbox.ready) == ["a/2"]
    assert list(inbox.waiting) == ["a/3", "a/4"]
    handle(inbox, "a/2", 100.0)
    assert inbox.ready["a/3"].unmet == ()


def test_a_clock_that_is_set_back_restarts_the_wait() -> None:
    inbox = Causes({"a"})
    inbox.clock(1000.0)
    inbox.offer("a/2", ("a/1",), 1000.0)
    inbox.clock(10.0)
    assert inbox.expire(10.0, "release", 40.0) == ["a/2"]


def test_shadow_hands_over_at_once_and_knows_how_long_it_would_have_been() -> None:
    inbox = Causes({"a"}, shadow=True)
    for at, (key, causes) in enumerate([("a/3", ("a/2",)), ("a/2", ("a/1",)), ("a/1", ())]):
        inbox.offer(key, causes, float(at))
        entry = inbox.take()
        assert entry is not None
        assert entry.key == key
        inbox.done(entry, float(at))
    assert inbox.waits == [1.0, 2.0]
    assert not inbox.early
    assert not inbox._awaited


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: check_topic("a/b"), "without a slash"),
        (lambda: check_topic(""), "without a slash"),
        (lambda: check_topic(7), "topic is 7"),
        (lambda: check_id(""), "id is ''"),
        (lambda: check_id("x" * 10_000), "of 10,000 characters"),
        (lambda: check_id("a\0b"), "printable"),
        (lambda: check_id("\ud800"), "printable"),
        (lambda: check_id(None), "id is None"),
        (lambda: check_causes("orders/1", "a"), "give a list of ids"),
        (lambda: check_causes(7, "a"), "causes is 7"),
        (lambda: check_causes([None], "a"), "a cause is None"),
        (lambda: check_causes(["/x"], "a"), "topic is ''"),
        (lambda: check_causes(["a/"], "a"), "id is ''"),
        (lambda: check_causes(range(10), "a"), "a cause is 0"),
        (lambda: check_causes((f"a/{n}" for n in range(1_000_000)), "a"), "more than 1,000 causes"),
        (lambda: check_causes([("a", "b", "c")], "a"), "a cause is"),
    ],
)
def test_wrong_names_are_refused_in_one_line(call: Any, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        call()
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


def test_causes_are_read_as_people_write_them() -> None:
    assert check_causes(None, "a") == ()
    assert check_causes(["b/1", "7", ("c", "x/y"), "b/1", "b/x/y"], "a") == (
        *("b/1", "a/7", "c/x/y", "b/x/y"),
    )


def test_only_what_is_held_can_be_released_parked_or_retried() -> None:
    inbox = Causes({"a"})
    with pytest.raises(UsageError, match="a/1 is not in the inbox"):
        inbox.release("a/1", 0.0)
    inbox.offer("a/1", (), 0.0)
    with pytest.raises(UsageError, match="a/1 is ready; only what waits"):
        inbox.release("a/1", 0.0)
    handle(inbox, "a/1", 0.0)
    with pytest.raises(UsageError, match="a/1 is done"):
        inbox.park("a/1", "why")
    inbox.offer("a/2", ("a/3",), 0.0)
    with pytest.raises(UsageError, match="a/2 is waiting, not parked"):
        inbox.retry("a/2", 0.0)
