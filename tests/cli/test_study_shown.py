"""What ``antecede study`` prints about its result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from antecede.cli.study import _show

if TYPE_CHECKING:
    import pytest


def test_the_path_of_the_page_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    result = {"comparison": [], "experiments": ["overhead"], "findings": {}, "runs": 1}
    result["deliveries"] = 2
    _show({"result": result, "seconds": 1.0}, Path("st[bold]udy:smile:"))
    assert "st[bold]udy:smile:/index.html" in capsys.readouterr().out
