"""Violations as sentences with diagrams, for pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from antecede.pipeline.audits.neighbourhood import Rows, neighbourhoods
from antecede.pipeline.audits.sentences import sentence
from antecede.report.audit_page import Illustration
from antecede.report.diagrams import diagram_of


def illustrate(rows: Rows, violations: Sequence[Mapping[str, Any]]) -> list[Illustration]:
    """Return each violation in a sentence, with the events around it drawn."""
    found = []
    for near in neighbourhoods(rows, violations):
        title = f"{near.row['message']} came late to {near.row['process']}"
        diagram = diagram_of(title, near.events, near.row, near.places)
        found.append(Illustration(title, sentence(near.row), diagram))
    return found
