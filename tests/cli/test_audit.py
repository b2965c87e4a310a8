"""``antecede audit``, ``report`` and ``advise``: exit status, one-line errors, run folders."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from antecede import events as eventlog
from antecede.cli.options import path_of
from antecede.errors import UsageError
from antecede.events import Event
from antecede.report.numbers import figure
from antecede.runs import RunFolder
from tests.support.histories import LATE

UNPAIRED = """
{"process": "a", "seq": 1, "kind": "send", "message": "m1", "dests": ["b"]}
{"process": "a", "seq": 2, "kind": "send", "message": "m2", "dests": ["b"]}
{"process": "b", "seq": 1, "kind": "deliver", "message": "M2"}
{"process": "b", "seq": 2, "kind": "deliver", "message": "M1"}
{"process": "b", "seq": 3, "kind": "deliver", "message": "M1"}
"""


def call(verb: str, *words: object, given: str | None = None) -> Result:
    """Run a verb; ``given`` is its standard input."""
    app = typer.Typer()
    app.command(name=verb)(getattr(import_module(f"antecede.cli.{verb}"), verb))
    return CliRunner().invoke(app, [str(word) for word in words], input=given)


def write(path: Path, log: list[Event]) -> Path:
    eventlog.write(path, log)
    return path


def test_a_clean_log_exits_with_0_and_a_late_one_with_1(tmp_path: Path) -> None:
    clean = [*LATE[:4], Event("c", 1, "deliver", "m1"), Event("c", 2, "deliver", "m3")]
    done = call("audit", write(tmp_path / "c.jsonl", clean), "--local", "--out", tmp_path / "c")
    assert done.exit_code == 0
    assert "Causal order was kept" in done.output
    late = call("audit", write(tmp_path / "l.jsonl", LATE), "--local", "--out", tmp_path / "l")
    assert late.exit_code == 1
    assert "Causal order was broken. 1 of 3 deliveries arrived after" in late.output
    rows = pq.read_table(tmp_path / "l" / "violations.parquet").to_pylist()
    assert [(row["message"], row["overtaker"]) for row in rows] == [("m1", "m3")]
    names = sorted(entry.name for entry in (tmp_path / "l").iterdir())
    assert names == [
        "findings.parquet",
        "index.html",
        "missing.csv",
        "missing.parquet",
        "rejected.parquet",
        "summary.json",
        "violations.csv",
        "violations.parquet",
    ]


def test_json_says_what_the_contract_says(tmp_path: Path) -> None:
    path = write(tmp_path / "l.csv", LATE)
    done = call("audit", path, "--local", "--json", "--out", tmp_path / "l")
    said = json.loads(done.stdout)
    assert {"verb", "version", "options", "seed", "started", "seconds", "result"} <= set(said)
    wanted = {"events", "processes", "messages", "deliveries", "violations", "fifo_violations"}
    wanted |= {"missing", "findings", "rejected", "verdict", "reason", "causally_ordered"}
    result = said["result"]
    assert wanted <= set(result)
    assert result["violations"] == 1
    assert (result["verdict"], result["causally_ordered"]) == ("broken", False)
    assert result["reason"].startswith(
        "1 of 3 deliveries arrived after a message it had caused (0 from"
    )


def test_ids_used_again_come_with_advice(tmp_path: Path) -> None:
    again = [replace(event, seq=event.seq + 10) for event in LATE]
    path = write(tmp_path / "l.jsonl", [*LATE, *again])
    told = call("audit", path, "--local", "--out", tmp_path / "o").stdout
    assert "message sent twice" in told
    assert "audit each run by itself" in told
    once = write(tmp_path / "once.jsonl", LATE)
    told = call("audit", once, "--local", "--out", tmp_path / "p").stdout
    assert "audit each run by itself" not in told


def test_a_cause_that_never_came_is_bad_news(tmp_path: Path) -> None:
    path = write(tmp_path / "l.jsonl", LATE[:5])
    done = call("audit", path, "--local", "--json", "--out", tmp_path / "o")
    assert done.exit_code == 1
    assert json.loads(done.output)["result"]["missing"] == 1


@pytest.mark.parametrize(
    ("text", "words", "reason"),
    [
        (
            "process,seq,kind\na,1,local\n",
            ["--format", "csv"],
            "log.strange': the log lacks the column message; it has process, seq, kind: map them",
        ),
        ("", ["--format", "jsonl"], "has no events"),
        ("junk", ["--format", "parquet"], "as parquet"),
        ("junk", ["--format", "xml"], "known: csv, edges, jaeger, jsonl, otlp, "),
        ("junk", [], "give --format"),
        ('{"process":"a"}\n', ["--format", "jsonl", "--strict"], "--strict forbids"),
        (UNPAIRED, ["--format", "jsonl", "--windows", "0"], "windows is 0; give 1 or more"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, text: str, words: list[str], reason: str
) -> None:
    path = tmp_path / "log.strange"
    path.write_text(text)
    done = call("audit", path, "--local", "--out", tmp_path / "out", *words)
    assert isinstance(done.exception, UsageError)
    assert "\n" not in str(done.exception)
    with pytest.raises(UsageError, match=reason):
        raise done.exception
    assert not (tmp_path / "out").exists()


def refused(verb: str, *words: object) -> str:
    """Return why a call is refused."""
    done = call(verb, *words, given="")
    assert isinstance(done.exception, UsageError)
    return str(done.exception)


@pytest.mark.parametrize("verb", ["audit", "advise", "report"])
def test_a_file_that_is_not_there_or_not_whole_is_told_as_such(tmp_path: Path, verb: str) -> None:
    none, half, out = tmp_path / "none", tmp_path / "half.gz", ("--out", tmp_path / "out")
    half.write_bytes(gzip.compress(b"x" * 100_000)[:40])
    assert refused(verb, none, *out) == f"there is no log '{none}'"
    assert refused(verb, half, *out).startswith(f"cannot read '{half}': ")
    assert refused(verb, "-", *out) == "'standard input' has no events: the file is empty"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("audit", ["--windows", "4"]),
        ("audit", ["--master", "local[1]"]),
        ("audit", ["--memory", "4g"]),
        ("advise", ["--wait", "5"]),
    ],
)
def test_options_of_spark_are_refused_beside_local(
    tmp_path: Path, verb: str, words: list[str]
) -> None:
    told = refused(verb, write(tmp_path / "l.jsonl", LATE), "--local", *words)
    assert told == f"--local works without Spark; leave --local or {words[0]} out"


def test_a_list_of_events_is_read(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(f"[{','.join(UNPAIRED.strip().splitlines())}]")
    done = call("audit", path, "--local", "--json", "--out", tmp_path / "out")
    assert json.loads(done.stdout)["result"]["events"] == 5


def test_fields_name_the_parts_of_an_event(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    rows = [
        {"service": event.process, "do": f"{event.kind}s", "labels": {"id": event.message}}
        for event in LATE
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = ["--field", "process=service", "--field", "kind=do", "--field", "message=labels.id"]
    out = tmp_path / "out"
    done = call("audit", path, "--local", "--json", *fields, "--out", out, "--assume-complete")
    assert done.exit_code == 1
    said = json.loads(done.stdout)
    assert [row["message"] for row in said["violations"]] == ["m1"]
    assert said["options"]["field"] == {"process": "service", "kind": "do", "message": "labels.id"}
    assert refused("audit", path, "--local", "--field", "x") == (
        "cannot read --field 'x'; use PART=PATH, such as message=labels.order_id"
    )


@pytest.mark.parametrize(
    ("text", "form", "reason"),
    [
        ('a {"a":1}\nhello\n', "shiviz", "--send and --deliver"),
        ("a b 1\nb c 2\n", "edges", "nothing about deliveries.*advise"),
        (UNPAIRED, "jsonl", "2 sent messages and 3 deliveries, but no"),
    ],
)
def test_a_log_that_cannot_tell_is_undecidable(
    tmp_path: Path, text: str, form: str, reason: str
) -> None:
    path = tmp_path / "log.strange"
    path.write_text(text)
    words = ["--local", "--json", "--format", form, "--out", tmp_path / "out"]
    done = call("audit", path, *words)
    assert done.exit_code == 2
    assert re.match(f"antecede: undecidable: log.strange: .*{reason}", done.stderr)
    assert done.stderr.count("\n") == 1
    result = json.loads(done.stdout)["result"]
    assert (result["verdict"], result["causally_ordered"]) == ("undecidable", None)
    assert re.search(reason, result["reason"])
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["result"] == result
    assert "cannot show whether" in (tmp_path / "out" / "index.html").read_text()


def test_some_deliveries_without_a_send_are_findings(tmp_path: Path) -> None:
    path = write(tmp_path / "l.jsonl", [*LATE, Event("c", 3, "deliver", "other")])
    done = call("audit", path, "--local", "--json", "--out", tmp_path / "o")
    assert done.exit_code == 1
    found = json.loads(done.output)["result"]
    assert found["findings_by_kind"] == {"delivery without send": 1}


def test_an_edge_list_is_drawn_and_advised_upon(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("a b 1\nb c 2\na c 3\n")
    assert call("report", path, "--out", tmp_path / "r").exit_code == 0
    assert call("advise", path, "--local", "--out", tmp_path / "a").exit_code == 0


def test_a_report_draws_one_message(tmp_path: Path) -> None:
    path = write(tmp_path / "l.jsonl", LATE)
    done = call("report", path, "--around", "m1", "--out", tmp_path / "r")
    assert done.exit_code == 0
    assert "c delivered m3 (seq 1) before m1" in done.output
    assert "st-late" in (tmp_path / "r" / "index.html").read_text()
    quiet = call("report", path, "--around", "m2", "--out", tmp_path / "q")
    assert "overtook nothing" in quiet.output
    absent = call("report", path, "--around", "m9", "--out", tmp_path / "n")
    assert "ids such as 'm1'" in str(absent.exception)
    whole = call("report", path, "--out", tmp_path / "w")
    assert "All 6 events, in causal order." in whole.output


def test_a_log_of_clocks_alone_is_drawn(tmp_path: Path, shared: Path) -> None:
    path = shared / "data" / "shiviz" / "chord.log"
    done = call("report", path, "--around", "Put request", "--out", tmp_path / "r")
    assert done.exit_code == 0
    assert (tmp_path / "r" / "index.html").read_text().count("st-message st-plain") > 5


def test_advice_has_a_row_per_protocol_and_a_choice(tmp_path: Path) -> None:
    path = write(tmp_path / "l.jsonl", LATE)
    done = call("advise", path, "--local", "--json", "--out", tmp_path / "a")
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)["result"]
    rows = {r["protocol"]: r for r in pq.read_table(tmp_path / "a" / "advice.parquet").to_pylist()}
    assert rows["optimal"]["status"] == "run"
    assert rows["matrix"]["entries_per_copy"] == 9
    assert rows["phases"]["status"] == "skipped"
    assert said["recommendation"] in rows
    assert said["reason"].startswith(f"Use {said['recommendation']}")


@pytest.mark.parametrize("verb", ["audit", "advise", "report"])
def test_an_empty_path_is_not_the_current_folder(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is what a shell makes of a variable that is not set."""
    write(tmp_path / "l.jsonl", LATE)
    monkeypatch.chdir(tmp_path)
    for words in ([""], ["l.jsonl", ""], ["l.jsonl", "--out", ""]):
        done = call(verb, *words)
        assert isinstance(done.exception, UsageError)
        assert "the path is empty" in str(done.exception)
    with pytest.raises(UsageError, match="--out is empty"):
        RunFolder.open("", verb, options={})
    assert [path.name for path in tmp_path.iterdir()] == ["l.jsonl"]
    assert path_of(".") == Path()


