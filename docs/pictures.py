"""Pictures for the docs, drawn from the code: who imports whom, and when a fact may be dropped."""

from __future__ import annotations

import ast
import re
import tomllib
from html import escape
from pathlib import Path

from antecede.check import World

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "antecede"
INK, GREY, BLUE, PALE = "#1b1f24", "#8c959f", "#3c6eb4", "#eaf0f8"
Place = tuple[float, float]
#: Where events stand: no line may run through the mark of another event.
STEPS = ((80, 140, 275, 385, 465), (80, 155, 245, 345, 455))


def pictures() -> dict[Path, str]:
    """Return every picture by its file."""
    folder = Path(__file__).parent / "figures"
    return {folder / "imports.svg": imports(), folder / "necessary.svg": necessary()}


def imports() -> str:
    """Return the layers, with an arrow for each package that imports another."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c["layers"] for c in linter["contracts"] if c["type"] == "layers")
    rows = [re.findall(r"\((\w+)\)", layer) for layer in layers]
    row, width, left = 52, 120, 300
    middle: dict[str, Place] = {}
    for number, names in enumerate(rows):
        for at, name in enumerate(names):
            middle[name] = (left + (at - (len(names) - 1) / 2) * (width + 40), 30 + number * row)
    edges = sorted((a, b) for a in middle for b in imported_by(a) & set(middle))
    parts = [arrow(middle[a], middle[b], row) for a, b in edges]
    for name, (x, y) in middle.items():
        parts.append(
            f'<rect x="{x - width / 2:g}" y="{y - 15:g}" width="{width}" height="30" rx="6" '
            f'fill="{PALE}" stroke="{BLUE}"/>'
        )
        parts.append(text((x, y + 5), name, size=15))
    return svg(2 * left, 30 + len(rows) * row, parts)


def imported_by(package: str) -> set[str]:
    """Return the packages of antecede that the modules of a package import."""
    folder = SOURCE / package
    files = folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]
    found = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            found |= {name.split(".")[1] for name in names if name.startswith("antecede.")}
    return found - {package}


def arrow(start: Place, end: Place, row: float) -> str:
    """Draw an import; one that passes other layers takes a curve around them."""
    layers = round((end[1] - start[1]) / row)
    side = -1 if layers % 2 else 1
    bend = 0 if layers == 1 else side * (60 + 24 * layers)
    begin, stop = (start[0] + bend / 6, start[1] + 15), (end[0] + bend / 6, end[1] - 17)
    control = (begin[0] + stop[0]) / 2 + bend, (begin[1] + stop[1]) / 2
    return (
        f'<path d="M {begin[0]:.0f} {begin[1]:.0f} Q {control[0]:.0f} {control[1]:.0f} '
        f'{stop[0]:.0f} {stop[1]:.0f}" fill="none" stroke="{GREY}" marker-end="url(#tip)"/>'
    )


def necessary() -> str:
    """Return two small histories under ``optimal``, with what a process keeps after each event."""
    height = 255
    parts: list[str] = []
    titles = ("1. c has delivered m1, and b hears of it", "2. m2 goes to c and carries the fact")
    stories = (
        [("send", "a", "bc"), ("at", "a", "b"), ("at", "a", "c"), ("send", "c", "b"),
         ("at", "c", "b")],
        [("send", "a", "bc"), ("at", "a", "b"), ("send", "b", "c"), ("at", "b", "c"),
         ("at", "a", "c")],
    )  # fmt: skip
    for number, (title, story) in enumerate(zip(titles, stories, strict=True)):
        parts += panel(number * height, title, story, STEPS[number])
    return svg(520, 2 * height, parts)


def panel(
    top: float, title: str, story: list[tuple[str, str, str]], steps: tuple[int, ...]
) -> list[str]:
    """Draw one history; a held message is delivered at a later arrival."""
    world = World("optimal", ["a", "b", "c"])
    line = {name: top + 80 + 70 * number for number, name in enumerate("abc")}
    parts = [text((14, top + 28), title, anchor="start", size=15)]
    for name, y in line.items():
        parts += [text((14, y + 5), name, anchor="start", size=15)]
        parts.append(stroke((34, y), (505, y), GREY))
    begun: dict[tuple[str, str], tuple[Place, str]] = {}
    names: dict[object, str] = {}
    marks = []
    for at, (kind, process, others) in enumerate(story):
        where = process if kind == "send" else others
        here = (steps[at], line[where])
        before = len(world.history.events)
        if kind == "send":
            message = world.send(process, list(others))
            names[message] = f"m{len(names) + 1}"
            begun |= {(process, dest): (here, names[message]) for dest in others}
            told = f"sends {names[message]}"
        else:
            parts.append(stroke(begun[process, others][0], here, BLUE))
            world.arrive_packet(process, others)
            seen = [names[event.message] for event in world.history.events[before:]]
            told = f"delivers {', '.join(seen)}" if seen else f"holds {begun[process, others][1]}"
        kept = world.endpoints[where].dependencies().items()
        facts = ", ".join(f"{names[m]} to {', '.join(sorted(d))}" for m, d in kept if d)
        marks.append(f'<circle cx="{here[0]:g}" cy="{here[1]:g}" r="5" fill="{BLUE}"/>')
        marks.append(text((here[0], here[1] - 11), told))
        marks.append(text((here[0], here[1] + 20), f"keeps {facts or 'nothing'}", colour=BLUE))
    return parts + marks


def svg(width: float, height: float, parts: list[str]) -> str:
    """Return a picture."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="system-ui, sans-serif">'
    )
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M 0 0 L 8 4 L 0 8 z" fill="{GREY}"/></marker>'
        f'</defs><rect width="{width:g}" height="{height:g}" fill="#fff"/>'
    )
    return "\n".join([head, tip, *parts, "</svg>"]) + "\n"


def stroke(start: Place, end: Place, colour: str) -> str:
    """Draw a line."""
    return (
        f'<line x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}" '
        f'stroke="{colour}" stroke-width="1.5"/>'
    )


def text(
    at: Place, words: str, *, colour: str = INK, anchor: str = "middle", size: int = 12
) -> str:
    """Draw words that lines cannot cross out."""
    return (
        f'<text x="{at[0]:g}" y="{at[1]:g}" fill="{colour}" font-size="{size}" '
        f'text-anchor="{anchor}" paint-order="stroke" stroke="#fff" stroke-width="3">'
        f"{escape(words)}</text>"
    )
