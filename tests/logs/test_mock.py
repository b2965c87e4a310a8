"""On the mock cluster, which any machine can run: shared databases, partitioners, the demo."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antecede.cli.main import app
from antecede.errors import BrokerError, ContextEndedError, UsageError
from antecede.logs.murmur import murmur2
from antecede.logs.positions import Context, Log, Positions, context, handling
from tests.logs.brokers import QUICK, mock_cluster

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")


def consumer(servers: str, group: str, topics: list[str], **options: Any) -> Any:
    from antecede.logs.confluent import Consumer

    config = {**QUICK, "bootstrap.servers": servers, "group.id": group}
    return Consumer(config, topics, **options)


def handled(found: Any, count: int, handle: Callable[[Any], None]) -> None:
    for seen, record in enumerate(found, start=1):
        handle(record)
        if seen == count:
            return


@pytest.mark.parametrize("keeps", [True, False])
def test_causality_through_a_database_that_two_instances_share(
    tmp_path: Path, *, keeps: bool
) -> None:
    """One handles a deposit and changes a row; the other reads the row, and writes a statement.

    The statement follows from the deposit, which no handler's context can see: the row tells it.
    """
    from antecede.logs.confluent import Producer

    database = sqlite3.connect(tmp_path / "bank.db")
    database.execute("create table account (id primary key, balance, positions blob)")
    database.execute("insert into account values (7, 0, null)")
    database.commit()
    with mock_cluster("deposits", "requests", "statements") as servers:
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})

        def deposit(record: Any) -> None:
            (stored,) = database.execute("select positions from account").fetchone()
            with database, handling(record, store=stored) as scope:
                kept = scope.encode() if keeps else None
                database.execute("update account set balance = balance + 5, positions = ?", (kept,))

        def state(record: Any) -> None:
            balance, stored = database.execute("select balance, positions from account").fetchone()
            with handling(record, store=stored):
                producer.send("statements", str(balance), key="7")

        with context():
            producer.send("deposits", "5", key="7")
        with consumer(servers, "one", ["deposits"]) as one:
            handled(one, 1, deposit)
        with context():
            producer.send("requests", "statement", key="7")
        with consumer(servers, "two", ["requests"]) as two:
            handled(two, 1, state)
        found: list[Positions] = []

        def look(record: Any) -> None:
            with record:
                found.append(record.needs)

        with consumer(servers, "view", ["statements"]) as view:
            handled(view, 1, look)
    part = zlib.crc32(b"7") % 4
    expected = {Log("requests", part): 1} | ({Log("deposits", part): 1} if keeps else {})
    assert found == [expected]


def polled(consumers: list[Any], is_enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Poll consumers in turn until enough records have come; return them."""
    found: list[Any] = []
    end = time.monotonic() + 60
    while not is_enough(found):
        assert time.monotonic() < end
        found += [record for one in consumers if (record := one.poll(0.02)) is not None]
    return found


def test_a_shadow_asks_what_other_instances_have_processed_before_it_counts() -> None:
    from antecede.logs.confluent import Producer

    with mock_cluster("orders", "payments") as servers:
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        with (
            consumer(servers, "g", ["orders", "payments"], order="shadow") as one,
            consumer(servers, "g", ["orders", "payments"], order="shadow") as other,
        ):
            both = [one, other]
            polled(both, lambda _: len(one.assigned) == len(other.assigned) == 4)
            orders = next(k.partition for k in one.assigned if k.topic == "orders")
            payments = next(k.partition for k in other.assigned if k.topic == "payments")

            def sell(*, order_first: bool) -> None:
                asked = other.metrics.look_ups
                with context():
                    producer.send("orders", "order", partition=orders)
                    (order,) = polled(both, bool)
                    if order_first:
                        order.complete()
                        commits = one.metrics.commits
                        polled(both, lambda _: one.metrics.commits > commits)
                        time.sleep(0.2)  # the broker has taken the commit in
                    producer.send("payments", "payment", partition=payments)
                (payment,) = polled(both, bool)
                polled(both, lambda _: other.metrics.look_ups > asked)
                order.complete()
                payment.complete()

            sell(order_first=True)
            assert (one.metrics.early, other.metrics.early) == (0, 0)
            sell(order_first=False)
            assert (one.metrics.early, other.metrics.early) == (0, 1)


