"""Space-time diagrams: processes as lines, messages as arrows, time from left to right.

An event's place on its line is the length of the longest chain that leads to it, so arrows always
point to the right and clocks need not be trusted. If times are given, no event is left of an
earlier one, and ticks show the times. The picture is plain SVG; a short script adds zooming and the
details of what is pointed at or focused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise

from antecede.report.labels import (
    LABEL_MAX,
    Box,
    Point,
    Wanted,
    on_curve,
    place_labels,
)
from antecede.report.labels import (
    LETTER as LABEL_LETTER,
)
from antecede.report.numbers import unit_of

LANE, TOP = 54, 34
#: Widths of a column; the narrowest in which all labels find room is used.
STEPS = (34, 51, 76, 114)
TICKS = 24  # height of the axis of times
NAME_MAX, LETTER = 22, 8  # letters of a process's name, and the width of one
#: The least width of a diagram, and the greatest of a column stretched to reach it.
WIDTH, STEP_MAX = 760, 130
#: How far an arrow stays from events that it does not touch, and how far it may bend for that.
CLEAR = 11.0
BENDS = (0, 26, -26, 44, -44, 70, -70, 100, -100, 140, -140)
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
    """What to draw; the nodes of each process are in order."""

    title: str
    nodes: Sequence[Node]
    arrows: Sequence[Arrow]
    lanes: Sequence[str] = ()
    """Processes from top to bottom; by default those that exchange messages first."""
    times: Sequence[float] = ()
    """The time of each node, for its place; by default only chains count."""


def places(diagram: Diagram) -> list[int]:
    """Return each node's column: the longest chain that leads to it.

    If the log has a cycle, the events on or behind it come last, in the given order. With times, an
    event comes after all events of earlier times.
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
    """The places of labels, by arrow number."""
    bends: Sequence[Point | None]
    """The control points of curved arrows."""
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
    view = Box(left, top - TOP, width, height)
    bends = [_bend(spots, arrow, view) for arrow in diagram.arrows]
    wanted = [
        Wanted(_short(a.label, LABEL_MAX), spots[a.source], spots[a.target], a.mark == "late", bend)
        for a, bend in ((diagram.arrows[k], bends[k]) for k in named)
    ]
    lines = [
        piece
        for a, bend in zip(diagram.arrows, bends, strict=True)
        if a.mark != "plain"
        for piece in _pieces(spots[a.source], bend, spots[a.target])
    ]
    found = place_labels(wanted, covered, view, lines)
    labels = {k: place for k, place in zip(named, found, strict=True) if place is not None}
    return _Layout(left, top, width, height, spots, labels, bends, step)


def _bend(spots: Sequence[tuple[int, int]], arrow: Arrow, view: Box) -> Point | None:
    """Return the control point by which an arrow avoids all other events; None if it is straight.

    A message to the same process is an arc above its line.
    """
    start, end = spots[arrow.source], spots[arrow.target]
    middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    if start[1] == end[1]:
        return middle[0], middle[1] - 34
    low, high = sorted((start[1], end[1]))
    # Only events on the lines in between can be in the way.
    others = [
        spot
        for spot in dict.fromkeys(spots)
        if low <= spot[1] <= high and start[0] <= spot[0] <= end[0] and spot not in {start, end}
    ]
    length = max(1.0, math.dist(start, end))
    across = (start[1] - end[1]) / length, (end[0] - start[0]) / length
    best: tuple[float, Point | None] | None = None
    for size in BENDS if others else ():
        bend = (middle[0] + size * across[0], middle[1] + size * across[1]) if size else None
        points = [on_curve(start, bend, end, k / 24) for k in range(1, 24)]
        if not all(
            view.left <= x <= view.right and view.top <= y <= view.bottom for x, y in points
        ):
            continue
        room = min(math.dist(point, spot) for point in points for spot in others)
        if room >= CLEAR:
            return bend
        if best is None or room > best[0]:
            best = room, bend
    return best[1] if best else None


