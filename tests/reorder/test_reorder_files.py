"""Files that are reordered: their columns, and one line that says what to do where that fails."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.group_ops import PandasGroupedOpsMixin

from antecede.errors import UsageError
from antecede.reorder.api import reorder
from antecede.reorder.files import read_files, run_files
from tests.reorder.test_reorder import finish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROW = '{"id": "m", "dest": "x", "source": "a", "seq": 1, "causes": null}\n'


def columns(spark: SparkSession, folder: Path, form: str) -> dict[str, str]:
    return dict(read_files(spark, folder, form, files=None).dtypes)


def test_columns_of_any_parquet_file_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["m"], "new": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["m"], "old": ["x"]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"id": ["m"], "late": [0.5]}), tmp_path / "c.parquet")
    assert set(columns(spark, tmp_path, "parquet")) == {"id", "new", "old", "late"}
    pq.write_table(pa.table({"id": ["m"], "new": ["text"]}), tmp_path / "d.parquet")
    with pytest.raises(UsageError, match="do not tell the same columns") as caught:
        columns(spark, tmp_path, "parquet")
    assert "\n" not in str(caught.value)


def test_causes_that_are_all_null_are_still_a_list(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(ROW)
    assert columns(spark, tmp_path, "json")["causes"] == "array<string>"
    (tmp_path / "a.jsonl").write_text(ROW.replace("null", '"m0"'))
    assert columns(spark, tmp_path, "json")["causes"] == "string"


def test_a_comma_separated_file_has_its_causes_in_one_field(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,dest,source,seq,causes\n3,d,a,3,1;2\n2,d,a,2,1\n1,d,a,1,\n")
    rows = read_files(spark, tmp_path, "csv", files=None)
    assert dict(rows.dtypes) == {
        "id": "string", "dest": "string", "source": "string", "seq": "string",
        "causes": "array<string>",
    }  # fmt: skip
    writer = reorder(rows, buckets=1).writeStream.format("memory").queryName("separated")
    finish(writer.trigger(availableNow=True).start)
    found = spark.table("separated").orderBy("position").collect()
    assert [row.id for row in found] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ROW.replace("null", '"m0"') + ROW.replace("null", '["m0"]'), "and one id in others"),
        ("", "no JSON objects, one a line"),
        ("hello\n{{{\n", "no JSON objects, one a line"),
        (ROW.replace("{", '{"ID": 1, '), "do not tell the same columns"),
    ],
)
def test_files_that_tell_no_columns_are_one_line(
    spark: SparkSession, tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(UsageError, match=reason) as caught:
        columns(spark, tmp_path, "json")
    assert "\n" not in str(caught.value)


def test_a_number_that_is_none_rejects_its_row_only(spark: SparkSession) -> None:
    rows = [
        ("1", "d", "a", "1", None),
        ("2", "d", "a", "two", None),
        ("3", "d", "a", "9" * 30, None),
    ]
    kinds = "id string, dest string, source string, seq string, causes array<string>"
    found = reorder(spark.createDataFrame(rows, kinds), keep_rejected=True).collect()
    reasons = {row.id: row.rejected for row in found}
    wrong = "seq is missing or not a whole number"
    assert reasons == {"1": None, "2": wrong, "3": wrong}


def ordered(spark: SparkSession, folder: Path, state: Path, **options: Any) -> list[str]:
    """Reorder the files of ``folder/in``, one a batch; return the batches that are written."""
    files, out = read_files(spark, folder / "in", "parquet", files=1), folder / "out"
    run_files(
        files,
        out,
        checkpoint=state,
        options={"buckets": 1, **options},
        every=None,
        show=lambda _: None,
    )
    return sorted(path.name for path in (out / "ordered").iterdir())


def put(folder: Path, number: int, names: list[str], cause: str | None, size: int = 1) -> None:
    folder.mkdir(exist_ok=True)
    columns = {"id": names, "causes": [cause] * len(names), "payload": ["x" * size] * len(names)}
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    pq.write_table(table, folder / f"{number}.parquet")


def test_a_run_leaves_the_settings_of_the_session_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = ("spark.sql.shuffle.partitions", "spark.sql.streaming.noDataMicroBatches.enabled")
    before = [spark.conf.get(name) for name in names]
    put(tmp_path / "in", 0, ["a"], None)
    assert ordered(spark, tmp_path, tmp_path / "state") == ["batch=0"]
    assert [spark.conf.get(name) for name in names] == before
    assert before[1] == "true"


def cut(state: Path, pattern: str) -> None:
    files = [path for path in state.glob(pattern) if path.is_file() and path.name[0] != "."]
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


HARM: dict[str, Callable[[Path], None]] = {
    "cut files of state": lambda state: cut(state, "state/0/[0-9]*/*"),
    "no state": lambda state: shutil.rmtree(state / "state"),
    "a cut list of offsets": lambda state: cut(state, "offsets/*"),
    "cut metadata": lambda state: cut(state, "metadata"),
}


def test_a_damaged_or_unrelated_checkpoint_is_refused_in_one_line_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", 0, ["1"], None)
    assert ordered(spark, tmp_path, tmp_path / "state") == ["batch=0"]
    other = tmp_path / "other"
    counts = spark.readStream.schema("id string").parquet(str(tmp_path / "in")).groupBy("id")
    writer = counts.count().writeStream.outputMode("complete").format("memory").queryName("counts")
    start = writer.option("checkpointLocation", str(other)).trigger(availableNow=True).start
    finish(start)
    put(tmp_path / "in", 1, ["2"], "1")
    for name, harm in HARM.items():
        state = tmp_path / name
        shutil.copytree(tmp_path / "state", state)
        harm(state)
        check_refusal(spark, tmp_path, state)
    check_refusal(spark, tmp_path, other)
    assert ordered(spark, tmp_path, tmp_path / "state") == ["batch=0", "batch=1"]


def check_refusal(spark: SparkSession, folder: Path, state: Path) -> None:
    with pytest.raises(UsageError, match="is damaged, or that of another query") as caught:
        ordered(spark, folder, state)
    assert str(caught.value).startswith(f"the checkpoint {state} ")
    assert "\n" not in str(caught.value)
    assert "py4j" not in str(caught.value)
    assert [path.name for path in (folder / "out" / "ordered").iterdir()] == ["batch=0"]


def test_large_rows_are_held_up_to_the_limit(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", 0, [f"m{number}" for number in range(30)], "root", size=100_000)
    state = tmp_path / "state"
    with pytest.raises(UsageError, match=r"would hold 30 rows .* held_bytes_max is 2,000,000"):
        ordered(spark, tmp_path, state, held_bytes_max=2_000_000)
    put(tmp_path / "in", 1, ["root"], None)
    assert ordered(spark, tmp_path, state, held_bytes_max=4_000_000) == ["batch=0", "batch=1"]
    found = pq.read_table(tmp_path / "out" / "ordered").sort_by("position").column("id").to_pylist()
    assert found[0] == "root"
    assert len(found) == 31


def test_spark_4_0_has_state_for_pandas_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With timers as well: a query that reads what is there must end although some are set."""
    monkeypatch.delattr(PandasGroupedOpsMixin, "transformWithState")
    for number, (name, cause) in enumerate((("3", "2"), ("2", "1"), ("1", None))):
        put(tmp_path / "in", number, [name], cause)
    options = {"on_missing": "release", "timeout": 3600}
    assert len(ordered(spark, tmp_path, tmp_path / "state", **options)) == 3
    found = pq.read_table(tmp_path / "out" / "ordered").sort_by("position")
    assert found.column("id").to_pylist() == ["1", "2", "3"]
