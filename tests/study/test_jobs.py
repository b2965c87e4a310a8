"""Run folders: whole or not at all."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.errors import UsageError
from antecede.runs import STAGE, RunFolder


def _open(path: Path | None, **more: bool) -> RunFolder:
    return RunFolder.open(path, "audit", options={"log": "x"}, seed=3, **more)


def _fail(run: RunFolder, name: str, error: type[BaseException]) -> None:
    with run:
        run.write_text(name, "half")
        raise error


def test_a_finished_run_has_tables_summary_and_no_stage(tmp_path: Path) -> None:
    table = pa.table({"kind": ["a", "b", "a"], "n": [1, 2, 3]})
    with _open(tmp_path / "deep" / "out") as run:
        run.write_table("plain", table)
        run.write_table("runs", table, by="kind")
        run.write_text("index.html", "<p>x</p>")
        summary = run.finish({"violations": 0})
    out = tmp_path / "deep" / "out"
    assert sorted(e.name for e in out.iterdir()) == [
        "index.html",
        "plain.parquet",
        "runs",
        "summary.json",
    ]
    assert json.loads((out / "summary.json").read_text()) == summary
    assert {"verb", "version", "options", "seed", "started", "seconds", "result"} <= set(summary)
    assert pq.read_table(out / "plain.parquet").equals(table)
    assert set(pq.read_table(out / "runs").column("n").to_pylist()) == {1, 2, 3}


def test_a_failed_run_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        _fail(_open(tmp_path / "out"), "index.html", ZeroDivisionError)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_keeps_the_earlier_result(tmp_path: Path) -> None:
    with _open(tmp_path) as run:
        run.write_text("index.html", "old")
        run.finish({})
    with pytest.raises(ZeroDivisionError):
        _fail(_open(tmp_path), "index.html", ZeroDivisionError)
    assert (tmp_path / "index.html").read_text() == "old"
    with _open(tmp_path) as run:
        run.write_text("page.html", "new")
        run.finish({})
    assert sorted(e.name for e in tmp_path.iterdir()) == ["page.html", "summary.json"]


def test_an_interrupted_resumable_run_keeps_its_stage(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _fail(_open(tmp_path / "out", resumable=True), "parts/a", KeyboardInterrupt)
    assert (tmp_path / "out" / STAGE / "parts" / "a").exists()
    with _open(tmp_path / "out", resume=True, resumable=True) as run:
        assert (run.stage / "parts" / "a").exists()
        run.finish({})


def test_an_interrupted_run_is_not_replaced_by_a_new_one(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _fail(_open(tmp_path, resumable=True), "parts/a", KeyboardInterrupt)
    with pytest.raises(UsageError, match="continue it with --resume") as caught:
        _open(tmp_path, resumable=True)
    assert "\n" not in str(caught.value)
    assert (tmp_path / STAGE / "parts" / "a").exists()


def test_a_resumable_run_without_a_finished_part_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _fail(_open(tmp_path / "new" / "out", resumable=True), "asked.json", KeyboardInterrupt)
    assert list(tmp_path.iterdir()) == []


def test_two_runs_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with _open(tmp_path / "out") as first:
        first.write_text("index.html", "first")
        with pytest.raises(UsageError, match="another run is writing") as caught:
            _open(tmp_path / "out")
        assert "\n" not in str(caught.value)
        first.finish({})
    assert (tmp_path / "out" / "index.html").read_text() == "first"
    with _open(tmp_path / "out") as second:
        second.finish({})


def test_only_a_run_of_the_same_verb_is_resumed(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path, "simulate", options={}) as run:
        run.finish({})
    with pytest.raises(UsageError, match="there is no audit in") as caught:
        _open(tmp_path, resume=True, resumable=True)
    assert "\n" not in str(caught.value)
    assert [e.name for e in tmp_path.iterdir()] == ["summary.json"]


def test_the_result_of_another_verb_is_not_replaced(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path, "simulate", options={}) as run:
        run.write_text("index.html", "mine")
        run.finish({})
    with pytest.raises(UsageError, match="holds the result of simulate; choose another") as caught:
        _open(tmp_path)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "index.html").read_text() == "mine"
    with RunFolder.open(tmp_path, "simulate", options={}) as run:
        run.finish({})


def test_the_seconds_of_all_calls_add_up(tmp_path: Path) -> None:
    def spend(seconds: float, error: type[BaseException] | None, *, resume: bool = True) -> float:
        with _open(tmp_path, resume=resume, resumable=True) as run:
            run.write_text("parts/a", "x")
            run._clock -= seconds
            if error is not None:
                raise error
            return float(run.finish({})["seconds"])

    with pytest.raises(KeyboardInterrupt):
        spend(10, KeyboardInterrupt, resume=False)
    with pytest.raises(KeyboardInterrupt):
        spend(5, KeyboardInterrupt)
    assert spend(2, None) == pytest.approx(17, abs=0.9)
    assert [e.name for e in tmp_path.iterdir()] == ["summary.json"]
    assert spend(1, None) == pytest.approx(18, abs=0.9)
    assert spend(4, None, resume=False) == pytest.approx(4, abs=0.9)


@pytest.mark.parametrize("kind", ["under a file", "strange files", "resume nothing"])
def test_a_folder_that_will_not_do_is_one_line(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    place = {"under a file": tmp_path / "file" / "out", "strange files": tmp_path}
    with pytest.raises(UsageError) as caught:
        _open(place.get(kind, tmp_path / "none"), resume=kind == "resume nothing")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


def test_the_default_folder_is_named_by_verb_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with _open(None) as first, _open(None) as second:
        assert first.path != second.path
        assert first.path.parent == Path("antecede-out")
        assert first.path.name.startswith("audit-")
        first.finish({})
        second.finish({})


def test_files_that_no_run_wrote_are_never_touched(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"mine": true}')
    (tmp_path / "thesis").mkdir()
    with pytest.raises(UsageError, match="holds other files"):
        _open(tmp_path)
    out = tmp_path / "out"
    with _open(out) as run:
        run.write_text("old.html", "x")
        run.finish({})
    (out / "notes.txt").write_text("keep")
    with pytest.raises(UsageError, match=r"such as 'notes\.txt'"):
        _open(out)
    (out / "notes.txt").unlink()
    with _open(out) as run:
        run.write_text("new.html", "x")
        assert run.finish({})["files"] == ["new.html", "summary.json"]
    assert sorted(e.name for e in out.iterdir()) == ["new.html", "summary.json"]