def _pieces(start: Point, bend: Point | None, end: Point) -> list[tuple[Point, Point]]:
    """Return the straight lines that approximate an arrow."""
    if bend is None:
        return [(start, end)]
    points = [on_curve(start, bend, end, k / 8) for k in range(9)]
    return list(pairwise(points))


def _ranked(diagram: Diagram) -> list[int]:
    """Return the arrows in painting order: the most important come last."""
    order = ("order", "plain", "chain", "asked", "early", "late")
    arrows = diagram.arrows
    return sorted(range(len(arrows)), key=lambda k: order.index(arrows[k].mark))


def draw(diagram: Diagram) -> str:
    """Return the diagram as markup; the page needs :func:`behaviour` once."""
    lanes = list(diagram.lanes) or _default_lanes(diagram)
    column = places(diagram)
    named = sum(bool(arrow.label) for arrow in diagram.arrows)
    first = (WIDTH - LETTER * NAME_MAX) // (max(column, default=0) + 2)
    first = min(STEP_MAX, max(STEPS[0], first))
    layout = _layout(diagram, lanes, column, first)
    for step in (step for step in STEPS if step > first):
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
        parts.append(_arrow(arrow, ends, layout.bends[k], layout.labels.get(k)))
    for node, (x, y) in zip(diagram.nodes, spots, strict=True):
        if node.hidden:
            parts.append(_gap(node, x - layout.step, y))
        parts.append(_dot(node, x, y))
    if diagram.times:
        parts += _ticks(diagram, layout)
    used = [mark for mark in MARKS if any(arrow.mark == mark for arrow in diagram.arrows)]
    words = {**MARKS, "plain": "messages"} if set(used) <= {"plain", "order"} else MARKS
    legend = "".join(f'<span class="st-key st-{mark}">{words[mark]}</span>' for mark in used)
    legend += _legend_of_events(diagram)
    title, width = escape(diagram.title), layout.width
    return (
        f'<figure class="st" role="group" aria-label="{title}"><div class="st-bar">'
        '<button type="button" data-zoom="0.8" aria-label="zoom in">+</button>'
        '<button type="button" data-zoom="1.25" aria-label="zoom out">\N{MINUS SIGN}</button>'
        '<button type="button" data-zoom="0" aria-label="show all">all</button>'
        f'<span class="st-legend">{legend}</span></div>'
        f'<div class="st-view"><svg viewBox="0 0 {width} {height}" width="{width}" '
        f'style="max-width:{1.5 * width:.0f}px;min-width:{0.75 * width:.0f}px" '
        f'role="img" aria-label="{title}">{"".join(parts)}</svg></div>'
        '<output class="st-tip" aria-live="polite">Point at an event or a message.</output>'
        "</figure>"
    )


def _legend_of_events(diagram: Diagram) -> str:
    """Return the legend for the marks of events that are used."""
    words = {"send": "sends", "deliver": "delivers", "local": "does something else"}
    kinds = [kind for kind in words if any(node.kind == kind for node in diagram.nodes)]
    found = [
        f'<span><svg width="14" height="14">{_dot(Node("", 0, kind, ""), 7, 7, tip=False)}</svg> '
        f"{words[kind]}</span>"
        for kind in kinds
    ]
    if any(node.hidden for node in diagram.nodes):
        found.append("<span>\N{HORIZONTAL ELLIPSIS} events left out</span>")
    return "".join(found)


def _ticks(diagram: Diagram, layout: _Layout) -> list[str]:
    """Return times above the lines, as seconds after the first, as many as fit."""
    first = min(diagram.times)
    name, size = unit_of(max(diagram.times) - first)
    at: dict[float, int] = {}
    for time, (x, _) in zip(diagram.times, layout.spots, strict=True):
        at[time] = min(x, at.get(time, x))
    parts, free = [], 0.0
    for time, x in sorted(at.items()):
        text = f"{(time - first) / size:,.3f}".rstrip("0").rstrip(".") + f" {name}"
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


