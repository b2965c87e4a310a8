"""The picture of the README: two outcomes of the playground's first play."""

from __future__ import annotations

from html import escape
from typing import Any

from antecede.check.plays import UNORDERED, every_way
from antecede.report.playground import PLAYS

LEFT, COLUMN, ROW, TOP, WIDTH, HEIGHT = 52, 58, 62, 66, 460, 236
BLUE, RED, AMBER, GREY = "#3c6eb4", "#b3261e", "#e0a100", "#8c959f"


def overtaken() -> str:
    """Return one SVG: a reply that overtakes its question, and the same under ``optimal``."""
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" '
            f'width="{2 * WIDTH}" height="{HEIGHT}" font-family="system-ui, sans-serif" '
            'font-size="14">'
        ),
        f'<rect width="{2 * WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        *_panel(UNORDERED, "Without antecede: the reply comes first", 0, RED),
        *_panel("optimal", "With antecede: it waits for its question", WIDTH, "#0a5c2b"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _events(protocol: str) -> list[list[Any]]:
    play = PLAYS[0]
    ways = every_way(play, protocol).paths()
    return next(events for copies, events, _ in ways if tuple(copies) == play.arrivals)


def _panel(protocol: str, title: str, left: int, colour: str) -> list[str]:
    members = PLAYS[0].members
    row = {member: TOP + number * ROW for number, member in enumerate(members)}
    made = [_text(left + 10, 26, title, colour, anchor="start", weight=600)]
    for member in members:
        made.append(_text(left + 10, row[member] + 5, member, "#1b1f24", anchor="start"))
        made.append(_line((left + LEFT, row[member]), (left + WIDTH - 24, row[member]), GREY, 1.5))
    starts: dict[str, tuple[int, int]] = {}
    held: dict[tuple[str, str], int] = {}
    lines, marks = list[str](), list[str]()
    at, last = -1, list[Any]()
    for event in _events(protocol):
        kind, process = event[0], event[1]
        at_once = kind == "deliver" and last[:1] == ["arrive"] and last[3] == event[2]
        last = event
        if at_once:
            continue
        at += 1
        x, y = left + LEFT + 28 + at * COLUMN, row[process]
        if kind == "send":
            starts.update({copy[0]: (x, y) for copy in event[3]})
            marks += [_square(x, y), _text(x, y - 13, event[2], "#1b1f24")]
        elif kind == "arrive":
            waits = event[4] is not None
            late = protocol == UNORDERED and event[2] == "lunch? to Cy"
            lines.append(_flight(starts[event[2]], (x, y), RED if late else BLUE))
            marks += [_circle(x, y, is_held=waits), _text(x, y + 25, event[3], "#1b1f24")]
            if waits:
                held[process, event[3]] = x
        else:
            lines.append(_line((held[process, event[2]], y), (x, y), AMBER, 9))
            marks += [_square(x, y), _text(x, y + 25, event[2], "#1b1f24")]
    return made + lines + marks


def _text(
    x: int, y: int, text: str, colour: str, *, anchor: str = "middle", weight: int = 400
) -> str:
    return (
        f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}" '
        f'paint-order="stroke" stroke="#fff" stroke-width="3">{escape(text)}</text>'
    )


def _line(start: tuple[int, int], end: tuple[int, int], colour: str, width: float) -> str:
    return (
        f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" '
        f'stroke="{colour}" stroke-width="{width}"/>'
    )


def _flight(start: tuple[int, int], end: tuple[int, int], colour: str) -> str:
    """Draw a message, as a curve if it would cross the marks of other processes."""
    bend = 24 if abs(end[1] - start[1]) > ROW else 0
    middle = (start[0] + end[0]) // 2 + bend, (start[1] + end[1]) // 2 - bend // 2
    return (
        f'<path d="M {start[0]} {start[1]} Q {middle[0]} {middle[1]} {end[0]} {end[1]}" '
        f'fill="none" stroke="{colour}" stroke-width="2"/>'
    )


def _square(x: int, y: int) -> str:
    return f'<rect x="{x - 5}" y="{y - 5}" width="10" height="10" fill="{BLUE}"/>'


def _circle(x: int, y: int, *, is_held: bool) -> str:
    fill = "#fff" if is_held else BLUE
    return f'<circle cx="{x}" cy="{y}" r="7" fill="{fill}" stroke="{BLUE}" stroke-width="2"/>'
