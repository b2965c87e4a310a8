"""Events that the reader would reject or misread are refused before they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

import antecede
from antecede import events as eventlog
from antecede.errors import UsageError
from antecede.events import Event, EventLog

SUFFIXES = pytest.mark.parametrize("suffix", ["jsonl", "csv"])
ANYWHERE: list[tuple[dict[str, object], str]] = [
    ({"time": float("nan")}, "time is not finite; got .*time=nan"),
    ({"time": float("inf")}, "time is not finite; got .*time=inf"),
    ({"time": 10**400}, "time is not finite"),
    ({"time": "x"}, "time is not a number or a date; got .*time='x'"),
    ({"time": True}, "time is not a number"),
    ({"dests": [1]}, r"dests is not a list of strings; got .*dests=\(1,\)"),
    ({"dests": [None]}, "dests is not a list of strings"),
    ({"dests": b"bc"}, "dests is not a list of strings"),
    ({"dests": 5}, "dests is 5; give a list of process names"),
    ({"dests": ["b", ""]}, "dests contains an empty name"),
    ({"dests": ["\ud800"]}, "lone surrogate"),
    ({"message": "m\udfff"}, "lone surrogate"),
]
IN_CSV: list[tuple[dict[str, object], str]] = [
    ({"message": "m\r5"}, r"log to \.jsonl instead"),
    ({"message": "m\n5"}, r"log to \.jsonl instead"),
    ({"message": "m" * 200_000}, r"log to \.jsonl instead"),
    ({"dests": ["b\rc"]}, r"log to \.jsonl instead"),
    ({"dests": ["b;c"]}, r"log to \.jsonl instead"),
    ({"dests": ["b "]}, r"log to \.jsonl instead"),
]


def refuse(path: Path, given: dict[str, object], words: str) -> None:
    """Check that the call is refused in one line, writes nothing and does not change seq."""
    with EventLog(path, process="a") as log:
        log.local(time=1.0)
        before = path.read_bytes()
        with pytest.raises(UsageError, match=words) as caught:
            log.send(**{"message": "m", "dests": ["b"], **given})  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400
        assert path.read_bytes() == before
        assert log.send("m", ["b"]) == 2
    assert len(eventlog.read(path)) == 2


@SUFFIXES
@pytest.mark.parametrize(("given", "words"), ANYWHERE)
def test_a_call_the_reader_would_reject(
    tmp_path: Path, suffix: str, given: dict[str, object], words: str
) -> None:
    refuse(tmp_path / f"log.{suffix}", given, words)


@pytest.mark.parametrize(("given", "words"), IN_CSV)
def test_a_name_that_csv_cannot_carry(tmp_path: Path, given: dict[str, object], words: str) -> None:
    refuse(tmp_path / "log.csv", given, words)
    with EventLog(tmp_path / "log.jsonl", process="a") as log:
        log.send(**{"message": "m", "dests": ["b"], **given})  # type: ignore[arg-type]
    (event,) = eventlog.read(tmp_path / "log.jsonl")
    assert event.message == given.get("message", "m")
    assert event.dests == tuple(given.get("dests", ["b"]))  # type: ignore[arg-type]


@SUFFIXES
@pytest.mark.parametrize("process", [5, None, b"a", "", "\ud800"])
def test_a_process_without_a_proper_name_has_no_log(
    tmp_path: Path, suffix: str, process: object
) -> None:
    path = tmp_path / f"log.{suffix}"
    with pytest.raises(UsageError, match=r"process|surrogate"):
        EventLog(path, process)  # type: ignore[arg-type]
    assert not path.exists()


def test_a_process_with_a_line_break_has_no_csv_log(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"log to \.jsonl instead"):
        EventLog(tmp_path / "log.csv", "a\rb")
    assert not (tmp_path / "log.csv").exists()


@SUFFIXES
def test_message_ids_and_any_iterable_of_names_are_taken(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.{suffix}"
    with EventLog(path, process="a") as log:
        log.send(antecede.MessageId("a", 7), (name for name in "bc"), time=5)
        log.send(8, {"b": 1, "c": 2})
        log.deliver(antecede.MessageId("b", 1))
    first, second, third = eventlog.read(path)
    assert first == Event("a", 1, "send", "a:7", ("b", "c"), 5.0)
    assert (second.message, second.dests) == ("8", ("b", "c"))
    assert third.message == "b:1"


@SUFFIXES
def test_a_whole_log_with_a_bad_event_is_not_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.{suffix}"
    good = Event("a", 1, "local")
    eventlog.write(path, [good])
    with pytest.raises(UsageError, match="a send event needs a message"):
        eventlog.write(path, [good, Event("a", 2, "send")])
    assert eventlog.read(path) == [good]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@SUFFIXES
def test_the_seq_goes_on_for_a_process_with_a_quote_in_its_name(
    tmp_path: Path, suffix: str
) -> None:
    for expected in (1, 2, 3):
        with EventLog(tmp_path / f"log.{suffix}", process='a"b') as log:
            assert log.local() == expected


@pytest.mark.parametrize("time", ["1" + "0" * 400, "1e400", "NaN", "-Infinity"])
def test_a_time_that_is_not_finite_is_read_as_unknown(tmp_path: Path, time: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"process":"a","seq":1,"kind":"local","time":' + time + "}\n")
    assert eventlog.read(path) == [Event("a", 1, "local")]
