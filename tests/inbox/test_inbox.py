"""The inbox as people use it, in every store."""

from __future__ import annotations

import contextlib
import gc
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from antecede.errors import HoldFullError, StoreError, UsageError
from antecede.inbox import Inbox, Message, Offer, Outgoing, current_causes

if TYPE_CHECKING:
    from tests.inbox.conftest import Make


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def handle(messages: Any) -> list[str]:
    """Handle all ready messages; return their keys in order."""
    keys = []
    for message in messages:
        with message:
            keys.append(message.key)
    return keys


def fail(messages: Any, statement: str, values: tuple[str, ...] = ()) -> None:
    """Begin to handle a ready message, and fail."""
    for message in messages:
        with message as transaction:
            transaction.execute(statement, values)
            transaction.send("out", "lost")
            _ = 1 / 0


def test_an_effect_waits_for_its_cause(make: Make) -> None:
    inbox = make()
    assert handle(inbox.offer("2", causes=["a/1"], topic="b")) == []
    (one,) = inbox.waiting()
    assert (one.key, one.lacks) == ("b/2", {"a/1": "not here"})
    assert handle(inbox.offer("1", topic="a")) == ["a/1", "b/2"]
    assert inbox.waiting() == []
    assert handle(inbox.ready()) == []


def test_what_is_offered_is_kept_even_if_nobody_looks(make: Make) -> None:
    inbox = make()
    inbox.offer("1", {"x": [1, 2.5, None, "ü"]}, topic="a")
    inbox.offer("2", b"\0\xff", topic="a")
    inbox.offer("3", "text", topic="a")
    inbox.offer("4", topic="a")
    bodies = {message.id: message.body for message in inbox.ready()}
    assert bodies == {"1": {"x": [1, 2.5, None, "ü"]}, "2": b"\0\xff", "3": "text", "4": None}


def test_duplicates_are_dropped_before_and_after_handling(make: Make) -> None:
    inbox = make()
    inbox.offer("2", causes=["a/1"], topic="b")
    inbox.offer("2", "another", causes=[], topic="b")
    assert handle(inbox.offer("1", topic="a")) == ["a/1", "b/2"]
    assert handle(inbox.offer("1", topic="a")) == []
    assert handle(inbox.offer("1", topic="b")) == ["b/1"]
    assert inbox.metrics.duplicates == 2


def test_causes_of_other_topics_are_not_waited_for(make: Make) -> None:
    inbox = make()
    assert handle(inbox.offer("1", causes=["elsewhere/7", ("other", "8")], topic="a")) == ["a/1"]


def test_writes_and_done_are_one_transaction(make: Make) -> None:
    inbox = make()
    mark = marks(inbox)
    with next(inbox.offer("0", topic="a")) as transaction:
        transaction.execute("CREATE TABLE mine(x TEXT)")
    with pytest.raises(ZeroDivisionError):
        fail(inbox.offer("1", topic="a"), f"INSERT INTO mine VALUES ({mark})", ("lost",))
    assert inbox.relay(lambda out: None) == 0
    (message,) = list(inbox.ready())
    assert message.attempt == 2
    with message as transaction:
        transaction.execute(f"INSERT INTO mine VALUES ({mark})", ("kept",))
        transaction.send("out", "kept")
    with next(inbox.offer("2", topic="a")) as transaction:
        assert transaction.execute("SELECT x FROM mine").fetchall() == [("kept",)]
    out: list[Outgoing] = []
    assert inbox.relay(out.append) == 1
    assert [one.body for one in out] == ["kept"]


def marks(inbox: Inbox) -> str:
    return "%s" if inbox.name.startswith("test ") else "?"


def test_what_fails_goes_to_the_end_and_is_parked_after_some_tries(make: Make) -> None:
    inbox = make(tries=2)
    inbox.offer("poison", topic="a")
    inbox.offer("good", topic="a")
    order = []
    for _ in range(2):
        for message in inbox.ready():
            order.append(message.id)
            with contextlib.suppress(ValueError), message:
                assert int("1\n2" if message.id == "poison" else "3")
    assert order == ["poison", "good", "poison"]
    (parked,) = inbox.parked()
    assert parked.reason.startswith("failed 2 times; the last: ValueError: invalid literal")
    inbox.retry("poison")
    assert handle(inbox.ready()) == ["a/poison"]


