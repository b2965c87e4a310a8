"""The study's page: every claim answered, every chart drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from antecede import PROTOCOLS
from antecede.report.page import Claims, Figure, Page, Table, Text, figures_of
from antecede.study.claims import claim_rows, claims, papers
from antecede.study.experiments import EXPERIMENTS
from antecede.study.points import NOT_RUN, Measured, Point, crossing, fit, spread
from antecede.study.results import study_page

CLAIMS = claims()
MAKERS = ("pruned", "semantic", "optimal", "bounded", "buffered")
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


def test_every_claim_is_of_one_paper_that_is_named() -> None:
    for claim, name in CLAIMS.items():
        named = papers()[claim.id.partition(".")[0]]
        assert re.fullmatch(r".+ \d{4} \[\w+\]", named), claim.id
        assert not name or EXPERIMENTS[name].paper == named, claim.id
    tags = [re.findall(r"\[(\w+)\]", papers()[number])[0] for number in "01234"]
    assert tags == [PROTOCOLS[name].citation.tag for name in MAKERS]


def test_every_claim_has_a_row(shared: Path) -> None:
    text = (shared / "CLAIMS.md").read_text(encoding="utf-8")
    wanted = re.findall(r"(?<![\w.])(\d\.(?:open(?:\.\d)?|\d+))(?= )", text)
    assert set(wanted) <= {claim.id for claim in CLAIMS}
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)


def test_no_cell_is_empty_whatever_was_run(points: Rows, differences: Rows) -> None:
    for rows in (points, [], [row for row in points if row["experiment"] == "overhead"]):
        for row in claim_rows(Measured(rows)):
            assert all(cell.strip() for cell in row), row
    measured = claim_rows(Measured(points, differences=differences))
    assert [row.id for row in measured if row.verdict == NOT_RUN] == []
    assert [row.id for row in claim_rows(Measured([])) if row.verdict == NOT_RUN] != []


def test_the_tests_that_claims_point_to_exist() -> None:
    named = {name for claim in CLAIMS for name in re.findall(r"tests/[\w/]+(?:\.py)?", claim.test)}
    assert named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_a_claim_is_either_judged_by_an_experiment_or_settled_by_tests() -> None:
    for claim, experiment in CLAIMS.items():
        assert (claim.judge is None) == (claim.outcome is not None) == (not experiment), claim.id


def test_claims_come_in_the_papers_order_and_open_questions_last() -> None:
    ids = [claim.id for claim in CLAIMS]
    assert ids[:3] == ["0.1", "0.2", "0.3"]
    fourth = [number for number in ids if number.startswith("4.")]
    assert fourth[-4:] == ["4.6", "4.open.1", "4.open.2", "4.open.3"]
    firsts = [int(number.partition(".")[0]) for number in ids]
    assert firsts == sorted(firsts)


@pytest.fixture(scope="module")
def page(points: Rows, overview: Rows) -> Page:
    """Return the whole page, with two rows of what was run."""
    twins = [{**overview[0], "protocol": "direct"}, {**overview[0], "series": "bounded:k=2n"}]
    return study_page(Measured(points), twins, {"seed": 0})


def test_the_page_begins_with_the_answer_and_its_picture(page: Page) -> None:
    assert page.lead.count(". ") >= 1
    assert "bytes" in page.lead
    (first,) = page.top
    assert isinstance(first, Figure)
    assert first.name == "overhead-bytes-message"
    for short in (
        "RST: matrix, Raynal, Schiper and Toueg 1991",
        "PRS: direct",
        "SES: vectors",
        "KS: ",
    ):
        assert short in first.caption
    assert "1997, reconstructed" in first.caption
    assert page.sections[0].id == "claims"


def test_every_chart_of_every_experiment_is_in_the_page_once(page: Page) -> None:
    figures = figures_of(page)
    wanted = [
        f"{experiment.name}-{chart.name}"
        for experiment in EXPERIMENTS.values()
        for chart in experiment.charts
        if not experiment.needs_traffic
    ]
    assert sorted(block.name for block in figures) == sorted(wanted)
    assert [block.name for block in figures if not block.specs] == []


def test_without_its_experiment_the_page_begins_with_another_picture(points: Rows) -> None:
    rows = [row for row in points if row["experiment"] == "bounded"]
    page = study_page(Measured(rows), [], {})
    (first,) = page.top
    assert isinstance(first, Figure)
    assert first.name == "bounded-extra"
    assert page.lead
    assert study_page(Measured([]), [], {}).top == []


def test_prs_is_a_band_over_all_readings(page: Page) -> None:
    for name in ("overhead-bytes-message", "overhead-dependents", "crossover-share"):
        (block,) = (each for each in figures_of(page) if each.name == name)
        for spec in block.specs:
            area = spec["layer"][0]
            assert area["mark"]["type"] == "area"
            rows = spec["datasets"][area["data"]["name"]]
            assert len(rows) >= 3
            assert all(row["low"] < row["high"] for row in rows)
            assert {row["series"] for row in rows} <= {"direct (PRS)", "PRS"}


def test_the_theory_of_the_queue_stands_on_its_figure(page: Page) -> None:
    (block,) = (each for each in figures_of(page) if each.name == "buffered-relative")
    for spec in block.specs:
        (curve,) = (layer for layer in spec["layer"] if "strokeDash" in layer["mark"])
        rows = spec["datasets"][curve["data"]["name"]]
        assert len(rows) > 20
        assert max(row["x"] for row in rows) < 1
        (half,) = [row for row in rows if abs(row["x"] - 0.5) < 0.02][:1]
        assert half["mean"] == pytest.approx(1 + 1.5 * half["x"] / (1 - half["x"]))


def test_claims_are_lines_with_their_paper_and_a_tally(page: Page) -> None:
    (block,) = page.sections[0].blocks
    assert isinstance(block, Claims)
    assert sum(count for _, count in block.tally.values()) == len(block.lines) == len(CLAIMS)
    assert {line.paper for line in block.lines} == set(block.papers)
    names = {name for name, _ in block.papers.values()}
    assert "Jang, Park, Cho and Yoon 1997" in names
    links = {key: link for key, (_, link) in block.papers.items()}
    assert links["0"] == "https://doi.org/10.1109/FTDCS.1997.644737"
    by_tests = [line for line in block.lines if line.basis == "tests"]
    assert {line.id for line in by_tests} == {claim.id for claim in CLAIMS if claim.judge is None}


def test_a_claim_says_which_protocols_were_left_out(points: Rows) -> None:
    only = ("pruned", "optimal")
    rows = [row for row in points if row["series"] in only]
    found = {row.id: row for row in claim_rows(Measured(rows), only)}
    assert found["0.3"].verdict == NOT_RUN
    assert "--protocol left out" in found["0.3"].result
    assert "direct" in found["0.3"].short
    assert "matrix" in found["0.3"].short
    assert "pruned" not in found["0.3"].short


def test_what_was_run_tells_its_rows_apart(page: Page) -> None:
    said, table = (b for s in page.sections if s.id == "runs" for b in s.blocks)
    assert isinstance(table, Table)
    assert isinstance(said, Text)
    assert len({tuple(row) for row in table.rows}) == 2
    assert table.rows[0][table.columns.index("deliveries/s")] == 1200 / 0.5
    assert "2 runs were overloaded" in said.paragraphs[0]
    assert "4 runs sent nothing after the warm-up" in said.paragraphs[0]


def test_pages_show_labels_and_no_keys(page: Page, points: Rows) -> None:
    shown = repr([*page.top, *(block for section in page.sections for block in section.blocks)])
    keys = {row["series"] for row in points if ":" in row["series"] or "=" in row["series"]}
    assert keys
    assert [key for key in keys if f"'{key}'" in shown] == []
    assert "'bounded, k=2n'" in shown
    assert "'optimal, delay = 4 gaps'" in shown
    titles = {spec["title"]["text"] for b in figures_of(page) for spec in b.specs}
    assert {"unicast", "broadcast", "FIFO channels", "delay = 10 gaps"} <= titles


def test_a_point_is_written_with_its_interval() -> None:
    assert str(Point(18.34, 17.9, 18.78)) == "18.3 ± 0.4"
    assert str(Point(1917.2, 1911.0, 1923.4)) == "1,917 ± 6"
    assert str(Point(0.958, 0.9577, 0.9583)) == "0.958 ± 0.0003"
    assert str(Point(0.00001, 0.000009, 0.000011)) == "1.00e-05 ± 1e-06"
    assert str(Point(6.0, 6.0, 6.0)) == str(Point(6.0, None, None)) == "6.00"
    assert spread([2.0, 2.001]) == "2.00"
    assert spread([0.1, 0.25], "{:.0%}") == "10% to 25%"
