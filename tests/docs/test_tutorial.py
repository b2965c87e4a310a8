"""The tutorial, typed as it is printed: a broken chat, the proof, the mended one, and nodes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from antecede.cli.main import app
from tests.examples.test_chat import free_ports

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "node-tutorial.md").read_text(encoding="utf-8")
COMMANDS = [line[2:].split() for line in PAGE.splitlines() if line.startswith("$ ")]
CHATS = [words for words in COMMANDS if words[:2] == ["python", "../examples/chat.py"]]
BROKEN = [words for words in CHATS if "none" in words]
ORDERED = [words for words in CHATS if "none" not in words]
*NODES, IMPOSTOR = [words for words in COMMANDS if words[1:2] == ["../examples/node_chat.py"]]
COPIES = [words for words in COMMANDS if words[0] == "cp"]
VERBS = [words[1:] for words in COMMANDS if words[0] == "antecede"]
#: Runs a program with other ports than its own, since those may be taken.
ELSEWHERE = """
import asyncio, sys
sys.path.insert(0, {root!r})
import {module} as program
program.ROSTER.update({roster})
running = program.main()
if running is not None:
    asyncio.run(running)
"""
PEOPLE = ("cat", "bob", "ann")


class Terminal:
    """A program in a terminal."""

    def __init__(
        self, folder: Path, words: list[str], roster: dict[str, Any], told: Path | None = None
    ) -> None:
        module = words[1].removeprefix("../").removesuffix(".py").replace("/", ".")
        code = ELSEWHERE.format(root=str(ROOT), module=module, roster=roster)
        with (told or Path(os.devnull)).open("a") as remarks:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-c", code, *words[2:]],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=remarks,
                text=True,
            )

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        self.process.communicate(timeout=600)

    def kill(self) -> None:
        self.process.kill()
        with self.process:  # closes its pipes
            pass


@contextmanager
def terminals(
    folder: Path, lines: list[list[str]], roster: dict[str, Any], told: Path | None = None
) -> Iterator[dict[str, Terminal]]:
    people = {words[2]: Terminal(folder, words, roster, told) for words in lines}
    try:
        yield people
        for one in people.values():
            one.leave()
    finally:
        for one in people.values():
            one.kill()


def talk(folder: Path, lines: list[list[str]]) -> list[str]:
    """Ask at ann, answer at bob; return what cat shows."""
    lines = [[*words, "--patience", "600"] for words in lines]
    with terminals(folder, lines, free_ports(*PEOPLE)) as people:
        people["ann"].type("lunch?")
        assert people["bob"].read() == "ann: lunch?"
        people["bob"].type("yes, at one")
        return [people["cat"].read() for _ in range(2)]


def status(words: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        app(words)
    return ended.value.code


def slowed(lines: list[list[str]], seconds: int) -> list[list[str]]:
    return [[word.replace("cat=10", f"cat={seconds}") for word in words] for words in lines]


def test_a_chat_breaks_and_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    audit = next(words for words in VERBS if "broken.jsonl" in words)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    for seconds in (5, 60):  # on a busy machine bob's answer may take more than ten
        if talk(tmp_path, slowed(BROKEN, seconds)) == shown.splitlines():
            break
        Path("broken.jsonl").unlink()
    assert status(audit) == 1
    said = " ".join(capsys.readouterr().out.split())
    broken, kept = re.findall(r"\.jsonl\n(Causal.*?)\n\$", PAGE, flags=re.DOTALL)
    for piece in " ".join(broken.split()).split("..."):
        assert piece.strip() in said

    assert talk(tmp_path, slowed(ORDERED, 1)) == shown.splitlines()[::-1]
    assert status(next(words for words in VERBS if "ordered.jsonl" in words)) == 0
    assert kept.removesuffix(" ...") in " ".join(capsys.readouterr().out.split())


def test_nodes_survive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    monkeypatch.chdir(tmp_path)
    assert status(next(words for words in VERBS if "certs" in words)) == 0
    roster = {name: f"127.0.0.1:{port}" for name, port in free_ports(*PEOPLE).items()}
    told = tmp_path / "told"
    with terminals(tmp_path, NODES, roster, told) as people:
        people["ann"].type("lunch?")
        assert people["cat"].read() == "ann: lunch?"
        assert people["bob"].read() == "ann: lunch?"
        people["cat"].kill()
        people["bob"].type("yes, at one")
        assert people["ann"].read() == "bob: yes, at one"
        people["ann"].type("fine")
        (again,) = [words for words in NODES if "cat" in words]
        people["cat"] = Terminal(tmp_path, again, roster)
        first = people["cat"].read()
        if first == "ann: lunch?":  # it may have been killed before this was marked done
            first = people["cat"].read()
        assert [first, people["cat"].read()] == ["bob: yes, at one", "ann: fine"]
        people["cat"].leave()
        for words in COPIES:
            subprocess.run(words, cwd=tmp_path, check=True)
        people["cat"] = Terminal(tmp_path, IMPOSTOR, roster)
        (reason,) = re.findall(r"`(it claims to be[^`]*)`", PAGE)
        while reason not in told.read_text():
            time.sleep(0.1)
    assert status(next(words for words in VERBS if "chat.jsonl" in words)) == 0
