"""The study's page from plain data: every chart drawn, on a desk and on a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from antecede.report.page import ClaimLine, Claims, Figure, Section, Table
from antecede.report.study_page import Picture, blocks_of, build
from antecede.study.campaign import files

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


def line(number: str, tone: str) -> ClaimLine:
    return ClaimLine(
        id=number,
        paper=number[0],
        text=f"claim {number}",
        verdict={"good": "holds", "bad": "does not hold"}[tone],
        tone=tone,
        short="7 > 5",
        basis="tests",
        test="so",
        result="this",
    )


CLAIMS = Claims(
    [line("0.1", "good"), line("0.2", "bad"), line("1.1", "good")],
    {"0": ("A and B 1997", "https://example.org"), "1": ("C 2000", "")},
)


def test_what_does_not_depend_on_x_is_drawn_at_every_x_and_listed_once() -> None:
    page = build(CLAIMS, [], None, PARTS[:1], OVERVIEW, {})
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
    bands = {"left": [{"series": "line", "x": x, "low": 1.0, "high": 4.0} for x in (1.0, 2.0)]}
    hero = (picture("hero", bands=bands), "what it shows")
    page = build(CLAIMS, ["The answer."], hero, PARTS, OVERVIEW, {"seed": 0})
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
    assert charts.count() == 6
    for number in range(charts.count()):
        assert charts.nth(number).locator("svg path").count() > 3
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    first = opened.locator("figure#hero")
    box = first.bounding_box()
    assert box is not None
    assert box["y"] < 400  # the answer is on the first screen
    assert opened.locator("ol.lines > li:visible").count() == 3
    opened.locator("label[for=paper-1]").click()
    assert opened.locator("ol.lines > li:visible").all_text_contents()[0].count("claim 1.1") == 1
    assert opened.locator("ol.lines > li:visible").count() == 1
    opened.locator("ol.lines > li:visible summary").click()
    assert opened.locator("#claim-1\\.1 dd:visible").count() == 3
    assert complaints == []
    context.close()
