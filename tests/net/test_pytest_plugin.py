"""``pytest --causal-order`` on a small asynchronous shop: caught and drawn, or quiet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
SHOP = """
import asyncio

import antecede
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

PRODUCER, CONSUMER = trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER


class Service:
    def __init__(self, name):
        provider = TracerProvider(resource=Resource({"service.name": name}))
        self.tracer, self.queue = provider.get_tracer("shop"), asyncio.Queue()

    def send(self, message, *others):
        attributes = {"messaging.message.id": message}
        with self.tracer.start_as_current_span(message, kind=PRODUCER, attributes=attributes) as s:
            return s.get_span_context()

    async def take(self):
        context = await self.queue.get()
        links = [trace.Link(context)]
        with self.tracer.start_as_current_span("process", kind=CONSUMER, links=links):
            await asyncio.sleep(0)


async def shop(is_slow):
    shop, bank, mail = Service("shop"), Service("bank"), Service("mail")
    order = shop.send("order-1")
    bank.queue.put_nowait(order)
    if not is_slow:
        mail.queue.put_nowait(order)
    await bank.take()
    mail.queue.put_nowait(bank.send("paid-1"))
    if is_slow:
        mail.queue.put_nowait(order)
    await mail.take()
    await mail.take()


def test_in_order():
    asyncio.run(shop(is_slow=False))


def test_out_of_order():
    asyncio.run(shop(is_slow=True))


def test_without_messages():
    pass


def test_logs(event_logs):
    with antecede.EventLog(event_logs / "a.jsonl", "a") as log:
        log.send("m1", ["b"])
        log.send("m2", ["b"])
    with antecede.EventLog(event_logs / "b.jsonl", "b") as log:
        log.deliver("m2")
        log.deliver("m1")
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_shop.py").write_text(SHOP)
    plugin = ["-p", "antecede.testing.pytest_plugin", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--rootdir", ".", *plugin, *words, "test_shop.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SRC), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_tests_that_break_order_fail_and_are_drawn(tmp_path: Path) -> None:
    done = run(tmp_path, "--causal-order", "--causal-order-out", "pages")
    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "Causal order was broken in the spans. 1 of 3 deliveries" in done.stdout
    assert "mail delivered paid-1" in done.stdout
    assert "Causal order was broken in the event logs" in done.stdout
    pages = sorted(page.name for page in (tmp_path / "pages").iterdir())
    assert pages == [
        "test_shop.py-test_logs-event-logs.html",
        "test_shop.py-test_out_of_order-spans.html",
    ]
    assert "<svg viewBox" in (tmp_path / "pages" / pages[1]).read_text()


@pytest.mark.parametrize("words", [(), ("--causal-order", "-k", "in_order or without")])
def test_without_violations_it_is_quiet(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == 0, done.stdout
    assert "ausal" not in done.stdout
    assert not (tmp_path / "causal-order").exists()


KEPT = """
import test_shop
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

class Kept(test_shop.Service):
    tracers = {}

    def __init__(self, name):
        super().__init__(name)
        self.tracer = self.tracers[name]

for name in ("shop", "bank", "mail"):
    provider = TracerProvider(resource=Resource({"service.name": name}))
    Kept.tracers[name] = provider.get_tracer("shop")
test_shop.Service = Kept
"""


def test_providers_that_a_conftest_makes_are_heard_too(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(SHOP)
    (tmp_path / "conftest.py").write_text(f"import sys; sys.path.insert(0, '.')\n{KEPT}")
    done = run(tmp_path, "--causal-order", "-k", "order")
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
