"""``antecede node``: wrong lines of input, and output without a reader."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from antecede.cli.node import _read_some
from tests.net.test_command import next_row, start
from tests.net.test_tcp import free_ports

if TYPE_CHECKING:
    from subprocess import Popen

WRONG = [
    '{"dests": null, "text": "x"}',
    "[" * 100_000,
    '{"dests": ["a"], "base64": "@@@"}',
    '{"dests": {"a": 1}, "text": "x"}',
    '{"dests": [["a"]], "text": "x"}',
    '{"dests": ["\\ud800"], "text": "x"}',
    '{"dests": ["a"], "text": "\\ud800"}',
    '{"dests": ["a"], "text": null}',
    '{"dests": "nobody", "text": "x"}',
    '{"dests": [], "text": "x"}',
    '{"dests": ["a"]}',
    '{"remove": ["a"]}',
    '{"add": ["a"]}',
    '{"add": "b", "address": 5}',
    '["add"]',
    '"remove"',
    "5",
]


def alone(tmp_path: Path) -> Popen[str]:
    path = tmp_path / "a.toml"
    (port,) = free_ports(1)
    limits = "[limits]\nlinger_seconds = 0\n"
    path.write_text(f"process = 'a'\nlisten = '127.0.0.1:{port}'\n{limits}")
    return start(path)


def told(process: Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def kill(process: Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


@pytest.mark.timeout(120)
def test_a_wrong_line_is_refused_and_the_next_one_is_obeyed(tmp_path: Path) -> None:
    node = alone(tmp_path)
    try:
        for line in WRONG:
            told(node, line)
            assert next_row(node)["kind"] == "refused", line[:80]
        told(node, '{"dests": ["a"], "text": "hello"}')
        rows = sorted((next_row(node) for _ in range(2)), key=lambda row: str(row["kind"]))
        assert [row["kind"] for row in rows] == ["delivered", "sent"]
        assert rows[0]["text"] == "hello"
    finally:
        node.send_signal(signal.SIGTERM)
        assert node.wait(timeout=300) == 0
        node.communicate()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_input_open", [True, False])
def test_a_node_whose_output_nobody_reads_ends_like_other_programs(
    is_input_open: bool, tmp_path: Path
) -> None:
    node = alone(tmp_path)
    assert node.stdout is not None
    node.stdout.close()
    try:
        told(node, '{"dests": ["a"], "text": "hello"}')
        if not is_input_open:
            assert node.stdin is not None
            node.stdin.close()
        assert node.wait(timeout=60) == 141
    finally:
        kill(node)
    assert "Traceback" not in (tmp_path / "a.stderr").read_text()


@pytest.mark.timeout(120)
def test_a_receiver_whose_output_nobody_reads_keeps_the_delivery(tmp_path: Path) -> None:
    ports = dict(zip("ab", free_ports(2), strict=True))
    for name, peer in ("ab", "ba"):
        (tmp_path / f"{name}.toml").write_text(
            f"process = '{name}'\nlisten = '127.0.0.1:{ports[name]}'\nstore = '{name}.db'\n"
            f"[peers]\n{peer} = '127.0.0.1:{ports[peer]}'\n[limits]\nlinger_seconds = 0\n"
        )
    sender, receiver = (start(tmp_path / f"{name}.toml") for name in "ab")
    try:
        assert receiver.stdout is not None
        receiver.stdout.close()
        told(sender, '{"dests": ["b"], "text": "hello"}')
        assert next_row(sender)["kind"] == "sent"
        assert receiver.wait(timeout=60) == 141
        kill(receiver)
        receiver = start(tmp_path / "b.toml")
        assert next_row(receiver)["text"] == "hello"
    finally:
        for node in (sender, receiver):
            kill(node)


@pytest.mark.parametrize("is_closed", [True, False])
def test_input_that_cannot_be_read_is_told_and_ends_nothing(
    is_closed: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if is_closed:
        monkeypatch.setattr("sys.stdin", None)
        assert _read_some() == b""
        assert not caplog.records
        return
    folder = os.open("/", os.O_RDONLY)
    try:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(fileno=lambda: folder))
        assert _read_some() == b""
    finally:
        os.close(folder)
    assert "cannot read standard input" in caplog.text
