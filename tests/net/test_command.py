"""``antecede node``: a node from a TOML file, certificates, a table of nodes."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from antecede.cli.main import app
from antecede.errors import UsageError
from antecede.net import Limits, Node
from antecede.net.config import node_from, read_settings
from antecede.net.metrics import fetch_metrics, parse_metrics
from tests.net.test_tcp import free_ports

CALL = [sys.executable, "-c", "from antecede.cli.main import app; app()", "node"]


def called(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        app(["node", *map(str, words)])
    told = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, told.out, told.err


def start(path: Path, *options: str) -> subprocess.Popen[str]:
    with path.with_suffix(".stderr").open("w") as errors:
        return subprocess.Popen(
            [*CALL, str(path), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip


def next_row(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_two_nodes_talk_over_tls_from_toml_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = called(capsys, "certs", tmp_path / "certs", "a", "b")
    assert status == 0
    assert len(out.splitlines()) == 6
    ports = dict(zip("ab", free_ports(2), strict=True))
    (metrics,) = free_ports(1)
    for name, peer in ("ab", "ba"):
        (tmp_path / f"{name}.toml").write_text(
            f"""
            process = "{name}"
            listen = "127.0.0.1:{ports[name]}"
            store = "{name}.db"
            tls = "certs"
            events = "events.jsonl"
            {f'metrics = "127.0.0.1:{metrics}"' if name == "a" else ""}
            [peers]
            {peer} = "127.0.0.1:{ports[peer]}"
            [limits]
            outbox_count = 100
            """
        )
    nodes = [start(tmp_path / f"{name}.toml") for name in "ab"]
    try:
        assert nodes[0].stdin is not None
        nodes[0].stdin.write('{"dests": ["b"], "text": "hello"}\n{"dests": ["z"], "text": ""}\n')
        nodes[0].stdin.write('{"dests": ["b"], "base64": "/w=="}\nnonsense\n')
        nodes[0].stdin.flush()
        rows = [next_row(nodes[0]) for _ in range(4)]
        assert [row["kind"] for row in rows] == ["sent", "refused", "sent", "refused"]
        assert rows[0]["message"] == "a:1"
        first = {"kind": "delivered", "message": "a:1", "source": "a", "text": "hello"}
        assert next_row(nodes[1]) == first
        assert next_row(nodes[1])["base64"] == "/w=="
        status, out, _ = called(capsys, "top", f"127.0.0.1:{metrics}", "--once")
        assert status == 0
        assert "delivered" in out
        assert "oldest held [s]" in out
        assert "store [bytes]" in out
        _, out, _ = called(capsys, "top", f"127.0.0.1:{metrics}", "--json")
        assert json.loads(out)["a"]["sent_total"] == 2
    finally:
        for process, number in zip(nodes, (signal.SIGINT, signal.SIGTERM), strict=True):
            process.send_signal(number)
        statuses = [process.wait(timeout=300) for process in nodes]
        for process in nodes:
            process.communicate()
    assert statuses == [130, 0]
    told = [(tmp_path / f"{name}.stderr").read_text() for name in "ab"]
    assert told[0].endswith("antecede: stopped\n")
    assert "stopped" not in told[1]
    assert "Traceback" not in "".join(told)
    assert (tmp_path / "events.jsonl").read_text().count('"deliver"') == 2


def test_a_process_joins_and_leaves_by_lines_of_input(tmp_path: Path) -> None:
    first, second = free_ports(2)
    (tmp_path / "a.toml").write_text(f'process = "a"\nlisten = "127.0.0.1:{first}"\nstore = "a.db"')
    (tmp_path / "b.toml").write_text(
        f'process = "b"\nlisten = "127.0.0.1:{second}"\njoining = true\n'
        f'[peers]\na = "127.0.0.1:{first}"\n[limits]\nlinger_seconds = 0'
    )
    nodes = [start(tmp_path / f"{name}.toml") for name in "ab"]
    try:
        a, b = nodes
        assert a.stdin is not None
        assert b.stdin is not None
        a.stdin.write('{"add": "b", "address": "nowhere"}\n')
        a.stdin.write(json.dumps({"add": "b", "address": f"127.0.0.1:{second}"}) + "\n")
        a.stdin.flush()
        assert next_row(a)["reason"].startswith("address 'nowhere' is not understood")
        assert next_row(a) == {"kind": "added", "process": "b"}
        b.stdin.write('{"dests": ["a"], "text": "hello"}\n')
        b.stdin.flush()
        assert next_row(b) == {"kind": "sent", "message": "b:1000000000001"}
        assert next_row(a)["text"] == "hello"
        a.stdin.write('{"remove": "b"}\n')
        a.stdin.flush()
        assert next_row(a) == {"kind": "removed", "process": "b"}
        assert b.wait(timeout=300) != 0
    finally:
        for process in nodes:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=300)
            process.communicate()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("process = ", "is not valid TOML"),
        ("process = " + "[" * 5000, "is not valid TOML"),
        ("listen = '127.0.0.1:1'", "process is missing"),
        ("process = 1", "process is 1; expected a string"),
        ("process = 'a'\ncolour = 'red'", "unknown setting 'colour'"),
        ("proces = 'a'", "unknown setting 'proces'; did you mean process?"),
        ("process = 'a'\n[limits]\nsize = 1", "unknown limit 'size'"),
        ("process = 'a'\n[limits]\npayload_byte = 1", "did you mean payload_bytes"),
        ("process = 'a'\n[peers]\nb = 1", "the address of peer 'b' is 1"),
    ],
)
def test_wrong_files_are_refused_in_one_line(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(told)):
        read_settings(path)
    status, out, err = called(capsys, path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert told in err


def test_paths_are_meant_from_the_folder_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("process = 'a'\nstore = 'a.db'\nevents = '/log.jsonl'\n")
    settings = read_settings(path)
    assert settings["store"] == tmp_path / "a.db"
    assert settings["events"] == Path("/log.jsonl")
    assert node_from(path).process == "a"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere.toml"], "cannot read 'nowhere.toml'"),
        (["a.toml", "b.toml"], "one file at a time"),
        (["certs", "folder"], "certs needs a folder and names"),
        (["top"], "top needs addresses"),
        (["top", "127.0.0.1:1", "--once"], "no node serves metrics on 127.0.0.1:1"),
        (["top", "9101", "--once"], "write host:port"),
        (["a.toml", "--log", "xml"], "--log 'xml' is not known; expected text or json"),
        (["top", "127.0.0.1:1", "--log", "json"], "--log is for FILE.toml"),
    ],
)
def test_wrong_calls_are_refused_in_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = called(capsys, *words)
    assert status == 2
    assert told in err
    assert err.count("\n") == 1


def test_the_log_of_a_node_can_be_json(tmp_path: Path) -> None:
    ports, path = free_ports(2), tmp_path / "a.toml"
    path.write_text(
        f'process = "a"\nlisten = "127.0.0.1:{ports[0]}"\npeers = {{b = "127.0.0.1:{ports[1]}"}}'
    )
    process = start(path, "--log", "json")
    errors = path.with_suffix(".stderr")
    try:
        for _ in range(3000):
            if errors.read_text():
                break
            time.sleep(0.1)
    finally:
        process.terminate()
        process.communicate(timeout=300)
    assert process.returncode == 0
    rows = [json.loads(line) for line in errors.read_text().splitlines()]
    assert (rows[0]["node"], rows[0]["event"], rows[0]["peer"]) == ("a", "cannot connect", "b")


def test_metrics_survive_strange_requests() -> None:
    async def main() -> None:
        (port,) = free_ports(1)
        address = f"127.0.0.1:{port}"
        async with Node('a "quoted"\n', metrics=address, limits=Limits(linger_seconds=0)) as node:
            await node.send([node.process], b"x")
            await anext(node)
            for request in (b"\r\n\r\n", b"x" * 100_000):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                await asyncio.wait_for(reader.read(), 300)
                writer.close()
            process, figures = parse_metrics(await fetch_metrics(address))
            assert process == r"a \"quoted\"\n"
            assert figures["sent_total"] == figures["delivered_total"] == figures["inbox"] == 1
            with pytest.raises(UsageError, match="use another port"):
                async with Node("b", metrics=address):
                    pass
        with pytest.raises(UsageError, match="holds no metrics"):
            parse_metrics("<html>")

    asyncio.run(main())
