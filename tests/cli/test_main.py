"""The one place where errors become a line and an exit status."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys

import pytest
import typer

from antecede.cli.main import app


def broken(*_: object, **__: object) -> None:
    msg = "first\nsecond"
    raise ZeroDivisionError(msg)


def test_what_nobody_foresaw_is_one_line_and_not_the_status_of_bad_news(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("antecede.cli.main.command_line", lambda _: broken)
    monkeypatch.delenv("ANTECEDE_TRACE", raising=False)
    with pytest.raises(SystemExit) as ended:
        app(["protocols"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "ZeroDivisionError: first; run again with ANTECEDE_TRACE=1" in told
    monkeypatch.setenv("ANTECEDE_TRACE", "1")
    with pytest.raises(ZeroDivisionError):
        app(["protocols"])


class _MuteError(Exception):
    """An error without text, like PySpark's errors once Spark has ended."""

    _desc = "no space left on device"

    def __str__(self) -> str:
        raise AssertionError


def test_an_error_that_has_lost_its_text_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def mute(*_: object, **__: object) -> None:
        raise _MuteError

    monkeypatch.setattr("antecede.cli.main.command_line", lambda _: mute)
    with pytest.raises(SystemExit) as ended:
        app(["protocols"])
    assert ended.value.code == 2
    assert "unexpected _MuteError: no space left on device; run" in capsys.readouterr().err


# Programs in the background may have been told to ignore interrupts.
INTERRUPTIBLE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from antecede.cli.main import app; app(sys.argv[1:])"
)


@pytest.mark.parametrize("verb", ["audit", "advise"])
def test_an_interrupt_is_one_line_and_a_status_of_its_own(verb: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, verb, "-", "--local"],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b" " * (1 << 20))  # more than a pipe holds: the verb is reading
        process.stdin.flush()
        # Python overlooks a signal that comes just before it begins to wait: then press again.
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
        assert process.stderr.read() == b"antecede: stopped\n"
    assert process.returncode == 130


def test_an_interrupt_before_the_verb_begins_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    early = typer.Typer()

    @early.command()
    def stop(_words: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("antecede.cli.main.command_line", lambda _: early)
    with pytest.raises(SystemExit) as ended:
        app(["protocols"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "antecede: stopped\n"


@pytest.mark.parametrize("words", [["protocols"], ["protocols", "--json"]])
def test_a_closed_pipe_is_not_bad_news(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = "import sys; from antecede.cli.main import app; app(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_full_disk_is_no_bug_to_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("antecede.cli.main.command_line", lambda _: full)
    with pytest.raises(SystemExit) as ended:
        app(["protocols"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told == (
        "antecede: No space left on device; make room, or choose another place with --out\n"
    )
