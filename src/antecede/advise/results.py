"""The results of advice on one log: the contents of its folder, page and summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antecede.advise.costs import NONE, Cost, Status, table_of
from antecede.advise.recommendation import (
    PACKET_BYTES,
    Traffic,
    caveat,
    for_now,
    need,
    recommend,
)
from antecede.advise.traffic import left_out
from antecede.events.sources import Log
from antecede.report.advise_page import advise_page, messages_in_words
from antecede.runs import RunFolder
from antecede.sim import Schedule

#: The most rejected rows to quote.
QUOTED = 3


def summarise(schedule: Schedule, costs: Sequence[Cost], log: Log) -> dict[str, Any]:
    """Return the summary: the traffic, the recommendation, and the rejected rows."""
    traffic = Traffic(float(schedule.delays.mean()), schedule.copies / schedule.messages)
    result: dict[str, Any] = {
        "processes": schedule.n,
        "messages": schedule.messages,
        "log_messages": schedule.about["log_messages"],
        "copies": schedule.copies,
        "cast": schedule.cast,
        "delay_mean": traffic.delay_mean,
        "delays": schedule.about["delays"],
        "added_delays": schedule.about["added"],
    }
    is_whole = result["messages"] == result["log_messages"]
    messages = "this traffic" if is_whole else messages_in_words(result)
    advice = recommend(costs, traffic, messages=messages)
    doubt = caveat(schedule.messages, schedule.n)
    if doubt:
        advice = for_now(advice)
    told = need(costs)
    partial = [cost for cost in costs if cost.is_partial]
    return result | {
        "recommendation": advice.protocol,
        "need": told,
        "caveat": doubt,
        "reason": advice.reason,
        "otherwise": advice.otherwise,
        "not_chosen": [c.protocol for c in costs if c.faults and c.protocol != NONE],
        "total_bytes_per_copy": {
            cost.protocol: traffic.total_bytes(cost)
            for cost in costs
            if cost.status is Status.RUN and cost.bytes_per_copy is not None
        },
        "packet_bytes": PACKET_BYTES,
        "on_the_beginning": [cost.protocol for cost in partial],
        "beginning_messages": max((cost.messages for cost in partial), default=0),
        "wire_sample": max((cost.wire_sample for cost in costs), default=0),
        "left_out": left_out(log),
        "rejected": log.bad,
        "rejected_first": log.rejected.slice(0, QUOTED).to_pylist(),
    }


def write(
    folder: RunFolder, schedule: Schedule, costs: Sequence[Cost], log: Log, name: str
) -> dict[str, Any]:
    """Write tables, page and summary of the log called ``name``; return the summary."""
    result = summarise(schedule, costs, log)
    folder.write_table("advice", table_of(costs))
    folder.write_table("rejected", log.rejected)
    facts = {**folder.options, "seed": folder.seed, "started": folder.started}
    rows = [cost.record for cost in costs]
    folder.write_text("index.html", advise_page(result, rows, log=name, facts=facts))
    return folder.finish(result)
