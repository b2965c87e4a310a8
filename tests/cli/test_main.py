"""The one place where errors become a line and an exit status."""

from __future__ import annotations

import pytest

from antecede.cli.main import app


def broken(*_: object, **__: object) -> None:
    msg = "first\nsecond"
    raise ZeroDivisionError(msg)


def test_what_nobody_foresaw_is_one_line_and_not_the_status_of_bad_news(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("antecede.cli.main.command_line", lambda _: broken)
    monkeypatch.delenv("ANTECEDE_TRACE", raising=False)
    with pytest.raises(SystemExit) as ended:
        app(["protocols"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "ZeroDivisionError: first; run again with ANTECEDE_TRACE=1" in told
    monkeypatch.setenv("ANTECEDE_TRACE", "1")
    with pytest.raises(ZeroDivisionError):
        app(["protocols"])
