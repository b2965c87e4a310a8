"""docs/errata.md: every script in it runs and shows what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "errata.md"
SECTION = re.compile(r"^### (?P<title>.+)\n(?P<body>(?:(?!^##).*\n?)*)", re.MULTILINE)
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)

SECTIONS = [(match["title"], match["body"]) for match in SECTION.finditer(PAGE.read_text())]


@pytest.mark.parametrize(("title", "body"), SECTIONS, ids=[title for title, _ in SECTIONS])
def test_the_script_shows_the_slip(title: str, body: str) -> None:
    blocks = [match["code"] for match in BLOCK.finditer(body)]
    if title == "In words only":
        assert not blocks
        return
    assert len(blocks) == 1
    assert "assert " in blocks[0]
    exec(compile(blocks[0], f"errata: {title}", "exec"), {})


def test_every_paper_has_its_part() -> None:
    tags = re.findall(r"^## \[(\w+)\]", PAGE.read_text(), re.MULTILINE)
    assert tags == ["JPCY97", "GK00", "KS98", "SA00", "MF95"]
    assert len(SECTIONS) > 20
