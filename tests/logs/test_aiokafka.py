"""The adapter of aiokafka, on the mock cluster: what a client does at awkward moments."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antecede.logs.positions import HEADER, Log, Positions, context
from tests.logs.brokers import mock_cluster

pytest.importorskip("aiokafka", reason="needs aiokafka")

PATIENCE = 60.0


def serve(work: Callable[[str, Any], Awaitable[None]], *topics: str) -> None:
    """Run something with a producer on a cluster with these topics."""
    from antecede.logs.aiokafka import Producer

    async def main(servers: str) -> None:
        async with Producer({"bootstrap_servers": servers}) as producer:
            await work(servers, producer)

    with mock_cluster(*topics) as servers:
        asyncio.run(asyncio.wait_for(main(servers), PATIENCE))


def test_what_is_fetched_while_partitions_are_assigned_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client fetches while the listener still asks for the group's commits.

    What was dropped then was committed over by the next record's completion.
    """
    from aiokafka.admin import AIOKafkaAdminClient

    from antecede.logs.aiokafka import Consumer

    ask = AIOKafkaAdminClient.list_consumer_group_offsets

    async def slowly(self: Any, *words: Any, **more: Any) -> Any:
        await asyncio.sleep(1.5)
        return await ask(self, *words, **more)

    monkeypatch.setattr(AIOKafkaAdminClient, "list_consumer_group_offsets", slowly)

    async def work(servers: str, producer: Any) -> None:
        for number in range(20):
            with context():
                await producer.send("a", f"early-{number}".encode(), key=str(number).encode())
        seen: set[str] = set()
        async with Consumer({"bootstrap_servers": servers, "group_id": "g"}, ["a"]) as reader:

            async def later() -> None:
                await asyncio.sleep(4)
                for partition in range(4):
                    with context():
                        await producer.send("a", f"late-{partition}".encode(), partition=partition)

            task = asyncio.create_task(later())
            async for record in reader:
                with record:
                    seen.add(record.value.decode())
                if len([name for name in seen if name.startswith("late")]) == 4:
                    break
            await task
        assert seen >= {f"early-{number}" for number in range(20)}

    serve(work, "a")


def test_a_cause_that_takes_long_is_not_taken_for_one_that_was_cut() -> None:
    """After a second the end of the cause's log is looked at, by a client that never read it."""
    from antecede.logs.aiokafka import Consumer

    async def work(servers: str, producer: Any) -> None:
        with context():
            await producer.send("a", b"cause", partition=0)
            await producer.send("b", b"effect", partition=0)
        events: list[str] = []
        async with Consumer({"bootstrap_servers": servers, "group_id": "g"}, ["a", "b"]) as reader:

            async def handle(record: Any) -> None:
                with record:
                    name = record.value.decode()
                    events.append(f"{name} starts")
                    await asyncio.sleep(4 if name == "cause" else 0)
                    events.append(f"{name} ends")
                if name == "effect":
                    reader.stop()

            async with asyncio.TaskGroup() as tasks:
                async for record in reader:
                    tasks.create_task(handle(record))
            assert reader.metrics.look_ups > 0, "its end was looked at"
            assert reader.metrics.lost == 0
        assert events == ["cause starts", "cause ends", "effect starts", "effect ends"]

    serve(work, "a", "b")


def test_what_is_wrong_with_a_record_is_counted_and_marked() -> None:
    """Torn and unknown headers, positions beyond an end and in partitions that do not exist."""
    from aiokafka import AIOKafkaProducer

    from antecede.logs.aiokafka import Consumer

    async def work(servers: str, _: Any) -> None:
        beyond = Positions({Log("a", 1): 1000, Log("elsewhere", 3): 9})
        nowhere = Positions({Log("a", number): 1 for number in range(50, 350)})
        headers = [b"\x01\x00\x05a\x01", b"\x09new", beyond.encode(), nowhere.encode()]
        async with AIOKafkaProducer(bootstrap_servers=servers) as plain:
            for partition, header in enumerate(headers):
                await plain.send_and_wait(
                    "b", b"x", partition=partition, headers=[(HEADER, header)]
                )
        found: dict[int, Any] = {}
        async with Consumer({"bootstrap_servers": servers, "group_id": "g"}, ["a", "b"]) as reader:
            async for record in reader:
                with record:
                    found[record.partition] = record
                if len(found) == 4:
                    break
            metrics = reader.metrics
        assert "torn" in found[0].fault
        assert "version is 9" in found[1].fault
        assert [str(log) for log in found[2].unmet] == ["a/1"]
        assert len(found[3].unmet) == 300
        assert (metrics.refused, metrics.lost, metrics.gave_up) == (2, 301, 0)

    serve(work, "a", "b")


