"""Logs with vector clocks that contradict themselves."""

from pathlib import Path

from antecede.pipeline.logs import sources
from antecede.pipeline.logs.base import Source


def test_a_host_that_its_own_clock_lacks_is_a_rejected_row(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text('alice {"alice":1}\nhello\nalice {"al":2}\nbye\n')
    (row,) = sources.read(Source(path)).rejected.to_pylist()
    assert (row["line"], row["reason"]) == (3, "the clock has no count of its own host alice")
