"""The page of an audit of several executions: a verdict for each, and where its own page is."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import quote

from antecede.report.page import Page, Raw, Section, Table, render

_COLUMNS = ("execution", "verdict", "events", "deliveries", "violations", "missing", "rejected")


def executions_page(result: Mapping[str, Any], *, log: str, facts: Mapping[str, object]) -> str:
    """Return the page."""
    found = result["executions"]
    links = "".join(
        f'<li><a href="{quote(one["folder"])}/index.html">{escape(one["execution"])}</a>: '
        f"{escape(one['verdict'])}. {escape(one['reason'])}</li>"
        for one in found
    )
    rows = [[one[name] for name in _COLUMNS] for one in found]
    sections = [
        Section("executions", "Executions", [Raw(f"<ul>{links}</ul>"), Table(_COLUMNS, rows)]),
    ]
    return render(Page(f"Causal audit of {log}", result["reason"], sections, facts))