def test_a_consumer_that_is_not_started_says_so() -> None:
    from antecede.errors import UsageError
    from antecede.logs.aiokafka import Consumer

    async def main() -> None:
        async for _ in Consumer({"bootstrap_servers": "nowhere", "group_id": "g"}, ["a"]):
            pass

    with pytest.raises(UsageError, match="the consumer is not started; use it as"):
        asyncio.run(asyncio.wait_for(main(), 10))


def test_a_log_that_comes_back_is_not_committed_below_what_others_committed() -> None:
    """They went on to 200; a commit of 100 would never be corrected while the log is idle."""
    from antecede.logs.aiokafka import Consumer

    async def main() -> None:
        from aiokafka import TopicPartition
        from aiokafka.structs import OffsetAndMetadata

        one = TopicPartition("a", 0)
        commits: list[int] = []
        reader = Consumer({"group_id": "g"}, ["a"])

        class Client:
            def assignment(self) -> set[Any]:
                return {one}

            async def commit(self, offsets: Any) -> None:
                commits.extend(offset for offset, _ in offsets.values())

            async def list_consumer_group_offsets(self, *_: Any, **__: Any) -> Any:
                await reader._commit()  # the other task commits meanwhile
                return {one: OffsetAndMetadata(200, "antecede")}

        client: Any = Client()
        reader.client = reader._admin = client
        reader._gate.reached(Log("a"), 100)
        await reader._assigned({one})
        await reader._commit()
        assert commits == [200]

    asyncio.run(main())


def test_ends_are_asked_again_after_a_client_failed_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from aiokafka.errors import KafkaConnectionError

    from antecede.logs import aiokafka

    class Client:
        starts = 0

        def __init__(self, **_: Any) -> None:
            pass

        async def start(self) -> None:
            Client.starts += 1
            if Client.starts == 1:
                raise KafkaConnectionError

        async def stop(self) -> None:
            pass

        async def end_offsets(self, partitions: list[Any]) -> dict[Any, int]:
            assert Client.starts == 2
            return dict.fromkeys(partitions, 7)

    monkeypatch.setattr(aiokafka, "AIOKafkaConsumer", Client)

    async def main() -> None:
        reader = aiokafka.Consumer({"group_id": "g"}, ["a"])
        with pytest.raises(KafkaConnectionError):
            await reader._end_offsets([Log("a")])
        assert await reader._end_offsets([Log("a")]) == {Log("a"): 7}

    asyncio.run(main())


def test_a_missing_cause_does_not_hide_that_reading_has_ended() -> None:
    from antecede.errors import BrokerError, CauseMissingError
    from antecede.logs.aio import Tasks

    async def main() -> None:
        tasks = Tasks(["a"])
        tasks.start(asyncio.Event().wait)  # type: ignore[arg-type] # it never ends
        tasks.fail(OSError("gone"))
        tasks.fail(CauseMissingError("late"))
        with pytest.raises(BrokerError, match="gone"):
            await anext(tasks.iterate(lambda: None))
        await tasks.end()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_handler_that_ends_in_a_thread_wakes_the_loop() -> None:
    import threading
    import time

    from antecede.logs.aio import Tasks

    async def main() -> None:
        tasks, found = Tasks(["a"]), list[int]()

        async def idle() -> None:
            await asyncio.Event().wait()

        def handler() -> None:
            time.sleep(0.2)
            found.append(1)
            tasks.wake()

        tasks.start(idle)
        thread = threading.Thread(target=handler)
        begin = time.monotonic()
        thread.start()
        got = await asyncio.wait_for(
            anext(tasks.iterate(lambda: found.pop() if found else None)), 8
        )
        assert got == 1
        assert time.monotonic() - begin < 4
        await tasks.end()

    asyncio.run(main())
