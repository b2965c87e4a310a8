"""Two processes draw the same figures as one."""

from __future__ import annotations

import pytest

from antecede.report.charts import bar_chart
from antecede.report.page import Figure, Page, Section
from antecede.study import campaign as drawing

NAMES = [f"figure{number}" for number in range(drawing.FEW + 1)]


def page() -> Page:
    rows = [{"series": name, "mean": 2.0, "low": 1.0, "high": 3.0} for name in NAMES]
    charts = [bar_chart(rows[:n], title="", y="y", order=NAMES) for n in range(1, len(NAMES) + 1)]
    figures = [Figure(name, name, (chart,)) for name, chart in zip(NAMES, charts, strict=True)]
    return Page("title", "lead", [Section("s", "S", figures)])


def test_two_processes_draw_what_one_would(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(drawing, "_drawn", lambda figures: [("", b"")] * len(figures))
        apart = {name: data for name, data in drawing.files(page()).items() if data}
    assert len(apart) > len(NAMES) // 2, "the second process drew nothing"
    monkeypatch.setattr(drawing, "FEW", len(NAMES))
    alone = drawing.files(page())
    assert len(alone) == 1 + 2 * len(NAMES)
    assert apart == {name: alone[name] for name in apart}


@pytest.mark.parametrize("program", ["raise SystemExit(1)", "print('no JSON')"])
def test_what_the_second_process_fails_to_draw_is_drawn_here(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "PROGRAM", program)
    monkeypatch.setattr(drawing, "_drawn", lambda figures: [(one.name, b"") for one in figures])
    found = drawing.files(page())
    assert [found[f"figures/{name}.svg"] for name in NAMES] == NAMES
