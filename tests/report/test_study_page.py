"""The study's page from plain data: every chart drawn, on a desk and on a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from antecede.report.page import Figure, Section, Table
from antecede.report.study_page import Picture, blocks_of, build, files

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

OVERVIEW: list[dict[str, Any]] = [
    {
        "experiment": "growth", "series": "a", "protocol": "optimal", "runs": 3,
        "deliveries": 900, "seconds": 0.5, "timed": 1200, "saturated": 1, "unsized": 2,
    }
]  # fmt: skip


def rows(*places: float | None) -> list[dict[str, Any]]:
    return [
        {"series": "level" if x is None else "line", "x": x, "mean": 2.0, "low": 1.0, "high": 3.0}
        for x in places
    ]


def picture(name: str, **more: Any) -> Picture:
    panels = {"left": rows(1.0, 2.0, None), "right": rows(1.0, 2.0)}
    order = ["line", "level"]
    return Picture(name=name, title=name, x="n", y="bytes", order=order, panels=panels, **more)


TABLE = Table(("n",), [(1,)])
PARTS = [
    Section("growth", "Growth", blocks_of(["It grows."], [picture("g")], [TABLE], "So."), "How?"),
    Section("special", "Special", blocks_of([], [picture("s", kind="bar")], [], "So."), "What?"),
]


def test_what_does_not_depend_on_x_is_drawn_at_every_x_and_listed_once() -> None:
    page = build([], "", PARTS[:1], OVERVIEW, {})
    section = page.sections[1]
    (drawn,) = (block for block in section.blocks if isinstance(block, Figure))
    (data,) = drawn.specs[0]["datasets"].values()
    assert [row["x"] for row in data if row["series"] == "level"] == [1.0, 2.0]
    (numbers,) = (b for b in section.blocks if isinstance(b, Table) and b.folded)
    assert [row[2] for row in numbers.rows] == ["1", "2", "any", "1", "2"]


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_offline_with_every_chart_drawn(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    page = build(
        [("0.1", "claim", "test", "result", "holds")], "note", PARTS, OVERVIEW, {"seed": 0}
    )
    for name, contents in files(page).items():
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    context = browser.new_context(viewport={"width": width, "height": 844}, offline=True)
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda said: complaints.append(said.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto((tmp_path / "index.html").as_uri())
    opened.wait_for_selector("body[data-drawn]", timeout=600_000)
    charts = opened.locator(".chart")
    assert charts.count() == 4
    for number in range(charts.count()):
        assert charts.nth(number).locator("svg path").count() > 3
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []
    context.close()
