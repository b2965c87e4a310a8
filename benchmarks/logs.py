"""Causal order over Kafka by positions: rates, added latency, look-ups, bytes of headers.

The mock cluster of librdkafka runs in this process, so the figures are those of the client and of
the gate, not of a broker. Rates: one instance reads a backlog of order, payment and shipment over
3 topics of 4 partitions with a handler that does nothing, with ``off``, ``shadow`` and ``enforce``
in turn, three rounds, medians. Latency: from the write to the start of the handler, while two
instances of a group read what a third process writes at an easy pace. Bytes: simulated topologies
of ten services, 20 topics and 12 partitions, with tags. Needs confluent-kafka.
"""

from __future__ import annotations

import importlib.util
import random
import statistics
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

from antecede.logs.positions import HEADER, Context, Log, Positions, context, tag_of
from benchmarks._tables import judge, record

TOPICS = ("orders", "payments", "shipments")
PARTITIONS = 4
ORDERS = ("off", "shadow", "enforce")
QUICK = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300, "fetch.wait.max.ms": 10}
#: The least share of the rate without order, and the most bytes of a handler's header.
SHARE_MIN, BYTES_MAX = 0.5, 60.0


def preload(servers: str, chains: int) -> None:
    """Write chains of three records each, with the headers that a producer would write."""
    from confluent_kafka import Producer

    writer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "log_level": 0})
    ends: dict[Log, int] = {}
    for number in range(chains):
        one = Context()
        for topic in TOPICS:
            name = f"{topic}-{number}".encode()
            log = Log(topic, zlib.crc32(name) % PARTITIONS)
            header, offset = one.begin(log), ends.get(log, 0)
            ends[log] = offset + 1  # as the only writer, it knows offsets without waiting
            one.report(log, offset, 0.0)
            writer.produce(topic, b"x" * 200, name, log.partition, headers=[(HEADER, header)])
        if number % 500 == 0:
            writer.poll(0)
    writer.flush()


def consumer(servers: str, group: str, order: str) -> Any:
    from antecede.logs.confluent import Consumer

    config = {**QUICK, "bootstrap.servers": servers, "group.id": group, "log_level": 0}
    return Consumer(config, TOPICS, order=order)  # type: ignore[arg-type] # one of them


def rate(servers: str, order: str, total: int, group: str) -> float:
    """Return how many records of a backlog one instance handles per second."""
    with consumer(servers, group, order) as found:
        seen, begin = 0, 0.0
        for one in found:
            if not seen:
                begin = time.perf_counter()
            with one:
                seen += 1
            if seen == total:
                break
        return total / (time.perf_counter() - begin)


def rates(*, quick: bool) -> bool:
    from antecede.logs.mock import cluster

    chains, rounds = (300, 1) if quick else (10_000, 3)
    found: dict[str, list[float]] = {order: [] for order in ORDERS}
    with cluster(TOPICS, partitions=PARTITIONS) as servers:
        preload(servers, chains)
        for number in range(rounds):
            for order in ORDERS:
                found[order].append(rate(servers, order, 3 * chains, f"{order}-{number}"))
    base = statistics.median(found["off"])
    for order, values in found.items():
        middle = statistics.median(values)
        print(f"{order:8} {middle:10,.0f} records/s, {middle / base:5.2f} of off")
        record("logs_rates", order=order, rate=middle, of_off=middle / base)
    share = statistics.median(found["enforce"]) / base
    return quick or judge("enforce", share >= SHARE_MIN)


def latencies(servers: str, order: str, count: int) -> tuple[list[float], dict[str, float]]:
    """Return the seconds from each write to the start of its handler, and the counters."""
    from antecede.logs.confluent import Producer

    written: dict[str, float] = {}
    started: dict[str, float] = {}
    group = f"calm-{order}"
    both = [consumer(servers, group, order) for _ in range(2)]

    def work(one: Any) -> None:
        for found in one:
            with found:
                started[found.value.decode()] = time.perf_counter()

    threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in both]
    for thread in threads:
        thread.start()
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    until = time.monotonic() + 60
    while not all(one.assigned for one in both) and time.monotonic() < until:
        time.sleep(0.1)
    for number in range(count):
        with context():
            for topic in TOPICS:
                name = f"{topic}-{order}-{number}"
                producer.send(topic, name, key=name)
                producer.settle()
                written[name] = time.perf_counter()
        time.sleep(0.02)
    until = time.monotonic() + 60
    while not written.keys() <= started.keys() and time.monotonic() < until:
        time.sleep(0.05)
    for one in both:
        one.stop()
    for thread in threads:
        thread.join()
    figures: dict[str, float] = {}
    for one in both:
        one.close()
        for name, value in one.metrics.as_dict().items():
            figures[name] = figures.get(name, 0) + value
    return [max(0.0, started[name] - written[name]) for name in written], figures


