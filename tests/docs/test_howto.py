"""The how-to pages: their programs run and print what the pages show."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PATH = re.compile(r"# (src/\S+)\n")
ADDED = ("protocol", "kernel", "experiment", "format")


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the programs of a page and what they print, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```(python|text)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def program(page: str) -> str:
    """Return the programs that a page runs, without the modules that it adds to the package."""
    codes = [code for kind, code in blocks(page) if kind == "python" and not PATH.match(code)]
    return "\n".join(codes)


def printed(page: str) -> str:
    return "".join(text for kind, text in blocks(page) if kind == "text")


@pytest.mark.parametrize("page", ["http.md", "kafka.md", "replicas.md"])
def test_a_page_prints_what_it_shows(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    if page == "kafka.md":
        for client in ("confluent_kafka", "aiokafka", "nats", "faststream"):
            pytest.importorskip(client)
    exec(compile(program(page), page, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed(page) != ""


def test_the_service_of_the_kafka_page_retries_writes_dead_letters_and_stops(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("confluent_kafka")
    from antecede.logs import context
    from antecede.logs.confluent import Consumer, Producer
    from antecede.logs.mock import cluster

    (code,) = [code for _, code in blocks("kafka.md") if "def serve(" in code]
    names: dict[str, Any] = {"Consumer": Consumer, "Producer": Producer}
    exec(compile(code, "kafka.md", "exec"), names)
    handled: list[str] = []

    def handle(record: Any) -> None:
        handled.append(record.value.decode())
        if record.value == b"poison":
            raise ValueError("cannot read this order")
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    try:
        with cluster(["orders", "payments", "dead-letters"]) as servers:
            producer = Producer({"bootstrap.servers": servers})
            with context():
                producer.send("orders", "poison", partition=0)
                producer.send("orders", "good", partition=0)
            names["serve"]({"bootstrap.servers": servers, "group.id": "shop"}, handle)
            config = {"bootstrap.servers": servers, "group.id": "dead"}
            with Consumer(config, ["dead-letters"]) as dead:
                letter = next(iter(dead))
                assert letter.value == b"poison"
                assert {str(log): n for log, n in letter.needs.items()} == {"orders/0": 1}
    finally:
        signal.signal(signal.SIGTERM, before)
    assert handled == ["poison"] * 3 + ["good"]
    assert "attempt 3: cannot read this order" in capsys.readouterr().out


def test_positions_travel_over_http_as_the_kafka_page_shows() -> None:
    pytest.importorskip("confluent_kafka")
    from antecede.logs import context
    from antecede.logs.confluent import Consumer, Producer
    from antecede.logs.mock import cluster

    (code,) = [code for _, code in blocks("kafka.md") if "def take_call(" in code]
    names: dict[str, Any] = {"context": context}
    exec(compile(code, "kafka.md", "exec"), names)
    with cluster(["orders", "payments"]) as servers:
        producer = Producer({"bootstrap.servers": servers})
        calls: list[dict[str, str]] = []
        names["take_order"](producer, calls.append)
        names["take_call"](producer, *calls)
        config = {"bootstrap.servers": servers, "group.id": "shop"}
        with Consumer(config, ["payments"]) as shop:
            needs = next(iter(shop)).needs
    assert [(log.topic, position) for log, position in needs.items()] == [("orders", 1)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the modules that the pages add, and nothing else changed."""
    root = tmp_path_factory.mktemp("extended")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", root / "src", ignore=ignored)
    for name in ADDED:
        (code,) = [code for _, code in blocks(f"extend/{name}.md") if PATH.match(code)]
        found = PATH.match(code)
        assert found is not None
        path = root / found[1]
        assert not path.exists()
        assert path.parent.is_dir()
        path.write_text(code)
    return root


@pytest.mark.parametrize("name", ADDED)
def test_what_a_page_adds_works_as_shown(name: str, package: Path) -> None:
    pytest.importorskip("pyarrow")
    environment = os.environ | {"PYTHONPATH": str(package / "src"), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program(f"extend/{name}.md")],
        cwd=package,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed(f"extend/{name}.md") != ""
