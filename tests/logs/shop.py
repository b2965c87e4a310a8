"""A shop over a broker: workers in processes that are killed, and an oracle that knows no offset.

An order leads to a payment, a payment to a shipment; sometimes an order comes with a gift, which
is written beside it. The group ``shop`` does that; ``view`` reads everything, and ``plain`` does
the same with ``order="off"``. Workers record what they start, end and send, by name. The oracle
uses only these records. Guests are workers that repeatedly join their group for some seconds and
leave it, so that groups rebalance all the time.

``python -m tests.logs.shop --client confluent --seconds 600`` is the soak; ``make soak`` runs it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from antecede.logs.gate import Metrics
from antecede.logs.positions import context
from antecede.logs.reader import Order
from tests.logs.brokers import QUICK, Kafka, mock_cluster
from tests.support.nats_server import NatsServer

ROOT = Path(__file__).resolve().parents[2]
TOPICS = ["orders", "payments", "shipments"]
GROUPS: dict[str, tuple[list[str], Order]] = {
    "shop": (["orders", "payments"], "enforce"),
    "view": (TOPICS, "enforce"),
    "plain": (TOPICS, "off"),
}
Rows = list[dict[str, Any]]


def effects(group: str, name: str) -> list[tuple[str, str]]:
    """Return the topics and names that a group writes when it handles a message."""
    kind, _, number = name.partition("-")
    if group == "shop" and kind == "order":
        return [("payments", f"payment-{number}")]
    if group == "shop" and kind == "payment":
        return [("shipments", f"shipment-{number}")]
    return []


def delay(name: str, source: random.Random) -> float:
    """Return how long a handler takes; some orders are slow, which is enough to break order."""
    if name.startswith("order"):
        return 0.25 if source.random() < 0.02 else source.expovariate(1 / 0.006)
    return source.expovariate(1 / 0.002)


class Diary:
    """A process's events as JSON lines, each in one write, so that a kill loses nothing.

    The machine's monotonic clock can be compared between processes.
    """

    def __init__(self, folder: Path, process: str, group: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(folder / f"{process}.diary", flags, 0o644)
        self._head = {"process": process, "group": group}

    def add(self, kind: str, message: str, **more: object) -> None:
        row = {"t": time.monotonic_ns(), **self._head, "kind": kind, "message": message, **more}
        os.write(self._file, json.dumps(row).encode() + b"\n")


# The oracle.


def diaries(folder: Path) -> Rows:
    """Return all events in order of time, without lines torn by a kill."""
    found: Rows = []
    for path in folder.glob("*.diary"):
        for line in path.read_bytes().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return sorted(found, key=lambda row: row["t"])


def judge(rows: Rows, groups: Iterable[str] = GROUPS) -> dict[str, dict[str, Any]]:
    """Return, per group, messages processed before a cause, lost ones and repeated ones."""
    parents: dict[str, set[str]] = {}
    topic: dict[str, str] = {}
    for row in rows:
        if row["kind"] == "send":
            parents.setdefault(row["message"], set()).update(row["after"])
            topic[row["message"]] = row["topic"]
    past: dict[str, frozenset[str]] = {}

    def ancestors(name: str) -> frozenset[str]:
        if name not in past:
            direct = parents.get(name, set())
            past[name] = frozenset(direct).union(*map(ancestors, direct))
        return past[name]

    report: dict[str, dict[str, Any]] = {}
    for group in groups:
        topics, order = GROUPS[group]
        ended: set[str] = set()
        early: dict[str, str] = {}
        starts = 0
        for row in rows:
            name = row["message"]
            if row["group"] != group or name not in topic:
                continue
            if row["kind"] == "start":
                starts += 1
                lacking = {n for n in ancestors(name) if topic[n] in topics} - ended
                if lacking:
                    early.setdefault(name, min(lacking))
            elif row["kind"] == "end":
                ended.add(name)
        expected = {name for name, where in topic.items() if where in topics}
        report[group] = {
            "order": order,
            "messages": len(expected),
            "lost": len(expected - ended),
            "again": starts - len(ended),
            "violations": len(early),
            "examples": dict(list(early.items())[:3]),
        }
    return report


# The workers.


class Visit:
    """The stay of a worker: until SIGTERM; a guest also leaves by itself after a while."""

    def __init__(self) -> None:
        self.is_over = False
        self._stop: Callable[[], object] = lambda: None
        self._timer: threading.Timer | None = None
        signal.signal(signal.SIGTERM, lambda *_: self._end())

    def _end(self) -> None:
        self.is_over = True
        self._stop()

    def begin(self, stop: Callable[[], object], seconds: float | None) -> None:
        """Let ``stop`` be called, from any thread."""
        self._stop = stop
        if seconds is not None:
            self._timer = threading.Timer(seconds, stop)
            self._timer.daemon = True
            self._timer.start()
        if self.is_over:
            stop()

    def end(self) -> None:
        self._stop = lambda: None
        if self._timer is not None:
            self._timer.cancel()


class Worker(NamedTuple):
    """The instructions of a worker."""

    servers: str
    folder: Path
    group: str
    process: str
    visit: Visit
    source: random.Random
    diary: Diary
    seconds: float | None = None

    def begin(self, stop: Callable[[], object]) -> None:
        self.visit.begin(stop, self.seconds)
        self.diary.add("ready", "")


def work_confluent(told: Worker) -> Metrics:
    from antecede.logs.confluent import Consumer, Producer

    servers, folder, group, diary = told.servers, told.folder, told.group, told.diary
    topics, order = GROUPS[group]
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    config = {**QUICK, "bootstrap.servers": servers, "group.id": group}
    events = folder / f"{group}.jsonl"
    with Consumer(config, topics, order=order, events=events) as consumer:
        told.begin(consumer.stop)
        for record in consumer:
            name = record.value.decode()
            with record:
                diary.add("start", name)
                time.sleep(delay(name, told.source))
                after = [name]
                for topic, effect in effects(group, name):
                    diary.add("send", effect, after=list(after), topic=topic)
                    producer.send(topic, effect, key=effect)
                    after.append(effect)
                producer.settle()
                diary.add("end", name)
        return consumer.metrics


async def work_aiokafka(told: Worker) -> Metrics:
    from antecede.logs.aiokafka import Consumer, Producer

    servers, folder, group, diary = told.servers, told.folder, told.group, told.diary
    topics, order = GROUPS[group]
    config = {
        "bootstrap_servers": servers,
        "group_id": group,
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 300,
        "fetch_max_wait_ms": 10,
    }
    events = folder / f"{group}.jsonl"
    async with (
        Producer({"bootstrap_servers": servers}) as producer,
        Consumer(config, topics, order=order, events=events) as consumer,
    ):
        loop = asyncio.get_running_loop()
        told.begin(partial(loop.call_soon_threadsafe, consumer.stop))

        async def handle(record: Any) -> None:
            name = record.value.decode()
            with record:
                diary.add("start", name)
                await asyncio.sleep(delay(name, told.source))
                after = [name]
                for topic, effect in effects(group, name):
                    diary.add("send", effect, after=list(after), topic=topic)
                    await producer.send(topic, effect.encode(), key=effect.encode())
                    after.append(effect)
                diary.add("end", name)

        async with asyncio.TaskGroup() as tasks:
            async for record in consumer:
                tasks.create_task(handle(record))
        return consumer.metrics


async def work_nats(told: Worker) -> Metrics:
    from antecede.logs.nats import Consumer, Producer

    servers, folder, group, diary = told.servers, told.folder, told.group, told.diary
    topics, order = GROUPS[group]
    events = folder / f"{group}.jsonl"
    config = {"servers": servers, "durable": group, "ack_wait": 5.0}
    async with (
        Producer({"servers": servers}) as producer,
        Consumer(config, topics, order=order, events=events) as consumer,
    ):
        loop = asyncio.get_running_loop()
        told.begin(partial(loop.call_soon_threadsafe, consumer.stop))

        async def handle(record: Any) -> None:
            name = record.value.decode()
            try:
                with record:
                    diary.add("start", name)
                    await asyncio.sleep(delay(name, told.source))
                    after = [name]
                    for topic, effect in effects(group, name):
                        diary.add("send", effect, after=list(after), topic=topic)
                        await producer.send(f"{topic}.x", effect.encode())
                        after.append(effect)
                    diary.add("end", name)
            except Exception as error:  # noqa: BLE001 - the server was killed: it is handled again
                diary.add("failed", name, why=repr(error))

        async with asyncio.TaskGroup() as tasks:
            async for record in consumer:
                tasks.create_task(handle(record))
        return consumer.metrics


def work(client: str, servers: str, folder: Path, group: str, process: str, *, guest: bool) -> None:
    """Run a worker until SIGTERM, or a guest repeatedly; save its counters."""
    source, visit = random.Random(process), Visit()
    told = Worker(servers, folder, group, process, visit, source, Diary(folder, process, group))
    counted: Counter[str] = Counter()
    while not visit.is_over:
        told = told._replace(seconds=source.uniform(1, 4) if guest else None)
        if client == "confluent":
            found = work_confluent(told)
        else:
            found = asyncio.run((work_aiokafka if client == "aiokafka" else work_nats)(told))
        visit.end()
        counted.update(found.as_dict())
        (folder / f"{process}.metrics").write_text(json.dumps(counted))
        if guest and not visit.is_over:
            time.sleep(source.uniform(0.2, 2))


# The driver.


class Server(Protocol):
    """A broker that can be killed and started again."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Shop:
    """Starts workers, kills them, and writes orders."""

    def __init__(self, client: str, servers: str, folder: Path, instances: int, seed: int) -> None:
        self.client, self.servers, self.folder = client, servers, folder
        self.random = random.Random(seed)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.guests: set[str] = set()
        self.groups: Iterable[str] = GROUPS
        self.instances = instances
        self.number = 0
        self.kills = self.stops = self.server_kills = self.orders = 0

    def start(self, group: str, *, guest: bool = False) -> None:
        process = f"{group}-{self.number}"
        self.number += 1
        words = [sys.executable, "-m", "tests.logs.shop", "--work", group, process]
        words += ["--client", self.client, "--servers", self.servers, "--folder", str(self.folder)]
        if guest:
            self.guests.add(process)
            words.append("--guest")
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        with (self.folder / f"{process}.errors").open("wb") as errors:
            self.workers[process] = subprocess.Popen(
                words, cwd=ROOT, env=environment, stderr=errors, stdin=subprocess.DEVNULL
            )

    def disturb(self) -> None:
        """Kill a worker or ask it to end, and start another in its place."""
        process = self.random.choice(sorted(self.workers))
        worker = self.workers.pop(process)
        if not self.kills or self.random.random() < 0.7:
            worker.kill()
            self.kills += 1
        else:
            worker.terminate()
            self.stops += 1
        worker.wait(60)
        self.start(process.rpartition("-")[0], guest=process in self.guests)

    def ready(self) -> bool:
        rows = diaries(self.folder)
        return {r["process"] for r in rows if r["kind"] == "ready"} >= set(self.workers)

    def visits(self) -> int:
        """Return how often a worker has joined its group."""
        return sum(row["kind"] == "ready" for row in diaries(self.folder))

    def close(self) -> None:
        for worker in self.workers.values():
            worker.terminate()
        for worker in self.workers.values():
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:
                worker.kill()

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the counters of workers that ended by themselves, by group."""
        found: dict[str, dict[str, float]] = {}
        for path in self.folder.glob("*.metrics"):
            group = found.setdefault(path.stem.rpartition("-")[0], {})
            for name, value in json.loads(path.read_text()).items():
                group[name] = round(group.get(name, 0) + value, 3)
        return found

    async def drive(
        self,
        send: Callable[[str, str], Any],
        *,
        seconds: float,
        rate: float,
        every: float,
        guests: int = 0,
        groups: Iterable[str] = GROUPS,
        server: Server | None = None,
        patience: float = 180.0,
    ) -> dict[str, dict[str, Any]]:
        """Write orders for some seconds with disturbances, and wait until all are processed."""
        diary = Diary(self.folder, "driver", "driver")
        self.groups = groups
        for group in self.groups:
            for number in range(self.instances + guests):
                self.start(group, guest=number >= self.instances)
        until = time.monotonic() + patience
        while not self.ready() and time.monotonic() < until:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.2)
        await self._sell(send, diary, seconds, rate, every, server)
        end = time.monotonic() + patience
        while True:
            await asyncio.sleep(1)
            rows = diaries(self.folder)
            shipped = {r["message"] for r in rows if r["kind"] == "send"}
            if time.monotonic() > end:
                break
            if len([name for name in shipped if name.startswith("shipment")]) < self.orders:
                continue
            if not any(one["lost"] for one in judge(rows, self.groups).values()):
                break
        self.close()
        return judge(diaries(self.folder), self.groups)

    async def _sell(
        self,
        send: Callable[[str, str], Any],
        diary: Diary,
        seconds: float,
        rate: float,
        every: float,
        server: Server | None,
    ) -> None:
        """Write orders with disturbances; continue until a worker was killed."""
        begin = last = time.monotonic()
        while time.monotonic() - begin < seconds or (every and not self.kills):
            number, self.orders = self.orders, self.orders + 1
            names = [("orders", f"order-{number}")]
            if number % 3 == 0:
                names.append(("payments", f"gift-{number}"))
            with context():
                after: list[str] = []
                for topic, name in names:
                    diary.add("send", name, after=list(after), topic=topic)
                    await send(topic, name)
                    after.append(name)
            if every and time.monotonic() - last > every:
                last = time.monotonic()
                if server is not None and self.random.random() < 0.3:
                    self.server_kills += 1
                    server.kill()
                    await asyncio.sleep(self.random.random() * 2)
                    server.start()
                else:
                    await asyncio.to_thread(self.disturb)
            await asyncio.sleep(self.random.expovariate(rate))


async def run(
    client: str,
    folder: Path,
    *,
    seconds: float,
    instances: int = 3,
    rate: float = 20.0,
    every: float = 15.0,
    guests: int = 0,
    groups: Iterable[str] = GROUPS,
    broker: str = "real",
    seed: int = 1,
    patience: float = 180.0,
) -> tuple[dict[str, dict[str, Any]], Shop]:
    """Run the shop over a broker; return the oracle's report."""
    options: dict[str, Any] = {
        "seconds": seconds,
        "rate": rate,
        "every": every,
        "guests": guests,
        "groups": groups,
        "patience": patience,
    }
    if client == "nats":
        return await _run_nats(folder, instances, seed, options)
    if broker == "mock":
        with mock_cluster(*TOPICS) as servers:
            return await _run_kafka(client, servers, folder, instances, seed, options)
    with Kafka(folder / "broker") as kafka:
        kafka.create(*TOPICS)
        return await _run_kafka(client, kafka.servers, folder, instances, seed, options)