def test_messages_that_are_left_can_be_handled_later(make: Make) -> None:
    inbox = make()
    for name in "123":
        inbox.offer(name, topic="a")
    every = list(inbox.ready())
    assert [message.id for message in every] == ["1", "2", "3"]
    assert handle(reversed(every)) == ["a/3", "a/2", "a/1"]
    with pytest.raises(UsageError, match="handled already"), every[0]:
        pass
    inbox.offer("4", topic="a")
    first, second = next(inbox.ready()), next(inbox.ready())
    with first:
        pass
    with pytest.raises(UsageError, match="not ready for you any more"), second:
        pass


def test_sends_carry_the_message_and_its_causes_of_other_topics(make: Make) -> None:
    inbox = make()
    handle(inbox.offer("0", topic="a"))
    for message in inbox.offer("1", causes=["a/0", "b/9", "x/3"], topic="a"):
        pytest.fail(f"{message} does not wait")
    inbox.release("1")
    (message,) = list(inbox.ready())
    assert message.unmet == ("b/9",)
    assert current_causes() == ()
    with message as transaction:
        assert current_causes() == ("a/1", "b/9", "x/3")
        first = transaction.send("out", 1)
        second = transaction.send("more", 2, causes=[first, "a/0"], id="second")
    assert first.causes == ("a/1", "b/9", "x/3")
    assert second.key == "more/second"
    assert second.causes == ("a/1", "b/9", "x/3", first.key, "a/0")
    found: list[Outgoing] = []
    assert inbox.relay(found.append) == 2
    assert [one.key for one in found] == [first.key, "more/second"]
    assert found[1].causes == second.causes
    assert found[0].offer()["body"] == 1


def test_a_relay_goes_on_after_what_cannot_be_published(make: Make) -> None:
    inbox = make()
    for message in inbox.offer("1", topic="a"):
        with message as transaction:
            bad = transaction.send("out", id="bad")
            transaction.send("out", id="follows", causes=[bad])
            transaction.send("out", id="other")
    went = []

    def publish(out: Outgoing) -> None:
        if out.id == "bad":
            msg = "the broker is away"
            raise OSError(msg)
        went.append(out.id)

    with pytest.raises(OSError, match="away"):
        inbox.relay(publish)
    assert went == ["other"]
    assert inbox.report().outbox == 2
    assert inbox.relay(lambda out: went.append(out.id), limit=1) == 1
    assert inbox.relay(lambda out: went.append(out.id)) == 1
    assert went == ["other", "bad", "follows"]


def test_an_outbox_feeds_another_inbox(make: Make) -> None:
    shop, stock = make(topics={"orders"}), make(topics={"orders", "shipments"})
    for message in shop.offer("17", "book", topic="orders"):
        with message as transaction:
            transaction.send("shipments", message.body)
    out: list[Outgoing] = []
    shop.relay(out.append)
    assert handle(stock.offer(**out[0].offer())) == []
    assert handle(stock.offer("17", "book", topic="orders")) == ["orders/17", out[0].key]


def test_patience_releases_and_says_what_is_unmet(make: Make) -> None:
    clock = Clock()
    inbox = make(patience=30, then="release", clock=clock)
    assert handle(inbox.offer("3", causes=["b/2"], topic="b")) == []
    clock.now += 10
    assert handle(inbox.offer("2", causes=["a/1"], topic="b")) == []
    clock.now += 19
    assert handle(inbox.ready()) == []
    clock.now += 2
    seen = {}
    for message in inbox.ready():
        with message:
            seen[message.key] = (message.unmet, message.late)
    assert seen == {"b/2": (("a/1",), False), "b/3": ((), False)}
    (late,) = list(inbox.offer("1", topic="a"))
    assert late.late
    assert inbox.metrics.released == 1


def test_patience_parks(make: Make) -> None:
    clock = Clock()
    inbox = make(patience=30, then="park", clock=clock)
    inbox.offer("2", causes=["a/1"], topic="b")
    clock.now += 31
    assert handle(inbox.ready()) == []
    (parked,) = inbox.parked()
    assert (parked.key, parked.reason) == ("b/2", "waited 31 s for a/1")
    assert handle(inbox.offer("1", topic="a")) == ["a/1"]
    inbox.retry("2")
    assert handle(inbox.ready()) == ["b/2"]


