"""The base page: one file, escaped, readable without a network."""

from __future__ import annotations

import re

import pytest

from antecede.report.charts import bar_chart, draw, line_chart
from antecede.report.numbers import figure
from antecede.report.page import Figure, Page, Raw, Section, Table, Text, render

ROWS = [
    {"x": float(x), "mean": x * f, "low": x * f * 0.9, "high": x * f * 1.1, "series": name}
    for x in (1, 10, 100)
    for name, f in (("a", 1.0), ("b", 2.0))
]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (float("nan"), "\N{EN DASH}"),
        (0.0, "0"),
        (1234567, "1,234,567"),
        (12345.6, "12,346"),
        (1.5e20, "1.50e+20"),
        (123.4, "123"),
        (1.2345, "1.23"),
        (0.012345, "0.0123"),
        (0.00001234, "1.23e-05"),
        (True, "yes"),
        ("text", "text"),
    ],
)
def test_cells_are_rounded_to_three_figures(value: object, text: str) -> None:
    assert figure(value) == text


def test_everything_shown_is_escaped() -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    spec = line_chart(ROWS, title=evil, x=evil, y="y", order=["a", "b"])
    page = Page(
        evil,
        evil,
        [
            Section(
                "s", evil, [Text((evil,)), Table((evil,), [(evil,)]), Figure("f", evil, (spec,))]
            )
        ],
        {evil: evil},
    )
    html = render(page)
    assert "<img src=x" not in html
    assert len(re.findall(r"</script", html, flags=re.IGNORECASE)) == 2


def test_a_page_without_charts_carries_no_library() -> None:
    html = render(Page("t", "l", [Section("s", "S", [Raw("<svg></svg>", "drawn")])], {"seed": 1}))
    assert len(html) < 10_000
    assert "<svg></svg>" in html


def test_nothing_is_fetched() -> None:
    spec = bar_chart(ROWS[:2], title="t", y="y", order=["a", "b"])
    html = render(Page("t", "l", [Section("s", "S", [Figure("f", "F", (spec,))])]))
    html = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"<(?:script|img|iframe)[^>]+src=", html)
    assert re.findall(r"<link[^>]+>", html) == ['<link rel="icon" href="data:,">']


def test_charts_are_drawn_as_files_without_a_browser() -> None:
    specs = [
        line_chart(ROWS, title="t", x="x", y="y", order=["a", "b"], log_x=True),
        bar_chart(ROWS[:2], title="u", y="y", order=["a", "b"]),
    ]
    svg, png = draw(specs)
    assert svg.startswith("<svg")
    assert png.startswith(b"\x89PNG")
    # A point for each row of the lines and a bar for each row of the bars, not only axes.
    assert svg.count('aria-roledescription="point"') == len(ROWS)
    assert svg.count('aria-roledescription="bar"') == 2
    assert svg.count('aria-roledescription="line mark"') == 2


def test_a_gap_among_numbers_stands_below_them_and_so_does_the_head() -> None:
    table = Table(("what", "value"), [("a", 1), ("b", None), ("c", 2.5)])
    html = render(Page("t", "l", [Section("s", "S", [table])]))
    assert '<th scope="col">what</th><th scope="col" class="number">value</th>' in html
    assert html.count('class="number">') == 4
    mixed = Table(("what",), [("text",), (None,)])
    assert mixed.numeric == [False]
    assert Table(("empty",), []).numeric == [False]


def test_the_footer_leaves_out_what_was_not_given() -> None:
    html = render(Page("title", "lead", [], facts={"alias": {}, "option": [], "seed": 0}))
    assert "seed" in html
    assert "alias" not in html
    assert "option" not in html.partition("<footer>")[2]
