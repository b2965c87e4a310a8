"""The study's page: what was asked, what came out, and the papers' claims one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from antecede.report.charts import bar_chart, draw, line_chart
from antecede.report.claims import claim_rows
from antecede.report.findings import findings, fits_table
from antecede.report.measured import Measured
from antecede.report.page import Figure, Page, Section, Table, Text, render

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from antecede.report.page import Block
    from antecede.report.questions import Chart, Question

COLUMNS = ("No.", "What the paper says", "How it was tested", "What came out", "Verdict")


def build(
    experiments: Sequence[Question],
    points: Iterable[Mapping[str, Any]],
    overview: Iterable[Mapping[str, Any]],
    facts: Mapping[str, object],
    order: Iterable[tuple[str, str, str]] = (),
    differences: Iterable[Mapping[str, Any]] = (),
) -> Page:
    """Return the page of a study; ``order`` lists experiment, facet and series as shown."""
    measured = Measured(points, order, differences)
    totals = list(overview)
    runs = sum(row["runs"] for row in totals)
    deliveries = sum(row["deliveries"] for row in totals)
    saturated = sum(row["saturated"] for row in totals)
    lead = (
        f"{runs:,} runs of {len({row['protocol'] for row in totals})} protocols, {deliveries:,} "
        "measured deliveries. Every point is a mean over seeds with its 95% confidence interval; "
        "protocols are compared on the same schedules."
    )
    if saturated:
        lead += f" Left out of the means: {saturated} whose queues grew without bound."
    unsized = sum(row.get("unsized") or 0 for row in totals)
    if unsized:
        lead += f" Without sizes, as nothing was sent after the warm-up: {unsized}."
    shown = [experiment for experiment in experiments if measured.has(experiment.name)]
    sections = [
        Section("claims", "The papers' claims", [_claims(measured)]),
        *(_section(experiment, measured) for experiment in shown),
        Section("speed", "What was run", [_overview(totals)]),
    ]
    return Page("Causal message ordering: the study", lead, sections, facts)


def write(page: Page) -> dict[str, str | bytes]:
    """Return the page and every figure as files: name to contents."""
    files: dict[str, str | bytes] = {"index.html": render(page)}
    for section in page.sections:
        for block in section.blocks:
            if isinstance(block, Figure):
                svg, png = draw(block.specs)
                files[f"figures/{block.name}.svg"] = svg
                files[f"figures/{block.name}.png"] = png
    return files


def _claims(measured: Measured) -> Table:
    return Table(COLUMNS, [row.cells() for row in claim_rows(measured)], cards=True)


def _section(experiment: Question, measured: Measured) -> Section:
    blocks: list[Block] = []
    sentences = findings(experiment.name, measured)
    if sentences:
        blocks.append(Text(tuple(sentences)))
    blocks += [_figure(experiment, chart, measured) for chart in experiment.charts]
    fits = fits_table(experiment.name, measured)
    if fits is not None:
        blocks.append(fits)
    blocks.append(Text((experiment.how,)))
    blocks += [_numbers(experiment, chart, measured) for chart in experiment.charts]
    title = f"{experiment.name.capitalize()}: {experiment.paper}"
    return Section(experiment.name, title, blocks, experiment.question)


def _figure(experiment: Question, chart: Chart, measured: Measured) -> Figure:
    order = _names(experiment, chart, measured)
    specs = []
    for facet in measured.facets(experiment.name):
        rows = _levelled(
            measured.rows(experiment.name, chart.metric, facet, order), experiment.levels
        )
        if not rows:
            continue
        if chart.kind == "bar":
            specs.append(bar_chart(rows, title=facet, y=chart.y, order=order, log_y=chart.log_y))
        else:
            specs.append(_line(experiment, chart, facet, rows, order))
    return Figure(f"{experiment.name}-{chart.name}", chart.title, tuple(specs))


def _names(
    experiment: Question, chart: Chart, measured: Measured, facet: str | None = None
) -> list[str]:
    return [
        name
        for name in measured.series(experiment.name, facet)
        if chart.series is None or name in chart.series
    ]


def _levelled(rows: list[dict[str, Any]], levels: Sequence[str]) -> list[dict[str, Any]]:
    """Repeat what does not depend on x at every x of the others, as a level line."""
    places = sorted({row["x"] for row in rows if row["series"] not in levels})
    flat = [row for row in rows if row["series"] in levels]
    return [row for row in rows if row["series"] not in levels] + [
        {**row, "x": x} for row in flat for x in places
    ]


def _line(
    experiment: Question,
    chart: Chart,
    facet: str,
    rows: list[dict[str, Any]],
    order: list[str],
) -> dict[str, Any]:
    if chart.log_y:
        rows = [row for row in rows if row["mean"] > 0]
    return line_chart(
        rows,
        title=facet,
        x=experiment.x,
        y=chart.y,
        order=order,
        log_x=chart.log_x,
        log_y=chart.log_y,
    )


def _numbers(experiment: Question, chart: Chart, measured: Measured) -> Table:
    rows: list[tuple[object, ...]] = []
    for facet in measured.facets(experiment.name):
        for name in _names(experiment, chart, measured, facet):
            for x, point in measured.line(experiment.name, chart.metric, facet, name).items():
                at = "any" if name in experiment.levels else f"{x:g}"
                place = () if chart.kind == "bar" else (at,)
                rows.append((facet, name, *place, point.mean, point.low, point.high))
    middle = () if chart.kind == "bar" else (experiment.x,)
    columns = ("", "series", *middle, chart.y, "95% from", "to")
    return Table(columns, rows, f"The numbers: {chart.title}", folded=True)


def _overview(totals: list[Mapping[str, Any]]) -> Table:
    rows = [
        (
            row["experiment"],
            row["series"],
            row["protocol"],
            row["runs"],
            row["deliveries"],
            row["seconds"],
            row["timed"] / row["seconds"] if row["seconds"] and row.get("timed") else None,
            row["saturated"],
        )
        for row in totals
    ]
    columns = (
        "experiment",
        "series",
        "protocol",
        "runs",
        "measured deliveries",
        "engine seconds",
        "deliveries/s",
        "saturated",
    )
    caption = (
        "What was run, and the engine's own time on this machine while other runs shared it; "
        "deliveries per second count the warm-up's too, as that time does"
    )
    return Table(columns, rows, caption)
