"""Space-time diagrams: processes as lines, messages as arrows, time from left to right.

An event's place on its line is the length of the longest chain that leads to it, so arrows always
point to the right and no clock has to be trusted. Where times are given, no event is left of an
earlier one, and ticks show the times. The picture is plain SVG; a short script adds zooming, and
shows the details of what is pointed at or focused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from antecede.report.labels import (
    LABEL_MAX,
    Box,
    Point,
    Wanted,
    place_labels,
)
from antecede.report.labels import (
    LETTER as LABEL_LETTER,
)

LANE, TOP = 54, 34
#: Widths of a column; the first is used in which all labels find room.
STEPS = (34, 51, 76, 114)
TICKS = 24  # height of the line of times
NAME_MAX, LETTER = 22, 8  # letters of a process's name, and the width of one
#: The most events that a diagram shows.
EVENTS_MAX = 400

#: The marks of arrows, with their names in the legend.
MARKS = {
    "late": "delivered late",
    "early": "overtook it",
    "chain": "chain from one to the other",
    "asked": "the message asked for",
    "plain": "other messages",
    "order": "known order without a message",
}


@dataclass(frozen=True)
class Node:
    """One event on a process's line."""

    process: str
    seq: int
    kind: str
    tip: str
    hidden: int = 0
    """Events of the process left out just before this one."""


@dataclass(frozen=True)
class Arrow:
    """A message from one event to another (numbers of nodes)."""

    source: int
    target: int
    tip: str
    mark: str = "plain"
    label: str = ""


@dataclass(frozen=True)
class Diagram:
    """What to draw; nodes of one process are in its order."""

    title: str
    nodes: Sequence[Node]
    arrows: Sequence[Arrow]
    lanes: Sequence[str] = ()
    """Processes from top to bottom; by default those that exchange messages first."""
    times: Sequence[float] = ()
    """The time of each node, by which they are drawn; by default only chains count."""


def places(diagram: Diagram) -> list[int]:
    """Return each node's column: the longest chain that leads to it.

    If the log has a cycle, the events that are left come last, in the given order. With times,
    what happened at one time comes after all that happened before.
    """
    column = _chains(diagram)
    if not diagram.times:
        return column
    start = 0
    order = sorted(range(len(column)), key=lambda i: (diagram.times[i], column[i]))
    for _, some in groupby(order, key=lambda i: diagram.times[i]):
        group = list(some)
        ranks = {c: rank for rank, c in enumerate(sorted({column[i] for i in group}))}
        for i in group:
            column[i] = start + ranks[column[i]]
        start += len(ranks)
    return column


def _chains(diagram: Diagram) -> list[int]:
    before: list[list[int]] = [[] for _ in diagram.nodes]
    after: list[list[int]] = [[] for _ in diagram.nodes]
    last: dict[str, int] = {}
    for i, node in enumerate(diagram.nodes):
        if node.process in last:
            after[last[node.process]].append(i)
            before[i].append(last[node.process])
        last[node.process] = i
    for arrow in diagram.arrows:
        after[arrow.source].append(arrow.target)
        before[arrow.target].append(arrow.source)
    column = [-1] * len(before)
    waiting = [len(sources) for sources in before]
    ready = [i for i, count in enumerate(waiting) if not count]
    while ready or -1 in column:
        if not ready:
            ready.append(column.index(-1))
        i = ready.pop()
        if column[i] >= 0:
            continue
        gap = 1 if diagram.nodes[i].hidden else 0
        column[i] = gap + max((column[s] + 1 for s in before[i] if column[s] >= 0), default=0)
        for t in after[i]:
            waiting[t] -= 1
            if waiting[t] == 0:
                ready.append(t)
    return column


def _default_lanes(diagram: Diagram) -> list[str]:
    names = dict.fromkeys(node.process for node in diagram.nodes)
    ends = (end for arrow in diagram.arrows for end in (arrow.source, arrow.target))
    talking = {diagram.nodes[end].process for end in ends}
    return sorted(names, key=lambda name: name not in talking)


@dataclass(frozen=True)
class _Layout:
    """Where everything is: the picture's size, nodes and labels."""

    left: int
    top: int
    width: int
    height: int
    spots: Sequence[tuple[int, int]]
    labels: Mapping[int, Point]
    """The places of labels, by the numbers of their arrows."""
    step: int