def test_a_clock_that_is_set_back_costs_at_most_one_patience(make: Make) -> None:
    clock = Clock()
    inbox = make(patience=30, then="release", clock=clock)
    inbox.offer("2", causes=["a/1"], topic="b")
    clock.now = 10.0
    assert handle(inbox.ready()) == []
    assert inbox.waiting()[0].seconds == 0
    clock.now = 41.0
    assert handle(inbox.ready()) == ["b/2"]


def test_ids_are_forgotten_after_a_while(make: Make) -> None:
    clock = Clock()
    inbox = make(remember=60, clock=clock)
    assert handle(inbox.offer("1", topic="a")) == ["a/1"]
    clock.now += 50
    assert handle(inbox.offer("1", topic="a")) == []
    clock.now += 20
    handle(inbox.ready())
    assert inbox.metrics.forgotten == 1
    # Sent before what is remembered: its causes count as done, unless they are here and are not.
    assert handle(inbox.offer("2", causes=["a/1"], topic="b", time=clock.now - 61)) == ["b/2"]
    assert handle(inbox.offer("3", causes=["a/1"], topic="b")) == []
    assert handle(inbox.offer("4", causes=["b/3"], topic="b", time=clock.now - 61)) == []
    clock.now += 61
    assert handle(inbox.ready()) == ["b/3", "b/4"]


def test_what_is_missing_is_fetched(make: Make) -> None:
    clock = Clock()
    asked: list[list[str]] = []

    def fetch(keys: list[str]) -> list[Offer] | None:
        asked.append(keys)
        return [Offer("1", "fetched", topic="a")] if len(asked) == 2 else None

    inbox = make(fetch=fetch, fetch_after=5.0, clock=clock)
    inbox.offer("2", causes=["a/1"], topic="b")
    assert asked == []
    clock.now += 5
    handle(inbox.ready())
    clock.now += 4
    handle(inbox.ready())
    assert asked == [["a/1"]]
    clock.now += 2
    assert handle(inbox.ready()) == ["a/1", "b/2"]
    assert asked == [["a/1"], ["a/1"]]


def test_shadow_hands_over_at_once_and_counts(make: Make) -> None:
    clock = Clock()
    inbox = make(mode="shadow", clock=clock)
    assert handle(inbox.offer("3", causes=["b/2"], topic="b")) == ["b/3"]
    clock.now += 1
    assert handle(inbox.offer("2", causes=["a/1"], topic="b")) == ["b/2"]
    report = inbox.report()
    assert (report.early, report.early_unresolved) == (2, 2)
    clock.now += 2
    assert handle(inbox.offer("1", topic="a")) == ["a/1"]
    report = inbox.report()
    assert (report.early, report.early_unresolved) == (2, 0)
    assert (report.early_seconds_mean, report.early_seconds_max) == (2.5, 3.0)
    assert handle(inbox.offer("4", causes=["b/3"], topic="b")) == ["b/4"]
    assert inbox.report().early == 2


def test_cycles_are_parked_at_once_and_can_be_released(make: Make) -> None:
    inbox = make()
    handle(inbox.offer("self", causes=["self"], topic="a"))
    handle(inbox.offer("1", causes=["a/2"], topic="a"))
    handle(inbox.offer("2", causes=["a/3"], topic="a"))
    assert handle(inbox.offer("3", causes=["a/1"], topic="a")) == []
    reasons = {one.key: one.reason for one in inbox.parked()}
    assert reasons == {
        "a/self": "it names itself as a cause",
        "a/1": "it waits for itself, through a/2, a/3",
        "a/2": "it waits for itself, through a/1, a/3",
        "a/3": "it waits for itself, through a/1, a/2",
    }
    inbox.release("a/3")
    assert handle(inbox.ready()) == ["a/3"]
    inbox.retry("a/2")
    assert handle(inbox.ready()) == ["a/2"]
    inbox.release("self")
    assert handle(inbox.ready()) == ["a/self"]


def test_a_person_names_messages_by_id_or_key(make: Make) -> None:
    inbox = make()
    inbox.offer("x", causes=["a/9"], topic="a")
    inbox.offer("x", causes=["a/9"], topic="b")
    with pytest.raises(UsageError, match="several topics; say which: a/x, b/x"):
        inbox.release("x")
    with pytest.raises(UsageError, match="is parked is called nothing"):
        inbox.park("nothing")
    inbox.park("a/x", "looks odd")
    assert inbox.parked()[0].reason == "looks odd"
    inbox.release("b/x")
    assert handle(inbox.ready()) == ["b/x"]
    with pytest.raises(UsageError, match="b/x is done"):
        inbox.retry("b/x")


