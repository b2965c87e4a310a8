"""``antecede protocols``: the table, a page, JSON, and an unknown name."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from rich.console import Console
from rich.markdown import Markdown

import antecede
from antecede.report.protocol_page import protocol_page


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from antecede.cli.main import app; app()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={"COLUMNS": "160", "PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )


def test_the_table_names_every_protocol() -> None:
    done = call("protocols")
    assert done.returncode == 0, done.stderr
    for name, info in antecede.PROTOCOLS.items():
        assert name in done.stdout
        assert info.paper.split(",")[0] in done.stdout
    for column in ("paper", "casts", "guarantee", "cost"):
        assert column in done.stdout


def test_a_page_says_what_the_registry_says() -> None:
    done = call("protocols", "optimal")
    assert done.returncode == 0
    for words in ("Propagation", "hardware_multicast", "Differences from the paper", "LOG_j"):
        assert words in done.stdout


@pytest.mark.parametrize("name", antecede.PROTOCOLS)
def test_cells_of_a_page_are_whole(name: str) -> None:
    info, console = antecede.PROTOCOLS[name], Console(width=250)
    with console.capture() as printed:
        console.print(Markdown(protocol_page(info)))
    assert info.cost in printed.get()
    rows = [line for line in protocol_page(info).splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} <= {3, 4}
    assert all(row.count("`") % 2 == 0 for row in rows)
    names = protocol_page(info).partition("## Names")[2].partition("## ")[0].splitlines()
    assert {row.count("|") for row in names if row.startswith("|")} <= {3}


def test_json_is_the_whole_registry() -> None:
    rows = json.loads(call("protocols", "--json").stdout)
    assert [row["name"] for row in rows] == list(antecede.PROTOCOLS)
    assert json.loads(call("protocols", "matrix", "--json").stdout)["casts"] == [
        "unicast",
        "multicast",
        "broadcast",
    ]


def test_an_unknown_name_is_one_line_and_exit_2() -> None:
    done = call("protocols", "optimum")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "did you mean optimal" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_version_is_the_packages() -> None:
    assert call("--version").stdout.strip() == f"antecede {antecede.__version__}"