def test_a_value_that_is_neither_bytes_nor_text_is_refused() -> None:
    from antecede.logs.confluent import Producer

    with mock_cluster("orders") as servers:
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        with context():
            with pytest.raises(UsageError, match=r"^the value is of type dict; give bytes or text"):
                producer.send("orders", {"a": 1})  # type: ignore[arg-type] # that is the point
            with pytest.raises(UsageError, match=r"^the key is of type int; give bytes or text"):
                producer.send("orders", "a", key=17)  # type: ignore[arg-type] # that is the point
            producer.send("orders", "the context goes on")


def test_what_is_no_option_or_header_is_refused_in_one_line() -> None:
    from antecede.logs.confluent import Consumer, Producer

    with mock_cluster("orders") as servers:
        config = {"bootstrap.servers": servers, "log_level": 0}
        with pytest.raises(UsageError, match=r"^config is None; give the client's options by name"):
            Producer(None)  # type: ignore[arg-type] # that is the point
        with pytest.raises(UsageError, match=r"^the client refuses its config: .*\"sized\""):
            Producer({**config, "sized": 1})
        with pytest.raises(UsageError, match=r"^the client refuses its config: .*\"sized\""):
            Consumer({**config, "group.id": "g", "sized": 1}, ["orders"])
        with pytest.raises(UsageError, match=r"^horizon is '5'; expected seconds"):
            Producer(config, horizon="5")  # type: ignore[arg-type] # that is the point
        producer: Any = Producer(config)
        with context():
            for headers in (5, {"size": 5}, [("a", b"", 1)]):
                with pytest.raises(UsageError, match=r"^headers are .*; give names with bytes"):
                    producer.send("orders", "a", headers=headers)
            producer.send("orders", "the context goes on")


def test_a_consumer_does_not_create_its_topics() -> None:
    from confluent_kafka.admin import AdminClient

    with mock_cluster("orders") as servers:
        consumer(servers, "g", ["ordres"]).close()
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        assert "ordres" not in admin.list_topics(timeout=30).topics


def test_two_producers_in_one_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    from antecede.logs import confluent

    monkeypatch.setattr(confluent, "PATIENCE", 2.0)
    with mock_cluster("a", "b") as servers:
        config = {"bootstrap.servers": servers, "log_level": 0}
        one, two = confluent.Producer(config), confluent.Producer(config)
        with context() as past:
            one.send("a", "1", partition=0)
            two.send("a", "2", partition=0)
            two.send("b", "3", partition=0)
            one.send("b", "4", partition=1)
        assert {str(log): n for log, n in past.seen.items()} == {"a/0": 2, "b/0": 1, "b/1": 1}


