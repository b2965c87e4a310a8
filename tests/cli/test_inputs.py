"""Mistaken inputs of the verbs: each is refused in one line, and nothing is written."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path

import pytest

from antecede import memory
from antecede.cli.audit import STARTING
from antecede.cli.main import app

SHOP = Path(__file__).parents[2] / "examples" / "shop.jsonl"
LONG = "a" * 300
#: An endless stream: only the time limit ends a test that reads it.
ENDLESS = "/dev/zero"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder to work in; no test here gets as far as starting Spark."""

    def started(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr("antecede.spark.session._connect", started)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return the one line that a call ends with."""
    with pytest.raises(SystemExit) as ended:
        app([str(word) for word in words])
    said, told = capsys.readouterr()
    told = told.removeprefix(f"antecede: {STARTING}\n")  # if it takes a second
    assert (ended.value.code, said) == (2, ""), told
    assert told.count("\n") == 1, told
    assert "unexpected" not in told
    assert told.rstrip("\n").isprintable()
    return told


@pytest.mark.parametrize(
    "words",
    [
        ("audit", ENDLESS, "--local"),
        ("advise", ENDLESS, "--local"),
        ("report", ENDLESS),
        ("simulate", "optimal", "--edges", ENDLESS),
        ("study", "--traffic", ENDLESS),
        ("node", ENDLESS),
    ],
)
def test_a_device_is_refused_because_it_may_never_end(
    words: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"{ENDLESS!r} is a device, which may have no end" in refusal(capsys, *words)
    assert not list(folder.iterdir())


def test_standard_input_may_be_a_device_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(ENDLESS).open() as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        assert "standard input is a device" in refusal(capsys, "audit", "-", "--local")
    with Path(os.devnull).open() as empty:
        monkeypatch.setattr(sys, "stdin", empty)
        assert "the file is empty" in refusal(capsys, "audit", "-", "--local")
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in refusal(capsys, "audit", "-", "--local")


def test_a_pipe_that_never_ends_is_refused_when_memory_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("antecede.events.content.machine_bytes", lambda: 4096.0)
    reader, writer = os.pipe()
    os.write(writer, b"y\n" * 1000)
    with os.fdopen(reader) as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        told = refusal(capsys, "audit", "-", "--local")
    os.close(writer)
    assert "standard input has more than 0.0 GiB, too much for the memory" in told


def test_a_folder_that_cannot_be_read_is_no_folder_without_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = folder / "logs" / "inner"
    inner.mkdir(parents=True)
    (folder / "logs" / "shop.jsonl").write_bytes(SHOP.read_bytes())
    scandir = os.scandir

    def refused(path: str) -> object:  # as for a user who is not root
        if Path(path) == inner:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    told = refusal(capsys, "audit", folder / "logs", "--local")
    assert f"cannot read the folder {str(inner)!r}: Permission denied" in told


def test_a_current_folder_that_is_gone_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(*_: object, **__: object) -> None:  # as os.getcwd() says it
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr("antecede.cli.main.command_line", lambda _: gone)
    told = refusal(capsys, "protocols")
    assert told == "antecede: the current folder is gone; change to one that exists\n"


def test_a_file_larger_than_memory_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory, "machine_bytes", lambda: 100.0)
    told = refusal(capsys, "audit", SHOP, "--local")
    assert f"the content of {str(SHOP)!r} would take about" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("audit", LONG, "--local"), "File name too long; choose another path"),
        (("play", "--out", LONG), "File name too long"),
        (("play", "--out", "/dev/null"), "/dev/null exists and is not a playground"),
        (("play", "--out", ENDLESS), "exists and is not a playground"),
        (("simulate", "optimal", "--edges", ""), "the path is empty"),
        (("simulate", "optimal", "--schedule", ""), "the path is empty"),
        (("simulate", "optimal", "--schedule", "none"), "'none': there is no such file; give"),
        (("simulate", "optimal", "--schedule", "."), "'.': it is not a file; give"),
        (("study", "--traffic", ""), "the path is empty"),
        (("reorder", "--waiting", ""), "the path is empty"),
        (("node", "certs", "", "a"), "the path is empty"),
        (("reorder", SHOP.parent / "incoming", "out"), "has no .parquet file yet; give --format j"),
        (("audit", SHOP, "--wait", "nan"), "--wait nan is not possible; give seconds"),
        (("audit", SHOP, "--wait", "-5"), "--wait -5 is not possible"),
        (("audit", SHOP, "--wait", "inf"), "--wait inf is not possible"),
        (("audit", SHOP, "--memory", "1000t"), "is more than Java can reserve; use less"),
        (("audit", SHOP, "--windows", "9" * 20), "give 1 or more, up to 1,000,000"),
        (("simulate", "optimal", "--delay", "constant:1e308"), "up to 1e+12 s"),
        (("simulate", "optimal", "--delay", "lognormal:1:1000"), "SIGMA is up to 20"),
        (("simulate", "optimal", "--bandwidth", "1e-300"), "use 1e-06 bytes per second or more"),
        (("simulate", "optimal", "--bandwidth", "9", "--payload", "9" * 20), "0 to 1,099,511"),
    ],
)
def test_paths_and_numbers_that_cannot_be_used_are_refused_at_once(
    words: tuple[str | Path, ...], told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refusal(capsys, *words)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a.toml", "--days", "3"), "--days is for certs; leave it out: antecede node a.toml"),
        (("a.toml", "--json"), "--json is for certs and top; leave it out"),
        (("certs", "c", "a", "--once"), "--once is for top; leave it out: antecede node certs"),
        (("top", "127.0.0.1:1", "--days", "3"), "--days is for certs; leave it out"),
        (("top", "127.0.0.1:1", "--interval", "nan"), "--interval nan is not possible"),
        (("top", "127.0.0.1:1", "--interval", "0"), "--interval 0 is not possible"),
    ],
)
def test_options_of_another_use_of_node_are_refused(
    words: tuple[str | Path, ...], told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refusal(capsys, "node", *words)
    assert not list(folder.iterdir())


def test_what_a_log_says_cannot_command_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.csv").write_text("proc\x1b[2J,seq\na,1\n")
    assert r"it has proc\x1b[2J, seq" in refusal(capsys, "audit", "x.csv", "--local")


def test_a_log_whose_name_is_not_utf8_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(b"\xff.jsonl")
    (folder / name).write_bytes(SHOP.read_bytes())
    with pytest.raises(SystemExit) as ended:
        app(["report", name, "--out", "out"])
    assert ended.value.code == 0, capsys.readouterr().err
    assert r"\udcff.jsonl" in (folder / "out" / "index.html").read_text(encoding="utf-8")


def test_output_in_an_encoding_that_lacks_a_character_escapes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="ascii"))
    with pytest.raises(SystemExit) as ended:
        app(["protocols", "optimal"])
    sys.stdout.flush()
    assert ended.value.code == 0
    assert rb"\u2022" in out.getvalue()


def test_output_may_be_closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as ended:
        app(["report", str(SHOP), "--out", "out"])
    assert ended.value.code == 0
