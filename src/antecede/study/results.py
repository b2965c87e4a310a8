"""From a study's tables to its page, with labels instead of keys, and to its comparison.

The comparison is the last table of a study: every protocol at its largest size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from antecede.endpoint.registry import PROTOCOLS
from antecede.report.page import ClaimLine, Claims, Page, Section, Table
from antecede.report.study_page import Picture, blocks_of, build
from antecede.study.claims import RUN, claim_rows, papers, refuted
from antecede.study.design import Chart, Experiment, label
from antecede.study.experiments import EXPERIMENTS
from antecede.study.points import (
    ANSWERED,
    CONSISTENT,
    DRIFT,
    DRIFTS,
    FAILS,
    HOLDS,
    LIMITS,
    NOT_RUN,
    OPEN,
    PARTLY,
    Measured,
    Point,
    Points,
    fit,
    local_exponents,
)
from antecede.study.prs_readings import LABELS


@dataclass(frozen=True, slots=True)
class Tables:
    """A study's tables, small enough for the driver."""

    runs: pa.Table
    points: pa.Table
    differences: pa.Table
    overview: pa.Table

    def page(self, facts: Mapping[str, object], only: Sequence[str] = ()) -> Page:
        """Return the study's page; series are in the order in which they were run.

        ``only`` names the protocols that the study was restricted to, if it was.
        """
        return study_page(self._measured(), self.overview.to_pylist(), facts, only)

    def findings(self) -> dict[str, list[str]]:
        """Return, by experiment, the sentences of its page."""
        return {
            name: list(EXPERIMENTS[name].findings(points))
            for name, points in _run(self._measured()).items()
        }

    def verdicts(self, only: Sequence[str] = ()) -> list[dict[str, str]]:
        """Return the claims that this study settled, each with its verdict and main figure."""
        return [
            {"id": row.id, "claim": row.claim, "verdict": row.verdict, "short": row.short}
            for row in claim_rows(self._measured(), only)
            if row.basis == RUN and row.verdict != NOT_RUN
        ]

    def _measured(self) -> Measured:
        shown = self.runs.select(["experiment", "facet", "series"]).to_pylist()
        order = [(row["experiment"], row["facet"], row["series"]) for row in shown]
        return Measured(self.points.to_pylist(), order, self.differences.to_pylist())


def study_page(
    measured: Measured,
    overview: Iterable[Mapping[str, Any]],
    facts: Mapping[str, object],
    only: Sequence[str] = (),
) -> Page:
    """Return the page of a study from its points and the overview of its runs."""
    run = _run(measured)
    chosen, hero = _hero(run)
    parts = [
        part_of(EXPERIMENTS[name], points, hero.name if hero else "")
        for name, points in run.items()
    ]
    totals = [{**row, "series": _label(row["experiment"], row["series"])} for row in overview]
    answer = list(chosen.answer(run[chosen.name]) or ()) if chosen else []
    if chosen and not answer:
        answer = list(chosen.findings(run[chosen.name]))[:3]
    top = (hero, caption(hero.order)) if hero else None
    return build(claims_block(measured, only), answer, top, parts, totals, facts)


def _run(measured: Measured) -> dict[str, Points]:
    """Return the points of the experiments that were run."""
    return {name: points for name in EXPERIMENTS if (points := measured.of(name))}


def _hero(run: Mapping[str, Points]) -> tuple[Experiment | None, Picture | None]:
    """Return the picture at the top of the page: a ``hero`` chart, or else the first chart."""
    every = [(EXPERIMENTS[name], chart) for name in run for chart in EXPERIMENTS[name].charts]
    for experiment, chart in sorted(every, key=lambda pair: not pair[1].hero):
        picture = _picture(experiment, chart, run[experiment.name])
        if picture.panels:
            return experiment, picture
    return None, None


TONES = {
    HOLDS: "good",
    ANSWERED: "good",
    LIMITS: "fair",
    PARTLY: "fair",
    CONSISTENT: "fair",
    FAILS: "bad",
    OPEN: "open",
    NOT_RUN: "none",
}


