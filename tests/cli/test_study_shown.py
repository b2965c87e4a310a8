"""What ``antecede study`` prints about its result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from antecede.cli.study import _progress, _show

if TYPE_CHECKING:
    import pytest


def show(path: str, *claims: dict[str, str]) -> None:
    result = {"comparison": [], "findings": {}, "experiments": ["variants"], "claims": claims}
    _show({"result": {**result, "runs": 1, "deliveries": 2}, "seconds": 1.0}, Path(path))


def test_the_path_of_the_page_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show("st[bold]udy:smile:")
    assert "st[bold]udy:smile:/index.html" in capsys.readouterr().out


def test_the_claims_that_a_run_settles_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show("study", {"id": "2.6", "claim": "Less is sent.", "verdict": "holds", "short": "x0.74"})
    assert "Claim 2.6 holds: Less is sent. (x0.74)\n" in capsys.readouterr().out


def test_a_study_says_that_it_starts_spark_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with _progress(quiet=False) as show:
        assert show is not None
    assert capsys.readouterr().err == "antecede: starting Spark\n"
    with _progress(quiet=True) as show:
        assert show is None
    assert capsys.readouterr().err == ""
