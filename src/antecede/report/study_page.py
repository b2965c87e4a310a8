"""The study's page: the papers' claims one by one, then each experiment with its charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from antecede.report.charts import bar_chart, line_chart
from antecede.report.page import (
    Block,
    Claims,
    Figure,
    Page,
    Section,
    Table,
    Text,
)

CLAIMS, RUNS = "claims", "runs"


Rows = Sequence[Mapping[str, Any]]
"""Points with series, x, mean, low and high; if x is None, they hold at every x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Charts side by side, by title, that show one measure; ``order`` lists the series."""

    name: str
    title: str
    x: str
    y: str
    order: Sequence[str]
    panels: Mapping[str, Rows]
    kind: Literal["line", "bar"] = "line"
    log_x: bool = False
    log_y: bool = False
    bands: Mapping[str, Rows] = field(default_factory=dict)
    """By panel, areas around a series: rows with series, x, low and high."""
    curves: Mapping[str, Rows] = field(default_factory=dict)
    """By panel, lines without points, such as theory: rows with series, x and mean."""


def build(
    claims: Claims,
    answer: Sequence[str],
    hero: tuple[Picture, str] | None,
    parts: Sequence[Section],
    overview: Rows,
    facts: Mapping[str, object],
) -> Page:
    """Return the page of a study.

    It begins with ``answer``, a few sentences, and ``hero``, a picture of it with its caption. The
    claims and the experiments follow.
    """
    title = "What causal message ordering costs"
    sections = [
        Section(CLAIMS, "The papers' claims", [claims], _NOTE),
        *parts,
        Section(RUNS, "What was run", [Text((_extent(overview),)), _overview(overview)]),
    ]
    top = [] if hero is None else [_figure(hero[0], hero[1])]
    lead = " ".join(answer) or _extent(overview)
    return Page(title, lead, sections, facts, top)


_NOTE = (
    "Each line is what a paper says, our verdict and the figure that matters; click on it for how "
    'it was tested and the whole result. "Settled by tests" means the test suite; all other '
    "verdicts come from this run."
)


def _extent(overview: Rows) -> str:
    runs, deliveries, saturated, unsized = (
        sum(row.get(name) or 0 for row in overview)
        for name in ("runs", "deliveries", "saturated", "unsized")
    )
    lead = (
        f"{runs:,} runs of {len({row['protocol'] for row in overview})} protocols, {deliveries:,} "
        "measured deliveries. Every point is a mean over seeds with its 95% confidence interval; "
        "protocols are compared on the same schedules, unless an experiment says otherwise."
    )
    if saturated:
        lead += (
            f" {saturated} runs were overloaded (a load of 1 or more) and have no meaningful mean."
        )
    if unsized:
        lead += f" {unsized} runs sent nothing after the warm-up and have no sizes."
    return lead


def blocks_of(
    findings: Sequence[str],
    pictures: Sequence[Picture],
    tables: Sequence[Table],
    how: str,
    hero: str = "",
) -> list[Block]:
    """Return the blocks of one experiment; ``how`` says what was run.

    The picture named ``hero`` is left out: it is at the top of the page.
    """
    blocks: list[Block] = [Text(tuple(findings))] if findings else []
    blocks += [_figure(picture) for picture in pictures if picture.name != hero]
    blocks += [*tables, Text((how,))]
    return blocks + [_numbers(picture) for picture in pictures]


def _figure(picture: Picture, caption: str = "") -> Figure:
    order = list(dict.fromkeys(picture.order))
    specs = []
    for title, points in picture.panels.items():
        rows = _levelled(points)
        if picture.kind == "bar":
            chart = bar_chart(rows, title=title, y=picture.y, order=order)
        else:
            chart = line_chart(
                [row for row in rows if row["mean"] > 0 or not picture.log_y],
                title=title,
                x=picture.x,
                y=picture.y,
                order=order,
                log_x=picture.log_x,
                log_y=picture.log_y,
                bands=picture.bands.get(title, ()),
                curves=picture.curves.get(title, ()),
            )
        specs.append(chart)
    return Figure(picture.name, picture.title, tuple(specs), caption)


def _levelled(rows: Rows) -> list[Mapping[str, Any]]:
    """Repeat a row without x at every x of the others, as a level line."""
    places = sorted({row["x"] for row in rows if row["x"] is not None})
    flat = [row for row in rows if row["x"] is None]
    return [row for row in rows if row["x"] is not None] + [
        {**row, "x": x} for row in flat for x in places
    ]


def _numbers(picture: Picture) -> Table:
    has_x = picture.kind == "line"
    rows = [
        (
            title,
            row["series"],
            *(("any" if row["x"] is None else f"{row['x']:g}",) if has_x else ()),
            row["mean"],
            row["low"],
            row["high"],
        )
        for title, points in picture.panels.items()
        for row in points
    ]
    columns = ("", "series", *((picture.x,) if has_x else ()), picture.y, "95% from", "to")
    return Table(columns, rows, f"The numbers: {picture.title}", folded=True)


def _overview(overview: Rows) -> Table:
    rows = [
        (
            *(row[name] for name in ("experiment", "series", "protocol", "runs", "deliveries")),
            row["seconds"],
            row["timed"] / row["seconds"] if row["seconds"] and row.get("timed") else None,
            row["saturated"],
        )
        for row in overview
    ]
    columns = (
        *("experiment", "series", "protocol", "runs", "measured deliveries"),
        *("engine seconds", "deliveries/s", "saturated"),
    )
    caption = (
        "Runs, and the engine's own time on this machine while it ran several at once. Deliveries "
        "per second include those of the warm-up, as the engine's time does"
    )
    return Table(columns, rows, caption)
