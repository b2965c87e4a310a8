"""Pictures for the docs, drawn from the code: who imports whom, and small histories."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Sequence
from html import escape
from pathlib import Path

from antecede import NOTHING
from antecede.check import World

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "antecede"
INK, GREY, BLUE, PALE = "#1b1f24", "#8c959f", "#3c6eb4", "#eaf0f8"
RED, AMBER = "#b3261e", "#8a6000"
Place = tuple[float, float]
PANEL = 255
#: The positions of events: no line may run through the mark of another event.
STEPS = ((80, 140, 275, 385, 465), (80, 155, 245, 345, 455))


def pictures() -> dict[Path, str]:
    """Return every picture by its path."""
    folder = ROOT / "docs" / "figures"
    return {
        folder / "imports.svg": imports(),
        folder / "necessary.svg": necessary(),
        folder / "false-causality.svg": false_causality(),
        folder / "lost-chain.svg": lost_chain(),
        folder / "windows.svg": windows(),
    }


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
    """Draw an import; the arrow curves around the layers in between."""
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
    titles = ("1. c has delivered m1, and b hears of it", "2. m2 goes to c and carries the fact")
    stories = (
        [("send", "a", "bc", "m1"), ("at", "a", "b"), ("at", "a", "c"), ("send", "c", "b", "m2"),
         ("at", "c", "b")],
        [("send", "a", "bc", "m1"), ("at", "a", "b"), ("send", "b", "c", "m2"), ("at", "b", "c"),
         ("at", "a", "c")],
    )  # fmt: skip
    parts: list[str] = []
    for number, (title, story) in enumerate(zip(titles, stories, strict=True)):
        world = World("optimal", "abc")
        parts += Panel(world, number * PANEL, title, keeps=True).drawn(story, STEPS[number])
    return svg(520, 2 * PANEL, parts)


def false_causality() -> str:
    """Return one history under two protocols: the second is told that nothing depends on m1."""
    titles = {
        "optimal": "optimal: m2 waits for m1, though it has nothing to do with it",
        "semantic": "semantic, after=NOTHING: m2 need not wait",
    }
    story = [("send", "a", "bc", "m1"), ("at", "a", "b"), ("send", "b", "c", "m2"),
             ("at", "b", "c"), ("at", "a", "c")]  # fmt: skip
    parts: list[str] = []
    for number, (protocol, title) in enumerate(titles.items()):
        world = World(protocol, "abc")
        parts += Panel(world, number * PANEL, title).drawn(story, STEPS[1])
    return svg(520, 2 * PANEL, parts)


def lost_chain() -> str:
    """Return the smallest history in which a skip breaks order under ``optimal``."""
    story = [
        ("send", "d", "bc", "m1"),
        ("send", "d", "r", "y"),
        ("at", "d", "r"),
        ("send", "r", "c", "x"),
        ("send", "r", "b", "z"),
        ("at", "d", "b"),
        ("at", "r", "b"),
        ("send", "b", "c", "m2"),
        ("crash", "r", ""),
        ("at", "b", "c"),
        ("skip", "c", "r"),
        ("at", "d", "c"),
    ]
    steps = (60, 130, 200, 270, 340, 410, 480, 560, 625, 700, 790, 910)
    world = World("optimal", "dbrc", promises=())
    panel = Panel(world, 0, "r fails, and x is lost with it: m2 comes before m1", right=960)
    return svg(975, PANEL + 70, panel.drawn(story, steps))  # fmt: skip


class Panel:
    """One history, drawn while it happens in a world."""

    def __init__(
        self, world: World, top: float, title: str, *, keeps: bool = False, right: float = 505
    ) -> None:
        self.world, self.keeps = world, keeps
        self.line = {name: top + 80 + 70 * at for at, name in enumerate(world.endpoints)}
        self.parts = [text((14, top + 28), title, anchor="start", size=15)]
        for name, y in self.line.items():
            self.parts.append(text((14, y + 5), name, anchor="start", size=15))
            self.parts.append(stroke((34, y), (right, y), GREY))
        self.begun: dict[tuple[str, str], tuple[Place, str]] = {}
        self.names: dict[object, str] = {}

    def drawn(self, story: Sequence[tuple[str, ...]], steps: Sequence[int]) -> list[str]:
        """Carry out each step of a story at its position, and return the drawing."""
        marks = []
        for x, (kind, process, others, *name) in zip(steps, story, strict=True):
            where = others if kind == "at" else process
            here = (x, self.line[where])
            told = getattr(self, f"_{kind}")(here, process, others, *name)
            marks.append(f'<circle cx="{here[0]:g}" cy="{here[1]:g}" r="5" fill="{BLUE}"/>')
            marks.append(text((here[0], here[1] - 11), told))
            if self.keeps:
                kept = self.world.endpoints[where].dependencies().items()
                facts = ", ".join(
                    f"{self.names[m]} to {', '.join(sorted(d))}" for m, d in kept if d
                )
                shown = f"keeps {facts or 'nothing'}"
                marks.append(text((here[0], here[1] + 20), shown, colour=BLUE))
        return self.parts + marks

    def _send(self, here: Place, process: str, others: str, name: str) -> str:
        after = NOTHING if self.world.protocol == "semantic" else None
        self.names[self.world.send(process, list(others), after=after)] = name
        self.begun |= {(process, dest): (here, name) for dest in others}
        return f"sends {name}"

    def _at(self, here: Place, source: str, dest: str) -> str:
        """Let a copy arrive; a held copy is delivered at a later arrival."""
        begin, name = self.begun.pop((source, dest))
        self.parts.append(stroke(begin, here, BLUE))
        before = len(self.world.history.events)
        self.world.arrive_packet(source, dest)
        seen = [self.names[event.message] for event in self.world.history.events[before:]]
        return f"delivers {', '.join(seen)}" if seen else f"holds {name}"

    def _skip(self, _here: Place, process: str, source: str) -> str:
        """Let a process declare another process gone."""
        before = len(self.world.history.events)
        self.world.skip(process, source)
        seen = [self.names[event.message] for event in self.world.history.events[before:]]
        return f"skips {source}, delivers {', '.join(seen)}"

    def _crash(self, _here: Place, process: str, _others: str) -> str:
        """Let a process fail; its copies in transit are lost."""
        self.world.crash(process)
        for (source, dest), (begin, name) in self.begun.items():
            if source == process:
                end = (begin[0] + 60, begin[1] + (self.line[dest] - begin[1]) / 3)
                self.parts.append(stroke(begin, end, RED))
                self.parts.append(text((end[0] + 4, end[1] + 12), f"{name} is lost", colour=RED))
        return "fails"


def windows() -> str:
    """Return a log that two consistent cuts divide into windows, and a cut that is not one."""
    line = {name: 70 + 60 * at for at, name in enumerate("abc")}
    cuts = ({"a": 190, "b": 235, "c": 215}, {"a": 400, "b": 350, "c": 425})
    careless = {"a": 480, "b": 555, "c": 590}
    sent = (
        ("a", 70, "b", 130),
        ("b", 165, "c", 180),
        ("a", 150, "c", 300),
        ("b", 265, "a", 330),
        ("c", 330, "b", 395),
        ("a", 440, "b", 470),
        ("c", 500, "a", 560),
        ("a", 515, "b", 535),
    )
    for cut in cuts:  # no message is sent after a cut and delivered before it
        assert not [m for m in sent if m[3] < cut[m[2]] and m[1] > cut[m[0]]]
    assert [m for m in sent if m[3] < careless[m[2]] and m[1] > careless[m[0]]]
    parts = []
    for name, y in line.items():
        parts += [text((14, y + 5), name, anchor="start", size=15), stroke((34, y), (625, y), GREY)]
    for x, words in ((110, "window 1"), (300, "window 2"), (445, "window 3")):
        parts.append(text((x, 28), words, size=15))
    for cut, colour in ((cuts[0], INK), (cuts[1], INK), (careless, RED)):
        at = [(cut["a"], 38.0), *((cut[name], y) for name, y in line.items()), (cut["c"], 225.0)]
        path = " L ".join(f"{x:g} {y:g}" for x, y in at)
        parts.append(
            f'<path d="M {path}" fill="none" stroke="{colour}" stroke-width="2" '
            'stroke-dasharray="6 4"/>'
        )
    for source, x, dest, end in sent:
        crosses = any(x < cut[source] and end > cut[dest] for cut in cuts)
        backwards = x > careless[source] and end < careless[dest]
        colour = RED if backwards else AMBER if crosses else BLUE
        parts.append(stroke((x, line[source]), (end, line[dest]), colour))
        for mark in ((x, line[source]), (end, line[dest])):
            parts.append(f'<circle cx="{mark[0]}" cy="{mark[1]}" r="5" fill="{colour}"/>')
    parts.append(text((250, 248), "crosses a cut: judged when windows are joined", colour=AMBER))
    parts.append(text((530, 248), "not consistent", colour=RED))
    return svg(640, 262, parts)  # fmt: skip


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
    """Draw words with a margin, so that lines behind them do not cross them out."""
    return (
        f'<text x="{at[0]:g}" y="{at[1]:g}" fill="{colour}" font-size="{size}" '
        f'text-anchor="{anchor}" paint-order="stroke" stroke="#fff" stroke-width="3">'
        f"{escape(words)}</text>"
    )
