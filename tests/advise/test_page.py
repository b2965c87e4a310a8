"""What the page of advice says first, and in which order it shows the protocols."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecede.advise.costs import Cost, Status
from antecede.advise.recommendation import caveat
from antecede.advise.results import summarise
from antecede.advise.traffic import schedule_of
from antecede.cli.main import app
from antecede.events.sources import Log, table_of
from tests.support.histories import Shape, history

LOG = history(Shape(processes=5, sends=60, fan_out=1, delay=0.5, own=0.0), 3)


@pytest.mark.parametrize(("messages", "processes"), [(1, 2), (3, 4), (99, 4), (150, 16)])
def test_a_log_that_is_too_short_to_choose_by_says_so(messages: int, processes: int) -> None:
    assert "too few to choose a protocol by" in caveat(messages, processes)
    assert caveat(10 * messages + 100, processes) == ""


@pytest.mark.parametrize(("sends", "chosen"), [(60, "optimal"), (150, "lean")])
def test_a_short_log_is_advised_as_its_caveat_says(sends: int, chosen: str) -> None:
    events = table_of(history(Shape(processes=5, sends=sends, fan_out=1, own=0.0), 3))
    log = Log(events, events.slice(0, 0), form="parquet")
    costs = [
        Cost(protocol=name, status=Status.RUN, model_bytes_per_copy=size, added_delay_mean=0)
        for name, size in (("lean", 8.0), ("optimal", 90.0))
    ]
    said = summarise(schedule_of(log.events), costs, log)
    assert said["recommendation"] == chosen
    assert said["reason"].startswith(f"Use {chosen}")
    assert ("Begin with optimal" in said["caveat"]) is (chosen == "optimal")
    assert ("lean is cheapest" if chosen == "optimal" else "lean: 8 bytes") in said["reason"]
    assert (said["otherwise"] == "") is (chosen == "optimal")  # alternatives would contradict it


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