def calm(*, quick: bool) -> bool:
    from antecede.logs.mock import cluster

    count, base = (20 if quick else 400), {0.5: 0.0, 0.99: 0.0}
    for order in ("off", "enforce"):
        with cluster(TOPICS, partitions=PARTITIONS) as servers:
            found, figures = latencies(servers, order, count)
        found.sort()
        p50, p99 = (1000 * found[int(len(found) * part)] for part in (0.5, 0.99))
        if order == "off":
            base = {0.5: p50, 0.99: p99}
        looks = figures["look_ups"] / len(found)
        print(
            f"{order:8} p50 {p50:6.2f} ms (added {p50 - base[0.5]:+.2f}), p99 {p99:6.2f} ms "
            f"(added {p99 - base[0.99]:+.2f}), {looks:.3f} look-ups and "
            f"{figures['commits'] / len(found):.3f} commits a record, "
            f"{figures['early'] / len(found):.2f} early"
        )
        record(
            "logs_latency", order=order, p50_ms=p50, p99_ms=p99, added_p50_ms=p50 - base[0.5],
            added_p99_ms=p99 - base[0.99], look_ups=looks,
            commits=figures["commits"] / len(found), early=figures["early"] / len(found),
        )  # fmt: skip
    return True


# Bytes.

SERVICES, WIDE = 10, 12
NAMES = [
    f"shop.{name}.v1"
    for name in (
        "orders payments shipments invoices refunds users carts prices stock catalog emails audit "
        "fraud returns coupons reviews search alerts ledger reports"
    ).split()
]


class Net:
    """Services that read and write topics; partitions by random keys."""

    def __init__(self, seed: int, horizon: int | None) -> None:
        self.random = random.Random(seed)
        self.horizon, self.now = horizon, 0.0
        self.logs = {
            (name, number): Log(name, number, tag_of(name))
            for name in NAMES
            for number in range(WIDE)
        }
        self.next = {log: self.random.randrange(10**6, 10**8) for log in self.logs.values()}
        self.entries: list[int] = []
        self.bytes: list[int] = []
        self.rows: dict[int, Context] = {}

    def write(self, topic: str, seen: Context) -> tuple[Log, int, Positions, float]:
        """Append a record; return what its readers get."""
        log = self.logs[topic, self.random.randrange(WIDE)]
        header = seen.begin(log, horizon=self.horizon, now=self.now)
        self.now += 1
        offset = self.next[log]
        self.next[log] += 1
        seen.report(log, offset, self.now)
        seen.take_reports()
        found = Positions.decode(header)
        self.entries.append(len(found))
        self.bytes.append(len(header))
        return log, offset, found, self.now

    @staticmethod
    def read(record: tuple[Log, int, Positions, float]) -> Context:
        seen = Context()
        seen.read(*record)
        return seen

    def outputs(self, service: int) -> str:
        return NAMES[service * 2 + self.random.randrange(2)]


def chain(net: Net) -> None:
    """Send a request through six services; each answers one record with one record."""
    path = net.random.sample(range(SERVICES), 6)
    found = net.write(NAMES[path[0] * 2], Context())
    for service in path[1:]:
        found = net.write(net.outputs(service), net.read(found))


def fanout(net: Net) -> None:
    """Let a record cause four records, each of which causes two."""
    first = net.write(NAMES[net.random.randrange(SERVICES) * 2], Context())
    service, seen = net.random.randrange(SERVICES), net.read(first)
    for _ in range(4):
        more = net.read(net.write(net.outputs(service), seen))
        other = net.random.randrange(SERVICES)
        for _ in range(2):
            net.write(net.outputs(other), more)


def reply(net: Net) -> None:
    """Send a request and its answer in three rounds, each of which depends on the last answer."""
    one, other = net.random.sample(range(SERVICES), 2)
    seen = Context()
    for _ in range(3):
        answer = net.write(NAMES[other * 2 + 1], net.read(net.write(NAMES[one * 2], seen)))
        seen.read(*answer)


def entity(net: Net) -> None:
    """Keep positions with rows: handlers of 50 long-lived rows add to what each row has seen."""
    row = net.rows.setdefault(net.random.randrange(50), Context())
    service, other = net.random.randrange(SERVICES), net.random.randrange(SERVICES)
    seen = net.read(net.write(NAMES[service * 2], row))
    seen.merge(row.seen)
    row.read(*net.write(NAMES[other * 2 + 1], seen))


def header_bytes(*, quick: bool) -> bool:
    """Measure the headers of four kinds of traffic."""
    works: list[Callable[[Net], None]] = [chain, fanout, reply, entity]
    good = True
    for work in works:
        for horizon in (None, 1000) if work is entity else (None,):
            net = Net(1, horizon)
            for _ in range(20 if quick else 600):
                work(net)
            half = len(net.bytes) // 2  # the second half: rows have grown
            sizes, entries = sorted(net.bytes[half:]), net.entries[half:]
            mean, p99 = statistics.mean(sizes), sizes[int(len(sizes) * 0.99)]
            name = work.__name__
            shown = name if horizon is None else f"{name}, horizon of {horizon:,} records"
            print(
                f"{shown:32} {statistics.mean(entries):5.1f} entries, {mean:6.1f} bytes, p99 {p99}"
            )
            record(
                "logs_bytes", traffic=shown, entries=statistics.mean(entries), bytes=mean, p99=p99
            )
            if work is not entity:
                good &= judge(f"bytes of {name}", mean <= BYTES_MAX)
    return good


def main(*, quick: bool) -> bool:
    good = header_bytes(quick=quick)
    if importlib.util.find_spec("confluent_kafka") is None:
        print("rates and latencies are not measured: needs confluent-kafka")
        return good
    good = rates(quick=quick) and good
    return calm(quick=quick) and good