def claims_block(measured: Measured, only: Sequence[str] = ()) -> Claims:
    """Return the claims of all papers, one line each, with verdicts."""
    lines = [
        ClaimLine(
            id=row.id,
            paper=row.id.partition(".")[0],
            text=row.claim,
            verdict=row.verdict,
            tone=TONES[row.verdict],
            short=row.short,
            basis=row.basis,
            test=row.test,
            result=row.result,
        )
        for row in claim_rows(measured, only)
    ]
    links = {f"[{info.citation.tag}]": info.citation.url for info in PROTOCOLS.values()}
    named = {
        number: (paper.rpartition(" ")[0], links.get(paper.rpartition(" ")[2], ""))
        for number, paper in papers().items()
    }
    return Claims(lines, dict(sorted(named.items())), refuted(measured))


def caption(order: Sequence[str]) -> str:
    """Explain the short names in a picture: who published each protocol, and when."""
    told = []
    for info in PROTOCOLS.values():
        if info.short_name and any(f"({info.short_name})" in name for name in order):
            names = info.citation.surnames
            who = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
            made = ", reconstructed" if info.reconstruction else ""
            told.append(f"{info.short_name}: {info.name}, {who} {info.citation.year}{made}")
    note = (
        "Points are means over seeds, with 95% intervals; not all ran on the same schedules (see "
        "the experiment)."
    )
    bands = " The shaded band spans all readings of PRS." if any("PRS" in n for n in order) else ""
    return f"{'; '.join(told)}. {note}{bands}" if told else note


def _label(experiment: str, key: str) -> str:
    return EXPERIMENTS[experiment].label(key) if experiment in EXPERIMENTS else label(key)


def part_of(experiment: Experiment, points: Points, hero: str = "") -> Section:
    """Return the page's section on one experiment; ``hero`` names the picture shown above."""
    pictures = [_picture(experiment, chart, points) for chart in experiment.charts]
    fits = [_fits(experiment, points)] if experiment.fits else []
    about = ", ".join(filter(None, (experiment.paper, experiment.part)))
    heading, *others = [*experiment.findings(points)] or [about]
    others += reservations(experiment, points)
    blocks = blocks_of(others, pictures, fits, experiment.how, hero)
    title = f"{experiment.name.replace('_', ' ').capitalize()}: {heading}"
    return Section(experiment.name, title, blocks, f"{experiment.question} ({about})")


def reservations(experiment: Experiment, points: Points) -> list[str]:
    """Say which points are missing because runs were overloaded, and which had not settled."""
    full, moving = [], []
    for facet in points.facets():
        for name in points.series(facet):
            where = ", ".join(filter(None, (experiment.label(name), experiment.facet_label(facet))))
            for x, point in points.line("saturated", facet, name).items():
                if point.mean:
                    runs = f"{round(point.mean * point.runs)} of {point.runs} runs"
                    full.append(f"{where}, {x:g} ({runs})")
            for metric, what in DRIFTS.items():
                for x, point in points.drifting(metric, facet, name).items():
                    moving.append(f"{where}, {x:g} ({what} {_signed(point)})")
    said = []
    if full:
        said.append(f"Overloaded, and therefore left out with all seeds: {'; '.join(full)}.")
    if moving:
        more = f", and {len(moving) - _NAMED} more" if len(moving) > _NAMED else ""
        said.append(
            f"Not settled (the second half differs from the first by more than {DRIFT:.0%}, beyond "
            f"chance): {'; '.join(moving[:_NAMED])}{more}."
        )
    return said


_NAMED = 6


def _signed(point: Point) -> str:
    return f"{point.mean:+.1%}"


def _picture(experiment: Experiment, chart: Chart, points: Points) -> Picture:
    around = {name for main, names in experiment.bands.items() for name in names if name != main}
    names = [
        name
        for name in points.series()
        if name not in around and (chart.series is None or name in chart.series)
    ]
    panels, bands, curves = {}, {}, {}
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
            title = experiment.facet_label(facet)
            panels[title] = rows
            bands[title] = _bands(experiment, chart.metric, facet, points)
            curves[title] = _curves(chart, rows)
    return Picture(
        name=f"{experiment.name}-{chart.name}",
        title=chart.title,
        x=experiment.x,
        y=chart.y,
        order=[*(experiment.label(name) for name in names), *chart.theory],
        panels=panels,
        kind=chart.kind,
        log_x="x" in chart.logs,
        log_y="y" in chart.logs,
        bands=bands,
        curves=curves,
    )


