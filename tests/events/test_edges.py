"""Edge lists: what a line may look like, and what is rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from antecede.errors import LogError
from antecede.events.edges import Multicast, read_edges

if TYPE_CHECKING:
    from pathlib import Path

    from antecede.events import Rejected

EXPECTED = "expected: source destination time"


@pytest.mark.parametrize(
    ("text", "edges", "reasons"),
    [
        (b"a b 1\n", [("a", ("b",), 1.0)], []),
        (b"a,b,1.5\r\n\r\n", [("a", ("b",), 1.5)], []),
        (b"a\tb 1 further words\n", [("a", ("b",), 1.0)], []),
        (b"\xef\xbb\xbfa b 1", [("a", ("b",), 1.0)], []),
        (b"# remark\n% remark\nsource destination time\na b 1\n", [("a", ("b",), 1.0)], []),
        (b"a b 2\nc a 1\na c 2\na b 2\n", [("c", ("a",), 1.0), ("a", ("b", "c"), 2.0)], []),
        (b"a a 1\n", [("a", ("a",), 1.0)], []),
        (b"src dst t\nsrc dst t\na b 1\n", [("a", ("b",), 1.0)], [(2, EXPECTED)]),
        (b"oops\na b 1\na b\n", [("a", ("b",), 1.0)], [(1, EXPECTED), (3, EXPECTED)]),
        (b"a b 1\na b 1_0\n", [("a", ("b",), 1.0)], [(2, EXPECTED)]),
        (b"a b nan\na b -inf\n", [], [(1, "time is not finite"), (2, "time is not finite")]),
        (b"a b 1\n\xff b 2\n", [("a", ("b",), 1.0)], [(2, "not UTF-8")]),
    ],
)
def test_lines(
    tmp_path: Path, text: bytes, edges: list[tuple[object, ...]], reasons: list[tuple[int, str]]
) -> None:
    path = tmp_path / "edges.txt"
    path.write_bytes(text)
    rejected: list[Rejected] = []
    found = read_edges(path, rejected)
    assert [(edge.source, edge.dests, edge.time) for edge in found] == edges
    assert [(bad.line, bad.reason) for bad in rejected] == reasons


def test_a_message_is_known_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("a b 2\nb a 2\na c 2\n")
    assert read_edges(path, []) == [
        Multicast(1, "a", ("b", "c"), 2.0),
        Multicast(2, "b", ("a",), 2.0),
    ]


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="cannot read the edge list") as caught:
        read_edges(tmp_path / "none", [])
    assert caught.value.reason == "No such file or directory"
    assert caught.value.path == tmp_path / "none"
