"""The oracle passes on kernels' event logs at n = 50: it knows no clock of any of them."""

from __future__ import annotations

import pytest

import antecede
from antecede import MessageId, sim
from antecede.check import History, causal_violations, undelivered
from antecede.sim.workloads import client_server, paper, with_semantics
from tests.support.same_runs import PROTOCOLS, widest

N = 50


def history_of(schedule: sim.Schedule, run: sim.Run) -> History:
    """Read the event log, and nothing else, into a history."""
    assert run.events is not None
    history = History(schedule.names)
    ranks = {
        f"{schedule.names[s]}:{k}": int(r)
        for s, k, r in zip(schedule.sender, run.trace.number, schedule.rank, strict=True)
    }
    for row in run.events.to_pylist():
        sender, seq = row["message"].split(":")
        message = MessageId(sender, int(seq))
        if row["kind"] == "deliver":
            history.deliver(row["process"], message)
            continue
        rank, after = ranks[row["message"]], None
        if antecede.PROTOCOLS[run.protocol].orders_by_after and rank >= 0:
            after = max(0, history.local_count(row["process"]) - rank + 1) if rank else 0
        history.send(row["process"], message, row["dests"], after)
    return history


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_log_of_fifty_processes_is_causally_ordered(protocol: str) -> None:
    if protocol == "buffered":
        schedule = client_server(n=N, servers=3, received=12, seed=6, delay="exponential:0.3")
    else:
        schedule = paper(n=N, cast=widest(protocol), received=12, seed=6, delay="exponential:0.3")
    schedule = with_semantics(schedule, probability=0.7, reach=3)
    run = sim.run(protocol, schedule, engine="kernel", events=True)
    history = history_of(schedule, run)
    assert causal_violations(history) == []
    assert undelivered(history) == []
    assert run.metrics["held_fraction"] != 0


def test_the_oracle_would_have_seen_a_violation() -> None:
    """Without a protocol, the same network breaks causal order: the check above means something."""
    schedule = paper(n=N, cast="multicast", received=12, seed=6, delay="exponential:0.3")
    run = sim.run("optimal", schedule, engine="kernel", events=True)
    messages = schedule.messages
    times = {(int(e), run.trace.sent[e]) for e in range(messages)}
    times |= {(messages + int(c), run.trace.arrived[c]) for c in range(schedule.copies)}
    order = sorted(times, key=lambda pair: (pair[1], pair[0]))
    history = History(schedule.names)
    copy_of = schedule.plan().message
    for event, _ in order:
        row = event if event < messages else int(copy_of[event - messages])
        name = schedule.names[schedule.sender[row]]
        message = MessageId(name, int(run.trace.number[row]))
        if event < messages:
            dests = schedule.dests[schedule.offsets[row] : schedule.offsets[row + 1]]
            history.send(name, message, [schedule.names[d] for d in dests])
        else:
            history.deliver(schedule.names[schedule.dests[event - messages]], message)
    assert causal_violations(history)
