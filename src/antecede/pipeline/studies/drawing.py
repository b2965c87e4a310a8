"""A study's page and figures as files, drawn by two processes: one core takes 15 seconds."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from antecede.report.charts import draw
from antecede.report.page import Figure, Page, figures_of, render
from antecede.sim.beside import beside

FEW = 6
"""So few figures are drawn here before a second process has started."""
PROGRAM = "from antecede.report.charts import draw_asked; draw_asked()"

Drawn = list[tuple[str, bytes]]


def files(page: Page) -> dict[str, str | bytes]:
    """Return the page and every figure as files: name to contents."""
    figures = figures_of(page)
    far = {place for place in range(1, len(figures), 2) if len(figures) > FEW}
    here = [one for place, one in enumerate(figures) if place not in far]
    there = [figures[place] for place in sorted(far)]
    found: dict[str, str | bytes] = {}
    with ThreadPoolExecutor(1) as pool:
        helper = beside(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE) if there else None
        try:
            asked = json.dumps([one.specs for one in there]).encode()
            answer = None if helper is None else pool.submit(helper.communicate, asked)
            found["index.html"] = render(page)
            drawn = _drawn(here)
            drawn += _drawn(there) if answer is None else _read(answer.result()[0], there)
        finally:
            if helper is not None:
                helper.kill()
    for figure, (svg, png) in zip([*here, *there], drawn, strict=True):
        found[f"figures/{figure.name}.svg"] = svg
        found[f"figures/{figure.name}.png"] = png
    return found


def _drawn(figures: Sequence[Figure]) -> Drawn:
    return [draw(one.specs) for one in figures]


def _read(answer: bytes, figures: Sequence[Figure]) -> Drawn:
    """Return what the second process drew; draw it here if that failed."""
    try:
        return [(svg, base64.b64decode(png)) for svg, png in json.loads(answer)]
    except ValueError:
        return _drawn(figures)
