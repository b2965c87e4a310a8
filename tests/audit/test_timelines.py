"""Edge lists are drawn by time, with arrows."""

from __future__ import annotations

from pathlib import Path

import pytest

from antecede.audit.api import draw
from antecede.errors import UsageError
from antecede.events.sources import Source, read
from antecede.report import spacetime


def edges(tmp_path: Path, text: str) -> Source:
    path = tmp_path / "edges.txt"
    path.write_text(text)
    return Source(path, "edges")


def test_the_first_messages_are_drawn_by_time_with_arrows(tmp_path: Path) -> None:
    source = edges(tmp_path, "c a 30.5\na b 10\na c 10\nb d 20\n")
    drawing = draw(read(source), None)
    (shown,) = drawing.illustrations
    diagram = shown.diagram
    column = spacetime.places(diagram)
    names = [(node.process, node.kind) for node in diagram.nodes]
    assert dict(zip(names, column, strict=True)) == {
        ("a", "send"): 0, ("b", "deliver"): 1, ("c", "deliver"): 1,
        ("b", "send"): 2, ("d", "deliver"): 3, ("c", "send"): 4, ("a", "deliver"): 5,
    }  # fmt: skip
    assert len(diagram.arrows) == 4
    assert "3 of 3 messages by time" in drawing.text
    assert drawing.text.endswith("Times are seconds after 10.")
    markup = spacetime.draw(diagram)
    assert [f">{tick} s<" in markup for tick in ("0", "10", "20.5")] == [True] * 3


def test_the_messages_around_one_are_drawn(tmp_path: Path) -> None:
    source = edges(tmp_path, "".join(f"a b {time}\n" for time in range(200)))
    log = read(source)
    drawing = draw(log, "e101")
    arrows = drawing.illustrations[0].diagram.arrows
    assert [(a.mark, a.label) for a in arrows if a.mark != "plain"] == [("asked", "e101")]
    with pytest.raises(UsageError, match="has no message 'e999'; its messages have ids such as"):
        draw(log, "e999")


def test_a_real_edge_list_has_an_arrow_for_every_message(shared: Path) -> None:
    source = Source(shared / "data" / "collegemsg.txt", "edges")
    diagram = draw(read(source), None).illustrations[0].diagram
    sends = sum(node.kind == "send" for node in diagram.nodes)
    assert len(diagram.arrows) >= sends == 50
    column = spacetime.places(diagram)
    assert all(column[arrow.source] < column[arrow.target] for arrow in diagram.arrows)
