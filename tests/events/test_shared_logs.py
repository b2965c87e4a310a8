"""The real logs of docs/audit.md: each gets the verdict of a reading by hand."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from antecede.audit.files import audit_here
from antecede.events.formats import shiviz
from antecede.events.log import Source

DOCS = Path(__file__).resolve().parents[2] / "docs" / "audit.md"


def rows() -> list[list[str]]:
    """Return the table of real logs: name, patterns, verdict, violations, words."""
    section = DOCS.read_text().split("## Real logs")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def source_of(shared: Path, row: list[str]) -> Source:
    path = shared / "data" / "shiviz" / row[0]
    return Source(path, send=row[1] or None, deliver=row[2] or None)


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]} {row[3]}")
def test_a_real_log_gets_the_verdict_of_a_reading_by_hand(shared: Path, row: list[str]) -> None:
    (found,) = audit_here([source_of(shared, row)]).values()
    assert found.audit.verdict == row[3], found.audit.reason
    if row[4]:
        late = {
            (one["process"], one["message"]) for one in found.audit.tables["violations"].to_pylist()
        }
        assert late == late_by_sets(source_of(shared, row))
        assert len(late) == int(row[4])


def test_the_table_has_every_log(shared: Path) -> None:
    files = {path.name for path in (shared / "data" / "shiviz").iterdir()}
    assert {row[0] for row in rows()} == files


def late_by_sets(source: Source) -> set[tuple[str, str]]:
    """Return the late deliveries, by explicit sets of what follows each event.

    An event follows those before it at its host, the event of each other host that its clock
    counts, and, if it is a delivery, the send.
    """
    entries = shiviz.parse_log(source.path.read_text(encoding="utf-8")).entries
    events = shiviz.to_events(entries, source)
    lines: dict[str, list[int]] = {}
    for place in sorted(range(len(entries)), key=lambda place: entries[place].count):
        lines.setdefault(entries[place].host, []).append(place)
    after: list[set[int]] = [set() for _ in entries]
    for line in lines.values():
        for one, other in pairwise(line):
            after[one].add(other)
    for place, entry in enumerate(entries):
        for host, count in entry.clock.items():
            known = [other for other in lines.get(host, []) if entries[other].count <= count]
            if host != entry.host and known:
                after[known[-1]].add(place)
    sends = {event.message: place for place, event in enumerate(events) if event.kind == "send"}
    got = [place for place, event in enumerate(events) if event.kind == "deliver"]
    for place in got:
        after[sends[events[place].message]].add(place)
    late = set()
    for place in got:
        effects = _reached(after, sends[events[place].message])
        for other in got:
            is_here = entries[other].host == entries[place].host
            is_earlier = is_here and entries[other].count < entries[place].count
            if is_earlier and sends[events[other].message] in effects:
                late.add((entries[place].host, str(events[place].message)))
    return late


def _reached(after: list[set[int]], start: int) -> set[int]:
    found: set[int] = set()
    todo = [start]
    while todo:
        fresh = after[todo.pop()] - found
        found |= fresh
        todo += fresh
    return found


def test_the_bags_of_simpledb_are_paired_as_the_clocks_say(shared: Path) -> None:
    (row,) = [row for row in rows() if row[0] == "simpledb.log"]
    source = source_of(shared, row)
    entries = shiviz.parse_log(source.path.read_text(encoding="utf-8")).entries
    pairs = list(zip(shiviz.to_events(entries, source), entries, strict=True))
    sends = {event.message: entry for event, entry in pairs if event.kind == "send"}
    followed, exact = 0, 0
    for event, entry in pairs:
        send = sends.get(event.message)
        if event.kind != "deliver" or send is None or send.host == entry.host:
            continue
        known = entry.clock.get(send.host, 0)
        followed += known >= send.count
        base = str(event.message).split(" #")[0]
        later = [
            other.count
            for name, other in sends.items()
            if str(name).split(" #")[0] == base and send.count < other.count <= known
        ]
        exact += not later
    text = " ".join(DOCS.read_text().split())
    words = re.search(r"none of the (\d+) bags .* for (\d+) of them the clock shows", text)
    assert words is not None
    remote = sum(
        event.kind == "deliver" and sends[event.message].host != entry.host
        for event, entry in pairs
    )
    assert (followed, exact) == (int(words[1]), int(words[2]))
    assert followed == remote


def test_the_clocks_of_shiviz_logs_decide_what_no_message_shows(tmp_path: Path) -> None:
    """Only A and B match; that B follows A shows in the clocks alone."""
    path = tmp_path / "x.log"
    path.write_text(
        'a {"a":1}\nsend A\nb {"b":1}\nstart\nb {"b":2, "a":2}\nsend B\n'
        'c {"c":1, "b":2, "a":2}\ndeliver B\nc {"c":2, "b":2, "a":2}\ndeliver A\n'
    )
    options: dict[str, Any] = {"send": "send (?<message>.)", "deliver": "deliver (?<message>.)"}
    (found,) = audit_here([Source(path, **options)]).values()
    assert found.audit.verdict == "broken"
    assert late_by_sets(Source(path, **options)) == {("c", "A")}
