"""The columns of files that are reordered: those of all files, or one line that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.errors import UsageError
from antecede.reorder.api import reorder
from antecede.reorder.files import read_files
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
