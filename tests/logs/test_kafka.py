"""The adapters on a real Kafka: transactions, compaction, retention, topics made anew, malice."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from antecede.errors import BrokerError, CauseMissingError, UsageError
from antecede.logs.positions import HEADER, Context, Log, Positions, context, current
from tests.logs.brokers import QUICK, Kafka

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

PATIENCE = 120.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(tmp_path_factory.mktemp("kafka")) as found:
        yield found


def producer(kafka: Kafka, **more: Any) -> Any:
    from antecede.logs.confluent import Producer

    settings = {key: value for key, value in more.items() if key != "horizon"}
    plain = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer(
        {"bootstrap.servers": kafka.servers, "log_level": 0, **plain},
        horizon=more.get("horizon"),
    )


def consumer(kafka: Kafka, group: str, topics: list[str], **options: Any) -> Any:
    from antecede.logs.confluent import Consumer

    own = {
        key.replace("_", "."): options.pop(key)
        for key in list(options)
        if "_" in key[1:-1] and key != "on_limit"
    }
    config = {**QUICK, "bootstrap.servers": kafka.servers, "group.id": group, **own}
    return Consumer(config, topics, **options)


def drain(found: Any, count: int, *, more: Callable[[Any], None] = lambda _: None) -> list[str]:
    """Handle ``count`` records; return their values."""
    values: list[str] = []
    end = time.monotonic() + PATIENCE
    while len(values) < count and time.monotonic() < end:
        record = found.poll(1)
        if record is not None:
            with record:
                values.append((record.value or b"").decode())
                more(record)
    return values


def abort(writer: Any, topic: str) -> None:
    """Write a record in a transaction that is aborted."""
    with contextlib.suppress(ZeroDivisionError), writer.transaction():
        writer.send(topic, b"aborted", partition=0)
        writer.settle()
        _ = 1 / 0


def until(condition: Callable[[], bool], *, poll: Any = None) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return True
        if poll is not None:
            poll.poll(0.1)
        else:
            time.sleep(0.05)
    return False


def test_an_effect_waits_for_a_cause_that_another_instance_has(kafka: Kafka) -> None:
    kafka.create("one-a", "one-b", partitions=2)
    writer = producer(kafka)
    config = {"partition_assignment_strategy": "range"}
    with (
        consumer(kafka, "one", ["one-a", "one-b"], **config) as first,
        consumer(kafka, "one", ["one-a", "one-b"], **config) as second,
    ):
        both = [first, second]

        def settled() -> bool:
            held = [one.poll(0.1) for one in both]
            assert held == [None, None]
            return all(len(one.client.assignment()) == 2 for one in both)

        assert until(settled)
        owners = {(p.topic, p.partition): one for one in both for p in one.client.assignment()}
        cause, effect = owners["one-a", 0], owners["one-b", 1]
        assert cause is not effect, "range gives the same partition of each topic to one instance"
        with context():
            writer.send("one-a", b"cause", partition=0)
            writer.send("one-b", b"effect", partition=1)
        assert until(lambda: effect.metrics.early == 1, poll=effect)
        assert effect.poll(0.5) is None
        ((seconds, missing),) = effect.waiting().values()
        assert [(str(log), offset) for log, offset in missing.items()] == [("one-a/0", 1)]
        assert seconds > 0
        assert drain(cause, 1) == ["cause"]
        cause.poll(0.1)  # it publishes
        assert drain(effect, 1) == ["effect"]
        assert effect.metrics.look_ups > 0
        assert effect.metrics.waited > 0


def test_aborted_records_and_markers_are_not_waited_for(kafka: Kafka) -> None:
    kafka.create("tx-a", "tx-b", partitions=1)
    writer = producer(kafka, transactional_id="tx")
    with context():
        abort(writer, "tx-a")
        with writer.transaction():  # it names the aborted record, which nobody will see
            writer.send("tx-b", b"effect")
        with writer.transaction():
            writer.send("tx-a", b"later")
    with consumer(kafka, "tx", ["tx-a", "tx-b"], isolation_level="read_committed") as reader:
        assert sorted(drain(reader, 2)) == ["effect", "later"]
        assert reader.metrics.gave_up == reader.metrics.lost == 0


def test_an_open_transaction_is_waited_for_and_is_not_lost(kafka: Kafka) -> None:
    """Its records are there, beyond what a reader of committed records sees."""
    kafka.create("open-a", "open-b", partitions=1)
    slow, other = producer(kafka, transactional_id="open"), producer(kafka)
    with consumer(kafka, "open", ["open-a", "open-b"], isolation_level="read_committed") as reader:
        with context() as shared, slow.transaction():
            slow.send("open-a", b"cause", context=shared)
            slow.settle(shared)
            other.send("open-b", b"effect", context=shared)
            other.settle(shared)
            assert until(lambda: reader.metrics.early == 1, poll=reader)
            assert until(lambda: reader.metrics.look_ups > 2, poll=reader), "its end is looked at"
            assert reader.metrics.lost == 0
        assert drain(reader, 2) == ["cause", "effect"]


def test_compacted_causes_do_not_stop_their_effects(kafka: Kafka) -> None:
    """r is compacted; s needs it; r' in r's log needs s: without rule G, all wait for ever."""
    settings = {
        "cleanup_policy": "compact",
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.01",
        "min_compaction_lag_ms": "0",
        "max_compaction_lag_ms": "200",
    }
    kafka.create("kept-a", partitions=1, **settings)
    kafka.create("kept-b", partitions=1)
    writer = producer(kafka)
    with context():
        writer.send("kept-a", b"r", key=b"k")
        writer.send("kept-b", b"s")
        writer.send("kept-a", b"r'", key=b"k")
        writer.settle()

    def first() -> bytes:
        from confluent_kafka import Consumer as Plain

        reader = Plain({**QUICK, "bootstrap.servers": kafka.servers, "group.id": f"x{time.time()}"})
        reader.subscribe(["kept-a"])
        try:
            message = reader.poll(30)
            assert message is not None
            return bytes(message.value() or b"")
        finally:
            reader.close()

    def compacted() -> bool:
        time.sleep(0.3)
        writer.send("kept-a", b"roll", key=b"other")  # a new segment lets the old one be cleaned
        writer.flush()
        return first() == b"r'"

    assert until(compacted)
    with consumer(kafka, "kept", ["kept-a", "kept-b"]) as reader:
        assert drain(reader, 2) == ["s", "r'"]
        assert reader.metrics.gave_up == reader.metrics.lost == 0


def test_causes_that_retention_removed_do_not_stop_their_effects(kafka: Kafka) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    kafka.create("old-a", "old-b", partitions=1)
    writer = producer(kafka)
    with context():
        for number in range(5):
            writer.send("old-a", f"a{number}".encode())
        writer.send("old-b", b"effect")
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    for future in admin.delete_records([TopicPartition("old-a", 0, 5)]).values():
        future.result(60)
    with consumer(kafka, "old", ["old-a", "old-b"]) as reader:
        assert drain(reader, 1) == ["effect"]
        assert reader.metrics.lost == reader.metrics.gave_up == 0


def test_a_topic_that_was_deleted_and_made_anew_is_another_log(kafka: Kafka) -> None:
    """The old one was read up to 50; a position 2 in the new one is not met by that."""
    from confluent_kafka.admin import AdminClient

    kafka.create("anew-a", "anew-b", partitions=1)
    writer = producer(kafka)
    with context() as long:
        for number in range(50):
            writer.send("anew-a", f"a{number}".encode())
        writer.settle()
    with consumer(kafka, "anew", ["anew-a", "anew-b"]) as reader:
        assert len(drain(reader, 50)) == 50
        admin = AdminClient({"bootstrap.servers": kafka.servers})
        for future in admin.delete_topics(["anew-a"]).values():
            future.result(60)

        def recreated() -> bool:
            with contextlib.suppress(Exception):
                kafka.create("anew-a", partitions=1)
                return True
            return False

        assert until(recreated)
        fresh = producer(kafka)
        with context():
            fresh.send("anew-a", b"new cause")
            fresh.send("anew-b", b"new effect")
        fresh.send("anew-b", b"effect of what is gone", context=long)
        fresh.flush()
        found = drain(reader, 3)
        assert found[-1] == "effect of what is gone"
        assert found[:2] == ["new cause", "new effect"]
        assert reader.metrics.lost == 1, "the one that named the deleted topic"


def test_partitions_that_are_added_are_waited_for(kafka: Kafka) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewPartitions

    kafka.create("more-a", "more-b", partitions=1)
    with consumer(
        kafka, "more", ["more-a", "more-b"], topic_metadata_refresh_interval_ms=1000
    ) as reader:
        reader.poll(3)
        admin = AdminClient({"bootstrap.servers": kafka.servers})
        for future in admin.create_partitions([NewPartitions("more-a", 3)]).values():
            future.result(60)
        writer = producer(kafka)
        assert until(
            lambda: len(writer.client.list_topics("more-a").topics["more-a"].partitions) == 3
        )
        with context():
            writer.send("more-a", b"cause", partition=2)
            writer.send("more-b", b"effect", partition=0)
        assert drain(reader, 2) == ["cause", "effect"]


def test_partitions_that_a_client_does_not_know_yet_are_not_taken_for_cut(kafka: Kafka) -> None:
    """A client knows partitions that were added only after minutes; they are there before."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewPartitions

    kafka.create("added-a", "added-b", partitions=1)
    writer = producer(kafka)
    with consumer(kafka, "added", ["added-a", "added-b"]) as reader:
        past = Context()
        past.merge({Log("added-a", 0): 1000})
        writer.send("added-b", b"beyond", context=past)
        assert drain(reader, 1) == ["beyond"], "now the end of added-a was looked at"
        admin = AdminClient({"bootstrap.servers": kafka.servers})
        for future in admin.create_partitions([NewPartitions("added-a", 3)]).values():
            future.result(60)
        fresh = producer(kafka)
        assert until(
            lambda: len(fresh.client.list_topics("added-a").topics["added-a"].partitions) == 3
        )
        with context():
            fresh.send("added-a", b"cause", partition=2)
            fresh.send("added-b", b"effect")
        assert until(lambda: reader.metrics.early == 2, poll=reader)
        assert reader.poll(5) is None, "the group has not processed the cause"
        assert reader.metrics.lost == 1, "only the first one"


