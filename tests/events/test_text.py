"""Application logs as text: patterns, kinds, the order of lines, and the recipes of the docs."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antecede.errors import LogError, UsageError
from antecede.events.log import Source
from antecede.events.patterns import compile_pattern
from antecede.events.sources import form_of, read, sources_in
from antecede.events.times import seconds
from tests.cli.test_audit import call

ROOT = Path(__file__).resolve().parents[2]
PATTERN = r"^(?<time>\S+) \[(?<process>\w+)\] (?<kind>\w+) (?<message>m\d+)(?: to (?<dests>.*))?$"
APP = """
2026-03-02T10:00:00Z [a] sent m1 to b, c
2026-03-02T10:00:01Z [b] RECEIVED m1
2026-03-02T10:00:01Z [b] cache warmed
2026-03-02T10:00:02Z [b] Publishing m2 to [c]
2026-03-02T10:00:03Z [c] consumed m2
2026-03-02T10:00:04Z [c] got m1
2026-03-02T10:00:05Z [c] dropped m9
"""


def source(path: Path, text: str, **options: Any) -> Source:
    path.write_text(text)
    return Source(path, **options)


def test_a_pattern_with_named_groups_reads_an_application_log(tmp_path: Path) -> None:
    given = source(tmp_path / "app.log", APP, pattern=PATTERN)
    assert form_of(given) == "text"
    found = read(given)
    rows = [(r["process"], r["seq"], r["kind"], r["message"]) for r in found.events.to_pylist()]
    assert rows == [
        ("a", 1, "send", "m1"),
        ("b", 1, "deliver", "m1"),
        ("b", 2, "send", "m2"),
        ("c", 1, "deliver", "m2"),
        ("c", 2, "deliver", "m1"),
    ]
    assert found.events.column("dests").to_pylist()[0] == ["b", "c"]
    assert found.events.column("time").to_pylist()[0] == 1772445600.0
    assert found.bad == 2
    assert [(r["line"], r["reason"]) for r in found.rejected.to_pylist()] == [
        (4, "no pattern matches it"),
        (8, "kind is 'dropped'; expected a word such as sent or received"),
    ]


def test_the_verdict_on_an_application_log_says_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(APP)
    done = call("audit", tmp_path / "app.log", "--pattern", PATTERN, "--local", "--out",
                tmp_path / "out")  # fmt: skip
    assert done.exit_code == 1
    said = "2 rows of the log are not valid events and were left out; the first, line 4 of app.log"
    assert said in done.output


def test_a_file_of_several_processes_that_no_group_names_decides_nothing(tmp_path: Path) -> None:
    log = "a sent m1\nb got m1\nb sent m2\nc got m2\nc got m1\n"
    path = tmp_path / "all.log"
    path.write_text(log)
    pattern = r"(?<process>\w) (?<kind>\w+) (?<message>\w+)"
    words = (path, "--local", "--out", tmp_path / "out", "--pattern")
    assert call("audit", *words, pattern).exit_code == 1
    done = call("audit", *words, pattern.replace("process", "proc"))
    assert done.exit_code == 2
    assert "one process, 'all' after the name of the file" in done.output
    (tmp_path / "a.log").write_text("sent m1\n")
    (tmp_path / "b.log").write_text("got m1\n")
    own = r"(?<kind>\w+) (?<message>\w+)"
    done = call("audit", tmp_path / "a.log", tmp_path / "b.log", *words[1:], own)
    assert done.exit_code == 0, done.output


def test_sends_and_deliveries_may_have_patterns_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("12 put x into m1 for b\n")
    (tmp_path / "b.log").write_text("noise\n17 took m1 of a\n18 took m1 of a\n")
    options: dict[str, Any] = {"send": r"^(?<time>\d+) put x into (?<message>\S+) for (?<to>\w+)",
               "deliver": r"^(?<time>\d+) took (?<message>\S+) of (?<from>\w+)"}  # fmt: skip
    found = read(sources_in([tmp_path], Source(Path(), **options)))
    assert found.form == "text"
    rows = [(r["process"], r["kind"], r["message"], r["dests"]) for r in found.events.to_pylist()]
    assert rows == [
        ("a", "send", "a>b m1", ["b"]),
        ("b", "deliver", "a>b m1", None),
        ("b", "deliver", "a>b m1 #2", None),
    ]


def test_a_pattern_may_frame_those_of_sends_and_deliveries(tmp_path: Path) -> None:
    text = "t=1 p=a | out m1\nt=2 p=b | in m1\nt=3 p=b | idle\n"
    frame = r"^t=(?<time>\d+) p=(?<process>\w) \| (?<event>.*)"
    patterns = {"send": r"^out (?<message>\S+)", "deliver": r"^in (?<message>\S+)"}
    found = read(source(tmp_path / "x", text, pattern=frame, **patterns))
    assert found.events.column("process").to_pylist() == ["a", "b"]
    assert found.bad == 1


def test_the_order_of_a_process_is_its_seq_its_lines_or_its_times(tmp_path: Path) -> None:
    numbered = r"(?<process>\w)(?<seq>-?\d+) (?<kind>\w+) (?<message>\w+)"
    found = read(source(tmp_path / "n.log", "a2 sent y\na1 sent x\n", pattern=numbered))
    assert found.events.column("seq").to_pylist() == [2, 1]
    one = tmp_path / "logs"
    one.mkdir()
    (one / "x.log").write_text("3 p sent c\n1 p sent a\n")
    (one / "y.log").write_text("2 p sent b\n")
    plain = r"\d (?<process>\w) (?<kind>\w+) (?<message>\w)"
    with pytest.raises(LogError, match=r"'p' has events in 2 files .* give a group seq or time"):
        read(sources_in([one], Source(Path(), pattern=plain)))
    timed = plain.replace(r"\d", r"(?<time>\d)")
    found = read(sources_in([one], Source(Path(), pattern=timed)))
    assert found.events.column("message").to_pylist() == ["a", "b", "c"]
    (one / "y.log").unlink()
    found = read(sources_in([one], Source(Path(), pattern=timed)))
    assert found.events.column("message").to_pylist() == ["c", "a"]


def test_equal_texts_are_paired_in_the_order_of_time_however_files_are_named(
    tmp_path: Path,
) -> None:
    new, old = tmp_path / "app.log", tmp_path / "app.log.1"
    new.write_text("3 a sent ping to b\n4 b got ping from a\n")
    old.write_text("1 a sent ping to b\n2 b got ping from a\n")
    pattern = (
        r"(?<time>\d) (?<process>\w) (?<kind>\w+) (?<message>\w+) "
        r"(?:to (?<to>\w)|from (?<from>\w))"
    )
    like = Source(tmp_path, pattern=pattern)
    events = read(sources_in([new, old], like)).events.to_pylist()
    found = {event["time"]: event["message"] for event in events}
    assert found == {1: "a>b ping", 2: "a>b ping", 3: "a>b ping #2", 4: "a>b ping #2"}


def test_executions_in_a_text_are_apart(tmp_path: Path) -> None:
    text = "a sent m\nrun two\na sent m\nb got m\n"
    given = source(tmp_path / "x", text, delimiter="^run (?<trace>.*)$",
                   pattern=r"(?<process>\w) (?<kind>\w+) (?<message>m)")  # fmt: skip
    assert len(read(given, "two").events) == 2
    with pytest.raises(LogError, match=r"x has 2 executions \('\(start\)', 'two'\); choose one"):
        read(given)
    begun = replace(given, path=tmp_path / "y")
    begun.path.write_text("preparing\n" + text[text.index("run") :])
    assert (len(read(begun).events), read(begun).bad) == (2, 1)
    begun.path.write_text(text + "run three\ncrashed\n")
    with pytest.raises(LogError, match="the execution 'three' has no events: no pattern matches"):
        read(begun)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"form": "text"}, "the format text needs --pattern with groups kind and message, or"),
        ({"pattern": "(?<process>a)"}, "--pattern .* lacks the named group kind"),
        ({"pattern": "(?<kind>a)"}, "lacks the named group message"),
        ({"form": "text", "send": "x"}, "the pattern 'x' lacks the named group message"),
        ({"send": "(?<message>x"}, "--send .* is not a regular expression"),
        ({"pattern": "(?<kind>q)(?<message>z)"}, "has no events: .* no pattern matches it"),
        ({"pattern": "(?<kind>q)(?<message>z)", "delimiter": "x*"}, "matches where there is no"),
    ],
)
def test_patterns_that_cannot_work_are_refused(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason) as refused:
        read(source(tmp_path / "app.log", "one line\n", **options))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.5", 12.5),
        ("1772445600", 1772445600.0),
        ("1772445600500", 1772445600.5),
        ("1772445600500000000", 1772445600.5),
        ("2026-03-02 10:00:00,500", 1772445600.5),
        ("2026-03-02T11:00:00.5+01:00", 1772445600.5),
        ("03/02/2026 10:00:00.500", 1772445600.5),
        ("10:00:00.5", 36000.5),
        ("noon", None),
        ("nan", None),
        ("1e300", None),
    ],
)
def test_times_are_numbers_or_dates(text: str, value: float | None) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *((word, "send") for word in ("SENT", "sends", "Publishing", "emitted", "relayed", "->")),
        *((word, "deliver") for word in ("RECV", "delivers", "Received", "consuming", "<-")),
        ("local", "local"),
        ("resent", None),
        ("input", None),
    ],
)
def test_words_for_what_happened(tmp_path: Path, word: str, kind: str | None) -> None:
    text = f"a sent m\na {word} m\n"
    found = read(source(tmp_path / "x", text, pattern=r"(?<process>\w) (?<kind>\S+) (?<message>m)"))
    assert found.events.column("kind").to_pylist()[1:] == ([] if kind is None else [kind])
    assert found.bad == (kind is None)


def recipes() -> list[list[str]]:
    """Return the commands of the docs that read the sample files."""
    pages = [(ROOT / "docs" / page).read_text() for page in ("logs.md", "traces.md")]
    text = "\n".join(pages).replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("antecede audit docs/samples")]


@pytest.mark.parametrize("words", recipes(), ids=lambda words: words[2])
def test_the_recipes_of_the_docs_find_what_they_say(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    done = call("audit", *words[2:], "--json", "--out", tmp_path / "out")
    assert done.exit_code == 1, done.output
    result = json.loads(done.stdout)["result"]
    assert (result["verdict"], result["violations"]) == ("broken", 1 + ("kafka/" in words[2]))
    assert result["paired_deliveries"] == result["deliveries"]
    assert result["paired_sends"] == result["messages"]


@pytest.mark.parametrize(
    "line",
    [
        "orders/0/41\tid=m,origin=shop\t{}",
        "orders/0/41\torigin=shop,id=m\t",
        "Partition:0\tOffset:41\tid:m\t{}",
        "CreateTime:1772445601210\tPartition:0\tOffset:41\torigin:shop,id:m,n:1\tkey\t{}",
        "LogAppendTime:1772445601210\tPartition:0\tOffset:41\tDelivery:NONE\tid:m\tnull\tnull",
    ],
)
def test_the_recipe_for_kafka_finds_the_id_wherever_it_is_printed(line: str) -> None:
    words = next(words for words in recipes() if "kafka" in words[2])
    deliver = compile_pattern(words[words.index("--deliver") + 1], "--deliver")
    assert [match["message"] for match in deliver.finditer(f"{line}\n")] == ["m"]
    headless = line.replace("id:m", "NO_HEADERS").replace("id=m", "")
    assert not deliver.search(headless)


def test_the_docs_have_a_recipe_for_each_sample() -> None:
    samples = {f"docs/samples/{path.name}/" for path in (ROOT / "docs" / "samples").iterdir()}
    assert {words[2] for words in recipes()} == samples
