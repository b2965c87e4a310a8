"""Every scenario must produce the trace in its file.

``pytest tests/scenarios --rewrite`` rewrites the traces. Commit the change only if you understand
what caused it.
"""

from pathlib import Path

import pytest

from tests.support.scenario_harness import rewritten

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_produces_its_trace(path: Path, pytestconfig: pytest.Config) -> None:
    written = path.read_text(encoding="utf-8")
    produced = rewritten(written)
    if pytestconfig.getoption("--rewrite", default=False):
        path.write_text(produced, encoding="utf-8")
        return
    assert produced == written


def test_a_wrong_trace_is_noticed() -> None:
    text = "world matrix a b\nsend a b x\nreceive b x\n----\na sends x to b\nb delivers y\n"
    assert rewritten(text) != text
    assert rewritten(text) == text.replace("delivers y", "delivers x")


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 10