def _bands(experiment: Experiment, metric: str, facet: str, points: Points) -> list[dict[str, Any]]:
    """Return, for each band, the least and the most of its series at every x."""
    found = []
    for main, names in experiment.bands.items():
        lines = [points.means(metric, facet, name) for name in names]
        for x in sorted({x for line in lines for x in line}):
            values = [line[x] for line in lines if x in line]
            row = {"series": experiment.label(main), "x": x}
            found.append({**row, "low": min(values), "high": max(values)})
    return found


_CURVE_STEPS = 60


def _curves(chart: Chart, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the chart's theory between the first and the last x of its rows."""
    places = [row["x"] for row in rows if row["x"]]
    if not chart.theory or not places:
        return []
    low, high = min(places), max(places)
    steps = [low * (high / low) ** (number / _CURVE_STEPS) for number in range(_CURVE_STEPS + 1)]
    return [
        {"series": name, "x": x, "mean": y}
        for name, function in chart.theory.items()
        for x in steps
        if (y := function(x)) is not None
    ]


def _fits(experiment: Experiment, points: Points) -> Table:
    """Return the exponents of an experiment's lines: fitted, first local and last local."""
    rows: list[tuple[object, ...]] = []
    around = {name for main, names in experiment.bands.items() for name in names if name != main}
    for facet in points.facets():
        for name in points.series(facet):
            if name not in around:
                cells = [_growth(points.means(metric, facet, name)) for metric in experiment.fits]
                rows.append((experiment.facet_label(facet), experiment.label(name), *cells))
    titles = tuple(metric.replace("_", " ") for metric in experiment.fits)
    caption = (
        "Exponents of n: fitted to the means (± says how far the points are from a straight line, "
        "not chance), then between the first two sizes and between the last two"
    )
    return Table(("", "series", *titles), rows, caption)


def _growth(line: Mapping[float, float]) -> str | None:
    found = fit(line)
    if found is None:
        return None
    local = list(local_exponents(line).values())
    return f"{found} ± {found.error:.2f} ({local[0]:.2f} ... {local[-1]:.2f})"


COMPARED = {
    "entries_per_copy": "entries per copy",
    "model_bytes_per_copy": "bytes per copy",
    "total_bytes_per_message": "bytes per message",
    "held_fraction": "copies held",
    "extra_packets_per_message": "packets added per message",
}
"""The metrics of the comparison, and their headings."""
_OVERHEAD = "overhead"
_REMARKS = {
    "vectors": "vectors ran on shorter schedules",
    "bounded:k=2n": "bounded ran on two seeds",
    "direct": "PRS is reconstructed",
}


def comparison(points: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per cast and protocol, at the largest size at which it ran."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    experiment = EXPERIMENTS[_OVERHEAD]
    for point in points:
        cast, series = point["facet"], point["series"]
        if point["experiment"] != _OVERHEAD or point["metric"] not in COMPARED:
            continue
        if series in LABELS:
            continue
        new = {"cast": cast, "series": series, "protocol": experiment.label(series), "processes": 0}
        row = rows.setdefault((cast, series), new)
        if point["x"] > row["processes"]:
            row["processes"] = int(point["x"])
        if point["x"] == row["processes"]:
            row[point["metric"]] = point["mean"]
    return sorted(
        rows.values(),
        key=lambda row: (row["cast"], -row["processes"], row.get("total_bytes_per_message") or 0.0),
    )


def comparison_title(rows: Iterable[Mapping[str, Any]], cast: str) -> str:
    """Return the heading of a cast's rows: their size, and the rows with another size."""
    own = [row for row in rows if row["cast"] == cast]
    n = max((row["processes"] for row in own), default=0)
    smaller = [f"{row['protocol']} at {row['processes']}" for row in own if row["processes"] < n]
    said = [f"{cast}, n = {n}" + (f" ({', '.join(smaller)})" if smaller else "")]
    present = {row["series"] for row in own}
    said += [remark for series, remark in _REMARKS.items() if series in present]
    said.append("bytes per message include all copies and added packets")
    return "; ".join(said)