def _dot(node: Node, x: int, y: int, *, tip: bool = True) -> str:
    shape = (
        f'<circle cx="{x}" cy="{y}" r="5"/>'
        if node.kind != "local"
        else f'<rect x="{x - 3.5}" y="{y - 3.5}" width="7" height="7"/>'
    )
    told = f' tabindex="0" data-tip="{escape(node.tip)}"' if tip else ""
    return f'<g class="st-{"event" if tip else "sign"} st-{escape(node.kind)}"{told}>{shape}</g>'


def _gap(node: Node, x: int, y: int) -> str:
    tip = f"{node.hidden:,} events of {node.process} are not shown here"
    return (
        f'<g class="st-gap" data-tip="{escape(tip)}"><rect x="{x - 9}" y="{y - 8}" width="18" '
        f'height="16"/><text x="{x}" y="{y + 4}">\N{HORIZONTAL ELLIPSIS}</text></g>'
    )


def _arrow(
    arrow: Arrow,
    ends: tuple[tuple[int, int], tuple[int, int]],
    bend: Point | None,
    place: Point | None,
) -> str:
    (x1, y1), (x2, y2) = ends
    from_x, from_y = bend or (x1, y1)
    length = max(1.0, math.dist((from_x, from_y), (x2, y2)))
    tip_x, tip_y = x2 - 8 * (x2 - from_x) / length, y2 - 8 * (y2 - from_y) / length
    way = "L" if bend is None else f"Q{from_x:.1f} {from_y:.1f} "
    path = f"M{x1} {y1} {way}{tip_x:.1f} {tip_y:.1f}"
    text = ""
    if place is not None:
        label = escape(_short(arrow.label, LABEL_MAX))
        text = f'<text class="st-label" x="{place[0]:.1f}" y="{place[1]:.1f}">{label}</text>'
    return (
        f'<g class="st-message st-{arrow.mark}" tabindex="0" data-tip="{escape(arrow.tip)}">'
        f'<path class="st-wide" d="{path}"/><path d="{path}" marker-end="url(#st-{arrow.mark})"/>'
        f"{text}</g>"
    )


_COLOURS: Mapping[str, tuple[str, str]] = {
    "late": ("#D55E00", "#ff8f4a"),
    "early": ("#0072B2", "#5cb0ea"),
    "chain": ("#009E73", "#35c79b"),
    "asked": ("#A0457E", "#dc8fc2"),
    "order": ("#7a8691", "#8f9ba7"),
    "plain": ("#9aa4ad", "#78838e"),
    "ink": ("#1b1f24", "#e6edf3"),
    "soft": ("#5c6670", "#9da7b3"),
    "line": ("#d5dae0", "#3a424c"),
    "paper": ("#fff", "#0f1318"),
    "wash": ("#f7f8fa", "#1c2129"),
}
"""Each colour on a light page and on a dark one."""
_MARKS = ("late", "early", "chain", "asked", "order", "plain")

