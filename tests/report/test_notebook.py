"""A notebook, executed by a real kernel, shows an audit; a browser shows what it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SRC = Path(__file__).parents[2] / "src"
CELLS = [
    f"import sys; sys.path.insert(0, {str(SRC)!r})",
    """import pandas as pd
from antecede.pipeline import audit
frame = pd.DataFrame([
    ('shop', 'sent', 'order-17', 'bank;mail'), ('bank', 'got', 'order-17', None),
    ('bank', 'sent', 'paid-17', 'mail'), ('mail', 'got', 'paid-17', None),
    ('mail', 'got', 'order-17', None),
], columns=['service', 'what', 'id', 'to'])
names = {'process': 'service', 'kind': 'what', 'message': 'id', 'dests': 'to'}
found = audit(frame, columns=names)
found""",
    "found.draw('order-17')",
    "found.violations.to_pandas()[['process', 'message', 'overtaker']]",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what each cell of the notebook shows, by types."""
    code: dict[str, Any] = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    cells = [{**code, "id": f"cell-{number}", "source": text} for number, text in enumerate(CELLS)]
    whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    read: Any = nbformat.reads
    notebook = read(json.dumps(whole), as_version=4)
    folder = tmp_path_factory.mktemp("notebook")
    NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": folder}}
    ).execute()
    return [cell.outputs[-1]["data"] for cell in notebook.cells if cell.outputs]


@pytest.mark.filterwarnings("ignore")
def test_a_kernel_shows_verdict_violations_and_diagram(outputs: list[dict[str, Any]]) -> None:
    shown, drawn, frame = outputs
    assert shown["text/plain"].startswith("<Audit: broken. 1 of 3 deliveries arrived after")
    assert "<b>Causal order was broken.</b>" in shown["text/html"]
    assert shown["text/html"].count("<svg viewBox") == drawn["text/html"].count("<svg viewBox") == 1
    assert "mail delivered paid-17 (seq 1) before order-17" in drawn["text/html"]
    assert "order-17" in frame["text/html"]


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore")
def test_a_browser_brings_what_a_cell_shows_to_life(
    outputs: list[dict[str, Any]], browser: Browser, tmp_path: Path
) -> None:
    """Notebooks add the output of a cell to a page that was loaded long before."""
    path = tmp_path / "notebook.html"
    path.write_text("<!doctype html><meta charset='utf-8'><main></main>", encoding="utf-8")
    page = browser.new_page(viewport={"width": 1000, "height": 700})
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto(path.as_uri())
    for output in outputs[:2]:
        page.evaluate(
            "html => document.querySelector('main').append("
            "document.createRange().createContextualFragment(html))",
            output["text/html"],
        )
    assert page.locator("figure.st").count() == 2
    for figure in page.locator("figure.st").all():
        figure.locator(".st-event").first.focus()
        assert " seq 1: " in (figure.locator(".st-tip").text_content() or "")
    assert trouble == []
    page.screenshot(path=tmp_path / "notebook.png")
    page.close()
