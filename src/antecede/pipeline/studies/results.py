"""From a study's tables to its page: what each experiment shows, in labels instead of keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from antecede.pipeline.studies.claims import claim_rows, papers
from antecede.pipeline.studies.design import Chart, Experiment, label
from antecede.pipeline.studies.experiments import EXPERIMENTS
from antecede.pipeline.studies.measured import Measured, Points, fit
from antecede.report.page import Page, Section, Table
from antecede.report.study_page import Picture, blocks_of, build


@dataclass(frozen=True, slots=True)
class Tables:
    """A study's tables, small enough for the driver."""

    runs: pa.Table
    points: pa.Table
    differences: pa.Table
    overview: pa.Table

    def page(self, facts: Mapping[str, object]) -> Page:
        """Return the study's page; series are shown in the order in which they were run."""
        shown = self.runs.select(["experiment", "facet", "series"]).to_pylist()
        order = [(row["experiment"], row["facet"], row["series"]) for row in shown]
        measured = Measured(self.points.to_pylist(), order, self.differences.to_pylist())
        return study_page(measured, self.overview.to_pylist(), facts)


def study_page(
    measured: Measured, overview: Iterable[Mapping[str, Any]], facts: Mapping[str, object]
) -> Page:
    """Return the page of a study from its points and the overview of its runs."""
    parts = [
        part_of(experiment, points)
        for experiment in EXPERIMENTS.values()
        if (points := measured.of(experiment.name))
    ]
    totals = [{**row, "series": _label(row["experiment"], row["series"])} for row in overview]
    sources = "; ".join(f"{number}.x are from {paper}" for number, paper in papers().items())
    return build(claim_rows(measured), f"Claims {sources}.", parts, totals, facts)


def _label(experiment: str, key: str) -> str:
    return EXPERIMENTS[experiment].label(key) if experiment in EXPERIMENTS else label(key)


def part_of(experiment: Experiment, points: Points) -> Section:
    """Return what the page shows of one experiment."""
    pictures = [_picture(experiment, chart, points) for chart in experiment.charts]
    fits = [_fits(experiment, points)] if experiment.fits else []
    blocks = blocks_of(list(experiment.findings(points)), pictures, fits, experiment.how)
    about = ", ".join(filter(None, (experiment.paper, experiment.part)))
    title = f"{experiment.name.capitalize()}: {about}"
    return Section(experiment.name, title, blocks, experiment.question)


def _picture(experiment: Experiment, chart: Chart, points: Points) -> Picture:
    names = [name for name in points.series() if chart.series is None or name in chart.series]
    panels = {}
    for facet in points.facets():
        rows = [
            {
                "series": experiment.label(name),
                "x": None if name in experiment.levels else x,
                "mean": point.mean,
                "low": point.low,
                "high": point.high,
            }
            for name in names
            for x, point in points.line(chart.metric, facet, name).items()
        ]
        if rows:
            panels[experiment.facet_label(facet)] = rows
    return Picture(
        name=f"{experiment.name}-{chart.name}",
        title=chart.title,
        x=experiment.x,
        y=chart.y,
        order=[experiment.label(name) for name in names],
        panels=panels,
        kind=chart.kind,
        log_x="x" in chart.logs,
        log_y="y" in chart.logs,
    )


def _fits(experiment: Experiment, points: Points) -> Table:
    """Return the exponents fitted to an experiment's lines."""
    rows: list[tuple[object, ...]] = []
    for facet in points.facets():
        for name in points.series(facet):
            fits = [fit(points.means(metric, facet, name)) for metric in experiment.fits]
            labels = experiment.facet_label(facet), experiment.label(name)
            rows.append((*labels, *(None if found is None else str(found) for found in fits)))
    titles = tuple(metric.replace("_", " ") for metric in experiment.fits)
    return Table(("", "series", *titles), rows, "Fitted exponent of n, with its standard error")