_STYLE = """
.st{margin:1rem 0;border:1px solid var(--st-line);border-radius:6px;overflow:hidden;
background:var(--st-paper);color:var(--st-ink)}
.st-bar{display:flex;flex-wrap:wrap;gap:.4rem .5rem;align-items:center;padding:.4rem .6rem;
border-bottom:1px solid var(--st-line);background:var(--st-wash)}
.st-bar button{min-width:2.1rem;min-height:2.1rem;border:1px solid var(--st-line);border-radius:4px;
background:var(--st-paper);color:inherit;font:inherit;cursor:pointer}
.st-legend{display:flex;flex-wrap:wrap;gap:.2rem .9rem;font-size:.85rem}
.st-key::before{content:"";display:inline-block;width:1.4rem;height:0;margin-right:.35rem;
vertical-align:middle;border-top:3px solid}
.st-view{overflow:auto;max-height:32rem;touch-action:pan-x pan-y pinch-zoom}
.st-view>svg{display:block;width:100%;height:auto}
.st-lane{stroke:var(--st-line);stroke-width:1.5}
.st-name{font:13px system-ui,sans-serif;text-anchor:end;fill:var(--st-ink)}
.st-event circle,.st-event rect,.st-sign circle,.st-sign rect
{fill:var(--st-paper);stroke:var(--st-ink);stroke-width:1.6}
.st-event.st-send circle,.st-sign.st-send circle{fill:var(--st-ink)}
.st-event:hover circle,.st-event:focus circle,.st-event:hover rect,.st-event:focus rect
{stroke:var(--st-late);stroke-width:3}
.st-event:focus,.st-message:focus{outline:none}
.st-message path{fill:none;stroke-width:1.4}
.st-message .st-wide{stroke:transparent;stroke-width:13;pointer-events:stroke}
.st-message:hover path:not(.st-wide),.st-message:focus path:not(.st-wide){stroke-width:4}
.st-late path,.st-early path,.st-chain path,.st-asked path{stroke-width:2.8}
.st-chain path:not(.st-wide){stroke-dasharray:7 4}
.st-order path:not(.st-wide){stroke-dasharray:2 3}
.st-key.st-chain::before{border-top-style:dashed}.st-key.st-order::before{border-top-style:dotted}
.st-label{font:12px system-ui,sans-serif;text-anchor:middle;paint-order:stroke;
stroke:var(--st-paper);stroke-width:4px}
.st-tick{font:12px system-ui,sans-serif;text-anchor:middle;fill:var(--st-soft)}
.st-gap rect{fill:var(--st-paper)}.st-gap text{text-anchor:middle;fill:var(--st-soft)}
.st-tip{display:block;padding:.45rem .7rem;border-top:1px solid var(--st-line);font-size:.9rem;
min-height:2.2rem;background:var(--st-wash);overflow-wrap:anywhere}
"""

_SCRIPT = """
document.querySelectorAll('figure.st:not([data-live])').forEach(function (figure) {
  figure.dataset.live = '';
  var view = figure.querySelector('.st-view'), svg = view.querySelector('svg');
  var tip = figure.querySelector('.st-tip'), width = svg.viewBox.baseVal.width;
  function zoom(factor) {
    var now = svg.getBoundingClientRect().width / width;
    var scale = factor ? Math.min(4, Math.max(0.2, now / factor)) : view.clientWidth / width;
    svg.style.minWidth = svg.style.maxWidth = svg.style.width = width * scale + 'px';
  }
  figure.querySelectorAll('button').forEach(function (button) {
    button.addEventListener('click', function () { zoom(Number(button.dataset.zoom)); });
  });
  view.addEventListener('wheel', function (event) {
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
        f'<path d="M0 0 L10 5 L0 10 z" style="fill:var(--st-{mark})"/></marker>'
        for mark in _MARKS
    )
    light, dark = (
        "".join(f"--st-{name}:{pair[is_dark]};" for name, pair in _COLOURS.items())
        for is_dark in (False, True)
    )
    colours = f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    colours += "".join(
        f".st-message.st-{mark} path:not(.st-wide){{stroke:var(--st-{mark})}}"
        f".st-message.st-{mark} text{{fill:var(--st-{mark})}}"
        f".st-key.st-{mark}::before{{border-color:var(--st-{mark})}}"
        for mark in _MARKS
    )
    return (
        f"<style>{_STYLE}{colours}</style>"
        '<svg width="0" height="0" style="position:absolute" aria-hidden="true">'
        f"<defs>{heads}</defs></svg>"
        f"<script>(function(){{function live(){{{_SCRIPT}}}if(document.readyState==='loading')"
        "{addEventListener('DOMContentLoaded',live)}else{live()}})()</script>"
    )
