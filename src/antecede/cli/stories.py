"""Violations as sentences and diagrams, for the pages of ``audit`` and ``report``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from antecede.pipeline.audits.neighbourhood import Rows
    from antecede.report.audit_page import Story


def tell(rows: Rows, violations: Sequence[Mapping[str, Any]]) -> list[Story]:
    """Return a story for each violation, with its neighbourhood drawn."""
    from antecede.pipeline.audits.entry import sentence
    from antecede.pipeline.audits.neighbourhood import scenes
    from antecede.report.audit_page import Story
    from antecede.report.scenes import diagram_of

    found = []
    for scene in scenes(rows, violations):
        title = f"{scene.row['message']} came late to {scene.row['process']}"
        diagram = diagram_of(title, scene.events, scene.row, scene.places)
        found.append(Story(title, sentence(dict(scene.row)), diagram))
    return found
