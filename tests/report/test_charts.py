"""Charts show what was computed: intervals are cut in the drawing only."""

from __future__ import annotations

import re
from typing import Any

import pytest

from antecede.report.charts import COLOURS, bar_chart, draw, line_chart

ROWS: list[dict[str, Any]] = [
    {"x": 1.0, "mean": 2.0, "low": -1.0, "high": 5.0, "series": "a"},
    {"x": 2.0, "mean": 4.0, "low": 3.0, "high": 5.0, "series": "a"},
    {"x": 2.0, "mean": 8.0, "low": None, "high": None, "series": "b"},
]
ORDER = ("a", "b", "absent")


def values(spec: dict[str, Any]) -> list[dict[str, Any]]:
    (found,) = spec["datasets"].values()
    return list(found)


def test_an_interval_below_zero_keeps_its_end_in_the_tooltip() -> None:
    for log, edge in ((True, 2.0), (False, 0.0)):
        spec = line_chart(ROWS, title="", x="x", y="y", order=ORDER, log_y=log)
        first, second, third = values(spec)
        assert "low" in [tip["field"] for tip in spec["layer"][2]["encoding"]["tooltip"]]
        assert (first["low"], first["floor"]) == (-1.0, edge)
        assert (second["low"], second["floor"]) == (3.0, 3.0)
        assert third["floor"] is None
    bars = bar_chart(ROWS[:1], title="", y="y", order=ORDER)
    assert values(bars)[0]["floor"] == 0.0


def test_a_legend_names_only_what_is_drawn_in_colours_that_stay() -> None:
    spec = line_chart(ROWS, title="", x="x", y="y", order=ORDER)
    colour = spec["layer"][0]["encoding"]["color"]
    assert colour["legend"]["values"] == ["a", "b"]
    assert colour["scale"]["domain"] == list(ORDER)


def test_no_two_series_have_one_mark() -> None:
    names = [f"series {number}" for number in range(len(COLOURS))]
    rows = [ROWS[0] | {"series": name} for name in names]
    spec = line_chart(rows, title="", x="x", y="y", order=names)
    marks = spec["layer"][2]["encoding"]["shape"]["scale"]["range"]
    assert len(set(marks)) == len(COLOURS)
    draw([spec])


@pytest.mark.parametrize(("name", "columns"), [("b", 3), ("b" * 15, 2), ("b" * 23, 1)])
def test_a_legend_of_long_names_fits_a_phone(name: str, columns: int) -> None:
    rows = [row | {"series": name} for row in ROWS]
    spec = line_chart(rows, title="", x="x", y="y", order=(*ORDER, name))
    assert spec["layer"][0]["encoding"]["color"]["legend"]["columns"] == columns


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("most", [0.00002, 0.3, 17.0, 1_700.0, 12_345_678.0, 3e13])
def test_ticks_are_plain_numbers(most: float, log: bool) -> None:
    ends = ((10.0, most / 50, "a"), (12_345.0, most, "b"))
    rows = [{"x": x, "mean": y, "low": y, "high": y, "series": name} for x, y, name in ends]
    line = line_chart(rows, title="", x="x", y="y", order=ORDER, log_x=log, log_y=log)
    svg, _ = draw([line, bar_chart(rows, title="", y="y", order=ORDER)])
    told = {text for text in re.findall(r">([^<>]+)</text>", svg) if re.search(r"\d", text)}
    assert "12,345" in told
    assert len(told) > 5
    assert all(re.fullmatch(r"\d{1,3}(,\d{3})*(\.\d+)?", text) for text in told), told


def test_ticks_are_even_on_a_log_scale_and_times_have_units() -> None:
    rows = [
        {"series": "a", "x": x, "mean": x * 1e-6, "low": x * 1e-6, "high": x * 1e-6}
        for x in (1, 1000)
    ]
    spec = line_chart(rows, title="t", x="load", y="seconds", order=["a"], log_y=True)
    axis = spec["layer"][0]["encoding"]["y"]["axis"]
    assert axis["values"] == [1e-6, 1e-5, 1e-4, 1e-3]
    (svg, _) = draw((spec,))
    assert {"1 \u00b5s", "1 ms"} <= set(re.findall(r">([^<>]+)</text>", svg))


def test_charts_side_by_side_share_a_legend_that_names_all() -> None:
    specs = [
        line_chart([row for row in ROWS if row["series"] == name], title=name, x="x", y="y",
                   order=ORDER)
        for name in ("a", "b")
    ]  # fmt: skip
    svg, _ = draw(specs)
    assert ">a</text>" in svg
    assert svg.count(">b</text>") == 2  # as a title and in the legend
    assert ">absent<" not in svg
