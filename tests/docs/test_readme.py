"""README and CONTRIBUTING are true: examples run, links and paths exist, commands exist."""

from __future__ import annotations

import csv
import re
import subprocess
from pathlib import Path

import pytest

import antecede
from antecede.cli.main import VERBS, app
from antecede.inbox import Inbox

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def program(word: str) -> str:
    """Return the program that contains a word."""
    found: list[str] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    return next(code for code in found if word in code)


def measured(table: str, **wanted: str) -> list[dict[str, str]]:
    with (ROOT / "docs" / "measured" / f"{table}.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if wanted.items() <= row.items()]


def test_the_number_of_algorithms_is_that_of_the_registry() -> None:
    assert f"| papers to study | {len(antecede.PROTOCOLS)} algorithms " in README


def test_what_it_costs_was_measured() -> None:
    sizes = {
        n: float(row["bytes"])
        for n in ("3", "10", "50")
        for row in measured("endpoints", protocol="optimal", n=n, cast="unicast", version="now")
    }
    told = "{3:.0f} bytes at 3 members, {10:.0f} at 10, {50:.0f} at 50"
    assert told.format(*[sizes.get(str(at), 0) for at in range(51)]) in README
    headers = [float(row["bytes"]) for row in measured("logs_bytes") if float(row["bytes"]) < 100]
    assert f"{min(headers):.0f} to {max(headers):.0f} bytes on average" in README
    memory, disk = (
        float(row["p50_ms"])
        for mode in ("in memory", "durable")
        for row in measured("node_latency", mode=mode)
    )
    (kafka,) = measured("logs_latency", order="enforce")
    assert f"nodes on one machine: {memory:.1f} ms in memory, {disk:.1f} ms on disk" in README
    assert float(kafka["added_p50_ms"]) < 0.5
    late = float(kafka["added_p99_ms"])
    assert f"as without order for half of the records, {late:.0f} ms more for the" in README


def test_the_example_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code = program("antecede.endpoint(")
    exec(compile(code, "README.md", "exec"), {})
    out = capsys.readouterr().out.splitlines()
    assert out == ["bob:1 waits for message 1 of ann", "ann b'lunch?'", "bob b'yes!'"]


def test_the_inbox_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = program("import Inbox")
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["orders/order-17", "payments/pay-17"]


@pytest.mark.parametrize(
    "page",
    ["README.md", "CONTRIBUTING.md", "docs/index.md", "docs/advise.md", "docs/nodes.md"],
)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    links = {target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target}
    assert not {target for target in links if not ((ROOT / page).parent / target).exists()}


def test_the_recipes_name_folders_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    recipes = text[text.index("## Add a protocol") :]
    paths = [path for path in re.findall(r"`([\w/]+NAME\.py)`", recipes) if "/" in path]
    assert len(paths) >= 6
    for path in paths:
        folder = (ROOT / path).parent
        assert any(folder.glob("test_*.py" if "tests" in path else "[a-z]*.py")), path


def test_every_verb_is_shown() -> None:
    shown = set(re.findall(r"antecede ([a-z]+)", README))
    assert set(VERBS) <= shown
    assert re.findall(r"\$ antecede ([a-z]+)", README)
    assert set(re.findall(r"\$ antecede ([a-z]+)", README)) <= set(VERBS)


BLOCK = README.partition("## On the command line")[2].partition("```console")[2].partition("```")[0]
LINES = [line.partition("#")[0].split()[2:] for line in BLOCK.strip().splitlines()]
#: These need Spark; tests/docs/test_printed.py runs them.
ON_SPARK = ("reorder", "study")
STATUS = {"audit": 1}


@pytest.mark.parametrize(
    "words", [line for line in LINES if line[0] not in ON_SPARK], ids=lambda words: words[0]
)
def test_the_lines_run_as_printed(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    words = [*words, "--no-open"] if words[0] == "play" else words
    if words[0] == "inbox":
        Inbox(words[1], topics={"orders"}).close()
    with pytest.raises(SystemExit) as ended:
        app(words)
    assert ended.value.code == STATUS.get(words[0], 0)
    if words[0] == "audit":
        said = " ".join(capsys.readouterr().out.split())
        (shown,) = re.findall(r"```text\n(Causal.*?)```", README, flags=re.DOTALL)
        for piece in " ".join(shown.split()).split("..."):
            assert piece.strip() in said


def test_git_ignores_what_the_readme_and_the_tutorials_write() -> None:
    made = ["certs/a-key.pem", "sorted/ordered", "playground.html", "inbox.db", "a.db-wal"]
    made += [f"{name}-tutorial/certs/ann-key.pem" for name in ("chat", "inbox", "nats")]
    done = subprocess.run(
        ["git", "check-ignore", *made], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == made


def test_every_verb_has_a_line() -> None:
    assert {line[0] for line in LINES} == set(VERBS)
