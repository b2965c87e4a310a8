"""The base page that every verb's report is made of.

A page is a title, a lead and sections; a section is a list of blocks: text, tables, figures and
ready-made markup. Everything it needs is inside the one file: styles, charts' data and, if there
are charts, the library that draws them.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraphs of plain text."""

    paragraphs: tuple[str, ...]
    kind: ClassVar[str] = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table; numbers are formatted by :func:`figure`, everything else is text.

    ``cards`` turns each row into a card on a narrow screen (for rows of prose); other tables
    scroll sideways there. ``folded`` hides it behind a click.
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
    """Markup made elsewhere in this package (a space-time diagram); the maker has escaped it."""

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
    """Provenance, shown at the foot: version, options, seed, time."""


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
        specs=Markup(json.dumps(specs, allow_nan=False).replace("<", "\\u003c")),  # noqa: S704 - escaped there
        library=Markup(_script_safe(chart_library())) if specs else "",  # noqa: S704 - ours
    )


@cache
def chart_library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, from the installed package."""
    import vl_convert

    return str(vl_convert.javascript_bundle())  # type: ignore[call-arg]


def figure(value: object) -> str:
    """Format a cell: numbers to three significant figures, the rest as it is."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return _rounded(value) if isinstance(value, float) else str(value)


def _rounded(value: float) -> str:
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1000:
        return f"{value:,.0f}"
    if size < 0.001:
        return f"{value:.2e}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}"


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
