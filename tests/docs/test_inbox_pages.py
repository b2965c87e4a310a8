"""The pages on inboxes: their programs run, and the tutorial prints what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from antecede.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "inbox.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "inbox-tutorial.md").read_text(encoding="utf-8")
ENV = os.environ | {"PYTHONPATH": str(ROOT / "src")}
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("at", range(len(PROGRAMS)))
def test_a_program_of_the_page_prints_what_it_says(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = PROGRAMS[at]
    for name in re.findall(r"^(?:from|import) (httpx|faststream)\b", code, flags=re.MULTILINE):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "inbox.md", "exec"), {"__name__": "__main__"})
    said = capsys.readouterr().out.splitlines()
    told = [
        part
        for comment in re.findall(r"print\(.*?  # (?:\.\.\. and waits: )?(.+)", code)
        for part in comment.split(", then ")
    ]
    assert said == told


def call(words: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        app(words)
    return ended.value.code


def test_the_tutorial_as_it_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("numba")
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "webhooks.py", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    said = ""
    statuses = []
    for kind, block in re.findall(r"```(\w+)\n(.*?)```", TUTORIAL, flags=re.DOTALL):
        if kind == "python":
            exec(compile(block, "inbox-tutorial.md", "exec"), {})
        elif kind == "console":
            for line in block.splitlines():
                words = line.removeprefix("$ ").split()
                if words[0] == "mkdir":
                    Path(words[1]).mkdir()
                elif words[0] == "cd":
                    monkeypatch.chdir(words[1])
                elif words[0] == "python":
                    subprocess.run([sys.executable, *words[1:]], check=True, timeout=600, env=ENV)
                else:
                    statuses.append(call(words[1:]))
            said = " ".join(capfd.readouterr().out.split())
        else:
            for piece in " ".join(block.split()).split("..."):
                assert piece.strip() in said
    assert statuses == [0, 1, 0, 0, 0, 0]
    for name in ("shadow-audit", "enforce-audit"):
        page = Path(name, "index.html").read_text(encoding="utf-8")
        assert "<html" in page


def test_the_waiting_message_is_handed_over_after_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from antecede.inbox import Inbox

    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", TUTORIAL, flags=re.DOTALL)
    exec(compile(code, "inbox-tutorial.md", "exec"), {})
    assert call(["inbox", "lost.db", "--release", "evt-7-paid"]) == 0
    with Inbox("lost.db") as inbox:
        (message,) = list(inbox.ready())
    assert message.unmet == ("created/evt-7-created",)
