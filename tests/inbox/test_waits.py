"""Every message that waits is handed over in the end, whatever was changed meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from antecede.errors import HoldFullError
from tests.inbox.test_inbox import Clock, handle

if TYPE_CHECKING:
    from tests.inbox.conftest import Make


def test_a_full_inbox_takes_what_need_not_wait(make: Make) -> None:
    inbox = make(waiting_max=1)
    assert handle(inbox.offer("1", topic="a")) == ["a/1"]
    assert handle(inbox.offer("3", causes=["a/2"], topic="a")) == []
    assert handle(inbox.offer("3", causes=["a/2"], topic="a")) == []
    with pytest.raises(HoldFullError):
        inbox.offer("4", causes=["a/3"], topic="a")
    assert handle(inbox.offer("2", causes=["a/1"], topic="a")) == ["a/2", "a/3"]


def test_a_message_that_was_sent_in_the_future_waits_no_longer(make: Make) -> None:
    clock = Clock()
    inbox = make(remember=60, clock=clock)
    assert handle(inbox.offer("2", causes=["a/1"], topic="a", time=1e12)) == []
    clock.now += 61
    assert handle(inbox.ready()) == ["a/2"]


def test_an_old_message_that_is_its_own_cause_is_parked(make: Make) -> None:
    inbox = make(remember=60, clock=Clock())
    assert handle(inbox.offer("1", causes=["a/1"], topic="a", time=1.0)) == []
    assert [one.reason for one in inbox.parked()] == ["it names itself as a cause"]


def test_patience_releases_again_what_waits_for_a_message_that_was_parked(make: Make) -> None:
    clock = Clock()
    inbox = make(patience=10, then="release", clock=clock)
    inbox.offer("1", causes=["a/never"], topic="a")
    inbox.offer("2", causes=["a/1"], topic="a")
    clock.now += 20
    inbox.ready()
    inbox.park("1")
    clock.now += 20
    ((key, unmet),) = [(one.key, one.unmet) for one in inbox.ready()]
    assert (key, unmet) == ("a/2", ("a/1",))


def test_a_parked_message_of_shadow_mode_is_handed_over_when_it_is_retried(make: Make) -> None:
    inbox = make(mode="shadow")
    inbox.offer("2", causes=["a/1"], topic="a")
    inbox.park("2")
    inbox.retry("2")
    assert handle(inbox.ready()) == ["a/2"]


def test_what_follows_an_early_message_of_shadow_mode_is_ready_after_it(
    make_durable: Make,
) -> None:
    inbox = make_durable(mode="shadow")
    inbox.offer("2", causes=["a/1"], topic="a")
    inbox.offer("3", causes=["a/2"], topic="a")
    inbox.close()
    inbox = make_durable(again=True)
    assert handle(inbox.offer("4", causes=["a/2"], topic="a")) == ["a/2", "a/3", "a/4"]
    assert inbox.report().early_unresolved == 2
    assert handle(inbox.offer("1", topic="a")) == ["a/1"]
    assert inbox.report().early_unresolved == 0


def test_patience_goes_on_in_shadow_mode(make_durable: Make) -> None:
    clock = Clock()
    inbox = make_durable(clock=clock)
    inbox.offer("2", causes=["a/1"], topic="a")
    inbox.close()
    inbox = make_durable(again=True, mode="shadow", patience=10, then="release", clock=clock)
    clock.now += 20
    assert handle(inbox.ready()) == ["a/2"]


def test_other_topics_keep_what_was_released_and_find_cycles(make_durable: Make) -> None:
    inbox = make_durable(topics={"a"})
    inbox.offer("1", causes=["a/0"])
    inbox.offer("2", causes=["b/2"])
    inbox.release("1")
    inbox.close()
    inbox = make_durable(again=True, topics={"b"})
    inbox.offer("2", causes=["a/2"])
    inbox.close()
    inbox = make_durable(again=True, topics={"a", "b"})
    assert handle(inbox.ready()) == ["a/1"]
    assert [one.key for one in inbox.parked()] == ["a/2", "b/2"]