def _layout(diagram: Diagram, lanes: Sequence[str], column: Sequence[int], step: int) -> _Layout:
    row = {name: number for number, name in enumerate(lanes)}
    top = TOP + TICKS * bool(diagram.times)
    left = LETTER * max((min(len(name), NAME_MAX) for name in lanes), default=0) + 24
    width = left + step * (max(column, default=0) + 2)
    height = top + LANE * len(lanes)
    spots = [
        (left + step * (c + 1), top + LANE * row[node.process])
        for c, node in zip(column, diagram.nodes, strict=True)
    ]
    covered = [Box(x - 7, y - 7, x + 7, y + 7) for x, y in spots]
    covered += [
        Box(x - step - 10, y - 13, x - step + 10, y + 10)
        for node, (x, y) in zip(diagram.nodes, spots, strict=True)
        if node.hidden
    ]
    named = [k for k in reversed(_ranked(diagram)) if diagram.arrows[k].label]
    wanted = [
        Wanted(_short(a.label, LABEL_MAX), spots[a.source], spots[a.target], a.mark == "late")
        for a in (diagram.arrows[k] for k in named)
    ]
    lines = [(spots[a.source], spots[a.target]) for a in diagram.arrows if a.mark != "plain"]
    found = place_labels(wanted, covered, Box(left, top - TOP, width, height), lines)
    labels = {k: place for k, place in zip(named, found, strict=True) if place is not None}
    return _Layout(left, top, width, height, spots, labels, step)


def _ranked(diagram: Diagram) -> list[int]:
    """Return the arrows in the order in which they are painted: what matters most comes last."""
    order = ("order", "plain", "chain", "asked", "early", "late")
    arrows = diagram.arrows
    return sorted(range(len(arrows)), key=lambda k: order.index(arrows[k].mark))


def draw(diagram: Diagram) -> str:
    """Return the diagram as markup; add :func:`behaviour` once to the page."""
    lanes = list(diagram.lanes) or _default_lanes(diagram)
    column = places(diagram)
    named = sum(bool(arrow.label) for arrow in diagram.arrows)
    layout = _layout(diagram, lanes, column, STEPS[0])
    for step in STEPS[1:]:
        if len(layout.labels) < named:
            layout = _layout(diagram, lanes, column, step)
    parts = [
        _lane(name, (layout.left, layout.width), layout.top + LANE * number)
        for number, name in enumerate(lanes)
    ]
    spots, height = layout.spots, layout.height
    for k in _ranked(diagram):
        arrow = diagram.arrows[k]
        ends = spots[arrow.source], spots[arrow.target]
        parts.append(_arrow(arrow, *ends, layout.labels.get(k)))
    for node, (x, y) in zip(diagram.nodes, spots, strict=True):
        if node.hidden:
            parts.append(_gap(node, x - layout.step, y))
        parts.append(_dot(node, x, y))
    if diagram.times:
        parts += _ticks(diagram, layout)
    used = [mark for mark in MARKS if any(arrow.mark == mark for arrow in diagram.arrows)]
    words = {**MARKS, "plain": "messages"} if set(used) <= {"plain", "order"} else MARKS
    legend = "".join(f'<span class="st-key st-{mark}">{words[mark]}</span>' for mark in used)
    title, width = escape(diagram.title), layout.width
    return (
        f'<figure class="st" role="group" aria-label="{title}"><div class="st-bar">'
        '<button type="button" data-zoom="0.8" aria-label="zoom in">+</button>'
        '<button type="button" data-zoom="1.25" aria-label="zoom out">\N{MINUS SIGN}</button>'
        '<button type="button" data-zoom="0" aria-label="show all">all</button>'
        f'<span class="st-legend">{legend}</span></div>'
        f'<div class="st-view"><svg viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{title}">{"".join(parts)}</svg></div>'
        '<output class="st-tip" aria-live="polite">Point at an event or a message.</output>'
        "</figure>"
    )