def test_what_is_wrong_with_a_record_is_counted_and_marked(kafka: Kafka) -> None:
    """Torn and unknown headers, a position beyond the end: none of them stops anything."""
    from confluent_kafka import Producer as Plain

    kafka.create("bad-a", "bad-b", partitions=1)
    plain = Plain({"bootstrap.servers": kafka.servers})
    beyond = Positions({Log("bad-a", 0): 1000, Log("nowhere", 3): 9}).encode()
    for header in (b"\x01\x00\x05bad-a\x01", b"\x09new", beyond, b"", None, beyond[:-1]):
        headers: list[Any] = [] if header is None else [(HEADER, header)]
        plain.produce("bad-b", b"x", headers=headers)
    plain.flush()
    with consumer(kafka, "bad", ["bad-a", "bad-b"]) as reader:
        records: list[Any] = []
        assert len(drain(reader, 6, more=records.append)) == 6
        faults = [record.fault for record in records]
        assert ["torn" in fault for fault in faults] == [True, False, False, False, False, True]
        assert "version is 9" in faults[1]
        assert faults[2] == faults[4] == ""
        assert [str(log) for log in records[2].unmet] == ["bad-a/0"]
        assert reader.metrics.refused == 4
        assert reader.metrics.lost == 1


def test_a_limit_marks_or_raises(kafka: Kafka) -> None:
    from confluent_kafka import Producer as Plain

    from antecede.logs.confluent import Producer

    kafka.create("late-a", "late-b", partitions=1)
    assert isinstance(producer(kafka), Producer)
    with context() as past:
        producer(kafka).send("late-a", b"cause")
        current().settle()
    plain = Plain({"bootstrap.servers": kafka.servers})
    plain.produce("late-b", b"effect", headers=[(HEADER, past.encode())])
    plain.flush()
    # An instance that has the cause's log, and never finishes the cause.
    with consumer(kafka, "late", ["late-a", "late-b"], limit=2) as reader:
        cause = None
        while cause is None:
            cause = reader.poll(1)
        effect = None
        while effect is None:
            effect = reader.poll(1)
        assert (cause.value, effect.value) == (b"cause", b"effect")
        assert [(str(log), offset) for log, offset in effect.unmet.items()] == [("late-a/0", 1)]
        assert reader.metrics.gave_up == 1
        with effect, cause:
            pass
    with consumer(kafka, "late2", ["late-a", "late-b"], limit=2, on_limit="raise") as reader:
        while reader.poll(1) is None:
            pass
        with pytest.raises(CauseMissingError, match="late-b/0@0 has waited for 2 s for late-a/0 1"):
            until(lambda: False, poll=reader)


