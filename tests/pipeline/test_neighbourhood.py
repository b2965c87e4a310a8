"""The part of a log that is drawn when nobody asks for a message."""

from __future__ import annotations

import pyarrow as pa
import pytest

from antecede.pipeline.neighbourhood import TableRows
from tests.pipeline.histories import SHAPES, Shape, history


def table(shape: Shape, seed: int) -> pa.Table:
    log = sorted(history(shape, seed), key=lambda e: (e.process, e.seq))
    rows = [{"process": e.process, "seq": e.seq, "kind": e.kind, "message": e.message} for e in log]
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("seed", range(10))
def test_a_beginning_has_every_process_and_no_effect_without_its_cause(seed: int) -> None:
    log = table(SHAPES[0], seed)
    first = TableRows(log).beginning(30)
    assert len(first) == 30
    assert {e.process for e in first} == set(log.column("process").to_pylist())
    sent: set[str | None] = set()
    for event in first:
        assert event.kind != "deliver" or event.message in sent
        sent |= {event.message} if event.kind == "send" else set()


@pytest.mark.parametrize("seed", range(10))
def test_a_log_that_contradicts_itself_has_a_beginning_too(seed: int) -> None:
    log = table(SHAPES[11], seed)
    assert len(TableRows(log).beginning(40)) == 40
    assert len(TableRows(log).beginning(10**6)) == len(log)
