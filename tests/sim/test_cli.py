"""`antecede simulate`: one folder, exit status 0, 1 and 2, one line for what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from antecede import UsageError
from antecede.cli.simulate import simulate
from antecede.report.numbers import figure

app = typer.Typer()
app.command()(simulate)
QUICK = ["-n", "4", "--received", "40", "--warm-up", "10"]


def call(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_run_writes_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    text = call("optimal", *QUICK, "--cast", "multicast", "--wire-sample", "30", "--out", str(out))
    assert "control entries per copy" in text
    assert {path.name for path in out.iterdir()} == {
        "events.parquet", "index.html", "metrics.parquet", "schedule.parquet", "summary.json",
    }  # fmt: skip
    summary = json.loads((out / "summary.json").read_text())
    assert summary["verb"] == "simulate"
    assert summary["result"]["undelivered"] == 0
    (row,) = pq.read_table(out / "metrics.parquet").to_pylist()
    assert row["wire_bytes_per_copy"] > 0
    assert pq.read_table(out / "events.parquet").num_rows > 200
    again = tmp_path / "again"
    call("optimal", "--schedule", str(out / "schedule.parquet"), "--json", "--out", str(again))
    assert pq.read_table(again / "events.parquet") == pq.read_table(out / "events.parquet")


def test_lines_that_are_left_out_are_counted_and_the_first_is_quoted(tmp_path: Path) -> None:
    edges = tmp_path / "edges.txt"
    edges.write_text("1 2 3\n2 1 soon\n2 1 5\n")
    words = ["optimal", "--edges", str(edges), "--json", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "1 row of the log is not a valid event and was left out; the first, line 2 of " in (
        done.stderr
    )
    assert "got '2 1 soon'." in done.stderr


@pytest.mark.parametrize("words", [["optimal"], ["pruned"], ["semantic", "--semantics", "0.5:3"]])
def test_the_page_has_charts_and_words(tmp_path: Path, words: list[str]) -> None:
    out = tmp_path / "run"
    figures = json.loads(call(*words, *QUICK, "--json", "--out", str(out)))["result"]
    page = (out / "index.html").read_text()
    shown = re.sub(r"<(style|script|footer).*?</\1>", "", page, flags=re.DOTALL)
    assert not [name for name in figures if "_" in name and name in shown]
    charts = re.findall(r"<h3>(.*?)</h3><dl>(.*?)</dl>", page)
    counts = [[int(n.replace(",", "")) for n in re.findall(r"</i>([\d,]+)<", c)] for _, c in charts]
    held = round(figures["held_fraction"] * figures["deliveries"])
    assert [title for title, _ in charts] == [
        "Copies by control entries", "Held copies by milliseconds held",
    ]  # fmt: skip
    assert sum(counts[1]) == held > 0
    assert sum(counts[0]) > 40
    assert f"{figure(100 * figures['held_fraction'])}% of the copies were held, for " in page
    assert "Every copy was delivered." in page


def test_options_and_semantics(tmp_path: Path) -> None:
    text = call("bounded", *QUICK, "--option", "k=5", "--option", "column=rotating", "--json",
                "--out", str(tmp_path / "a"))  # fmt: skip
    assert json.loads(text)["result"]["extra_packets_per_message"] > 0
    text = call("semantic", *QUICK, "--semantics", "0.5:3", "--json", "--out", str(tmp_path / "b"))
    assert json.loads(text)["result"]["false_pairs_per_message"] > 0


def test_several_protocols_run_on_one_schedule_and_are_compared(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["matrix", "optimal", "bounded", "--option", "k=5", "--bandwidth", "1e5"]
    text = call(*words, *QUICK, "--out", str(out))
    assert "optimal" in text.splitlines()[1] + text.splitlines()[2]
    result = json.loads((out / "summary.json").read_text())["result"]
    rows = {row["protocol"]: row for row in result["protocols"]}
    assert list(rows) == ["matrix", "optimal", "bounded"]
    assert rows["matrix"]["model_bytes_per_copy"] == 64
    assert rows["optimal"]["latency_mean"] < rows["matrix"]["latency_mean"]
    assert pq.read_table(out / "metrics.parquet").num_rows == 3
    names = {path.name for path in out.iterdir()}
    assert {"events-matrix.parquet", "events-optimal.parquet", "events-bounded.parquet"} <= names
    page = (out / "index.html").read_text()
    charts = dict(re.findall(r"<h3>(.*?)</h3><dl>(.*?)</dl>", page))
    assert [name for name, _ in re.findall(r"<dt>(.*?)</dt>.*?</i>([\d.,]+)<",
            charts["Model bytes per copy"])] == ["matrix", "optimal", "bounded"]  # fmt: skip
    least = min(rows, key=lambda name: rows[name]["model_bytes_per_copy"])
    assert f"Fewest bytes per copy: {least} (" in page
    assert "Soonest delivered: " in page
    assert "time held, mean (ms)" in page


def test_bad_news_is_status_one(tmp_path: Path) -> None:
    words = ["buffered", "-n", "10", "--received", "1500", "--delay", "constant:0.1",
             "--out", str(tmp_path / "run")]  # fmt: skip
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 1
    assert "saturated" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["optimal", "-n", "1"], "n=1 processes"),
        (["optimal", "--received", "9" * 400], "is not possible; use at least 1, below 1e+18"),
        (["optimal", "--received", "0"], "received=0 is not possible; use at least 1"),
        (["optimal", "--workload", "pape"], "unknown workload 'pape'; did you mean paper"),
        (["optimal", "--workload", "ring", "--cast", "unicast"], "leave --cast out"),
        (["bounded", "-n", "4", "--option", "k=3"], "k=3 is out of bounds"),
        (["bounded", "--option", "k"], "use NAME=VALUE"),
        (["optimal", "matrix", "--option", "k=5"], "optimal has no option 'k'"),
        (["optimal", "--bandwidth", "0"], "--bandwidth 0 moves nothing"),
        (["optimal", "--delay", "slow"], "delay 'slow' is not understood"),
        (["optimal", "--semantics", "x"], "use PROBABILITY:REACH"),
        (["optimal", "--edges", "a", "--schedule", "b"], "leave --edges or --schedule out"),
        (["optimal", "--edges", "a", "--workload", "ring"], "leave --edges or --workload out"),
        (["optimal", "--edges", "a", "-n", "4"], "so --processes has no effect"),
        (["optimal", "--edges", "a", "--cast", "unicast"], "leave --edges or --cast out"),
        (["optimal", "--schedule", "a", "--seed", "1"], "leave --schedule or --seed out"),
        (
            ["optimal", "--schedule", "a", "--delay", "constant:1"],
            "leave --schedule or --delay out",
        ),
        (["optimal", "--payload", "5"], "--payload matters only on links of limited --bandwidth"),
        (["matrix", "buffered", "--cast", "multicast"], "buffered carries only unicast messages"),
        (
            ["optimal", "matrix", "-n", "100000", "--received", "1"],
            "optimal with 100,000 processes is too many: 65,536 can be simulated",
        ),
        (["matrix", "-n", "5000", "--received", "1"], "matrix with 5,000 processes would take "),
        (["matrix", "--engine", "plain", "-n", "65000", "--received", "1"], "GiB of memory, but"),
        (["optimal", "--edges", "nowhere.txt"], "cannot read the edge list"),
        (["optimal", "--seed", "-1"], "--seed -1 is out of range"),
        (["optimum"], "did you mean optimal"),
        (
            ["optimal", "-n", "1000", "--received", "100000000"],
            "100,000,100,000 copies would take about 18,626 GiB of memory, but this machine has ",
        ),
        (
            ["optimal", "-n", "1000", "--received", "100000000", "--workload", "ring"],
            "use fewer processes or a smaller --received",
        ),
    ],
)
def test_a_wrong_call_is_one_line_and_leaves_nothing(
    words: list[str], told: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as error:
        CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")], catch_exceptions=False)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()