def test_only_so_many_may_wait(make: Make) -> None:
    inbox = make(waiting_max=1)
    inbox.offer("2", causes=["a/1"], topic="b")
    with pytest.raises(HoldFullError, match="1 messages wait"):
        inbox.offer("3", causes=["a/1"], topic="b")
    assert handle(inbox.offer("1", topic="a")) == ["a/1", "b/2"]
    assert handle(inbox.offer("3", causes=["a/1"], topic="b")) == ["b/3"]


def test_causes_may_be_found_in_the_body(make: Make) -> None:
    inbox = make(causes=lambda body: [body["after"]] if "after" in body else None)
    assert handle(inbox.offer("2", {"after": "a/1"}, topic="b")) == []
    assert handle(inbox.offer("1", {}, topic="a")) == ["a/1", "b/2"]


def test_an_event_log_of_enforced_order_passes_the_audit(make: Make, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    early = make(mode="shadow")
    kept = make()
    for inbox in (early, kept):
        for name, causes in (("2", ["a/1"]), ("3", ["b/2"]), ("1", [])):
            for message in inbox.offer(name, causes=causes, topic="a" if name == "1" else "b"):
                with message as transaction:
                    transaction.send("out", name)
    from antecede.audit.files import audit_here
    from antecede.events.log import Source

    verdicts = []
    for number, inbox in enumerate((early, kept)):
        path = tmp_path / f"{number}.jsonl"
        assert inbox.events(path) > 6
        (found,) = audit_here([Source(path)]).values()
        verdicts.append((found.audit.verdict, found.audit.summary["violations"]))
    assert verdicts == [("broken", 1), ("ordered", 0)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"id": "1"}, "the inbox has 2 topics; say which: topic='a'"),
        ({"id": "1", "topic": "c"}, "topic 'c' is not one of the inbox's: a, b"),
        ({"id": "1", "topic": 7}, "topic 7 is not one of"),
        ({"id": "1", "topic": ["a"]}, "topic ['a'] is not one of"),
        ({"id": None, "topic": "a"}, "id is None"),
        ({"id": b"1", "topic": "a"}, "id is b'1'"),
        ({"id": "x" * 10_000, "topic": "a"}, "of 10,000 characters"),
        ({"id": "a\nb", "topic": "a"}, "printable"),
        ({"id": "1", "topic": "a", "causes": "a/2"}, "give a list of ids"),
        ({"id": "1", "topic": "a", "causes": [None]}, "a cause is None"),
        ({"id": "1", "topic": "a", "causes": [["a"]]}, "a cause is ['a']"),
        ({"id": "1", "topic": "a", "causes": 0}, "causes is 0"),
        ({"id": "1", "topic": "a", "causes": ["a/" + "x" * 10_000]}, "of 10,000 characters"),
        ({"id": "1", "topic": "a", "causes": map(str, range(10**6))}, "more than 1,000 causes"),
        ({"id": "1", "topic": "a", "time": "noon"}, "time is 'noon'"),
        ({"id": "1", "topic": "a", "time": float("nan")}, "time is nan"),
    ],
)
def test_bad_input_is_refused_in_one_line_and_changes_nothing(
    make: Make, words: dict[str, Any], said: str
) -> None:
    inbox = make()
    with pytest.raises(UsageError) as refused:
        inbox.offer(**words)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    report = inbox.report()
    assert (report.waiting, report.ready, report.parked, report.done) == (0, 0, 0, 0)


@pytest.mark.parametrize("body", [{1, 2}, object(), "\ud800", float, [b"x"]])
def test_a_body_that_would_not_come_back_is_refused(make_durable: Make, body: Any) -> None:
    with pytest.raises(UsageError, match=r"body is .*; give bytes, text, None or what JSON can"):
        make_durable().offer("1", body, topic="a")


@pytest.mark.parametrize("body", [bytes(1001), "x" * 1001])
def test_a_body_that_is_too_long_is_refused_in_one_line(make: Make, body: bytes | str) -> None:
    inbox = make(body_bytes_max=1000)
    with pytest.raises(UsageError, match=r"body of a/1 has 1,001 bytes, of at most 1,000") as said:
        inbox.offer("1", body, topic="a")
    assert "\n" not in str(said.value)
    assert inbox.report().ready == 0
    assert handle(inbox.offer("1", body[1:], topic="a")) == ["a/1"]