async def _run_kafka(
    client: str, servers: str, folder: Path, instances: int, seed: int, options: dict[str, Any]
) -> tuple[dict[str, dict[str, Any]], Shop]:
    from antecede.logs.confluent import Producer

    shop = Shop(client, servers, folder, instances, seed)
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})

    async def send(topic: str, name: str) -> None:
        producer.send(topic, name, key=name)

    try:
        return await shop.drive(send, **options), shop
    finally:
        shop.close()


async def _run_nats(
    folder: Path, instances: int, seed: int, options: dict[str, Any]
) -> tuple[dict[str, dict[str, Any]], Shop]:
    import nats
    from nats.js.api import AckPolicy, ConsumerConfig

    from antecede.logs.nats import Producer

    with NatsServer(folder / "broker") as server:
        client = await nats.connect(server.url())
        stream = client.jetstream(timeout=30)
        for topic in TOPICS:
            await stream.add_stream(name=topic, subjects=[f"{topic}.>"])
        for group, (topics, _) in GROUPS.items():
            for topic in topics:
                await stream.add_consumer(
                    topic,
                    ConsumerConfig(durable_name=group, ack_policy=AckPolicy.EXPLICIT, ack_wait=5),
                )
        await client.close()
        shop = Shop("nats", server.url(), folder, instances, seed)
        async with Producer({"servers": server.url()}) as producer:

            async def send(topic: str, name: str) -> None:
                while True:  # the same name again is the same message
                    try:
                        await producer.send(f"{topic}.x", name.encode())
                    except Exception:  # noqa: BLE001 - the server was killed
                        await asyncio.sleep(0.2)
                    else:
                        return

            try:
                return await shop.drive(send, server=server, **options), shop
            finally:
                shop.close()


