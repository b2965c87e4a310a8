"""Space-time diagrams: arrows lead to the right, what matters is marked, and a browser shows it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from antecede.audit.api import audit_table
from antecede.audit.log_rows import TableRows
from antecede.audit.neighbourhood import illustrate
from antecede.events import Event
from antecede.events.sources import table_of
from antecede.report.audit_page import Illustration, audit_page
from antecede.report.labels import on_curve
from antecede.report.spacetime import Arrow, Diagram, Node, draw, places
from tests.support import histories

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

LATE = [
    *histories.LATE[:5],
    Event("c", 2, "local", None, None, 4.5),
    replace(histories.LATE[5], seq=3),
]


def illustrated(log: list[Event]) -> tuple[Illustration, Any]:
    table = table_of(log)
    found = audit_table(table)
    (shown,) = illustrate(TableRows(table), found.tables["violations"].slice(0, 1).to_pylist())
    return shown, found


def test_arrows_lead_to_the_right_and_are_marked() -> None:
    shown, _ = illustrated(LATE)
    diagram = shown.diagram
    column = places(diagram)
    assert all(column[arrow.source] < column[arrow.target] for arrow in diagram.arrows)
    marks = {arrow.label: arrow.mark for arrow in diagram.arrows}
    assert marks == {"m1": "late", "m2": "chain", "m3": "early"}
    assert diagram.lanes == ["a", "b", "c"]


def test_only_the_arrows_of_the_chain_are_marked_as_chain() -> None:
    log = [
        Event("a", 1, "send", "m1", ("b", "c", "d")),
        Event("b", 1, "deliver", "m1"),
        Event("b", 2, "send", "m2", ("c", "d")),
        Event("c", 1, "deliver", "m2"),
        Event("c", 2, "deliver", "m1"),
        Event("d", 1, "deliver", "m1"),
        Event("d", 2, "deliver", "m2"),
    ]
    shown, _ = illustrated(log)
    ends = {
        (arrow.tip.split(":")[0], shown.diagram.nodes[arrow.target].process): arrow.mark
        for arrow in shown.diagram.arrows
    }
    assert ends["m1", "c"] == "late"
    assert ends["m2", "c"] == "early"
    assert ends["m1", "b"] == "chain"
    assert set(ends.values()) == {"late", "early", "chain"}


def test_the_sentence_tells_the_chain() -> None:
    shown, _ = illustrated(LATE)
    assert shown.sentence == (
        "c delivered m3 (seq 1) before m1 (seq 3; 1 event in between), although a sent m1 first: "
        "m2 was sent by a process that had sent or delivered m1, and b had sent or delivered m2 "
        "when it sent m3."
    )


def test_a_neighbourhood_of_a_long_log_is_small() -> None:
    before = [Event(p, s, "local", None) for p in "abc" for s in range(-3000, 0)]
    between = [Event("c", 2 + s, "local", None) for s in range(5000)]
    last = Event("c", 9000, "deliver", "m1")
    shown, _ = illustrated([*before, *LATE[:5], *between, last])
    nodes = shown.diagram.nodes
    assert len(nodes) < 40
    assert max(node.hidden for node in nodes) > 1000
    assert "are not shown here" in draw(shown.diagram)


def test_a_log_that_goes_round_in_circles_is_drawn_too() -> None:
    nodes = [Node("a", 1, "deliver", ""), Node("a", 2, "send", ""), Node("b", 1, "deliver", "")]
    nodes.append(Node("b", 2, "send", ""))
    diagram = Diagram("circle", nodes, [Arrow(1, 2, ""), Arrow(3, 0, "")])
    assert len(places(diagram)) == 4
    assert draw(diagram).count("st-event") == 4


def test_names_are_escaped() -> None:
    evil = '"><img src=x onerror=alert(1)>'
    nodes = [Node(evil, 1, "send", evil), Node("b", 1, "deliver", evil)]
    markup = draw(Diagram(evil, nodes, [Arrow(0, 1, evil, "late", evil)]))
    assert "<img" not in markup


ARROW = re.compile(r'<path d="M(\d+) (\d+) (?:L|Q([-.\d]+) ([-.\d]+) )([-.\d]+) ([-.\d]+)"')
DOT = re.compile(
    r'<g class="st-event[^>]*><(?:circle cx="(\d+)" cy="(\d+)"|rect x="([.\d]+)" y="([.\d]+)")'
)


def nearest(markup: str) -> float:
    """Return how near an arrow comes to the middle of an event that is not one of its ends."""
    dots = [
        (float(x or 0) or float(left) + 3.5, float(y or 0) or float(top) + 3.5)
        for x, y, left, top in DOT.findall(markup)
    ]
    least = 1e9
    for x1, y1, bx, by, x2, y2 in ARROW.findall(markup):
        start, end = (float(x1), float(y1)), (float(x2), float(y2))
        bend = (float(bx), float(by)) if bx else None
        points = [on_curve(start, bend, end, k / 60) for k in range(61)]
        others = [d for d in dots if math.dist(d, start) > 1 and math.dist(d, end) > 9]
        least = min([least, *(math.dist(a, b) for a in points for b in others)])
    return least


def test_a_late_arrow_passes_the_events_of_the_processes_between() -> None:
    """It was drawn straight through the middle process's event, and seemed to end there."""
    shop = [
        Event("shop", 1, "send", "order", ("bank", "warehouse")),
        Event("bank", 1, "deliver", "order"),
        Event("bank", 2, "send", "paid", ("warehouse",)),
        Event("warehouse", 1, "deliver", "paid"),
        Event("warehouse", 2, "deliver", "order"),
    ]
    for log in (shop, LATE):
        shown, _ = illustrated(log)
        assert nearest(draw(shown.diagram)) > 8


def test_the_legend_has_every_mark() -> None:
    shown, _ = illustrated(LATE)
    markup = draw(shown.diagram)
    for words in ("delivered late", "overtook it", "chain from", "sends", "delivers", "something"):
        assert words in markup
    assert "left out" not in markup


@pytest.mark.browser
@pytest.mark.parametrize(("width", "height"), [(1200, 900), (390, 800)], ids=["desktop", "phone"])
def test_a_browser_shows_the_marked_messages(
    browser: Browser, tmp_path: Path, width: int, height: int
) -> None:
    shown, found = illustrated(LATE)
    tables = {name: table.to_pylist() for name, table in found.tables.items()} | {"rejected": []}
    html = audit_page(found.summary, tables, [shown], log="shop.jsonl", facts={"seed": None})
    path = tmp_path / "index.html"
    path.write_text(html, encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": height})
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    assert page.locator("figure.st .st-message.st-late").count() == 1
    assert page.locator("figure.st .st-message.st-early").count() == 1
    assert page.locator("figure.st .st-message.st-chain").count() == 1
    tip = page.locator(".st-tip")
    page.locator(".st-message.st-late text").hover()
    assert "m1: sent by a (seq 1), delivered at c (seq 3)" in (tip.text_content() or "")
    page.locator(".st-event").first.focus()
    assert "a seq 1: send m1 to c" in (tip.text_content() or "")
    drawn = page.locator("figure.st .st-view > svg")
    before = drawn.evaluate("svg => svg.getBoundingClientRect().width")
    page.get_by_label("zoom in").click()
    assert drawn.evaluate("svg => svg.getBoundingClientRect().width") > before
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    assert trouble == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    page.close()