def test_partitions_that_were_paused_when_they_left_go_on_when_they_return(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from antecede.logs import reader
    from antecede.logs.confluent import Producer

    monkeypatch.setattr(reader, "QUEUE_MAX", 20)
    with mock_cluster("a") as servers:
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        with context():
            for number in range(100):
                producer.send("a", str(number), partition=0)
        with consumer(servers, "g", ["a"]) as one:
            polled([one], bool)
            polled([one], lambda _: one._reader._full)
            with consumer(servers, "g", ["a"]) as other:
                polled([one, other], lambda _: len(one.assigned) == len(other.assigned) == 2)
            seen: set[int] = set()

            def handle(record: Any) -> None:
                with record:
                    seen.add(record.offset)

            end = time.monotonic() + 30
            while len(seen) < 100 and time.monotonic() < end:
                record = one.poll(0.1)
                if record is not None:
                    handle(record)
            assert len(seen) == 100


def test_the_end_that_stands_for_an_unknown_offset_is_beyond_open_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from confluent_kafka import Consumer as Plain

    from antecede.logs import confluent

    made: list[dict[str, Any]] = []

    def spy(config: dict[str, Any]) -> Any:
        made.append(config)
        return Plain(config)

    with mock_cluster("a") as servers:
        producer = confluent.Producer({"bootstrap.servers": servers, "log_level": 0})
        with context():
            producer.send("a", "1", partition=0)
        monkeypatch.setattr(confluent, "Client", spy)
        assert producer._end_of(Log("a", 0), 0.0) == (0, 0.0, "")
    assert [config["isolation.level"] for config in made] == ["read_uncommitted"]


@pytest.mark.parametrize("kind", ["consistent_random", "murmur2_random"])
def test_partitions_are_those_that_the_client_would_choose(kind: str) -> None:
    from confluent_kafka import Producer as Plain

    from antecede.logs.confluent import Producer

    with mock_cluster("keys") as servers:
        config = {"bootstrap.servers": servers, "partitioner": kind, "log_level": 0}
        ours, theirs = Producer(config), Plain(config)
        found: dict[str, list[int]] = {}

        def told(error: object, message: Any) -> None:
            assert error is None
            found.setdefault(message.value().decode(), []).append(message.partition())

        for number in range(50):
            name = f"key{number}" * (number % 5 + 1)
            with context():
                ours.send("keys", name, key=name, on_delivery=told)
            theirs.produce("keys", name, name, on_delivery=told)
        theirs.flush()
    assert len(found) == 50
    assert all(len(places) == 2 and len(set(places)) == 1 for places in found.values())


@pytest.mark.parametrize("kind", ["consistent", "murmur2", "murmur2_random"])
@pytest.mark.parametrize("key", [None, b""])
def test_no_key_and_an_empty_one_go_where_the_client_would_write(
    kind: str, key: bytes | None
) -> None:
    from confluent_kafka import Producer as Plain

    from antecede.logs.confluent import Producer

    with mock_cluster("keys") as servers:
        config = {"bootstrap.servers": servers, "partitioner": kind, "log_level": 0}
        ours, theirs = Producer(config), Plain(config)
        found: list[set[int | None]] = [set(), set()]
        for _ in range(200):
            with context():
                ours.send(
                    "keys", "x", key=key, on_delivery=lambda _, m: found[0].add(m.partition())
                )
        theirs.produce("keys", "x", key, on_delivery=lambda _, m: found[1].add(m.partition()))
        theirs.flush()
    if key is None and kind == "murmur2_random":
        assert len(found[0]) == 4
    else:
        assert found[0] == found[1]


def test_a_write_whose_topic_cannot_be_asked_for_ends_its_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from antecede.logs.confluent import Producer

    with mock_cluster("a") as servers:
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        with context():
            producer.send("a", "1", partition=0)
        producer._topics["a"].last[0] = 100  # offsets go back, as in a topic that was recreated

        def away(_: str) -> None:
            message = "the broker is away"
            raise BrokerError(message)

        past = Context()
        producer.send("a", "2", partition=0, context=past)
        monkeypatch.setattr(producer, "_topic", away)
        with pytest.raises(ContextEndedError, match="the broker is away"):
            past.settle()


def test_murmur2_is_that_of_kafka() -> None:
    """The values are those of the tests of Kafka's Java client."""
    values = {b"21": -973932308, b"foobar": -790332482, b"abc": 479470107}
    values |= {b"a-little-bit-long-string": -985981536}
    assert {data: (murmur2(data) ^ 1 << 31) - (1 << 31) for data in values} == values


def test_writes_to_several_logs_are_serial_and_stamped(tmp_path: Path) -> None:
    from antecede.logs.confluent import Producer

    with mock_cluster("a", "b") as servers:
        producer = Producer({"bootstrap.servers": servers, "log_level": 0}, text=True)
        with context():
            producer.send("a", "1", partition=0)
            producer.send("a", "2", partition=0)
            producer.send("b", "3", partition=1)
        events = tmp_path / "events.jsonl"
        seen: list[tuple[str, dict[str, int]]] = []

        def look(record: Any) -> None:
            with record:
                needs = {str(log): position for log, position in record.needs.items()}
                seen.append((record.value.decode(), needs))

        with consumer(servers, "g", ["a", "b"], events=events) as found:
            handled(found, 3, look)
    assert seen == [("1", {}), ("2", {}), ("3", {"a/0": 2})]
    rows = [json.loads(line) for line in events.read_text().splitlines()]
    assert [r["message"] for r in rows if r["process"] == "g"] == ["a/0@0", "a/0@1", "b/1@0"]


def test_the_demo_breaks_order_and_then_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(SystemExit) as ended:
        app(["demo", "kafka", "--orders", "60", "--out", str(tmp_path / "out"), "--json"])
    assert ended.value.code == 0
    runs = json.loads(capsys.readouterr().out)["result"]["runs"]
    without, order = runs["without order"], runs["with order"]
    assert without["too_early"] > 0
    assert without["verdict"] == "broken"
    assert order["too_early"] == order["violations"] == 0
    assert order["verdict"] == "ordered"
    assert order["metrics"]["early"] > 0
    assert (tmp_path / "out" / "index.html").exists()
