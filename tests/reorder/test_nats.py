"""Streams of NATS as sources and sinks: offsets, limits, resumption, with a real server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from antecede.errors import UsageError
from antecede.reorder.nats_client import (
    Outgoing,
    Place,
    asked,
    make_stream,
    publish,
    read,
    state_of,
)
from antecede.reorder.nats_source import (
    NatsSource,
    NatsStreamReader,
    Range,
    Settings,
    split,
)
from tests.support.nats_server import NatsServer

pytest.importorskip("nats", reason="needs nats-py")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as started:
        yield started


def place(server: NatsServer, stream: str = "ORDERS", wait: float = 300.0) -> Place:
    return Place((server.url().rstrip("/"),), stream, server.url(stream), wait)


def fill(where: Place, numbers: Iterable[int]) -> int:
    make_stream(where, [f"{where.stream}.>"])
    rows = (Outgoing(f"{where.stream}.{n % 2}", b"%d" % n, f"m{n}", {"N": str(n)}) for n in numbers)
    return publish(where, rows)


def reader(server: NatsServer, **options: object) -> NatsStreamReader:
    given = {"url": server.url("ORDERS"), **{key: str(value) for key, value in options.items()}}
    return NatsStreamReader(Settings.of(given))


def numbers(source: NatsStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    batches = [batch for part in source.partitions(start, end) for batch in source.read(part)]
    return [int(data) for batch in batches for data in batch.column("data").to_pylist()]


def test_offsets_are_sequence_numbers_and_batches_are_limited(server: NatsServer) -> None:
    assert fill(place(server), range(2500)) == 2500
    assert fill(place(server), range(2500)) == 0  # the same ids
    source = reader(server, maxMessagesPerTrigger=1000)
    start = source.initialOffset()
    assert start["sequence"] == 0
    limit = source.getDefaultReadLimit()
    source.prepareForTriggerAvailableNow()
    fill(place(server), [2500])  # too late for this run
    found, ends = [], []
    while (end := source.latestOffset(start, limit)) != start:
        found += numbers(source, start, end)
        ends.append(end["sequence"])
        start = end
    assert ends == [1000, 2000, 2500]
    assert found == list(range(2500))
    assert source.reportLatestOffset()["sequence"] == 2501
    assert not source.partitions(start, start)

    odd = reader(server, subject="ORDERS.1", startingSequence=11)
    start = odd.initialOffset()
    end = odd.latestOffset(start, odd.getDefaultReadLimit())
    assert numbers(odd, start, end) == list(range(11, 2501, 2))
    assert reader(server, startingSequence="latest").initialOffset()["sequence"] == 2501
    (batch,) = odd.read(Range(12, 12))
    (row,) = batch.to_pylist()
    assert (row["sequence"], row["subject"], row["data"]) == (12, "ORDERS.1", b"11")
    assert dict(row["headers"]) == {"N": "11", "Nats-Msg-Id": "m11", **_stream(row)}
    assert abs(row["time"].timestamp() - time.time()) < 3600


def _stream(row: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in row["headers"] if key == "Nats-Expected-Stream"}


def test_a_range_is_split_without_gaps() -> None:
    assert split(5, 4, 4) == []
    assert split(5, 5, 4) == [Range(5, 5)]
    for first, last, most in ((1, 10_000, 4), (7, 2007, 4), (3, 99_999, 7)):
        parts = split(first, last, most)
        assert 1 <= len(parts) <= most
        found = [n for part in parts for n in range(part.first, part.last + 1)]
        assert found == list(range(first, last + 1))


def test_what_is_gone_is_told_and_not_skipped(server: NatsServer) -> None:
    where = place(server)
    fill(where, range(10))
    source = reader(server)
    start = source.initialOffset()
    asked(where, lambda jetstream: jetstream.purge_stream("ORDERS", seq=4))
    with pytest.raises(UsageError, match="messages 1 to 3 of the stream 'ORDERS' are gone"):
        source.latestOffset(start, source.getDefaultReadLimit())
    careless = reader(server, failOnDataLoss=False, maxMessagesPerTrigger=2)
    end = careless.latestOffset(start, careless.getDefaultReadLimit())
    assert numbers(careless, start, end) == [3, 4]
    asked(where, lambda jetstream: jetstream.delete_msg("ORDERS", 8))
    end = {**end, "sequence": 10}
    assert numbers(careless, start, end) == [3, 4, 5, 6, 8, 9]
    lost = {**start, "sequence": 99}
    with pytest.raises(UsageError, match="ends at message 10, but 99 was read"):
        careless.latestOffset(lost, careless.getDefaultReadLimit())
    asked(where, lambda jetstream: jetstream.delete_stream("ORDERS"))
    with pytest.raises(UsageError, match="has no stream 'ORDERS'"):
        state_of(where)
    fill(where, range(3))
    with pytest.raises(UsageError, match="was made anew"):
        careless.latestOffset(start, careless.getDefaultReadLimit())


def test_a_server_that_is_killed_while_it_is_read_and_written_is_waited_for(
    server: NatsServer,
) -> None:
    where = place(server)
    fill(where, range(3000))
    pages = read(where, None, 1, 3000)
    found = [int(message.data) for message in next(pages)]
    server.kill()
    back = threading.Timer(0.5, server.start)
    back.start()
    found += [int(message.data) for page in pages for message in page]
    assert found == list(range(3000))
    back.join()

    def rows() -> Iterator[Outgoing]:
        for number in range(3000, 6000):
            if number == 4500:
                server.kill()
                threading.Timer(0.5, server.start).start()
            yield Outgoing("ORDERS.x", b"%d" % number, f"m{number}", {})

    publish(where, rows())
    found = [int(message.data) for page in read(where, None, 3001, 9999) for message in page]
    assert found == list(range(3000, 6000))


def test_a_server_that_stays_away_is_one_line(tmp_path: Path) -> None:
    away = NatsServer(tmp_path / "nats")
    with pytest.raises(UsageError, match=r"did not answer for 0\.3 s") as caught:
        state_of(place(away, wait=0.3))
    assert "\n" not in str(caught.value)
    with (
        NatsServer(tmp_path / "closed", "--user", "ann", "--pass", "secret") as closed,
        pytest.raises(UsageError, match="refuses the user or password"),
    ):
        state_of(place(closed))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "needs the URL of a stream"),
        ({"path": "orders/"}, "neither nats nor tls"),
        ({"url": "nats://h/S", "colour": "red"}, "option 'colour' of antecede.nats is not one of"),
        ({"url": "nats://h/S", "maxMessagesPerTrigger": "0"}, "a whole number from 1"),
        ({"url": "nats://h/S", "waitSeconds": "long"}, "a number of seconds"),
        ({"url": "nats://h/S", "failOnDataLoss": "maybe"}, "expected true or false"),
        ({"url": "nats://h/S", "startingSequence": "first"}, "earliest, latest or a number"),
        ({"url": "nats://h/S", "key": "k.pem"}, "authority, certificate and key"),
    ],
)
def test_a_wrong_option_is_one_line(options: dict[str, str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        NatsSource(options)
    assert "\n" not in str(caught.value)


def test_options_of_the_query_are_no_mistake() -> None:
    """Spark passes them on to the sink, in lower case."""
    options = {"path": "nats://h/S", "checkpointlocation": "x", "queryname": "copy"}
    assert NatsSource(options).settings.place.stream == "S"


def test_rows_that_cannot_be_published_are_refused(server: NatsServer) -> None:
    from pyspark.sql.types import StructType

    fill(place(server), range(1))
    source = NatsSource({"url": server.url("ORDERS")})
    only_data = StructType().add("data", "string")
    with pytest.raises(UsageError, match="'subject' is missing"):
        source.streamWriter(only_data, overwrite=False)
    with pytest.raises(UsageError, match="'data' is missing"):
        source.writer(StructType().add("subject", "string"), overwrite=False)
    with pytest.raises(UsageError, match="cannot overwrite"):
        source.writer(only_data, overwrite=True)
    with pytest.raises(UsageError, match="takes 1048576; raise max_payload"):
        publish(place(server), [Outgoing("ORDERS.x", bytes(1 << 21), None, {})])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("nats://h", "out"), "its path is not a name"),
        (("nats://h/S?x=1", "out"), "option 'x' is not one of none"),
        (("nats://ann:secret@h/A", "nats://ann:secret@h/B"), "give a folder by --checkpoint"),
    ],
)
def test_a_wrong_call_is_refused_before_spark_starts(words: tuple[str, ...], reason: str) -> None:
    from typer.testing import CliRunner

    from antecede.cli.main import command_line

    done = CliRunner().invoke(command_line("reorder"), ["reorder", *words])
    assert isinstance(done.exception, UsageError)
    assert reason in str(done.exception)
    assert "secret" not in str(done.exception)
