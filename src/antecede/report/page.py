"""The page that every report is built on.

A page has a title, a lead and sections; a section is a list of blocks: text, tables, figures and
ready-made markup. The one file contains everything it needs: styles, the charts' data and, if there
are charts, the library that draws them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from antecede.report.charts import NIGHT
from antecede.report.numbers import figure

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraphs of plain text."""

    paragraphs: tuple[str, ...]
    kind: ClassVar[str] = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table; :func:`figure` formats its numbers.

    ``cards`` turns each row into a card on a narrow screen (for rows of prose); other tables
    scroll sideways there. ``folded`` collapses the table until it is clicked.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    cards: bool = False
    folded: bool = False
    kind: ClassVar[str] = "table"

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold only numbers, answers and gaps."""
        columns = [
            [row[at] for row in self.rows if row[at] is not None] for at in range(len(self.columns))
        ]
        return [
            any(map(_is_number, cells)) and all(isinstance(cell, int | float) for cell in cells)
            for cells in columns
        ]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one or more Vega-Lite charts side by side (below each other on a phone)."""

    name: str
    title: str
    specs: tuple[Mapping[str, Any], ...]
    caption: str = ""
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True, slots=True)
class Raw:
    """Markup made elsewhere in this package (a space-time diagram), already escaped."""

    html: str
    caption: str = ""
    kind: ClassVar[str] = "raw"


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """A claim and its verdict in one short line, with the long text folded."""

    id: str
    paper: str
    """The key of its paper, for filtering."""
    text: str
    verdict: str
    tone: str
    """How the verdict looks: good, fair, bad, open or none."""
    short: str
    basis: str
    test: str
    result: str


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims with a tally of their verdicts, to be filtered by paper."""

    lines: Sequence[ClaimLine]
    papers: Mapping[str, tuple[str, str]]
    """By key, a paper's name (authors and year), and a link to it or nothing."""
    note: str = ""
    """Stands beside the tally."""
    kind: ClassVar[str] = "claims"

    @property
    def tally(self) -> dict[str, tuple[str, int]]:
        """How often each verdict was given, with its tone."""
        counts = Counter((line.verdict, line.tone) for line in self.lines)
        order = sorted(counts, key=lambda pair: (TONES.index(pair[1]), -counts[pair]))
        return {verdict: (tone, counts[verdict, tone]) for verdict, tone in order}


TONES = ("good", "fair", "bad", "open", "none")
MARKS = {"good": "\N{CHECK MARK}", "fair": "\N{ALMOST EQUAL TO}", "bad": "\N{BALLOT X}",
         "open": "?", "none": "\N{EN DASH}"}  # fmt: skip

Block = Text | Table | Figure | Raw | Claims


@dataclass(frozen=True, slots=True)
class Section:
    """A headed part of the page."""

    id: str
    title: str
    blocks: Sequence[Block]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report."""

    title: str
    lead: str
    sections: Sequence[Section]
    facts: Mapping[str, object] = field(default_factory=dict)
    """Provenance, shown in the footer: version, options, seed, time."""
    top: Sequence[Block] = ()
    """What stands between the lead and the contents: the answer."""

    @property
    def given(self) -> dict[str, object]:
        """The facts that are not empty."""
        facts = ((name, value) for name, value in self.facts.items() if value or value == 0)
        return {
            name: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            for name, value in facts
        }


def render(page: Page) -> str:
    """Return the page as one HTML document that needs nothing from the network."""
    figures = figures_of(page)
    specs = {
        f"{figure.name}-{number}": spec
        for figure in figures
        for number, spec in enumerate(figure.specs)
    }
    template = _environment().get_template("page.html.j2")
    return template.render(
        page=page,
        night=NIGHT,
        specs=json.dumps(specs, allow_nan=False).replace("<", "\\u003c"),
        library=_script_safe(chart_library()) if specs else "",
    )


def figures_of(page: Page) -> list[Figure]:
    """Return every figure of a page in order."""
    below = [block for section in page.sections for block in section.blocks]
    return [block for block in (*page.top, *below) if isinstance(block, Figure)]


@cache
def chart_library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, from the installed package."""
    import vl_convert

    return str(vl_convert.javascript_bundle())  # type: ignore[call-arg]  # wrong stub


def _script_safe(text: str) -> str:
    """Prevent a script's text from ending its element early."""
    return re.sub(r"</(script)", r"<\\/\1", text, flags=re.IGNORECASE)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # executors draw no pages

    environment = Environment(
        loader=PackageLoader("antecede.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = figure
    environment.globals["marks"] = MARKS
    environment.tests["cell_number"] = _is_number
    return environment
