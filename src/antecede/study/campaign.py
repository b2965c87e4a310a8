"""A whole study: run the missing rows, aggregate, and write the folder with tables and page.

Two processes draw the page and its figures, because one core takes 15 seconds.
"""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.csv as pc

from antecede import sim
from antecede.report.charts import draw
from antecede.report.page import Figure, Page, chart_library, figures_of, render
from antecede.runs import ASKED, RunFolder, provenance, version
from antecede.sim.engine import start_python
from antecede.spark.session import WAIT_SECONDS, is_embedded, session
from antecede.study.jobs import RUNS_TABLE, Progress, run_grid, tables
from antecede.study.request import Request
from antecede.study.results import Tables, comparison

FEW = 6
"""Up to this many figures are drawn here, because a second process takes longer to start."""
PROGRAM = "from antecede.report.charts import draw_asked; draw_asked()"

Drawn = list[tuple[str, bytes]]


def files(page: Page) -> dict[str, str | bytes]:
    """Return the page and every figure as files: contents by name."""
    figures = figures_of(page)
    far = {place for place in range(1, len(figures), 2) if len(figures) > FEW}
    here = [one for place, one in enumerate(figures) if place not in far]
    there = [figures[place] for place in sorted(far)]
    found: dict[str, str | bytes] = {}
    with ThreadPoolExecutor(1) as pool:
        helper = None
        if there:
            pipe = subprocess.PIPE
            helper = start_python(PROGRAM, stdin=pipe, stdout=pipe)
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
    """Return what the second process drew; draw it here if that process failed."""
    try:
        return [(svg, base64.b64decode(png)) for svg, png in json.loads(answer)]
    except ValueError:
        return _drawn(figures)


EMBEDDED = "local[*]"


class Campaign:
    """A study and its folder; call ``run`` once."""

    def __init__(
        self,
        request: Request,
        out: Path | None = None,
        *,
        master: str | None = None,
        wait: float = WAIT_SECONDS,
        resume: bool = False,
    ) -> None:
        """Check the request and open the folder; raise :class:`UsageError` if either fails."""
        self._rows = request.rows()
        self._asked = request.options()
        self._master, self._wait = master, wait
        self.folder = RunFolder.open(
            out,
            "study",
            options={**self._asked, "master": master or EMBEDDED, "resume": resume},
            seed=request.seed,
            resume=resume,
            resumable=True,
        )

    def run(self, progress: Progress | None = None) -> dict[str, Any]:
        """Run the study, write its tables and page, and return the summary.

        After an interrupt, ``folder.has_parts`` says whether there is a study to resume.
        """
        with self.folder as folder:
            folder.write_text(ASKED, json.dumps(self._asked) + "\n")
            # Compile or load kernels while Spark starts, so that workers find them cached.
            warming = threading.Thread(target=sim.warm, name="warm", daemon=True)
            if is_embedded(self._master or EMBEDDED):
                warming.start()
            with session(self._master, app="antecede study", light=True, wait=self._wait) as spark:
                if warming.is_alive():
                    warming.join()
                runs = run_grid(spark, self._rows, folder, progress=progress)
                with ThreadPoolExecutor(1) as pool:
                    # Takes two seconds, which the page need not wait for while Spark aggregates.
                    pool.submit(chart_library)
                    found = tables(spark, runs)
            write(folder, found)
            return folder.finish(_result(folder, found))


def write(folder: RunFolder, found: Tables) -> None:
    """Stage a study's tables (Parquet for programs, CSV for spreadsheets), figures and page."""
    folder.write_table(RUNS_TABLE, found.runs, by="experiment")
    for name in ("points", "differences", "overview"):
        table = getattr(found, name)
        folder.write_table(name, table)
        pc.write_csv(table, folder.stage / f"{name}.csv")
    facts = {
        "version": version(),
        "preset": folder.options["preset"],
        "seed": folder.seed,
        "started": folder.started,
        "seconds": round(folder.seconds, 1),
        "master": folder.options["master"],
        **provenance(),
    }
    for name, contents in files(found.page(facts, folder.options["protocol"])).items():
        if isinstance(contents, str):
            folder.write_text(name, contents)
        else:
            (folder.stage / name).write_bytes(contents)


def _result(folder: RunFolder, found: Tables) -> dict[str, Any]:
    overview = found.overview.to_pylist()
    return {
        "experiments": sorted({row["experiment"] for row in overview}),
        "runs": found.runs.num_rows,
        "deliveries": sum(row["deliveries"] for row in overview),
        "core_seconds": round(sum(row["seconds"] for row in overview), 3),
        "saturated": sum(row["saturated"] for row in overview),
        "figures": sorted(p.name for p in (folder.stage / "figures").glob("*.svg")),
        "comparison": comparison(found.points.to_pylist()),
        "findings": found.findings(),
        "claims": found.verdicts(folder.options["protocol"]),
    }
