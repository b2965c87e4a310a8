"""README and CONTRIBUTING are true: examples run, links and paths exist, commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from antecede.cli.main import VERBS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_example_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("(Need(process='ann', number=1")
    assert out[1:] == ["ann b'lunch?'", "bob b'yes!'"]


@pytest.mark.parametrize(
    "page",
    ["README.md", "CONTRIBUTING.md", "docs/index.md", "docs/advise.md", "docs/nodes.md"],
)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    links = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]
    missing = [target for target in links if not ((ROOT / page).parent / target).exists()]
    assert not missing


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
