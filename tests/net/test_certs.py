"""``antecede node certs``: what it refuses, and that it then changes nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from antecede.errors import UsageError
from tests.net.test_command import called

pytest.importorskip("cryptography")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "names",
    ["ca-key", "ca", "a-key", "b a-key a", "b b", "b a", "b gone", "b c/d", "b \udcff"],
)
def test_no_file_is_ever_replaced(
    names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(capsys, "certs", tmp_path, "a", "gone")[0] == 0
    (tmp_path / "gone.pem").unlink()  # its key is still there
    before = contents(tmp_path)
    status, out, err = called(capsys, "certs", tmp_path, *names.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "unexpected" not in err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("names", ["ca-key", "a-key a", "a a"])
def test_no_two_names_share_a_file(
    names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = called(capsys, "certs", tmp_path / "new", *names.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("days", [-400, 0, 99_999_999, 10**12])
def test_impossible_days_are_refused_in_one_line(
    days: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = called(capsys, "certs", tmp_path / "certs", "a", "--days", days)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "is not possible; use 1 to" in err
    assert not (tmp_path / "certs").exists()
    assert called(capsys, "certs", tmp_path / "certs", "a", "--days", 1)[0] == 0


@pytest.mark.parametrize("place", ["file", "file/certs", "new/certs/" + "x" * 300])
def test_a_place_that_cannot_be_a_folder_is_refused_in_one_line(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    status, out, err = called(capsys, "certs", tmp_path / place, "a")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "cannot write certificates to" in err
    assert contents(tmp_path) == {"file": b"mine"}


@pytest.mark.parametrize("files", range(4))
def test_nothing_is_left_behind_when_writing_fails(
    files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from antecede.net.transports.certs import make_certificates

    opened, count = os.open, iter(range(9))

    def fails(path: Path, flags: int, mode: int) -> int:
        if next(count) == files:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(path, flags, mode)

    monkeypatch.setattr("antecede.net.transports.certs.os.open", fails)
    with pytest.raises(UsageError, match="cannot write certificates"):
        make_certificates(tmp_path / "new" / "certs", ["a"])
    assert list(tmp_path.iterdir()) == []