def test_commits_of_old_instances_are_noticed(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    """An instance that commits what it fetched breaks the order; its commits lack our mark."""
    from confluent_kafka import Consumer as Plain

    kafka.create("mixed-a", "mixed-b", partitions=1)
    writer = producer(kafka)
    old = Plain(
        {
            **QUICK,
            "bootstrap.servers": kafka.servers,
            "group.id": "mixed",
            "partition.assignment.strategy": "roundrobin",
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 100,
        }
    )
    old.subscribe(["mixed-a", "mixed-b"])
    with consumer(
        kafka, "mixed", ["mixed-a", "mixed-b"], partition_assignment_strategy="roundrobin"
    ) as reader:

        def shared() -> bool:
            old.poll(0.1)
            return len(old.assignment()) == 1 == len(reader.client.assignment())

        assert until(shared, poll=reader)
        (own,) = [p.topic for p in reader.client.assignment()]
        (others,) = [p.topic for p in old.assignment()]
        with context():
            writer.send(others, b"cause")
            writer.send(own, b"effect")
        assert until(lambda: reader.metrics.early == 1, poll=reader)
        assert until(lambda: old.poll(0.2) is not None, poll=reader)
        old.poll(0.5)  # it commits what it has fetched
        assert drain(reader, 1) == ["effect"], "too early, and that cannot be helped"
        assert reader.metrics.foreign_commits >= 1
        assert f"the commit of {others}/0 was not made by antecede" in caplog.text
    old.close()


def test_what_breaks_the_order_is_refused(kafka: Kafka) -> None:
    with pytest.raises(UsageError, match="only what is processed may be committed"):
        consumer(kafka, "g", ["x"], enable_auto_commit=True)
    with pytest.raises(UsageError, match=r"no group\.id"):
        consumer(kafka, "", ["x"])
    with pytest.raises(UsageError, match="acks is 1"):
        producer(kafka, acks=1)
    with pytest.raises(UsageError, match=r"enable\.idempotence is False"):
        producer(kafka, enable_idempotence=False)
    with pytest.raises(UsageError, match=r"needs transactional\.id"), producer(kafka).transaction():
        pass
    with pytest.raises(BrokerError, match=r"cannot write to topic 'nowhere'.*create it first"):
        producer(kafka).send("nowhere", b"x")


def test_a_failed_handler_gets_its_record_again_and_writes_count(kafka: Kafka) -> None:
    kafka.create("fail-a", "fail-b", partitions=1)
    writer = producer(kafka)
    with context():
        writer.send("fail-a", b"1")
        writer.send("fail-a", b"2")
    with consumer(kafka, "fail", ["fail-a"]) as reader:
        seen: list[tuple[bytes, int]] = []
        while len(seen) < 3:
            record = reader.poll(1)
            if record is None:
                continue
            seen.append((record.value, record.attempts))
            with contextlib.suppress(ZeroDivisionError), record:
                writer.send("fail-b", record.value)
                if len(seen) == 1:
                    _ = 1 / 0
        assert seen == [(b"1", 0), (b"1", 1), (b"2", 0)]
    with consumer(kafka, "fail", ["fail-a"]) as reader:
        assert reader.poll(5) is None, "both are committed"


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_aiokafka_waits_over_transactions(kafka: Kafka, isolation: str) -> None:
    pytest.importorskip("aiokafka", reason="needs aiokafka")
    from antecede.logs.aiokafka import Consumer, Producer

    a, b = f"aio-{isolation}-a", f"aio-{isolation}-b"
    kafka.create(a, b, partitions=2)
    writer = producer(kafka, transactional_id=f"aio-{isolation}")
    with context():
        abort(writer, a)
        with writer.transaction():
            writer.send(b, b"effect", partition=0)

    async def main() -> list[bytes]:
        config = {"bootstrap_servers": kafka.servers, "group_id": a, "isolation_level": isolation}
        seen: list[bytes] = []
        async with (
            Producer({"bootstrap_servers": kafka.servers}) as second,
            Consumer(config, [a, b]) as reader,
        ):
            async for record in reader:
                with record:
                    seen.append(record.value)
                    if record.value == b"effect":
                        await second.send(a, b"last", key=b"k")
                if record.value == b"last":
                    assert record.needs[Log(b, 0)] == 1
                    reader.stop()
        assert reader.metrics.gave_up == reader.metrics.lost == 0
        return seen

    seen = asyncio.run(asyncio.wait_for(main(), PATIENCE))
    expected = [b"effect", b"last"]
    assert seen == (expected if isolation == "read_committed" else [b"aborted", *expected])


def test_events_pass_the_audit(kafka: Kafka, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from antecede.audit.files import audit_here
    from antecede.events.log import Source

    kafka.create("log-a", "log-b", partitions=2)
    writer = producer(kafka)
    for number in range(20):
        with context():
            writer.send("log-a", f"a{number}", key=f"a{number}")
            writer.send("log-b", f"b{number}", key=f"x{number}")
    path = tmp_path / "events.jsonl"
    with consumer(kafka, "log", ["log-a", "log-b"], events=path) as reader:
        drain(reader, 40)
    (found,) = audit_here([Source(path)]).values()
    assert found.audit.verdict == "ordered", found.audit.reason
    assert found.audit.summary["deliveries"] >= 40