def _ticks(diagram: Diagram, layout: _Layout) -> list[str]:
    """Return the times above the lines, as seconds after the first, as many as there is room."""
    first = min(diagram.times)
    at: dict[float, int] = {}
    for time, (x, _) in zip(diagram.times, layout.spots, strict=True):
        at[time] = min(x, at.get(time, x))
    parts, free = [], 0.0
    for time, x in sorted(at.items()):
        text = f"{time - first:,.6f}".rstrip("0").rstrip(".") + " s"
        half = LABEL_LETTER * len(text) / 2
        if x - half >= free and x + half <= layout.width:
            parts.append(f'<text class="st-tick" x="{x}" y="{TICKS - 6}">{text}</text>')
            free = x + half + LABEL_LETTER
    return parts


def _short(name: str, most: int) -> str:
    if len(name) <= most:
        return name
    return f"{name[: most // 3]}\N{HORIZONTAL ELLIPSIS}{name[most // 3 + 1 - most :]}"


def _lane(name: str, span: tuple[int, int], y: int) -> str:
    left, right = span
    short = _short(name, NAME_MAX)
    return (
        f'<line class="st-lane" x1="{left - 8}" y1="{y}" x2="{right - 6}" y2="{y}"/>'
        f'<text class="st-name" x="{left - 14}" y="{y + 4}"><title>{escape(name)}</title>'
        f"{escape(short)}</text>"
    )


def _dot(node: Node, x: int, y: int) -> str:
    shape = (
        f'<circle cx="{x}" cy="{y}" r="5"/>'
        if node.kind != "local"
        else f'<rect x="{x - 3.5}" y="{y - 3.5}" width="7" height="7"/>'
    )
    tip = f'tabindex="0" data-tip="{escape(node.tip)}"'
    return f'<g class="st-event st-{escape(node.kind)}" {tip}>{shape}</g>'


def _gap(node: Node, x: int, y: int) -> str:
    tip = f"{node.hidden:,} events of {node.process} are not shown here"
    return (
        f'<g class="st-gap" data-tip="{escape(tip)}"><rect x="{x - 9}" y="{y - 8}" width="18" '
        f'height="16"/><text x="{x}" y="{y + 4}">\N{HORIZONTAL ELLIPSIS}</text></g>'
    )


