"""The study's page: every claim answered, every chart drawn, on a desk and on a phone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from antecede.pipeline.studies.experiments import EXPERIMENTS
from antecede.report.claims import CLAIMS, claim_rows
from antecede.report.measured import Measured, crossing, fit
from antecede.report.page import Figure, Table
from antecede.report.study_page import build, write
from antecede.report.verdicts.common import NOT_RUN

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Rows = list[dict[str, Any]]
ROOT = Path(__file__).resolve().parents[2]


def test_a_power_law_is_found_again() -> None:
    found = fit({x: 3.0 * x**1.5 for x in (10.0, 20.0, 50.0, 100.0)})
    assert found is not None
    assert found.exponent == pytest.approx(1.5)
    assert found.factor == pytest.approx(3.0)
    assert found.error == pytest.approx(0.0, abs=1e-9)
    assert fit({1.0: 1.0, 2.0: 2.0}) is None


def test_a_crossing_is_interpolated() -> None:
    assert crossing({10: 0.5, 20: 1.5}, 1.0) == pytest.approx(15.0)
    assert crossing({10: 1.5, 20: 2.5}, 1.0) is None


def test_every_claim_has_a_row(shared: Path) -> None:
    text = (shared / "CLAIMS.md").read_text(encoding="utf-8")
    wanted = re.findall(r"(?<![\w.])(\d\.(?:open(?:\.\d)?|\d+))(?= )", text)
    assert set(wanted) == {claim.id for claim in CLAIMS}
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)


def test_no_cell_is_empty_whatever_was_run(points: Rows, differences: Rows) -> None:
    for rows in (points, [], [row for row in points if row["experiment"] == "overhead"]):
        for row in claim_rows(Measured(rows)):
            assert all(cell.strip() for cell in row.cells()), row
    measured = claim_rows(Measured(points, differences=differences))
    assert [row.id for row in measured if row.verdict == NOT_RUN] == []
    assert [row.id for row in claim_rows(Measured([])) if row.verdict == NOT_RUN] != []


def test_the_tests_that_claims_point_to_exist() -> None:
    named = {name for claim in CLAIMS for name in re.findall(r"tests/[\w/]+(?:\.py)?", claim.test)}
    assert named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_every_experiment_that_claims_point_to_exists() -> None:
    assert {claim.experiment for claim in CLAIMS if claim.judge} <= set(EXPERIMENTS)


def test_every_chart_of_every_experiment_is_in_the_page(points: Rows, overview: Rows) -> None:
    page = build(list(EXPERIMENTS.values()), points, overview, {"seed": 0})
    figures = [b for s in page.sections for b in s.blocks if isinstance(b, Figure)]
    wanted = [
        f"{experiment.name}-{chart.name}"
        for experiment in EXPERIMENTS.values()
        for chart in experiment.charts
        if experiment.name != "traffic"
    ]
    assert [block.name for block in figures] == wanted
    assert all(block.specs for block in figures)


def test_what_was_run_tells_its_rows_apart(points: Rows, overview: Rows) -> None:
    twins = [*overview, {**overview[0], "protocol": "direct"}]
    page = build(list(EXPERIMENTS.values()), points, twins, {"seed": 0})
    (table,) = (b for s in page.sections if s.id == "speed" for b in s.blocks)
    assert isinstance(table, Table)
    assert len({tuple(row) for row in table.rows}) == 2
    assert table.rows[0][table.columns.index("deliveries/s")] == 1200 / 0.5
    assert "Left out of the means: 2" in page.lead
    assert "nothing was sent after the warm-up: 4" in page.lead


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_offline_with_every_chart_drawn(
    browser: Browser, points: Rows, overview: Rows, tmp_path: Path, width: int
) -> None:
    experiments = [EXPERIMENTS[name] for name in ("overhead", "variants")]
    chosen = [row for row in points if row["experiment"] in ("overhead", "variants")]
    page = build(experiments, chosen, overview, {"seed": 0})
    for name, contents in write(page).items():
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
    assert charts.count() == 10
    for number in range(charts.count()):
        assert charts.nth(number).locator("svg path").count() > 3
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []
    context.close()
