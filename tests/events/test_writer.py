"""The writer on full disks, behind torn lines, and beside other writers."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antecede import events as eventlog
from antecede.errors import LogError
from antecede.events import Event, EventLog, Rejected
from antecede.events.tables import EVENT_COLUMNS

SUFFIXES = pytest.mark.parametrize("suffix", ["jsonl", "csv"])
HEADER = ",".join(EVENT_COLUMNS) + "\n"
WRITER = """
import sys
import threading
from antecede.events import EventLog
path, process = sys.argv[1:]
sys.stdin.readline()
with EventLog(path, process=process) as log:
    for number in range(300):
        log.send(f"{process}, {number}: " + process * (number * 50), [process])
"""


@contextmanager
def room_for(path: Path, count: int) -> Iterator[None]:
    """Let files grow to ``count`` bytes beyond the size of ``path``, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def messages(path: Path, rejected: list[Rejected] | None = None) -> list[str | None]:
    return [event.message for event in eventlog.read(path, rejected=rejected)]


@SUFFIXES
@pytest.mark.parametrize("room", [0, 1, 10, 16])
def test_a_failed_write_does_not_swallow_the_next_event(
    tmp_path: Path, suffix: str, room: int
) -> None:
    path = tmp_path / f"log.{suffix}"
    with EventLog(path, process="a") as log:
        log.send("first", ["b"])
        with room_for(path, room):
            for _ in range(2):
                with pytest.raises(LogError, match="cannot write the event log") as caught:
                    log.send("x,lost", ["b"])
                assert caught.value.path == path
                assert caught.value.reason
        seq = log.send("next", ["b"])
    rejected: list[Rejected] = []
    assert messages(path, rejected) == ["first", "next"]
    assert len(rejected) == (room > 0)
    with EventLog(path, process="a") as log:
        assert log.local() == seq + 1


