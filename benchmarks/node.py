"""Three nodes against bare echoes of the same frames over TCP on loopback.

One process sends 256-byte messages to two others, which send them back; a window of messages is in
transit at any time. The same frames are echoed by asyncio streams and by an asyncio Protocol that
writes once per read. Rates are echoes per CPU second of the sending process, since other work on
the machine then matters least; the best slice of several rounds counts. Durable nodes wait for the
disk, so their rate is messages per second by the clock, beside what SQLite alone commits in such
batches.

The cost of heartbeats is measured with a hundred times as many as usual, in short slices with and
without them in turn; medians count.

Bounds: 0.5 of the rate of streams at windows 16 and 256; durable, 5,000 messages/s or half of what
SQLite alone commits; with that many heartbeats, 0.95 of the rate without, so that the usual number
costs less than a thousandth.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing as mp
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from antecede.errors import AntecedeError
from antecede.net import Limits, Node
from antecede.net.metrics import parse_metrics
from antecede.net.transports import tcp
from benchmarks._ports import free_ports
from benchmarks._tables import judge, record

PAYLOAD = bytes(256)
FRAME = len(PAYLOAD) + 32
WINDOWS = (1, 16, 256)
SLICES = 8
SHARE_MIN = 0.5
DURABLE_MIN, SQLITE_SHARE_MIN = 5_000.0, 0.5
OFTEN, BEATING_MIN = 100, 0.95
NAMES = ("a", "b", "c")


class Batched(asyncio.Protocol):
    """Sends back everything that it reads, in one write."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Send the data back."""
        assert isinstance(self.transport, asyncio.Transport)
        self.transport.write(data)


class Counting(asyncio.Protocol):
    """Keeps a window of frames in transit and counts those that come back."""

    def __init__(self, window: int) -> None:
        self.window, self.count, self.rest = window, 0, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first frames."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(bytes(FRAME) * self.window)

    def data_received(self, data: bytes) -> None:
        """Count the frames that came back, and send as many."""
        whole, self.rest = divmod(self.rest + len(data), FRAME)
        self.count += whole
        if whole:
            self.transport.write(bytes(FRAME) * whole)


async def serve_streams(port: int) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                writer.write(await reader.readexactly(FRAME))
                await writer.drain()

    server = await asyncio.start_server(echo, "127.0.0.1", port)
    await server.serve_forever()


async def serve_batched(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Batched, "127.0.0.1", port)
    await server.serve_forever()


def make_node(name: str, addresses: dict[str, str], folder: str) -> Node:
    store = f"{folder}/{name}.db" if folder else None
    limits = Limits(linger_seconds=0)
    return Node(name, listen=addresses[name], peers=addresses, store=store, limits=limits)


class Jobs:
    """Background tasks that are not awaited."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, job: Coroutine[Any, Any, None]) -> None:
        """Start a task."""
        task = asyncio.create_task(job)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def stop(self) -> None:
        """Cancel all tasks."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def post(node: Node, dest: str, payload: bytes) -> None:
    with contextlib.suppress(AntecedeError):  # the node may be closed by now
        await node.send([dest], payload)


async def echo_back(
    node: Node, jobs: Jobs | None, count: Callable[[], None] = lambda: None
) -> None:
    """Send everything back; with jobs, several sends can share a commit."""
    async for delivery in node:
        count()
        delivery.done()
        if jobs is None:
            await node.send([delivery.source], delivery.payload)
        else:
            jobs.start(post(node, delivery.source, delivery.payload))


async def serve_node(name: str, addresses: dict[str, str], folder: str) -> None:
    async with make_node(name, addresses, folder) as node:
        await echo_back(node, Jobs() if folder else None)


def child(kind: str, *given: object) -> None:
    logging.getLogger("antecede.net").setLevel(logging.CRITICAL)
    serve: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
        "streams": serve_streams,
        "batched": serve_batched,
        "node": serve_node,
    }
    asyncio.run(serve[kind](*given))


@contextlib.contextmanager
def children(calls: list[tuple[object, ...]]) -> Iterator[None]:
    context = mp.get_context("spawn")
    started = [context.Process(target=child, args=call, daemon=True) for call in calls]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.join()


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        with contextlib.suppress(OSError):
            return await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.05)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - many things may make it true
        await asyncio.sleep(0.01)


