"""Bar charts in plain markup, for pages that must be quick to write and small."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from antecede.report.numbers import figure

_STYLE = """
.bars{display:grid;grid-template-columns:repeat(auto-fit,minmax(17rem,1fr));gap:1rem 2rem}
.bars dl{display:grid;grid-template-columns:fit-content(45%) 1fr;gap:.25rem .6rem;margin:0}
.bars h3{font-size:.95rem;font-weight:normal;margin:.2rem 0 .5rem}
.bars dt{text-align:right;font-size:.85rem;overflow-wrap:anywhere}
.bars dd{margin:0;display:flex;align-items:center;gap:.4rem;font-size:.85rem}
.bars i{display:block;height:1rem;min-width:1px;background:var(--mark,#0072B2);flex:none}
"""


def bars(charts: Mapping[str, Mapping[str, float]], *, unit: str) -> str:
    """Return one chart of horizontal bars per title; each bar has its number beside it."""
    parts = []
    for title, values in charts.items():
        most = max(values.values(), default=0) or 1
        rows = "".join(
            f'<dt>{escape(name)}</dt><dd title="{escape(name)}: {figure(value)} {escape(unit)}">'
            f'<i style="width:{70 * value / most:.1f}%"></i>{figure(value)}</dd>'
            for name, value in values.items()
        )
        parts.append(f"<div><h3>{escape(title)}</h3><dl>{rows}</dl></div>")
    return f'<style>{_STYLE}</style><div class="bars">{"".join(parts)}</div>'
