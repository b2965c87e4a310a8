"""Reading JSON lines in one go gives the same as reading them one by one, or declines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede import events as eventlog
from antecede.audit.api import audit_table
from antecede.events import Event, Rejected
from antecede.events.formats.jsonl import read_quickly
from antecede.events.sources import Source, read, table_of

PLAIN = [
    Event("a", 1, "send", "m1", ("b", "c"), 0.5),
    Event("b", 1, "deliver", "m1", None, 1e-7),
    Event("b", 2, "local", None, None, None),
    Event("é", -(2**63), "send", "m 2", (), -3.25),
]
ODD = [
    '"process":"a"',
    '"process":""',
    '"process":1',
    '"seq":1',
    '"seq":1.0',
    '"seq":1e2',
    '"seq":9223372036854775808',
    '"seq":true',
    '"seq":"1"',
    '"seq":null',
    '"kind":"send"',
    '"kind":"local"',
    '"kind":"SEND"',
    '"message":"m"',
    '"message":""',
    '"message":null',
    '"message":"time"',
    '"message":7',
    '"dests":["b"]',
    '"dests":[]',
    '"dests":["b",null]',
    '"dests":[""]',
    '"dests":"b"',
    '"dests":[["b"]]',
    '"dests":null',
    '"time":3',
    '"time":1e400',
    '"time":-1E-3',
    '"time":NaN',
    '"time":"1"',
    '"time":123456789012345678901234567890',
    '"other":{"process":"z"}',
    '"other":[1,[2]]',
    '"other":"}\\n{"',
    '"oth\\u0065r":1',
    "}{",
    "}\n{",
    "\r",
]
good = st.sampled_from(['"process":"a","seq":1,"kind":"send","message":"m"'])
lines = st.lists(
    st.builds(
        lambda start, parts: "{" + ",".join([*([start] if start else []), *parts]) + "}",
        st.none() | good,
        st.lists(st.sampled_from(ODD), max_size=3),
    )
    | good.map("{{{}}}".format),
    min_size=1,
    max_size=5,
)


def test_a_good_log_is_read_in_one_go(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    eventlog.write(path, PLAIN)
    found = read_quickly(path.read_bytes())
    assert found is not None
    assert found.equals(table_of(PLAIN))
    assert read(Source(path)).events.equals(found)


@given(lines, st.sampled_from(["\n", "\r\n", "\r", "\n\n"]))
def test_one_go_gives_what_line_by_line_gives(
    tmp_path_factory: pytest.TempPathFactory, some: list[str], end: str
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    path.write_text(end.join(some), encoding="utf-8", newline="")
    rejected: list[Rejected] = []
    events = eventlog.read(path, rejected=rejected)
    found = read_quickly(path.read_bytes())
    if found is not None:
        assert rejected == []
        assert found.equals(table_of(events))


@pytest.mark.parametrize("damage", [b"\xff", b"\xed\xa0\x80"])
def test_bytes_that_are_no_text_are_left_to_the_careful_reader(
    tmp_path: Path, damage: bytes
) -> None:
    path = tmp_path / "log.jsonl"
    row = json.dumps({"process": "a", "seq": 1, "kind": "send", "message": "mX"}).encode()
    path.write_bytes(row + b"\n" + row.replace(b"X", damage))
    assert read_quickly(path.read_bytes()) is None
    assert read(Source(path)).bad == 1


def test_deep_nesting_is_left_to_the_careful_reader(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = '{"process":"a","seq":1,"kind":"send","message":"m"'
    path.write_text(row + "}\n" + row + ',"x":' + "[" * 100_000 + "]" * 100_000 + "}\n")
    assert read_quickly(path.read_bytes()) is None
    assert read(Source(path)).bad == 1


def test_clocks_are_objects_of_counts(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = '{"process":"a","seq":%d,"kind":"local","clock":%s}\n'
    clocks = ['{"b":2,"c":0}', "null", "{}", '{"b":true}', '{"b":1.5}', f'{{"b":{2**63}}}', "[1]"]
    plain = '{"process":"a","seq":9,"kind":"local"}\n'
    lines = [row % (number, clock) for number, clock in enumerate(clocks)]
    path.write_text("".join([*lines, plain]))
    found = read(Source(path))
    assert found.events.column("clock").to_pylist() == [[("b", 2), ("c", 0)], None, [], None]
    assert set(found.rejected.column("reason").to_pylist()) == {"clock is not an object of counts"}
    assert found.bad == 4


def test_the_order_of_clocks_in_json_lines_counts(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows: list[dict[str, object]] = [
        {"process": "a", "seq": 1, "kind": "send", "message": "A"},
        {"process": "b", "seq": 1, "kind": "send", "message": "B", "clock": {"a": 1}},
        {"process": "c", "seq": 1, "kind": "deliver", "message": "B"},
        {"process": "c", "seq": 2, "kind": "deliver", "message": "A"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    (late,) = audit_table(read(Source(path)).events).tables["violations"].to_pylist()
    assert (late["message"], late["overtaker"]) == ("A", "B")
