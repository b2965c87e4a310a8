"""The programs for Spark in the README and the page on clusters run as printed, in one session."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from antecede.cli.main import app
from antecede.events.log import table_of
from tests.docs.test_readme import LINES, ON_SPARK
from tests.support.histories import LATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.spark


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples, where commands use the existing session."""

    @contextlib.contextmanager
    def shared(*_: Any, **__: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("antecede.spark.session.session", shared)
    monkeypatch.setattr("antecede.study.campaign.session", shared)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", [w for w in LINES if w[0] in ON_SPARK], ids=lambda w: w[0])
def test_a_line_of_the_readme_runs_on_spark(here: Path, words: list[str]) -> None:
    fewer = ["--seeds", "1"] if words[0] == "study" else []
    with pytest.raises(SystemExit) as ended:
        app([*words, *fewer])
    assert ended.value.code == 0
    made = {"reorder": "sorted/ordered", "study": "antecede-out/study-*/index.html"}
    assert list(here.glob(made[words[0]]))


def test_the_program_about_audits_runs(here: Path, spark: SparkSession) -> None:
    text = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    table = table_of(LATE)
    log = here / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, table.to_pylist())), encoding="utf-8")
    scope: dict[str, Any] = {"frame": spark.read.json(str(log)), "table": table}
    exec(compile(code, "audit.md", "exec"), scope)
    assert scope["found"].verdict == "broken"


def test_the_program_about_clusters_prints_what_it_says(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    # The session may have been started in another folder.
    code = code.replace("examples/", f"{ROOT}/examples/")
    exec(compile(code, "cluster.md", "exec"), {})
    assert f"This prints `{capsys.readouterr().out.strip()}`." in text