def faults(report: dict[str, dict[str, Any]]) -> list[str]:
    """Return the faults that the report shows."""
    found = []
    for group, row in report.items():
        if row["lost"]:
            found.append(f"{group} lost {row['lost']}")
        if row["order"] == "enforce" and row["violations"]:
            found.append(f"{group} processed {row['violations']} before a cause: {row['examples']}")
        if row["order"] == "off" and not row["violations"]:
            found.append(f"{group} broke no order, so the run shows nothing")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--client", default="confluent", choices=["confluent", "aiokafka", "nats"])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--every", type=float, default=15, help="seconds between kills")
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--guests", type=int, default=1, help="of each group; they come and go")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", default="real", choices=["real", "mock"])
    parser.add_argument("--work", nargs=2, metavar=("GROUP", "PROCESS"), help="be a worker")
    parser.add_argument("--guest", action="store_true", help="be a worker that comes and goes")
    parser.add_argument("--servers", default="")
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if asked.work:
        work(asked.client, asked.servers, asked.folder, *asked.work, guest=asked.guest)
        return 0
    folder = Path(asked.folder or tempfile.mkdtemp(prefix="antecede-shop-"))
    folder.mkdir(parents=True, exist_ok=True)
    report, shop = asyncio.run(
        run(
            asked.client,
            folder,
            seconds=asked.seconds,
            instances=asked.instances,
            rate=asked.rate,
            every=asked.every,
            guests=asked.guests,
            broker=asked.broker,
            seed=asked.seed,
        )
    )
    for group, row in report.items():
        print(group, row, shop.metrics().get(group, {}))
    print(
        f"{shop.orders} orders, {shop.kills} workers killed, {shop.stops} stopped, "
        f"{shop.visits()} joins, {shop.server_kills} kills of the server; diaries in {folder}"
    )
    bad = faults(report)
    print("; ".join(bad) if bad else "causes first, nothing lost")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
