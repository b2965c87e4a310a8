"""What ``antecede study`` prints about its result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from antecede.cli.study import _show

if TYPE_CHECKING:
    import pytest


def test_the_path_of_the_page_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    result = {"comparison": [], "experiments": ["overhead"], "findings": {}, "claims": []}
    result |= {"runs": 1, "deliveries": 2}
    _show({"result": result, "seconds": 1.0}, Path("st[bold]udy:smile:"))
    assert "st[bold]udy:smile:/index.html" in capsys.readouterr().out


def test_the_claims_that_a_run_settles_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    claim = {"id": "2.6", "claim": "Less is sent.", "verdict": "holds", "short": "x0.74"}
    result = {"comparison": [], "experiments": ["variants"], "findings": {}, "claims": [claim]}
    result |= {"runs": 1, "deliveries": 2}
    _show({"result": result, "seconds": 1.0}, Path("study"))
    assert "Claim 2.6 holds: Less is sent. (x0.74)\n" in capsys.readouterr().out
