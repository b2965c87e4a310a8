"""The local engine and Spark give the same answers as the plain engine, which is the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from antecede.audit.found import audit_events
from antecede.audit.verdicts import Asked
from tests.audit.campaign import damaged, differences, side_by_side
from tests.support.histories import CLOCKED, RELAYED, SHAPES, Shape, history
from tests.support.oracles import Truth, oracle
from tests.support.rounds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_local_engine_gives_the_same_answers() -> None:
    """``make soak`` compares 20,000 histories."""
    seen = set()
    for seed in (*range(0, 1000, 8), 1122):  # 1122: a relay that a complete log does not deliver
        verdict, wrong = differences(*damaged(seed))
        assert not wrong, f"seed={seed}: {wrong}"
        seen.add(verdict)
    assert seen == {"ordered", "broken", "undecidable"}


@pytest.mark.spark
def test_spark_gives_the_same_answers(spark: SparkSession) -> None:
    histories = [damaged(seed) for seed in seeds(24)]
    asked = Asked(complete_until_end=False)
    _, wrong = differences(side_by_side([table for table, _ in histories]), asked, spark)
    assert not wrong
    for table, asked in (histories[k] for k in (3, 17)):
        _, wrong = differences(table, asked, spark)
        assert not wrong


@pytest.mark.parametrize("shape", [*SHAPES, *RELAYED, *CLOCKED])
def test_the_plain_engine_equals_the_oracle(shape: Shape) -> None:
    for seed in seeds(5):
        log = history(shape, seed)
        clocks = [getattr(event, "clock", None) for event in log]
        found = audit_events(log, [None if c is None else dict(c) for c in clocks])
        truth = Truth()
        for row in found.records["violations"]:
            place = row["process"], row["message"], row["seq"]
            truth.violations[place] = row["overtaker"], row["overtaker_seq"], row["lateness"]
            truth.chain_lengths[place] = len(row["chain"])
        for row in found.records["missing"]:
            effect = row["overtaker"], row["overtaker_seq"]
            truth.missing[row["process"], row["message"]] = effect
        names = ("kind", "process", "seq", "message")
        truth.findings = {tuple(row[name] for name in names) for row in found.records["findings"]}
        assert truth == oracle(log), f"seed={seed}"
