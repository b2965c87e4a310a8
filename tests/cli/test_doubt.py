"""``antecede audit`` on logs of real systems: clocks that count, forwards, events not logged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_audit import call

SHOP = Path(__file__).parents[2] / "examples" / "shop.jsonl"
CLOCKS = """a {"a":1}
send A
b {"b":2, "a":2}
send B
c {"c":1, "b":2, "a":2}
deliver B
c {"c":2, "b":2, "a":2}
deliver A
"""
PATTERNS = ("--send", r"send (?<message>\w)", "--deliver", r"deliver (?<message>\w)")


def rows(*events: tuple[str, int, str, str, list[str] | None]) -> str:
    names = ("process", "seq", "kind", "message", "dests")
    return "".join(json.dumps(dict(zip(names, e, strict=True))) + "\n" for e in events)


def test_clocks_prove_a_violation(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(CLOCKS)
    done = call("audit", log, "--local", "--out", tmp_path / "out", *PATTERNS)
    assert done.exit_code == 1
    assert "a sent A first: b knew of A when it sent B." in done.output


@pytest.mark.parametrize("zed", ["zed", "aaa"])
def test_a_forward_breaks_nothing(tmp_path: Path, zed: str) -> None:
    log = tmp_path / "x.jsonl"
    log.write_text(
        rows(
            (zed, 1, "send", "m1", ["alpha", "bob"]),
            ("alpha", 1, "deliver", "m1", None),
            ("alpha", 2, "send", "m1", ["bob"]),
            ("bob", 1, "deliver", "m1", None),
        )
    )
    done = call("audit", log, "--local", "--out", tmp_path / "out")
    assert done.exit_code == 0


def test_a_log_that_lacks_a_delivery_is_undecidable_unless_assumed_complete(
    tmp_path: Path,
) -> None:
    log = tmp_path / "x.jsonl"
    log.write_text(
        rows(
            ("a", 1, "send", "x", ["d"]),
            ("a", 2, "send", "r", ["b"]),
            ("b", 1, "send", "y", ["d"]),
            ("d", 1, "deliver", "y", None),
            ("d", 2, "deliver", "x", None),
        )
    )
    done = call("audit", log, "--local", "--out", tmp_path / "end")
    assert done.exit_code == 0
    assert "complete up to its last event: its numbers have no gaps" in " ".join(
        done.output.split()
    )
    done = call("audit", log, "--local", "--out", tmp_path / "one", "--not-complete")
    assert done.exit_code == 2
    assert "This is based on 2 of 3 sends with deliveries" in done.output
    done = call("audit", log, "--local", "--out", tmp_path / "two", "--assume-complete")
    assert done.exit_code == 0
    result = json.loads((tmp_path / "two" / "summary.json").read_text())
    assert result["options"]["assume_complete"] is True
    assert (result["result"]["paired_sends"], result["result"]["messages"]) == (2, 3)


@pytest.mark.parametrize("first", ["", '{"process": "shop"}\n'], ids=["missing", "rejected"])
def test_a_broken_log_does_not_become_ordered_by_the_loss_of_a_send(
    tmp_path: Path, first: str
) -> None:
    assert call("audit", SHOP, "--local", "--out", tmp_path / "all").exit_code == 1
    log = tmp_path / "x.jsonl"
    log.write_text(first + "".join(SHOP.read_text().splitlines(keepends=True)[1:]))
    done = call("audit", log, "--local", "--out", tmp_path / "rest")
    assert done.exit_code == 2
    assert "may have delivered order-17 (seq 2) after an effect" in " ".join(done.output.split())
