"""The playground in a browser: drag an arrival, and the protocol does what its endpoint does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from antecede.report.playground import playground_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    path: Path = tmp_path_factory.mktemp("play") / "playground.html"
    path.write_text(playground_page(("optimal", "matrix", "buffered", "central")), encoding="utf-8")
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    opened.set_default_timeout(300_000)
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on(
        "request", lambda request: errors.append(request.url) if "http" in request.url else None
    )
    opened.goto(path.as_uri())
    yield opened
    assert errors == []
    opened.close()


def arrival(page: Page, copy: str) -> Locator:
    return page.locator(f'.arrival[data-copy="{copy}"]')


def drag(page: Page, copy: str, onto: str, by: float) -> None:
    """Drag one arrival to the side of another."""
    here, there = arrival(page, copy).bounding_box(), arrival(page, onto).bounding_box()
    assert here is not None
    assert there is not None
    middle = here["x"] + here["width"] / 2, here["y"] + 22
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(there["x"] + there["width"] / 2 + by, middle[1] + 3, steps=8)
    page.mouse.up()


def steps(page: Page) -> list[str]:
    return page.locator("#story li").all_inner_texts()


def test_dragging_the_question_before_the_reply_ends_the_wait(page: Page) -> None:
    page.select_option("#play", "reply")
    page.select_option("#protocol", "optimal")
    assert any("held: it waits for 'lunch?' from Ann" in line for line in steps(page))
    drag(page, "lunch? to Cy", "lunch? to Bob", -15)
    assert not any("held" in line for line in steps(page))
    assert steps(page)[1] == "“lunch?” arrives at Cy and is delivered."
    drag(page, "lunch? to Cy", "yes! to Cy", 20)
    assert any("held: it waits for 'lunch?' from Ann" in line for line in steps(page))
    assert "in causal order" in page.locator("#verdict").inner_text()


def test_without_a_protocol_the_same_arrivals_break_order(page: Page) -> None:
    page.select_option("#play", "reply")
    page.select_option("#protocol", "none")
    page.click("#reset")
    said = page.locator("#verdict").inner_text()
    assert "Cy delivers “yes!” before “lunch?”" in said
    arrival(page, "lunch? to Cy").focus()
    page.keyboard.press("ArrowLeft")
    assert "in causal order" in page.locator("#verdict").inner_text()


def test_a_copy_cannot_arrive_before_it_is_sent(page: Page) -> None:
    page.select_option("#play", "payment")
    page.select_option("#protocol", "matrix")
    drag(page, "pick up to warehouse", "payment to bank", -30)
    lines = steps(page)
    sent = next(at for at, line in enumerate(lines) if line.startswith("courier sends"))
    arrives = next(at for at, line in enumerate(lines) if line.startswith("“pick up” arrives"))
    assert sent < arrives


def test_it_goes_step_by_step_and_fits_a_phone(page: Page) -> None:
    page.select_option("#play", "thread")
    page.select_option("#protocol", "central")
    total = len(steps(page))
    page.click("#back")
    assert page.locator("#count").inner_text() == f"step {total - 1} of {total}"
    assert page.locator("#story li.future").count() == 1
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.select_option("#play", "reply")
    page.select_option("#protocol", "optimal")
    page.click("#reset")
    box = "document.querySelector('.diagram')"
    assert page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth")
    drag(page, "lunch? to Cy", "lunch? to Bob", -10)
    assert not any("held" in line for line in steps(page))
    page.set_viewport_size({"width": 1200, "height": 900})


def test_a_finger_drags_an_arrival(browser: Browser, page: Page) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    opened = context.new_page()
    opened.goto(page.url)
    # Safari heeds it on the svg, not on parts of it.
    assert (
        opened.locator("#drawing").evaluate("svg => getComputedStyle(svg).touchAction") == "pan-y"
    )
    spots = opened.locator(".arrival")
    copies = [spot.get_attribute("data-copy") for spot in spots.all()]
    first, last = spots.first.bounding_box(), spots.last.bounding_box()
    assert first is not None
    assert last is not None
    y = first["y"] + first["height"] / 2
    x, end = (box["x"] + box["width"] / 2 for box in (first, last))
    touch = context.new_cdp_session(opened)
    touch.send(
        "Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]}
    )
    for step in range(1, 13):
        points = [{"x": x + (end + 8 - x) * step / 12, "y": y}]
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": points})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert [spot.get_attribute("data-copy") for spot in opened.locator(".arrival").all()] != copies
    context.close()