def _arrow(arrow: Arrow, start: tuple[int, int], end: tuple[int, int], place: Point | None) -> str:
    (x1, y1), (x2, y2) = start, end
    if y1 == y2:
        # A message to the same process is drawn as an arc above its line.
        middle = (x1 + x2) / 2
        path = f"M{x1} {y1} Q{middle} {y1 - 34} {x2} {y2 - 5}"
    else:
        length = max(1.0, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
        tip_x, tip_y = x2 - 8 * (x2 - x1) / length, y2 - 8 * (y2 - y1) / length
        path = f"M{x1} {y1} L{tip_x:.1f} {tip_y:.1f}"
    text = ""
    if place is not None:
        label = escape(_short(arrow.label, LABEL_MAX))
        text = f'<text class="st-label" x="{place[0]:.1f}" y="{place[1]:.1f}">{label}</text>'
    return (
        f'<g class="st-message st-{arrow.mark}" tabindex="0" data-tip="{escape(arrow.tip)}">'
        f'<path class="st-wide" d="{path}"/><path d="{path}" marker-end="url(#st-{arrow.mark})"/>'
        f"{text}</g>"
    )


_COLOURS: Mapping[str, str] = {
    "late": "#D55E00",
    "early": "#0072B2",
    "chain": "#009E73",
    "asked": "#A0457E",
    "order": "#7a8691",
    "plain": "#9aa4ad",
}

_STYLE = """
.st{margin:1rem 0;border:1px solid #d5dae0;border-radius:6px;overflow:hidden;background:#fff}
.st-bar{display:flex;flex-wrap:wrap;gap:.4rem .5rem;align-items:center;padding:.4rem .6rem;
border-bottom:1px solid #e6e9ed;background:#f7f8fa}
.st-bar button{min-width:2.1rem;min-height:2.1rem;border:1px solid #c3cad2;border-radius:4px;
background:#fff;font:inherit;cursor:pointer}
.st-legend{display:flex;flex-wrap:wrap;gap:.2rem .9rem;font-size:.85rem}
.st-key::before{content:"";display:inline-block;width:1.4rem;height:0;margin-right:.35rem;
vertical-align:middle;border-top:3px solid}
.st-view{overflow:auto;max-height:32rem;touch-action:pan-x pan-y pinch-zoom}
.st-view svg{display:block}
.st-lane{stroke:#c3cad2;stroke-width:1.5}
.st-name{font:13px system-ui,sans-serif;text-anchor:end;fill:#1b1f24}
.st-event circle,.st-event rect{fill:#fff;stroke:#1b1f24;stroke-width:1.6}
.st-event.st-send circle{fill:#1b1f24}
.st-event:hover circle,.st-event:focus circle,.st-event:hover rect,.st-event:focus rect
{stroke:#D55E00;stroke-width:3}
.st-event:focus,.st-message:focus{outline:none}
.st-message path{fill:none;stroke-width:1.4}
.st-message .st-wide{stroke:transparent;stroke-width:13;pointer-events:stroke}
.st-message:hover path:not(.st-wide),.st-message:focus path:not(.st-wide){stroke-width:4}
.st-late path,.st-early path,.st-chain path,.st-asked path{stroke-width:2.8}
.st-chain path:not(.st-wide){stroke-dasharray:7 4}
.st-order path:not(.st-wide){stroke-dasharray:2 3}
.st-key.st-chain::before{border-top-style:dashed}.st-key.st-order::before{border-top-style:dotted}
.st-label{font:12px system-ui,sans-serif;text-anchor:middle;paint-order:stroke;stroke:#fff;
stroke-width:4px}
.st-tick{font:12px system-ui,sans-serif;text-anchor:middle;fill:#5c6670}
.st-gap rect{fill:#fff}.st-gap text{text-anchor:middle;fill:#5c6670}
.st-tip{display:block;padding:.45rem .7rem;border-top:1px solid #e6e9ed;font-size:.9rem;
min-height:2.2rem;background:#f7f8fa;overflow-wrap:anywhere}
"""

_SCRIPT = """
document.querySelectorAll('figure.st:not([data-live])').forEach(function (figure) {
  figure.dataset.live = '';
  var svg = figure.querySelector('svg'), tip = figure.querySelector('.st-tip');
  var width = svg.viewBox.baseVal.width, height = svg.viewBox.baseVal.height, scale = 1;
  function zoom(factor) {
    scale = factor ? Math.min(4, Math.max(0.2, scale / factor))
      : Math.min(1, figure.querySelector('.st-view').clientWidth / width);
    svg.setAttribute('width', width * scale);
    svg.setAttribute('height', height * scale);
  }
  figure.querySelectorAll('button').forEach(function (button) {
    button.addEventListener('click', function () { zoom(Number(button.dataset.zoom)); });
  });
  figure.querySelector('.st-view').addEventListener('wheel', function (event) {
    if (!event.ctrlKey) { return; }
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.15 : 0.87);
  }, {passive: false});
  figure.querySelectorAll('[data-tip]').forEach(function (part) {
    function show() { tip.textContent = part.dataset.tip; }
    part.addEventListener('mouseenter', show);
    part.addEventListener('focus', show);
    part.addEventListener('click', show);
  });
});
"""


def behaviour() -> str:
    """Return the styles, arrow heads and script that the diagrams of a page share."""
    heads = "".join(
        f'<marker id="st-{mark}" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="9" '
        f'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0 L10 5 L0 10 z" fill="{colour}"/></marker>'
        for mark, colour in _COLOURS.items()
    )
    colours = "".join(
        f".st-message.st-{mark} path:not(.st-wide){{stroke:{colour}}}"
        f".st-message.st-{mark} text{{fill:{colour}}}"
        f".st-key.st-{mark}::before{{border-color:{colour}}}"
        for mark, colour in _COLOURS.items()
    )
    return (
        f"<style>{_STYLE}{colours}</style>"
        '<svg width="0" height="0" style="position:absolute" aria-hidden="true">'
        f"<defs>{heads}</defs></svg>"
        f"<script>(function(){{function live(){{{_SCRIPT}}}if(document.readyState==='loading')"
        "{addEventListener('DOMContentLoaded',live)}else{live()}})()</script>"
    )