@SUFFIXES
def test_a_line_that_lacks_only_its_end_is_logged(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.{suffix}"
    with EventLog(path, process="a") as log:
        log.send("m1", ["b"], time=1.0)
        size = path.stat().st_size - (len(HEADER) if suffix == "csv" else 0)
        with room_for(path, size - 1):
            assert log.send("m2", ["b"], time=1.0) == 2
        assert messages(path) == ["m1", "m2"]
        log.send("m3", ["b"], time=1.0)
    assert messages(path) == ["m1", "m2", "m3"]


def test_a_torn_csv_row_that_reads_as_an_event_keeps_its_seq(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    with EventLog(path, process="a") as log:
        with room_for(path, len("a,1,send,m,b,12")), pytest.raises(LogError, match="7 of 22 bytes"):
            log.send("m", ["b"], time=123456.0)
        log.send("n", ["b"])
    assert [event.seq for event in eventlog.read(path)] == [1, 2]


@SUFFIXES
def test_a_line_torn_by_another_writer_is_ended_first(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.{suffix}"
    with EventLog(path, process="a") as log:
        log.send("m1", ["b"])
        with path.open("a") as file:
            file.write('b,1,send,"m' if suffix == "csv" else '{"process":"b","se')
        log.send("m2", ["b"])
    rejected: list[Rejected] = []
    assert messages(path, rejected) == ["m1", "m2"]
    assert len(rejected) == 1


def test_a_truncated_csv_gets_its_header_again(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    with EventLog(path, process="a") as log:
        log.send("m1", ["b"])
        os.truncate(path, 0)
        assert log.send("m2", ["b"]) == 2
    assert messages(path) == ["m2"]


@pytest.mark.parametrize(
    "torn",
    ['b,1,send,"x', 'b,1,send,"x,y",";z', '"b', 'b,1,send,"x""', 'b,1,send,"x"y', 'b,1,send,m",",'],
)
@pytest.mark.parametrize("follower", ["m2", "x,y", '"q"', ",", '","'])
def test_a_csv_line_torn_inside_quotes_costs_one_row(
    tmp_path: Path, torn: str, follower: str
) -> None:
    path = tmp_path / "log.csv"
    eventlog.write(path, [Event("a", 1, "send", "m1")])
    with path.open("a") as file:
        file.write(torn)
    for _ in range(3):
        with EventLog(path, process="a") as log:
            log.send(follower, [",c", '"d"'])
    rejected: list[Rejected] = []
    assert messages(path, rejected) == ["m1", follower, follower, follower]
    assert [(bad.line, bad.text) for bad in rejected] == [(3, torn)]


def test_torn_csv_lines_at_the_end_and_in_a_row_cost_one_row_each(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    torn = 'b,1,send,"x\n' * 3
    path.write_text(HEADER + torn + "a,1,send,m1,,\n" + torn + "a,2,send,m2,,\n" + torn)
    rejected: list[Rejected] = []
    assert messages(path, rejected) == ["m1", "m2"]
    assert [bad.line for bad in rejected] == [2, 3, 4, 6, 7, 8, 10, 11, 12]


def test_a_quoted_field_may_hold_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        'process,seq,kind,message,note\na,1,send,m1,"one\n\n,two\n"\n'
        'a,2,send,"m\n2",\na,x,send,m3,\n'
    )
    rejected: list[Rejected] = []
    assert messages(path, rejected) == ["m1", "m\n2"]
    assert [bad.line for bad in rejected] == [8]


def test_hostile_csv_is_read_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEADER + 'x",",\n' * 20_000)
    rejected: list[Rejected] = []
    start = time.process_time()
    assert messages(path, rejected) == []
    assert time.process_time() - start < 5
    assert len(rejected) == 20_000


@pytest.mark.parametrize(
    "header",
    [
        "seq,process,kind,message,dests,time",
        "process,seq,kind,message",
        HEADER.strip() + ",note",
        "process,se",
        "",
    ],
)
def test_a_csv_with_other_columns_is_not_appended_to(tmp_path: Path, header: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(header + "\n1,a,send,m,,\n")
    before = path.read_bytes()
    with pytest.raises(LogError, match="process, seq, kind, message, dests, time; log to a new"):
        EventLog(path, process="a")
    assert path.read_bytes() == before


@pytest.mark.parametrize("header", ["\ufeff" + HEADER, HEADER.replace("\n", "\r\n"), '"process"'])
def test_a_csv_with_the_same_columns_is_appended_to(tmp_path: Path, header: str) -> None:
    path = tmp_path / "log.csv"
    header = header if "seq" in header else header + HEADER.removeprefix("process")
    path.write_bytes(header.encode())
    with EventLog(path, process="a") as log:
        log.send("m1", ["b"])
    assert messages(path) == ["m1"]


@pytest.mark.parametrize("name", ["/dev/full", "no/folder.jsonl", "."])
def test_errors_of_the_system_are_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LogError, match="cannot write the event log"):
        EventLog(name, process="a").local()
    with pytest.raises(LogError, match="cannot write the event log"):
        eventlog.write("/dev/full/x" if name == "/dev/full" else name, [Event("a", 1, "local")])
    if name != "/dev/full":
        with pytest.raises(LogError, match="cannot read the event log"):
            eventlog.read(name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("room", [0, 10])
def test_a_csv_without_room_for_its_header_is_not_opened(tmp_path: Path, room: int) -> None:
    path = tmp_path / "log.csv"
    path.touch()
    with room_for(path, room), pytest.raises(LogError, match="cannot write the event log"):
        EventLog(path, process="a")
    assert path.read_text() == HEADER[:room]


@SUFFIXES
@pytest.mark.parametrize("filler", ["x", '"', "\\", "a,", "[", "\0"])
def test_opening_behind_a_long_line_is_quick(tmp_path: Path, suffix: str, filler: str) -> None:
    path = tmp_path / f"log.{suffix}"
    with EventLog(path, process="a") as log:
        log.local()
    with path.open("a") as file:
        file.write(filler * ((32 << 20) // len(filler)))
    start = time.process_time()
    with EventLog(path, process="a") as log:
        assert log.local() == 2
    assert time.process_time() - start < 1.5


@SUFFIXES
def test_several_processes_share_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.{suffix}"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name], stdin=subprocess.PIPE, env=environ
        )
        for name in "wxyz"
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.close()
    assert [child.wait() for child in children] == [0] * 4
    found = eventlog.read(path)
    assert len(found) == 1200
    for process in "wxyz":
        own = [event for event in found if event.process == process]
        assert [event.seq for event in own] == list(range(1, 301))
        assert own[-1].message == f"{process}, 299: " + process * (299 * 50)


@SUFFIXES
def test_a_line_that_is_still_being_written_is_not_torn(tmp_path: Path, suffix: str) -> None:
    """Another process may be between two pages of its line: ours must wait for the rest."""
    path = tmp_path / f"log.{suffix}"
    with EventLog(path, process="b") as other:
        other.local()
    line = path.read_bytes().splitlines(keepends=True)[-1].replace(b"b", b"c", 1)
    with EventLog(path, process="a") as log, path.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line[:5])
        thread = threading.Thread(target=log.local)
        thread.start()
        thread.join(0.05)
        file.write(line[5:])
        fcntl.flock(file, fcntl.LOCK_UN)
        thread.join()
    assert [event.process for event in eventlog.read(path)] == ["b", "c", "a"]
    assert b"\n\n" not in path.read_bytes()
