"""Tables and sentences on narrow terminals: words stay whole, and lines fit."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import io
import sys
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

import antecede
from antecede.cli import doctor, node, protocols
from antecede.cli.main import command_line
from antecede.cli.shown import fitted_table, say, told_if_slow
from antecede.study.results import COMPARED

WIDTHS = (60, 80, 250)


def printed(width: int, *words: object, **options: object) -> str:
    file = io.StringIO()
    console = Console(width=width, file=file)
    console.print(fitted_table(console, *words, **options))  # type: ignore[arg-type] # any
    return file.getvalue()


def words_of(*cells: str) -> set[str]:
    return {word for cell in cells for word in cell.split()}


@pytest.mark.parametrize("width", WIDTHS)
def test_words_stay_whole_and_lines_fit(width: int) -> None:
    heads = ["protocol", "n", *COMPARED.values()]
    rows = [["semantic_optimal", "1,000", "123,456,789", "5", "6", "0.0123", "8"], ["x"] * 7]
    text = printed(width, heads, rows, title="What a title says of a table", caption="* a remark")
    assert words_of(*heads, *rows[0], "What", "* a remark") <= words_of(text)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("What a title") == text.count("a remark") == 1
    assert "\N{HORIZONTAL ELLIPSIS}" not in text


def test_what_does_not_fit_comes_in_parts_with_the_first_column() -> None:
    text = printed(28, ["name", "one", "two"], [["a-long-name", "1" * 8, "2" * 8]])
    assert text.count("a-long-name") == 2
    assert text.count("1" * 8) == text.count("2" * 8) == 1
    assert printed(28, ["name"], [["lone"]]).count("lone") == 1


@pytest.mark.parametrize("width", [60, 80])
def test_the_list_of_protocols_has_every_word(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(protocols, "_console", lambda: Console(width=width, file=file))
    infos = list(antecede.PROTOCOLS.values())
    protocols._print_table(infos)
    text = file.getvalue()
    for info in infos:
        assert words_of(info.paper, info.guarantee, info.cost) <= words_of(text)
    assert max(map(len, text.splitlines())) <= width


def test_doctor_cuts_no_path(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = "/usr/lib/jvm/a-very-long-name-of-a-java/bin/java"
    doctor._show([doctor.Finding("Java", ok=True, needed=True, seen=path)])
    said = capsys.readouterr().out
    lines = [line.split("\N{BOX DRAWINGS LIGHT VERTICAL}") for line in said.splitlines()]
    assert path in "".join(cells[3].strip() for cells in lines if len(cells) > 3)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_of_nodes_has_every_head_and_figure(width: int) -> None:
    console = Console(width=width, file=io.StringIO(), markup=False)
    found = {"a": dict.fromkeys(node.COLUMNS, 12_345_678.0), "b": {}}
    console.print(node._table(console, found))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert words_of(*node.COLUMNS.values()) <= words_of(text)
    assert text.count("12,345,678") == len(node.COLUMNS)
    assert max(map(len, text.splitlines())) <= width


def test_sentences_break_between_words_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "  the-first-word and some/other/path and then a word\nanother line"
    say(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    say(text)
    told = capsys.readouterr().out.splitlines()
    assert told == [
        "  the-first-word and", "  some/other/path", "  and then a word", "another line",
    ]  # fmt: skip


def test_only_what_is_slow_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with told_if_slow("quick", 60):
        pass
    with told_if_slow("slow", 0.01):
        time.sleep(0.2)
    assert capsys.readouterr().err == "antecede: slow\n"


@pytest.mark.parametrize("verb", ["audit", "advise", "report"])
def test_help_fits_a_terminal(verb: str) -> None:
    """No option's help may be squeezed into a narrow column by a long name beside it."""
    done = CliRunner().invoke(command_line(verb), [verb, "--help"], env={"COLUMNS": "80"})
    lines = done.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 80
    assert "\N{HORIZONTAL ELLIPSIS}" not in done.output
