"""What the page of advice says first, and in which order it shows the protocols."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecede.cli.main import app
from antecede.pipeline.advice.wording import caveat
from antecede.pipeline.logs.sources import table_of
from tests.pipeline.histories import Shape, history

LOG = history(Shape(processes=5, sends=60, fan_out=1, delay=0.5, own=0.0), 3)


@pytest.mark.parametrize(("messages", "processes"), [(1, 2), (3, 4), (99, 4), (150, 16)])
def test_a_log_that_is_too_short_to_choose_by_says_so(messages: int, processes: int) -> None:
    assert "too few to choose a protocol by" in caveat(messages, processes)
    assert caveat(10 * messages + 100, processes) == ""


def test_the_page_says_that_a_log_is_short_and_sorts_every_chart(tmp_path: Path) -> None:
    pq.write_table(table_of(LOG), tmp_path / "log.parquet")
    with pytest.raises(SystemExit):
        app(["advise", str(tmp_path / "log.parquet"), "--local", "--out", str(tmp_path / "o")])
    page = (tmp_path / "o" / "index.html").read_text()
    assert "messages are too few to choose a protocol by" in page
    charts = re.findall(r"<dl>(.*?)</dl>", page)
    assert len(charts) == 3
    for chart in charts:
        widths = [float(width) for width in re.findall(r"width:([\d.]+)%", chart)]
        assert len(widths) > 5
        assert widths == sorted(widths)
