"""Several executions in one log: each has its verdict, and the worst decides."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecede.errors import LogError, UsageError
from antecede.events.log import Source
from antecede.events.sources import read, read_logs
from tests.cli.test_audit import call

PATTERNS = ["--send", "send (?<message>.)", "--deliver", "deliver (?<message>.)"]
KEPT = ['a {"a":1}', "send A", 'b {"b":1, "a":1}', "deliver A"]
BROKEN = [
    *('a {"a":1}', "send A", 'a {"a":2}', "send B"),
    *('b {"b":1, "a":2}', "deliver B", 'b {"b":2, "a":2}', "deliver A"),
]
SILENT = ['a {"a":1}', "send A"]


def write(path: Path, *parts: str | list[str]) -> Path:
    lines = [line for part in parts for line in ([part] if isinstance(part, str) else part)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_each_execution_has_its_verdict_and_the_worst_decides(tmp_path: Path) -> None:
    path = write(tmp_path / "x.log", "=== Execution #1 ===", KEPT, "=== Execution #2 ===", BROKEN,
                 "=== Execution #3 ===", SILENT)  # fmt: skip
    done = call("audit", path, *PATTERNS, "--local", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "Execution #1 (01-Execution-1): ordered" in done.output
    assert "Execution #2 (02-Execution-2): broken" in done.output
    assert "Execution #3 (03-Execution-3): undecidable" in done.output
    assert "antecede: undecidable: x.log, execution Execution #3: " in done.stderr
    late = pq.read_table(tmp_path / "out" / "02-Execution-2" / "violations.parquet").to_pylist()
    assert [row["message"] for row in late] == ["A"]
    page = (tmp_path / "out" / "index.html").read_text()
    assert 'href="03-Execution-3/index.html"' in page
    assert "Causal order was broken" in (tmp_path / "out/02-Execution-2/index.html").read_text()
    said = call("audit", path, *PATTERNS, "--local", "--json", "--out", tmp_path / "out")
    summary = json.loads(said.stdout)
    verdicts = [(one["execution"], one["verdict"]) for one in summary["result"]["executions"]]
    assert verdicts == [
        ("Execution #1", "ordered"), ("Execution #2", "broken"), ("Execution #3", "undecidable"),
    ]  # fmt: skip
    assert summary["result"]["verdict"] == "broken"
    assert summary["result"]["violations"] == 1
    assert [row["execution"] for row in summary["violations"]] == ["Execution #2"]
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == {
        name: value for name, value in summary.items() if name != "violations"
    }


@pytest.mark.parametrize(
    ("parts", "code"),
    [((KEPT, KEPT), 0), ((KEPT, SILENT), 2), ((SILENT, BROKEN), 1), ((KEPT, BROKEN), 1)],
)
def test_the_exit_status_is_that_of_the_worst(
    tmp_path: Path, parts: tuple[list[str], list[str]], code: int
) -> None:
    path = write(tmp_path / "x.log", parts[0], "=== 2 ===", parts[1])
    done = call("audit", path, *PATTERNS, "--local", "--out", tmp_path / "out")
    assert done.exit_code == code


def test_an_execution_can_be_chosen_and_must_be_for_a_report(tmp_path: Path) -> None:
    path = write(tmp_path / "x.log", "run one", KEPT, "run two", BROKEN)
    words = [path, *PATTERNS, "--delimiter", "^run (?<trace>.*)$"]
    audit = [*words, "--local", "--out", tmp_path / "audit", "--execution"]
    assert call("audit", *audit, "one").exit_code == 0
    assert call("audit", *audit, "two").exit_code == 1
    done = call("audit", *audit, "three")
    assert isinstance(done.exception, UsageError)
    assert "no execution 'three'; the log has: 'one', 'two'" in str(done.exception)
    for verb in ("report", "advise"):
        done = call(verb, *words, "--out", tmp_path / verb)
        assert isinstance(done.exception, LogError)
        assert "has 2 executions ('one', 'two'); choose one with --execution" in str(done.exception)
    out = tmp_path / "report"
    done = call("report", *words, "--out", out, "--execution", "two", "--around", "A")
    assert "b delivered B" in done.output
    assert "x.log, execution two around A" in (out / "index.html").read_text()


def test_delimiters_are_as_in_shiviz(tmp_path: Path) -> None:
    path = write(tmp_path / "x.log", KEPT, "--", BROKEN, "--", "", "--", SILENT)
    found = read_logs([Source(path, delimiter="^--$")])
    assert [(label, len(log.events)) for label, log in found.items()] == [
        ("(start)", 2), ("1", 4), ("3", 1),
    ]  # fmt: skip
    same = write(tmp_path / "y.log", "=== A ===", KEPT, "=== A ===", SILENT)
    assert list(read_logs([Source(same)])) == ["A", "A (2)"]
    one = write(tmp_path / "z.log", "some words", "=== A ===", KEPT)
    assert read(Source(one)).bad == 1


def test_a_delimiter_that_matches_all_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.log", SILENT)
    with pytest.raises(LogError, match=r"the delimiter '.+' leaves nothing between its matches"):
        read(Source(path, delimiter=".+"))


def test_a_text_that_looks_like_a_delimiter_is_still_a_text(tmp_path: Path) -> None:
    path = write(tmp_path / "x.log", 'a {"a":1}', "=== started ===", 'a {"a":2}', "=== ready ===")
    assert read(Source(path)).events.column("message").to_pylist() == [
        "=== started ===", "=== ready ===",
    ]  # fmt: skip


def test_an_execution_without_events_is_not_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "x.log", "=== A ===", KEPT, "=== B ===", "crashed")
    with pytest.raises(LogError, match="the execution 'B' has no events; it begins with 'crashed'"):
        read(Source(path))


def test_executions_of_the_same_name_in_several_files_are_one(tmp_path: Path) -> None:
    one = write(tmp_path / "a.log", "=== A ===", BROKEN[:4], "=== B ===", KEPT[:2])
    two = write(tmp_path / "b.log", "=== A ===", BROKEN[4:], "=== B ===", KEPT[2:])
    done = call("audit", one, two, *PATTERNS, "--local", "--json", "--out", tmp_path / "out")
    found = json.loads(done.stdout)["result"]["executions"]
    assert [(one["execution"], one["verdict"]) for one in found] == [
        ("A", "broken"), ("B", "ordered"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("verb", "words"), [("audit", ["--local"]), ("report", []), ("advise", ["--local"])]
)
def test_standard_input_is_a_log(tmp_path: Path, verb: str, words: list[str]) -> None:
    data = "\n".join([*BROKEN, 'stray {"clock', 'c {"c":1}', "end", ""])
    done = call(verb, "-", *PATTERNS, *words, "--out", tmp_path / "out", given=data)
    assert "1 row of the log is not a valid event and was left out; the first, line 9 of " in (
        done.output
    )
    assert "standard input" in (tmp_path / "out" / "index.html").read_text()


def test_standard_input_is_an_edge_list_to_replay(tmp_path: Path) -> None:
    data = "1 2 0\n2 1 1\n1 3\n"
    done = call("simulate", "matrix", "--edges", "-", "--out", tmp_path / "out", given=data)
    assert done.exit_code == 0, done.output
    assert "line 3 of standard input: expected: source destination time" in done.output


def test_clocks_alone_prove_a_violation_and_the_words_claim_no_delivery(tmp_path: Path) -> None:
    events = [
        *('a {"a":1}', "send A", 'a {"a":2}', "told b"),
        *('b {"b":1, "a":2}', "heard from a", 'b {"b":2, "a":2}', "send B"),
        *('c {"c":1, "b":2, "a":2}', "deliver B", 'c {"c":2, "b":2, "a":2}', "deliver A"),
    ]
    path = write(tmp_path / "x.log", events)
    done = call("audit", path, *PATTERNS, "--local", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "a sent A first: b knew of A when it sent B." in done.output
