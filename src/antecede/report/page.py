"""The page that every report is built on.

A page has a title, a lead and sections; a section is a list of blocks: text, tables, figures and
ready-made markup. The one file contains everything it needs: styles, the charts' data and, if there
are charts, the library that draws them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from antecede.report.numbers import figure


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


Block = Text | Table | Figure | Raw


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


def render(page: Page) -> str:
    """Return the page as one HTML document that needs nothing from the network."""
    figures = [
        block for section in page.sections for block in section.blocks if isinstance(block, Figure)
    ]
    specs = {
        f"{figure.name}-{number}": spec
        for figure in figures
        for number, spec in enumerate(figure.specs)
    }
    template = _environment().get_template("page.html.j2")
    return template.render(
        page=page,
        specs=json.dumps(specs, allow_nan=False).replace("<", "\\u003c"),
        library=_script_safe(chart_library()) if specs else "",
    )


@cache
def chart_library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, from the installed package."""
    import vl_convert

    return str(vl_convert.javascript_bundle())  # type: ignore[call-arg]  # wrong stub


def _script_safe(text: str) -> str:
    """Keep a script's text from ending its element early."""
    return re.sub(r"</(script)", r"<\\/\1", text, flags=re.IGNORECASE)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("antecede.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = figure
    environment.tests["cell_number"] = _is_number
    return environment
