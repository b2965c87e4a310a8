"""The event log: written events are read back, whatever happens to the writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede import events as eventlog
from antecede.errors import LogError, UsageError
from antecede.events import Event, EventLog, Rejected
from antecede.events.tables import EVENT_KINDS, LOCAL

names = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)
events = st.lists(
    st.builds(
        Event,
        process=names,
        seq=st.integers(-(2**63), 2**63 - 1),
        kind=st.sampled_from(EVENT_KINDS),
        message=names,
        dests=st.none()
        | st.lists(names.filter(lambda n: ";" not in n and n == n.strip()), min_size=1).map(tuple),
        time=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    ),
    max_size=20,
)


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_process_logs_with_one_call_per_event(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.{suffix}"
    with EventLog(path, process="a") as log:
        assert log.send("m1", ["b", "c"], time=1.5) == 1
        assert log.deliver("m2", time=2.0) == 2
        assert log.local(time=3.0) == 3
        assert log.send("m3") == 4
    first, second, third, fourth = eventlog.read(path)
    assert first == Event("a", 1, "send", "m1", ("b", "c"), 1.5)
    assert second == Event("a", 2, "deliver", "m2", None, 2.0)
    assert third == Event("a", 3, "local", None, None, 3.0)
    assert fourth.dests is None
    assert fourth.time is not None


def test_a_message_id_is_written_as_sender_and_number(tmp_path: Path) -> None:
    class MessageId(NamedTuple):
        sender: str
        seq: int

    with EventLog(tmp_path / "log.jsonl", process="a") as log:
        log.send(MessageId("a", 7), ["b"])
    assert eventlog.read(tmp_path / "log.jsonl")[0].message == "a:7"


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_the_seq_goes_on_where_the_file_left_it(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.{suffix}"
    for _ in range(3):
        for process in ("a", "b"):
            with EventLog(path, process=process) as log:
                log.send(f"m{log.local()}-{process}", ["b"])
    assert [event.seq for event in eventlog.read(path) if event.process == "a"] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    assert len(eventlog.read(path)) == 12


def test_the_last_seq_is_found_far_from_the_end_of_a_long_file(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with EventLog(path, process="rare") as log:
        log.local()
    with EventLog(path, process="busy") as log:
        for number in range(3000):
            log.send(f"message number {number}", ["rare"])
    assert path.stat().st_size > 3 * 65536
    with EventLog(path, process="rare") as log:
        assert log.local() == 2


def test_a_torn_line_is_closed_off_and_rejected(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with EventLog(path, process="a") as log:
        log.send("m1", ["b"])
    with path.open("a") as file:
        file.write('{"process":"a","se')
    with EventLog(path, process="a") as log:
        assert log.send("m2", ["b"]) == 2
    rejected: list[Rejected] = []
    assert [event.message for event in eventlog.read(path, rejected=rejected)] == ["m1", "m2"]
    assert rejected == [Rejected(2, '{"process":"a","se', "not JSON")]


def test_a_killed_program_loses_nothing_it_has_logged(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    program = (
        "import sys; from antecede.events import EventLog\n"
        "log = EventLog(sys.argv[1], process='a')\n"
        "while True:\n"
        "    print(log.send('m', ['b']), flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    said = [int(child.stdout.readline()) for _ in range(500)]
    child.send_signal(signal.SIGKILL)
    said += [int(line) for line in child.stdout if line.endswith("\n")]
    child.stdout.close()
    child.wait()
    found = [event.seq for event in eventlog.read(path)]
    assert found[: len(said)] == said
    assert len(found) <= len(said) + 1


def test_threads_and_processes_share_a_file_without_mixing_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"

    def work(process: str) -> None:
        with EventLog(path, process=process) as log:
            for number in range(200):
                log.send(f"{process}-{number}", [process * 20])

    workers = [threading.Thread(target=work, args=(name,)) for name in ("x", "y", "z")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = eventlog.read(path)
    assert len(found) == 600
    for process in "xyz":
        assert [e.seq for e in found if e.process == process] == list(range(1, 201))


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@given(written=events)
def test_every_event_survives_writing_and_reading(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, written: list[Event]
) -> None:
    path = tmp_path_factory.mktemp("log") / f"log.{suffix}"
    eventlog.write(path, written)
    assert eventlog.read(path) == written


@given(st.lists(st.binary(max_size=60), max_size=5), st.sampled_from(["jsonl", "csv"]))
def test_garbage_is_rejected_never_a_crash(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], suffix: str
) -> None:
    path = tmp_path_factory.mktemp("log") / f"log.{suffix}"
    header = b"process,seq,kind,message,dests,time\n" if suffix == "csv" else b""
    path.write_bytes(header + b"\n".join(lines))
    rejected: list[Rejected] = []
    for event in eventlog.read(path, rejected=rejected):
        assert event.kind in EVENT_KINDS
    assert all(row.reason for row in rejected)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"seq": 1, "kind": "send", "message": "m"}, "process is missing"),
        ({"process": "a", "kind": "send", "message": "m"}, "seq is missing"),
        ({"process": "a", "seq": True, "kind": "send", "message": "m"}, "seq is not a"),
        ({"process": "a", "seq": 2**63, "kind": "send", "message": "m"}, "64-bit"),
        ({"process": "a", "seq": 1, "kind": "sned", "message": "m"}, "send, deliver, local"),
        ({"process": "a", "seq": 1, "kind": "deliver"}, "deliver event needs a message"),
        ({"process": "a", "seq": 1, "kind": "send", "message": 3.5}, "message is not"),
        ({"process": "a", "seq": 1, "kind": "send", "message": True}, "message is not"),
        ({"process": "a", "seq": 1, "kind": ["send"], "message": "m"}, "send, deliver, local"),
        ({"process": "a", "seq": 1, "kind": "send", "message": "m", "dests": [None]}, "dests is"),
        ({"process": "\ud800", "seq": 1, "kind": "send", "message": "m"}, "lone surrogate"),
        ({"process": "a", "seq": 1, "kind": "send", "message": "\udfff"}, "lone surrogate"),
        ({"process": "a", "seq": 1, "kind": "send", "message": "m", "dests": 5}, "dests is not"),
        ({"process": "a", "seq": 1, "kind": LOCAL, "time": [1]}, "time is not a number"),
    ],
)
def test_a_row_that_is_no_event_says_why(row: dict[str, object], reason: str) -> None:
    found = eventlog.parse(row)
    assert isinstance(found, str)
    assert reason in found


def test_whole_numbers_are_names_as_their_text(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"process":1,"seq":1,"kind":"send","message":17,"dests":[2,"c"],"time":3}\n')
    assert eventlog.read(path) == [Event("1", 1, "send", "17", ("2", "c"), 3.0)]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_bytes_that_are_not_utf8_are_rejected_and_never_merged(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.{suffix}"
    if suffix == "csv":
        head, row = b"process,seq,kind,message\n", b"a,%d,send,caf%s\n"
    else:
        head, row = b"", b'{"process":"a","seq":%d,"kind":"send","message":"caf%s"}\n'
    path.write_bytes(head + row % (1, b"\xe9") + row % (2, b"\xe8") + row % (3, "é".encode()))
    rejected: list[Rejected] = []
    assert [e.message for e in eventlog.read(path, rejected=rejected)] == ["café"]
    assert [r.reason for r in rejected] == ["not UTF-8"] * 2
    assert "caf\\xe9" in rejected[0].text
    assert "caf\\xe8" in rejected[1].text
    with pytest.raises(UsageError, match="is not a valid event: not UTF-8; got"):
        eventlog.read(path)


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_byte_order_mark_is_no_part_of_the_log(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.{suffix}"
    eventlog.write(path, [Event("a", 1, "send", "m")])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert eventlog.read(path) == [Event("a", 1, "send", "m")]
    with EventLog(path, process="a") as log:
        assert log.deliver("x") == 2


def test_spaces_around_the_destinations_in_csv_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('process,seq,kind,message,dests\na,1,send,m,"b; c ;"\n')
    assert eventlog.read(path)[0].dests == ("b", "c")


def test_reading_without_a_list_for_them_raises_at_the_first_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"process":"a","seq":1,"kind":"local"}\n[1]\n')
    with pytest.raises(UsageError, match="line 2 is not a valid event: not a JSON object"):
        eventlog.read(path)


def test_wrong_calls_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write the event log"):
        EventLog(tmp_path / "no" / "such" / "folder.jsonl", process="a")
    with pytest.raises(UsageError, match="non-empty string"):
        EventLog(tmp_path / "log.jsonl", process="")
    log = EventLog(tmp_path / "log.jsonl", process="a")
    with pytest.raises(UsageError, match="list of process names"):
        log.send("m", "b")
    with pytest.raises(UsageError, match="non-empty string or a MessageId"):
        log.deliver(None)
    log.close()
    log.close()
    with pytest.raises(UsageError, match="is closed"):
        log.local()
    with pytest.raises(UsageError, match=r"log to \.jsonl instead"):
        EventLog(tmp_path / "log.csv", process="a").send("m", ["b;c"])
    with pytest.raises(UsageError, match="cannot read"):
        eventlog.read(tmp_path / "absent.jsonl")
    (tmp_path / "bad.csv").write_text("process,seq\na,1\n")
    lacking = r"bad\.csv': the log lacks the columns kind, message; it has process, seq: map them"
    with pytest.raises(LogError, match=lacking):
        eventlog.read(tmp_path / "bad.csv")
    for mark, shown in ((";", ";"), ("\t", r"\\t")):
        (tmp_path / "bad.csv").write_text(f"process{mark}seq{mark}kind{mark}message\n")
        with pytest.raises(LogError, match=f"columns are separated by '{shown}': .* by commas"):
            eventlog.read(tmp_path / "bad.csv")
    (tmp_path / "bad.csv").write_text("process,process,seq,kind,message\n")
    with pytest.raises(LogError, match="names the column process 2 times; keep one"):
        eventlog.read(tmp_path / "bad.csv")
    assert (tmp_path / "log.jsonl").read_text() == ""
