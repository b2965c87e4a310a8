"""The chat over real TCP on loopback: the slow question, the fast answer, and three terminals."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import antecede
from antecede.check import History, causal_violations
from examples.chat import Chat

ROOT = Path(__file__).resolve().parents[2]
ORDERED = [
    name for name, info in antecede.PROTOCOLS.items() if {"safety", "liveness"} <= info.promises
]


def free_ports(*names: str) -> dict[str, int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    ports = {name: s.getsockname()[1] for name, s in zip(names, sockets, strict=True)}
    for one in sockets:
        one.close()
    return ports


async def question_and_answer(protocol: str, log: Path, slow: float = 0.2) -> list[str]:
    """ann asks, bob answers as soon as he sees it; return what cat sees, in order."""
    roster = free_ports("cat", "bob", "ann")
    seen: list[str] = []
    done = asyncio.Event()

    def answers(_who: str, text: str) -> None:
        if text == "question":
            chats["bob"].say("answer")

    def watches(_who: str, text: str) -> None:
        seen.append(text)
        if len(seen) == 2:
            done.set()

    shows = {"ann": lambda *_: None, "bob": answers, "cat": watches}
    chats = {
        name: Chat(
            name,
            roster,
            protocol=protocol,
            slow={"cat": slow} if name == "ann" else {},
            log=str(log),
            show=shows[name],
        )
        for name in roster
    }

    async def chatting() -> None:
        await asyncio.wait_for(done.wait(), 30)

    async def asking() -> None:
        chats["ann"].say("question")
        await chatting()

    async with asyncio.TaskGroup() as group:
        group.create_task(chats["cat"].run(chatting))  # type: ignore[arg-type]
        group.create_task(chats["bob"].run(chatting))  # type: ignore[arg-type]
        group.create_task(chats["ann"].run(asking))  # type: ignore[arg-type]
    return seen


def history_of(log: Path) -> History:
    history = History(("ann", "bob", "cat"))
    for line in log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        sender, seq = row["message"].split(":")
        message = antecede.MessageId(sender, int(seq))
        if row["kind"] == "send":
            history.send(row["process"], message, row["dests"])
        else:
            history.deliver(row["process"], message)
    return history


def test_without_us_the_answer_overtakes_the_question(tmp_path: Path) -> None:
    log = tmp_path / "chat.jsonl"
    assert asyncio.run(question_and_answer("none", log, slow=4.0)) == ["answer", "question"]
    (violation,) = causal_violations(history_of(log))
    assert violation.process == "cat"
    assert violation.message == antecede.MessageId("ann", 1)


@pytest.mark.parametrize("protocol", ORDERED)
def test_with_us_it_does_not(protocol: str, tmp_path: Path) -> None:
    log = tmp_path / "chat.jsonl"
    assert asyncio.run(question_and_answer(protocol, log)) == ["question", "answer"]
    assert causal_violations(history_of(log)) == []


def terminal(name: str, roster: dict[str, int], *more: str) -> "subprocess.Popen[str]":
    words = [f"{who}={port}" for who, port in roster.items()]
    command = [sys.executable, "-u", "examples/chat.py", name, "--roster", *words, *more]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("protocol", "seconds", "lines"),
    [
        ("none", 6, ["bob: answer", "ann: question"]),
        ("optimal", 1, ["ann: question", "bob: answer"]),
    ],
)
def test_three_terminals(protocol: str, seconds: int, lines: list[str]) -> None:
    roster = free_ports("cat", "bob", "ann")
    flags = ("--protocol", protocol)
    people = {
        "cat": terminal("cat", roster, *flags),
        "bob": terminal("bob", roster, *flags),
        "ann": terminal("ann", roster, *flags, "--slow", f"cat={seconds}"),
    }
    try:
        ann, bob, cat = people["ann"], people["bob"], people["cat"]
        assert ann.stdin and bob.stdin and cat.stdout and bob.stdout  # noqa: PT018
        ann.stdin.write("question\n")
        ann.stdin.flush()
        assert bob.stdout.readline() == "ann: question\n"
        bob.stdin.write("answer\n@ann only for you\n")
        bob.stdin.flush()
        assert [cat.stdout.readline().strip() for _ in range(2)] == lines
        assert ann.stdout
        assert [ann.stdout.readline().strip() for _ in range(2)] == [
            "bob: answer",
            "bob: only for you",
        ]
    finally:
        for one in people.values():
            one.communicate(timeout=60)
    assert [one.returncode for one in people.values()] == [0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ann", "--protocol", "optimum"], "unknown protocol 'optimum'"),
        (["zoe"], "process 'zoe' is not a member"),
        (["ann", "--slow", "cat=soon"], "soon"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(arguments: list[str], words: str) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "examples/chat.py", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert words in line
    assert time.monotonic() - began < 30