def test_a_body_in_json_is_measured_as_it_is_kept(make_durable: Make) -> None:
    inbox = make_durable(body_bytes_max=1000)
    with pytest.raises(UsageError, match="has 1,001 bytes"):
        inbox.offer("1", {"é": "é" * 496}, topic="a")
    assert handle(inbox.offer("1", {"é": "é" * 495}, topic="a")) == ["a/1"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"body_bytes_max": 0}, "body_bytes_max is 0"),
        ({"mode": "off"}, "mode is 'off'"),
        ({"then": "drop"}, "then is 'drop'"),
        ({"then": "release"}, "needs patience"),
        ({"patience": 0}, "patience is 0"),
        ({"remember": "1d"}, "remember is '1d'"),
        ({"tries": 0}, "tries is 0"),
        ({"tries": True}, "tries is True"),
        ({"waiting_max": -1}, "waiting_max is -1"),
        ({"topics": None}, "say what the inbox subscribes to"),
        ({"topics": "orders"}, "topics is 'orders'; give a set of names"),
        ({"topics": {"a/b"}}, "without a slash"),
        ({"topics": 3}, "topics is 3"),
        ({"name": ""}, "name is ''"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        Inbox(None, **{"topics": {"a"}, **options})
    assert said in str(refused.value)


@pytest.mark.parametrize("place", ["", 7, "mysql://x/y"])
def test_a_wrong_place_is_refused(place: Any) -> None:
    with pytest.raises(UsageError, match="the place of the inbox is"):
        Inbox(place, topics={"a"})


def test_a_message_with_as_many_causes_as_allowed(make: Make) -> None:
    inbox = make()
    causes = [f"a/{n}" for n in range(1000)]
    assert handle(inbox.offer("last", causes=causes, topic="b")) == []
    assert len(inbox.waiting()[0].lacks) == 1000
    for n in range(999):
        handle(inbox.offer(str(n), topic="a"))
    assert handle(inbox.offer("999", topic="a")) == ["a/999", "b/last"]


def test_it_goes_on_where_it_was(make_durable: Make) -> None:
    first = make_durable(topics={"a", "b"})
    first.offer("2", "body", causes=["a/1"], topic="b")
    handle(first.offer("0", topic="a"))
    first.close()
    with pytest.raises((UsageError, StoreError), match="closed"):
        first.offer("9", topic="a")
    again = make_durable(again=True)
    assert again.topics == {"a", "b"}
    assert handle(again.offer("0", topic="a")) == []
    assert handle(again.offer("1", topic="a")) == ["a/1", "b/2"]


def test_other_topics_change_what_is_waited_for(make_durable: Make) -> None:
    first = make_durable(topics={"a", "b"})
    first.offer("2", causes=["a/1"], topic="b")
    first.offer("3", causes=["c/1"], topic="b")
    first.close()
    fewer = make_durable(again=True, topics={"b", "c"})
    assert handle(fewer.ready()) == ["b/2"]
    assert [one.key for one in fewer.waiting()] == ["b/3"]


def test_threads_share_an_inbox(make: Make) -> None:
    inbox = make()
    handled: list[str] = []
    errors: list[Exception] = []

    def work(part: int) -> None:
        try:
            for n in range(part, 60, 3):
                causes = [f"a/{n - 1}"] if n else []
                handled.extend(handle(inbox.offer(str(n), causes=causes, topic="a")))
        except Exception as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handled += handle(inbox.ready())
    assert not errors
    assert sorted(handled) == sorted(f"a/{n}" for n in range(60))
    assert inbox.waiting() == []


def test_offering_inside_a_handler(make: Make) -> None:
    inbox, refused = make(), ""
    for message in inbox.offer("1", topic="a"):
        with message:
            if message.id == "1":
                try:
                    inbox.offer("2", topic="a")
                except UsageError as error:
                    refused = str(error)
    assert inbox.report().done == (1 if "SQLite has one writer" in refused else 2)


def test_a_relay_inside_a_handler_publishes_nothing_or_all(make: Make) -> None:
    inbox, refused = make(), ""
    went: list[str] = []
    for message in inbox.offer("1", topic="a"):
        with message as transaction:
            transaction.send("out", id="first")
    for message in inbox.offer("2", topic="a"):
        with message as transaction:
            transaction.execute("CREATE TABLE IF NOT EXISTS relayed(x INTEGER)")
            try:
                inbox.relay(lambda out: went.append(out.id))
            except UsageError as error:
                refused = str(error)
    assert went == ([] if "SQLite has one writer" in refused else ["first"])
    inbox.relay(lambda out: went.append(out.id))  # the refused one has let go of the outbox
    assert went == ["first"]


def test_no_message_is_a_private_thing(make: Make) -> None:
    (message,) = list(make().offer("1/2", "x", topic="a"))
    assert isinstance(message, Message)
    assert (message.id, message.topic, message.key) == ("1/2", "a", "a/1/2")
    assert repr(message) == "<Message a/1/2>"
    assert message.waited >= 0


def test_groups_commit_at_once_and_undo_only_what_fails(tmp_path: Path) -> None:
    with Inbox(tmp_path / "x.db", topics={"a"}, tries=1) as inbox:
        with inbox.group():
            with next(inbox.offer("0", topic="a")) as transaction:
                transaction.execute("CREATE TABLE mine(x)")
            assert handle(inbox.offer("2", causes=["a/1"], topic="a")) == []
            for message in inbox.offer("1", topic="a"):
                with message as transaction:
                    transaction.execute("INSERT INTO mine VALUES (?)", (message.key,))
            with pytest.raises(ZeroDivisionError):
                fail(inbox.offer("3", topic="a"), "INSERT INTO mine VALUES ('lost')")
            inbox.offer("4", "not handled in the group", topic="a")
            assert [one.key for one in inbox.parked()] == ["a/3"]
        assert handle(inbox.ready()) == ["a/4"]
        with next(inbox.offer("5", topic="a")) as transaction:
            rows = transaction.execute("SELECT x FROM mine").fetchall()
        assert rows == [("a/1",), ("a/2",)]
        with pytest.raises(ZeroDivisionError), inbox.group():
            assert len(handle(inbox.offer("6", topic="a"))) / 0
        assert handle(inbox.offer("6", topic="a")) == ["a/6"]
        path = tmp_path / "log.jsonl"
        inbox.events(path)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    order = [event["message"] for event in events if event["process"] == "inbox"]
    assert order == ["a/0", "a/1", "a/2", "a/4", "a/5", "a/6"]


def test_groups_need_sqlite(make: Make) -> None:
    inbox = make()
    if inbox.name.startswith("test "):
        with pytest.raises(UsageError, match="group\\(\\) is for SQLite"):
            inbox.group()
    else:
        with inbox.group():
            assert handle(inbox.offer("1", topic="a")) == ["a/1"]


def test_a_loop_over_messages_may_park_what_it_does_not_handle(make: Make) -> None:
    inbox = make()
    inbox.offer("1", topic="a")
    for message in inbox.offer("2", topic="a"):
        if message.id == "1":
            inbox.park(message.key, "odd")
            continue
        with message:
            pass
    assert [(one.key, one.reason) for one in inbox.parked()] == [("a/1", "odd")]
    assert inbox.report().done == 1


def test_what_is_being_handled_cannot_be_parked(make: Make) -> None:
    inbox = make()
    for message in inbox.offer("1", topic="a"):
        with message, pytest.raises(UsageError, match="a/1 is being handled"):
            inbox.park("1")
    report = inbox.report()
    assert (report.done, report.parked, inbox.parked()) == (1, 0, [])


def handle_all(messages: Any) -> None:
    for message in messages:
        with message as transaction:
            transaction.send("b")


def test_a_handled_message_leaves_no_garbage_to_collect() -> None:
    inbox = Inbox(None, topics={"a"})
    gc.collect()
    gc.disable()
    try:
        for number in range(100):
            handle_all(inbox.offer(str(number), topic="a"))
        assert gc.collect() < 50
    finally:
        gc.enable()


def test_a_handler_that_commits_is_told_not_to(tmp_path: Path) -> None:
    with Inbox(tmp_path / "shop.db", topics={"a"}) as inbox:
        (message,) = inbox.offer("1", topic="a")
        with (
            pytest.raises(StoreError, match="leave COMMIT and ROLLBACK to the inbox"),
            message as transaction,
        ):
            transaction.execute("COMMIT")
