"""``antecede node``: lines of input that are wrong, and output that nobody reads."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
