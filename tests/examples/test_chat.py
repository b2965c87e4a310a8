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

SLOWER = (0.5, 3, 30)
"""Seconds for which a question is delayed: on a busy machine the answer may take long."""

PATIENT = ("--patience", "600")  # A busy machine may take long to start the others.


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
        await asyncio.wait_for(done.wait(), 600)

    async def asking() -> None:
        chats["ann"].say("question")
        await chatting()

    async with asyncio.TaskGroup() as group:
        group.create_task(chats["cat"].run(chatting))
        group.create_task(chats["bob"].run(chatting))
        group.create_task(chats["ann"].run(asking))
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
    logs = {slow: tmp_path / f"chat-{slow}.jsonl" for slow in SLOWER}
    log = next(
        log
        for slow, log in logs.items()
        if asyncio.run(question_and_answer("none", log, slow)) == ["answer", "question"]
    )
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


def what_cat_reads(protocol: str, seconds: float) -> list[str]:
    """Three terminals: ann asks, cat gets the question late, bob answers at once."""
    roster = free_ports("cat", "bob", "ann")
    flags = ("--protocol", protocol, *PATIENT)
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
        read = [cat.stdout.readline().strip() for _ in range(2)]
        assert ann.stdout
        assert [ann.stdout.readline().strip() for _ in range(2)] == [
            "bob: answer",
            "bob: only for you",
        ]
    finally:
        errors = leave(people)
    assert [one.returncode for one in people.values()] == [0, 0, 0]
    for error in errors.values():
        assert all(line.startswith("waiting for ") for line in error.splitlines())
    return read


def test_three_terminals() -> None:
    assert what_cat_reads("optimal", 0.5) == ["ann: question", "bob: answer"]
    overtaken = ["bob: answer", "ann: question"]
    assert any(what_cat_reads("none", slow) == overtaken for slow in SLOWER)


def leave(people: "dict[str, subprocess.Popen[str]]") -> dict[str, str]:
    """End the input of all processes, one by one; return what each wrote to standard error."""
    return {name: one.communicate(timeout=600)[1] for name, one in people.items()}


@pytest.mark.parametrize(("typed", "status"), [("hi\n", 1), ("", 0)])
def test_nobody_else_is_there(typed: str, status: int) -> None:
    began = time.monotonic()
    ann = terminal("ann", free_ports("cat", "bob", "ann"))
    _, error = ann.communicate(typed, timeout=600)
    assert ann.returncode == status
    assert time.monotonic() - began < 300
    lines = error.splitlines()
    assert "Traceback" not in error
    if typed:
        assert {"waiting for cat ...", "waiting for bob ..."} <= set(lines)
        assert lines[-1] == "gave up on bob, cat: 2 message(s) not sent"


def test_one_who_comes_late_gets_what_was_said_before() -> None:
    roster = free_ports("bob", "ann")
    people = {"ann": terminal("ann", roster, *PATIENT)}
    assert people["ann"].stdin
    assert people["ann"].stderr
    people["ann"].stdin.write("hi\n")
    people["ann"].stdin.flush()
    assert people["ann"].stderr.readline() == "waiting for bob ...\n"
    people["bob"] = terminal("bob", roster, *PATIENT)
    try:
        assert people["bob"].stdout
        assert people["bob"].stdout.readline() == "ann: hi\n"
    finally:
        errors = leave(people)
    assert [one.returncode for one in people.values()] == [0, 0]
    assert errors["ann"] == ""