def test_advice_refuses_a_seed_that_no_generator_takes(tmp_path: Path) -> None:
    path = write(tmp_path / "l.jsonl", LATE)
    done = call("advise", path, "--local", "--seed", -1, "--out", tmp_path / "a")
    assert isinstance(done.exception, UsageError)
    assert "--seed -1 is out of range" in str(done.exception)
    assert not (tmp_path / "a").exists()


def test_the_terminal_shows_the_bytes_that_the_advice_compares(tmp_path: Path) -> None:
    path = write(tmp_path / "l.jsonl", LATE)
    words = ("--local", "--protocol", "optimal", "--protocol", "phases", "--out", tmp_path / "a")
    shown = call("advise", path, *words).output
    row = pq.read_table(tmp_path / "a" / "advice.parquet").to_pylist()[0]
    words_of = [line.split() for line in shown.splitlines()]
    (line,) = (line for line in words_of if line[:2] == ["optimal", "run"])
    model, wire = row["model_bytes_per_copy"], row["wire_bytes_per_copy"]
    assert line[1:4] == ["run", figure(model), figure(wire)]
    assert "Skipped: phases" in shown


def test_a_report_tells_what_never_came_and_what_cannot_be_so(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    rows = [
        {"process": "a", "seq": 1, "kind": "send", "message": "m1", "dests": ["b"]},
        {"process": "a", "seq": 2, "kind": "send", "message": "m2", "dests": ["b"]},
        {"process": "b", "seq": 1, "kind": "deliver", "message": "m2"},
        {"process": "b", "seq": 2, "kind": "deliver", "message": "m2"},
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = call("report", str(log), "--around", "m1", "--out", str(tmp_path / "m1"))
    assert "m1 was never delivered at b, which delivered its effect m2 (seq 1)." in told.stdout
    told = call("report", str(log), "--around", "m2", "--out", str(tmp_path / "m2"))
    assert "m2 at b (seq 2): delivered twice." in told.stdout
