"""The pages about the oracle and the scenarios are accurate."""

import re
from pathlib import Path

from antecede.check import PROPERTIES
from tests.support.scenario_harness import Story, rewritten

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_code_about_the_oracle_runs() -> None:
    found = blocks("oracle.md", "python")
    assert len(found) == 3
    for code in found:
        exec(compile(code, "docs/oracle.md", "exec"), {})


def test_every_property_has_its_row() -> None:
    text = (DOCS / "oracle.md").read_text(encoding="utf-8")
    for name in PROPERTIES:
        assert f"| `{name}` |" in text


def test_the_example_scenario_comes_out_as_printed() -> None:
    (text,) = blocks("scenarios.md", "")
    assert rewritten(text) == text


def test_every_command_has_its_row() -> None:
    text = (DOCS / "scenarios.md").read_text(encoding="utf-8")
    for command in (*Story().commands, "program"):
        assert f"`{command} " in text or f"`{command}`" in text