async def rates(counter: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Return the growth of a counter: per CPU second in the best slice, and per second."""
    await until(lambda: counter() > 0)
    await asyncio.sleep(seconds / 4)  # warm up
    best, first, begin = 0.0, counter(), time.perf_counter()
    for _ in range(SLICES):
        count, cpu = counter(), time.process_time()
        await asyncio.sleep(seconds / SLICES)
        best = max(best, (counter() - count) / (time.process_time() - cpu))
    return best, (counter() - first) / (time.perf_counter() - begin)


async def echo_streams(ports: list[int], window: int, seconds: float) -> tuple[float, float]:
    counts = [0, 0]

    async def client(index: int, share: int) -> None:
        reader, writer = await connected(ports[index])
        with contextlib.closing(writer):
            writer.write(bytes(FRAME) * share)
            while True:
                frame = await reader.readexactly(FRAME)
                counts[index] += 1
                writer.write(frame)
                await writer.drain()

    shares = [window - window // 2, window // 2]
    jobs = Jobs()
    for index, share in enumerate(shares):
        if share:
            jobs.start(client(index, share))
    found = await rates(lambda: sum(counts), seconds)
    await jobs.stop()
    return found


async def echo_batched(ports: list[int], window: int, seconds: float) -> tuple[float, float]:
    made = []
    for port, share in zip(ports, (window - window // 2, window // 2), strict=True):
        if share:
            (await connected(port))[1].close()
            _, protocol = await asyncio.get_running_loop().create_connection(
                partial(Counting, share), "127.0.0.1", port
            )
            made.append(protocol)
    found = await rates(lambda: sum(protocol.count for protocol in made), seconds)
    for protocol in made:
        protocol.transport.abort()
    return found


@asynccontextmanager
async def three_nodes(folder: str) -> AsyncIterator[Node]:
    ports = free_ports(3)
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, ports, strict=True)}
    with children([("node", name, addresses, folder) for name in NAMES[1:]]):
        async with make_node("a", addresses, folder) as node:
            yield node


@asynccontextmanager
async def echoing(folder: str, window: int) -> AsyncIterator[tuple[Node, Callable[[], int]]]:
    """Send messages to and fro; yield the node that counts them, and its counter."""
    async with three_nodes(folder) as node:
        count, jobs = 0, Jobs()

        def add() -> None:
            nonlocal count
            count += 1

        for number in range(window):
            jobs.start(post(node, NAMES[1 + number % 2], PAYLOAD))
        jobs.start(echo_back(node, jobs if folder else None, add))
        await until(lambda: count > 2 * window)
        yield node, lambda: count
        await jobs.stop()


async def echo_nodes(folder: str, window: int, seconds: float) -> tuple[tuple[float, float], float]:
    """Return the rates, and how many messages share one commit."""
    async with echoing(folder, window) as (node, counter):
        before, commits = counter(), figure(node, "commits_total")
        found = await rates(counter, seconds)
        commits = figure(node, "commits_total") - commits
        return found, 2 * (counter() - before) / commits if commits else 0.0


async def beating(window: int, seconds: float) -> tuple[list[float], list[float]]:
    """Return echoes per CPU second in slices with very many heartbeats, and without any."""
    found: tuple[list[float], list[float]] = ([], [])
    with patch.object(tcp, "SWEEP_SECONDS", tcp.HEARTBEAT_SECONDS / OFTEN):
        async with echoing("", window) as (_, counter):
            for number in range(4 * SLICES):
                silence = 0.0 if number % 2 else float("inf")
                with patch.object(tcp, "HEARTBEAT_SECONDS", silence):
                    count, cpu = counter(), time.process_time()
                    await asyncio.sleep(seconds / SLICES)
                    rate = (counter() - count) / (time.process_time() - cpu)
                    found[0 if number % 2 else 1].append(rate)
    return found


def figure(node: Node, name: str) -> float:
    return parse_metrics(node.metrics())[1][name]


def sqlite_rate(batch: int, seconds: float, folder: str) -> float:
    """Return how many records per second SQLite alone commits, ``batch`` to a transaction."""
    with contextlib.closing(sqlite3.connect(f"{folder}/alone.db", isolation_level=None)) as base:
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=FULL")
        base.execute("CREATE TABLE journal (id INTEGER PRIMARY KEY, data BLOB)")
        entry, count, begin = bytes(FRAME * batch), 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            base.execute("INSERT INTO journal (data) VALUES (?)", (entry,))
            count += batch
        return count / (time.perf_counter() - begin)


async def latencies(folder: str, rate: float, seconds: float) -> list[float]:
    """Return the seconds of round trips at a steady rate of messages, including echoes."""
    async with three_nodes(folder) as node:
        begun: dict[bytes, float] = {}
        found: list[float] = []
        jobs = Jobs()

        def ping(number: int) -> None:
            payload = number.to_bytes(8, "big") + PAYLOAD[8:]
            begun[payload] = time.perf_counter()
            jobs.start(post(node, NAMES[1 + number % 2], payload))

        async def listen() -> None:
            async for delivery in node:
                found.append(time.perf_counter() - begun.pop(delivery.payload))
                delivery.done()

        jobs.start(listen())
        for number in range(2):
            ping(number)
        await until(lambda: len(found) == 2)
        begin, gap = time.perf_counter(), 2 / rate
        for number in range(2, 2 + int(seconds / gap)):
            ping(number)
            await asyncio.sleep(max(0, begin + (number - 1) * gap - time.perf_counter()))
        await asyncio.sleep(0.5)
        await jobs.stop()
        return found[2:]


def compare(windows: tuple[int, ...], seconds: float, rounds: int) -> bool:
    """Print echoes per CPU second; return whether nodes reach their share of the rate."""
    print("window   streams   batched      node   of streams   of batched   [echoes/CPU s]")
    is_met = True
    for window in windows:
        best = dict.fromkeys(("streams", "batched", "node"), 0.0)
        for _ in range(rounds):
            ports = free_ports(4)
            with children([("streams", port) for port in ports[:2]]):
                rate, _ = asyncio.run(echo_streams(ports[:2], window, seconds))
                best["streams"] = max(best["streams"], rate)
            with children([("batched", port) for port in ports[2:]]):
                rate, _ = asyncio.run(echo_batched(ports[2:], window, seconds))
                best["batched"] = max(best["batched"], rate)
            (rate, _), _ = asyncio.run(echo_nodes("", window, seconds))
            best["node"] = max(best["node"], rate)
        share = best["node"] / best["streams"]
        row = "".join(f"{best[name]:>10,.0f}" for name in ("streams", "batched", "node"))
        print(f"{window:>6}{row}{share:>13.2f}{best['node'] / best['batched']:>13.2f}")
        record("node_echo", window=window, **best, of_streams=share)
        is_met &= judge(f"echoes in a window of {window}", window == 1 or share >= SHARE_MIN)
    return is_met


def durable(seconds: float, rounds: int) -> bool:
    """Print the rate of durable nodes; return whether it is high enough."""
    best, alone, batch = 0.0, 0.0, 0.0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            (_, rate), found = asyncio.run(echo_nodes(folder, 256, seconds))
            if 2 * rate > best:
                best, batch = 2 * rate, found
            alone = max(alone, sqlite_rate(max(1, round(batch)), seconds, folder))
    print(
        f"durable: {best:,.0f} messages/s, {batch:.0f} to a commit; SQLite alone commits "
        f"{alone:,.0f} a second in such batches"
    )
    record("node_durable", messages=best, to_a_commit=batch, sqlite=alone)
    return judge("durable", best >= DURABLE_MIN or best >= SQLITE_SHARE_MIN * alone)


def heartbeats(window: int, seconds: float, rounds: int) -> bool:
    """Print the rates with many heartbeats and without; return whether they are about equal."""
    often, never = list[float](), list[float]()
    for _ in range(rounds):
        some = asyncio.run(beating(window, seconds))
        often += some[0]
        never += some[1]
    share = statistics.median(often) / statistics.median(never)
    print(
        f"heartbeats {OFTEN} times as often as usual: {share:.3f} of the echoes without any, "
        f"in a window of {window}"
    )
    record("node_heartbeat", window=window, times=OFTEN, share=share)
    return judge(f"{OFTEN} heartbeats for one", share >= BEATING_MIN)


def main(*, quick: bool) -> bool:
    logger = logging.getLogger("antecede.net")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # no warnings that the others are not running yet
    try:
        return measure(quick=quick)
    finally:
        logger.setLevel(level)


def measure(*, quick: bool) -> bool:
    seconds, rounds = (0.2, 1) if quick else (2.0, 3)
    is_met = compare((4,) if quick else WINDOWS, seconds, rounds)
    is_met &= durable(seconds, rounds)
    is_met &= heartbeats(4 if quick else 16, seconds, rounds)
    for label, is_durable in (("in memory", False), ("durable", True)):
        with tempfile.TemporaryDirectory() as folder:
            path = folder if is_durable else ""
            found = asyncio.run(latencies(path, 1000.0, 2 * seconds))
        cuts = statistics.quantiles(found, n=100) if len(found) > 1 else [float("nan")] * 99
        print(
            f"round trip at 1,000 messages/s, {label}: p50 {1e3 * cuts[49]:.1f} ms, "
            f"p99 {1e3 * cuts[98]:.1f} ms"
        )
        record("node_latency", mode=label, p50_ms=1e3 * cuts[49], p99_ms=1e3 * cuts[98])
    print("protocol: optimal")
    return is_met or quick
