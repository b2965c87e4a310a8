"""Turn a study's folder into the page docs/paper-study.md, so that no number is typed by hand.

antecede study --preset paper --out FOLDER
python -m tools.paper_study FOLDER
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from antecede.report.charts import draw
from antecede.report.numbers import figure
from antecede.report.page import Block, Claims, Figure, Section, Table, Text, figures_of
from antecede.study.results import Tables

DOCS = Path(__file__).resolve().parents[1] / "docs"
PREFIX = "study-"
COLUMNS = 100
ABOUT = """\
The protocols ran on the workloads of the papers, at their scale. This page says what causal order
costs there, and whether each claim of the papers holds. [The study](study.md) says how it works,
and [the run](#the-run) what it ran on."""


def main() -> int:
    """Write the page and draw its figures with the current code."""
    if len(sys.argv) != 2:
        print("usage: python -m tools.paper_study FOLDER (of a finished antecede study)")
        return 2
    folder = Path(sys.argv[1])
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    names = ("points", "differences", "overview")
    tables = (pq.read_table(folder / f"{name}.parquet") for name in names)
    runs = pq.read_table(folder / "runs", columns=["experiment", "facet", "series"])
    page = Tables(runs, *tables).page({}, summary["options"].get("protocol") or ())
    for old in (DOCS / "figures").glob(f"{PREFIX}*.svg"):
        old.unlink()
    for picture in figures_of(page):
        svg, _ = draw(picture.specs)
        (DOCS / "figures" / f"{PREFIX}{picture.name}.svg").write_text(svg, encoding="utf-8")
    lines = ["# The study at the papers' scale", "", ABOUT, "", _wrapped(page.lead)]
    for block in page.top:
        lines += _block(block)
    for section in page.sections:
        lines += ["", *_section(section)]
    lines += ["", *_run(summary)]
    text = "\n".join(lines) + "\n"
    (DOCS / "paper-study.md").write_text(text, encoding="utf-8")
    return 0


def _run(summary: dict[str, Any]) -> Iterator[str]:
    """Say where the figures come from."""
    about, options, took = summary["provenance"], summary["options"], round(summary["seconds"])
    versions = ", ".join(f"{name} {about[name]}" for name in ("numba", "numpy", "pyspark"))
    started = summary["started"][:16].replace("T", " ")
    yield from (
        "## The run",
        "",
        _wrapped("This page was made by `python -m tools.paper_study FOLDER` from one whole run:"),
        "",
        "```console",
        f"$ antecede study --preset {options['preset']} --out FOLDER",
        "```",
        "",
        _wrapped(
            f"It took {took // 60} min {took % 60} s{_calls(summary)} on {options['master']} "
            f"({about['cores']} cores of a virtual machine, {about['system']}, Python "
            f"{about['python']}, {versions}), started {started} UTC; the runs alone took "
            f"{figure(float(summary['result']['core_seconds']))} s of processor time."
        ),
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def _calls(summary: dict[str, Any]) -> str:
    return ", in more than one call," if summary["options"].get("resume") else ""


def _section(section: Section) -> Iterator[str]:
    name, _, finding = section.title.partition(": ")  # A heading that links can point to.
    yield f"## {name}"
    if finding:
        yield from ("", _wrapped(f"**{finding}**"))
    if section.note:
        yield from ("", _wrapped(section.note.replace("; click on it for", "; below it are")))
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Text):
        for paragraph in block.paragraphs:
            yield from ("", _wrapped(paragraph))
    elif isinstance(block, Figure):
        yield from ("", _wrapped(f"![{block.title}](figures/{PREFIX}{block.name}.svg)"), "")
        yield f"*{block.title}*"
        if block.caption:
            yield from ("", _wrapped(block.caption))
    elif isinstance(block, Claims):
        yield from ("", *_claims(block))
    elif isinstance(block, Table) and not block.folded:
        yield from ("", *_table(block))


def _claims(claims: Claims) -> Iterator[str]:
    """Write the tally, the papers, and for each claim a short line with its full result folded."""
    told = "; ".join(f"{verdict}: {count}" for verdict, (_, count) in claims.tally.items())
    told = told[:1].upper() + told[1:]
    yield _wrapped(f"Verdicts on {len(claims.lines)} claims and questions. {told}. {claims.note}")
    yield ""
    for key, (name, link) in claims.papers.items():
        yield f"- {key}.x: " + (f"[{name}]({link})" if link else name)
    columns = ("No.", "What the paper says", "Verdict", "By", "In short")
    rows = [(line.id, line.text, line.verdict, line.basis, line.short) for line in claims.lines]
    yield from ("", *_table(Table(columns, rows)))
    yield from ("", "The whole results, and how each claim was tested:", "")
    for line in claims.lines:
        said = escape(line.text, quote=False)
        yield _wrapped(f"<details><summary>{line.id} {said}</summary>")
        for label, text in (("Result", line.result), ("How it was tested", line.test)):
            yield _wrapped(f"<p><b>{label}.</b> {escape(text, quote=False)}</p>")
        yield from ("</details>", "")


def _table(table: Table) -> Iterator[str]:
    if table.caption:
        yield from (_wrapped(f"{table.caption}:"), "")
    yield f"| {' | '.join(table.columns)} |"
    yield f"|{' --- |' * len(table.columns)}"
    for row in table.rows:
        yield f"| {' | '.join(figure(cell).replace('|', '/') for cell in row)} |"


if __name__ == "__main__":
    sys.exit(main())
