"""Labels of space-time diagrams: none covers another, an event or a name, by geometry and seen."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from antecede.audit.api import audit_table
from antecede.audit.api import draw as draw_log
from antecede.audit.log_rows import TableRows
from antecede.audit.neighbourhood import illustrate
from antecede.events import Event
from antecede.events.sources import Source, read, table_of
from antecede.report.audit_page import Illustration, report_page
from antecede.report.labels import LABEL_MAX, Box, Wanted, box_at, place_labels
from antecede.report.spacetime import Diagram, draw
from tests.support.histories import Shape, history

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

LABEL = re.compile(r'<text class="st-(label|tick)" x="([-.\d]+)" y="([-.\d]+)">([^<]*)</text>')
DOT = re.compile(r'data-tip="[^"]*"><circle cx="(\d+)" cy="(\d+)" r="5"/>')


def wide(event: Event) -> Event:
    """Return an event of a message with a name as long as those of spans."""
    name = f"checkout-service publish orders.created {event.message}"
    return Event(f"service-{event.process}", event.seq, event.kind, name, event.dests, event.time)


def drawn(events: list[Event], most: int = 6) -> list[Illustration]:
    table = table_of(events)
    late = audit_table(table).tables["violations"].slice(0, most).to_pylist()
    assert late
    return illustrate(TableRows(table), late)


def random_logs() -> list[Illustration]:
    found = []
    for seed, fan_out in ((1, 1), (2, 2), (3, 3)):
        shape = Shape(processes=5, sends=60, fan_out=fan_out, delay=3.0, own=0.0)
        log = history(shape, seed)
        found += drawn(log) + drawn([wide(event) for event in log])
    return found


def real_logs(shared: Path) -> list[Illustration]:
    data = shared / "data"
    paired = Source(
        data / "shiviz" / "reliable-broadcast.log",
        send=r"Sending (?<message>\S+) to (?<to>\w+)",
        deliver=r"Received (?<message>\S+) from (?<from>\w+)",
    )
    found = []
    for source, is_around in (
        (Source(data / "collegemsg.txt"), False),
        (Source(data / "collegemsg.txt"), True),
        (Source(data / "shiviz" / "chord.log"), False),
        (paired, True),
    ):
        log = read(source)
        names = [name for name in log.events.column("message").to_pylist() if name]
        middle = names[len(names) // 2] if is_around else None
        found += draw_log(log, middle).illustrations
    return found


def covered(markup: str) -> tuple[list[Box], list[Box]]:
    """Return the boxes of labels and ticks, and those of events."""
    labels = [box_at(text, (float(x), float(y))) for _, x, y, text in LABEL.findall(markup)]
    dots = [Box(int(x) - 5, int(y) - 5, int(x) + 5, int(y) + 5) for x, y in DOT.findall(markup)]
    return labels, dots


def require_apart(diagram: Diagram) -> int:
    """Check a diagram and return how many labels of arrows it has."""
    markup = draw(diagram)
    labels, dots = covered(markup)
    assert not [pair for pair in combinations(labels, 2) if pair[0].meets(pair[1])]
    assert not [(a, b) for a in labels for b in dots if a.meets(b)]
    name_end = max(float(x) for x in re.findall(r'class="st-name" x="([-.\d]+)"', markup))
    assert all(label.left >= name_end for label in labels)
    return markup.count('class="st-label"')


def test_labels_of_random_logs_do_not_collide() -> None:
    shown = random_logs()
    named = sum(bool(arrow.label) for one in shown for arrow in one.diagram.arrows)
    found = sum(require_apart(one.diagram) for one in shown)
    assert found == named > 50


def test_labels_of_real_logs_do_not_collide(shared: Path) -> None:
    for one in real_logs(shared):
        require_apart(one.diagram)


def test_a_label_that_finds_no_room_is_left_out() -> None:
    view = Box(0, 0, 200, 60)
    wanted = [Wanted("x" * LABEL_MAX, (0, 30), (200, 30)) for _ in range(9)]
    places = place_labels(wanted, [], view)
    assert 0 < sum(place is not None for place in places) < 9


@pytest.mark.browser
def test_a_browser_shows_labels_apart(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    path.write_text(report_page("labels", "labels", random_logs(), {}), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri())
    collisions = page.evaluate(
        """() => [...document.querySelectorAll('figure.st .st-view > svg')].flatMap(svg => {
          const texts = [...svg.querySelectorAll('text')].map(t => [t, t.getBBox()]);
          const dots = [...svg.querySelectorAll('circle')].map(d => [d, d.getBBox()]);
          const meets = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width
            && a.y < b.y + b.height && b.y < a.y + a.height;
          const found = [];
          texts.forEach(([a, one], i) => {
            if (!a.textContent.trim() || a.textContent === '\\u2026') { return; }
            [...texts.slice(i + 1), ...dots].forEach(([b, other]) => {
              if (meets(one, other)) { found.push([a.textContent, b.textContent]); }
            });
          });
          return found;
        })"""
    )
    assert collisions == []
    assert page.locator(".st-label").count() > 50
    page.close()
