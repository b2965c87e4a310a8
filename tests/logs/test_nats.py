"""Order over JetStream on a real server: gaps, limits, streams made anew, hostile headers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from antecede.errors import BrokerError, UsageError
from antecede.logs.positions import HEADER, Log, Positions, as_text, context
from tests.support.nats_server import NatsServer

PATIENCE = 120.0


def serve(folder: Path, work: Callable[[str, Any], Awaitable[None]], **streams: str) -> None:
    """Run something against a server with these streams."""
    pytest.importorskip("nats", reason="needs nats-py")
    import nats

    async def main(server: NatsServer) -> None:
        client = await nats.connect(server.url())
        manager = client.jetstream(timeout=30)
        for name, subjects in streams.items():
            await manager.add_stream(name=name, subjects=subjects.split())
        await work(server.url(), manager)
        await client.close()

    with NatsServer(folder) as server:
        asyncio.run(asyncio.wait_for(main(server), PATIENCE))


async def take(found: Any, count: int) -> list[Any]:
    records: list[Any] = []
    async for record in found:
        with record:
            records.append(record)
        if len(records) == count:
            return records
    return records


def test_a_gap_that_a_filter_makes_does_not_stop_what_follows(tmp_path: Path) -> None:
    """The group reads a.* of a stream; s needs b2, which it cannot see, and a3 needs s."""
    from antecede.logs.nats import Consumer, Producer

    async def work(url: str, _: Any) -> None:
        config = {"servers": url, "durable": "g", "filters": {"one": "a.>"}}
        async with (
            Producer({"servers": url}) as producer,
            Consumer(config, ["one", "two"]) as reader,
        ):
            with context():
                await producer.send("a.x", b"a1")
            assert [r.value for r in await take(reader, 1)] == [b"a1"]
            with context():
                await producer.send("b.x", b"b2")
                await producer.send("s.x", b"s")
                await producer.send("a.x", b"a3")
            assert [r.value for r in await take(reader, 2)] == [b"s", b"a3"]
            assert reader.metrics.lost == reader.metrics.gave_up == 0

    serve(tmp_path, work, one="a.> b.>", two="s.>")


def test_bad_headers_and_positions_beyond_the_end_stop_nothing(tmp_path: Path) -> None:
    from antecede.logs.nats import Consumer

    async def work(url: str, manager: Any) -> None:
        beyond = as_text(Positions({Log("one"): 99}).encode())
        for text in ("AQAI!", "what", beyond):
            await manager.publish("two.x", text.encode(), headers={HEADER: text})
        config = {"servers": url, "durable": "g"}
        async with Consumer(config, ["one", "two"]) as reader:
            records = await take(reader, 3)
            assert reader.metrics.refused == 2
            assert reader.metrics.lost == 1
            last = next(r for r in records if r.value == beyond.encode())
            assert [str(log) for log in last.unmet] == ["one/0"]

    serve(tmp_path, work, one="one.>", two="two.>")


def test_effects_of_a_deleted_stream_are_counted_and_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from antecede.logs.nats import Consumer, Producer

    async def work(url: str, manager: Any) -> None:
        config = {"servers": url, "durable": "g"}
        async with (
            Producer({"servers": url}) as producer,
            Consumer(config, ["one", "two"]) as reader,
        ):
            with context():
                await producer.send("one.x", b"cause")
                await producer.send("two.x", b"effect")
            async for record in reader:
                assert record.value == b"cause"  # it is not finished
                break
            await manager.delete_stream("one")
            (effect,) = await take(reader, 1)
            assert effect.value == b"effect"
            assert list(effect.unmet.values()) == [2]
            assert reader.metrics.lost == 1
        assert "stream 'one' or its consumer 'g' was deleted" in caplog.text

    serve(tmp_path, work, one="one.>", two="two.>")


def test_a_limit_marks_what_it_lets_go(tmp_path: Path) -> None:
    from antecede.logs.nats import Consumer, Producer

    async def work(url: str, _: Any) -> None:
        config = {"servers": url, "durable": "g"}
        async with (
            Producer({"servers": url}) as producer,
            Consumer(config, ["one", "two"], limit=1.5) as reader,
        ):
            with context():
                await producer.send("one.x", b"cause")
                await producer.send("two.x", b"effect")
            records = []
            async for record in reader:
                records.append(record)  # the cause is not finished
                if len(records) == 2:
                    break
            assert [r.value for r in records] == [b"cause", b"effect"]
            assert list(records[1].unmet.values()) == [2]
            assert reader.metrics.gave_up == 1

    serve(tmp_path, work, one="one.>", two="two.>")


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    from nats.js.api import AckPolicy, ConsumerConfig

    from antecede.logs.nats import Consumer, Producer

    async def work(url: str, manager: Any) -> None:
        with pytest.raises(UsageError, match="there is no stream 'nowhere'"):
            await Consumer({"servers": url, "durable": "g"}, ["nowhere"]).start()
        with pytest.raises(UsageError, match="no durable"):
            Consumer({"servers": url}, ["one"])
        config = ConsumerConfig(durable_name="all", ack_policy=AckPolicy.ALL)
        await manager.add_consumer("one", config)
        with pytest.raises(UsageError, match="ack_policy explicit"):
            await Consumer({"servers": url, "durable": "all"}, ["one"]).start()
        async with Producer({"servers": url}) as producer:
            with pytest.raises(BrokerError, match=r"cannot publish to 'no\.stream'"):
                await producer.send("no.stream", b"x", context=None)

    serve(tmp_path, work, one="one.>")


def test_a_shadow_asks_what_the_group_has_processed_before_it_counts(tmp_path: Path) -> None:
    from antecede.logs.nats import Consumer, Producer

    async def work(url: str, _: Any) -> None:
        config = {"servers": url, "durable": "g"}
        async with (
            Producer({"servers": url}) as producer,
            Consumer(config, ["a", "b"], order="shadow") as one,
        ):

            async def until(condition: Callable[[], bool]) -> None:
                for _ in range(1000):
                    if condition():
                        return
                    await asyncio.sleep(0.01)
                raise TimeoutError

            async def counted(*, cause_first: bool) -> float:
                asked = one.metrics.look_ups
                with context():
                    await producer.send("a.x", b"cause")
                    cause = await anext(aiter(one))
                    if cause_first:
                        acknowledged = one.metrics.commits
                        cause.complete()
                        await until(lambda: one.metrics.commits > acknowledged)
                    await producer.send("b.x", b"effect")
                effect = await anext(aiter(one))
                await until(lambda: one.metrics.look_ups > asked)
                effect.complete()
                if not cause_first:
                    cause.complete()
                await asyncio.sleep(0.1)
                return one.metrics.early

            assert await counted(cause_first=True) == 0
            assert await counted(cause_first=False) == 1

    serve(tmp_path, work, a="a.*", b="b.*")


def test_a_message_may_be_completed_twice_and_after_it_failed(tmp_path: Path) -> None:
    from antecede.logs.nats import Consumer, Producer

    async def work(url: str, _: Any) -> None:
        async with (
            Producer({"servers": url}) as producer,
            Consumer({"servers": url, "durable": "g"}, ["a"]) as one,
        ):
            for number in range(3):
                with context():
                    await producer.send("a.x", str(number).encode())
            values: list[bytes] = []
            async for record in one:
                values.append(record.value)
                with suppress(ZeroDivisionError), record:
                    _ = 1 / (record.value != b"1")
                record.complete()
                if record.value == b"2":
                    break
            for _ in range(1000):
                if one.metrics.commits == 3:
                    break
                await asyncio.sleep(0.01)
            assert (values, one.metrics.commits) == ([b"0", b"1", b"2"], 3)
            assert one.metrics.failed_look_ups == 0

    serve(tmp_path, work, a="a.*")


def test_a_durable_with_several_filters_or_with_another_one(tmp_path: Path) -> None:
    """Gaps between several subjects are looked into; a filter that does not hold is refused."""
    from nats.js.api import AckPolicy, ConsumerConfig

    from antecede.logs.nats import Consumer, Producer

    async def work(url: str, manager: Any) -> None:
        for name, subjects in (("g", ["a.>", "c.>"]), ("all", None)):
            made = ConsumerConfig(
                durable_name=name, ack_policy=AckPolicy.EXPLICIT, filter_subjects=subjects
            )
            await manager.add_consumer("one", made)
        wrong = {"servers": url, "durable": "all", "filters": {"one": "a.>"}}
        with pytest.raises(UsageError, match=r"is there with the filter >, not a\.>"):
            async with Consumer(wrong, ["one"]):
                pass
        async with (
            Producer({"servers": url}) as producer,
            Consumer({"servers": url, "durable": "g"}, ["one", "two"], limit=20) as reader,
        ):
            with context():
                await producer.send("a.x", b"a1")
            assert [r.value for r in await take(reader, 1)] == [b"a1"]
            with context():
                await producer.send("b.x", b"b2")
                await producer.send("b.x", b"b3")
                await producer.send("s.x", b"s")
                await producer.send("c.x", b"c4")
            assert [r.value for r in await take(reader, 2)] == [b"s", b"c4"]
            assert reader.metrics.lost == reader.metrics.gave_up == 0

    serve(tmp_path, work, one="a.> b.> c.>", two="s.>")
