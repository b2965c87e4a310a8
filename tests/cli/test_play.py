"""``antecede play`` writes a page, and never over something else."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from antecede.cli.main import command_line
from antecede.errors import UsageError

if TYPE_CHECKING:
    import pytest


def test_it_writes_a_page_and_writes_it_again(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    for _ in range(2):
        done = CliRunner().invoke(command_line("play"), ["play", "--no-open", "--out", str(out)])
        assert done.exit_code == 0
        assert done.stdout == f"Page: {out}\n"
    assert "optimal" in out.read_text(encoding="utf-8")


def test_json_names_the_page_and_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antecede.cli.play.playground_page", lambda: "page")
    monkeypatch.setattr("webbrowser.open", lambda url: 1 / 0)
    out = tmp_path / "page.html"
    done = CliRunner().invoke(command_line("play"), ["play", "--json", "--out", str(out)])
    assert json.loads(done.stdout)["page"] == str(out)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_page_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(path: Path, text: str, **_: object) -> None:
        path.write_bytes(text[:2].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("antecede.cli.play.playground_page", lambda: "page")
    monkeypatch.setattr(Path, "write_text", cut_off)
    out = tmp_path / "page.html"
    done = CliRunner().invoke(command_line("play"), ["play", "--no-open", "--out", str(out)])
    assert "No space left on device; choose another place" in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_it_spares_other_files(tmp_path: Path) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("my page")
    for path, reason in ((mine, "is not a playground"), (tmp_path, "is a folder"),
                         (tmp_path / "no" / "page.html", "cannot write")):  # fmt: skip
        done = CliRunner().invoke(command_line("play"), ["play", "--no-open", "--out", str(path)])
        assert isinstance(done.exception, UsageError)
        assert reason in str(done.exception)
    assert mine.read_text() == "my page"


def test_it_opens_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("antecede.cli.play.playground_page", lambda: "page")
    out = tmp_path / "page.html"
    CliRunner().invoke(command_line("play"), ["play", "--out", str(out)])
    assert opened == [out.as_uri()]
