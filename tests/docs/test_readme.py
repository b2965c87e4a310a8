"""The README is true: its example runs, its links lead somewhere, its verbs exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from antecede.cli.main import VERBS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_example_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("(Need(process='ann', number=1")
    assert out[1:] == ["ann b'lunch?'", "bob b'yes!'"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/index.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    links = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]
    missing = [target for target in links if not ((ROOT / page).parent / target).exists()]
    assert not missing


def test_every_verb_is_shown() -> None:
    shown = set(re.findall(r"antecede ([a-z]+)", README))
    assert set(VERBS) <= shown
    assert re.findall(r"\$ antecede ([a-z]+)", README)
    assert set(re.findall(r"\$ antecede ([a-z]+)", README)) <= set(VERBS)