def test_lines_to_one_who_has_left_are_told_and_do_not_keep_us() -> None:
    roster = free_ports("bob", "ann")
    people = {name: terminal(name, roster) for name in roster}
    ann, bob = people["ann"], people["bob"]
    try:
        assert ann.stdin
        assert bob.stdout
        ann.stdin.write("hi\n")
        ann.stdin.flush()
        assert bob.stdout.readline() == "ann: hi\n"
        assert "Traceback" not in bob.communicate(timeout=600)[1]
        time.sleep(2)  # for the end of bob's connection to arrive
        began = time.monotonic()
        error = ann.communicate("are you there?\nbob?\n", timeout=600)[1]
    finally:
        for one in people.values():
            one.kill()
    assert ann.returncode == 1
    assert time.monotonic() - began < 300
    assert error.splitlines()[-2:] == ["bob has left", "gave up on bob: 2 message(s) not sent"]
    assert "Traceback" not in error


def test_a_unicast_protocol_brings_all_lines_to_all_before_it_leaves() -> None:
    roster = free_ports("cat", "bob", "ann")
    flags = ("--protocol", "buffered", *PATIENT)
    people = {name: terminal(name, roster, *flags) for name in roster}
    try:
        error = people["ann"].communicate("one\ntwo\nthree\n", timeout=600)[1]
        assert "not sent" not in error
        for name in ("cat", "bob"):
            out = people[name].stdout
            assert out
            assert [out.readline() for _ in range(3)] == [
                "ann: one\n",
                "ann: two\n",
                "ann: three\n",
            ]
    finally:
        leave({name: people[name] for name in ("cat", "bob")})
    assert [one.returncode for one in people.values()] == [0, 0, 0]


def test_messages_without_the_acknowledgement_they_wait_for_are_told() -> None:
    ann = terminal("ann", free_ports("cat", "bob", "ann"), "--protocol", "buffered")
    error = ann.communicate("one\n", timeout=600)[1]
    assert ann.returncode == 1
    assert error.splitlines()[-1] == "gave up on cat: 2 message(s) not sent"


def test_synchronous_refuses_a_line_to_all_and_sends_none_of_it() -> None:
    roster = free_ports("cat", "bob", "ann")
    flags = ("--protocol", "synchronous", *PATIENT)
    people = {name: terminal(name, roster, *flags) for name in roster}
    try:
        error = people["ann"].communicate("one\n@bob two\n", timeout=600)[1]
        assert [line for line in error.splitlines() if "waiting" not in line] == [
            "not sent: synchronous sends to one and waits; write to one (@name), or use buffered"
        ]
        assert people["bob"].stdout
        assert people["bob"].stdout.readline() == "ann: two\n"
    finally:
        assert people["cat"].communicate(timeout=600)[0] == ""
        leave({"bob": people["bob"]})
    assert [people[name].returncode for name in ("cat", "bob")] == [0, 0]
    assert people["ann"].returncode == 1


def test_a_log_of_an_earlier_chat_is_refused(tmp_path: Path) -> None:
    roster, log = free_ports("bob", "ann"), str(tmp_path / "chat.jsonl")
    antecede.EventLog(log, process="bob").deliver("ann:1")
    Chat("ann", roster, log=log)
    with pytest.raises(antecede.UsageError, match=r"chat\.jsonl holds an earlier chat of bob"):
        Chat("bob", roster, log=log)
    bob = terminal("bob", roster, "--log", log)
    assert bob.communicate(timeout=600)[1].count("\n") == 1
    assert bob.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ann", "--protocol", "optimum"], "unknown protocol 'optimum'"),
        (["zoe"], "process 'zoe' is not a member"),
        (["ann", "--slow", "cat=soon"], "--slow cat=soon: expected PEER=SECONDS"),
        (["ann", "--slow", "cat"], "--slow cat: expected PEER=SECONDS"),
        (["ann", "--slow", "cat=nan"], "--slow cat=nan: expected PEER=SECONDS"),
        (["ann", "--slow", "nobody=3"], "--slow nobody: not in the roster cat, bob, ann"),
        (["ann", "--roster", "ann"], "--roster ann: expected NAME=PORT"),
        (["ann", "--roster", "ann=70000", "bob=7002"], "--roster ann=70000: expected NAME=PORT"),
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
        timeout=600,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert words in line
    assert time.monotonic() - began < 300
