"""The counted steps are as named: worst logs, and the same outcome as the paper's steps."""

from __future__ import annotations

from random import Random

import pytest

import antecede
from antecede.protocols.specs.optimal import Process, purge_null_entries
from antecede.study.experiments.work import (
    COMMON,
    PAIRS,
    PRINTED,
    RST,
    SEMANTIC,
    SORTED,
    Log,
    cells,
    merge_printed,
    merge_sorted,
    operations,
    send_common,
    send_printed,
    worst,
)


@pytest.mark.parametrize("n", [3, 6])
def test_the_worst_log_is_that_of_theorem_8(n: int) -> None:
    names = tuple(f"p{number}" for number in range(n))
    world = {name: antecede.endpoint("optimal", process=name, members=names) for name in names}
    hub, rest = names[0], names[1:]
    for one in rest:
        for other in rest:
            if one != other:
                world[one].send([other])
    for one in rest:
        (packet,) = world[one].send([hub]).packets
        world[hub].receive(packet)
    log = worst(n)
    assert {
        antecede.MessageId(names[sender], clock): frozenset(names[dest] for dest in dests)
        for (sender, clock), dests in log.items()
    } == world[hub].dependencies()
    assert sum(map(len, log.values())) == (n - 1) * (n - 2)


def some_log(rng: Random) -> Log:
    """Return a log of four processes in which no two entries of a sender name the same process."""
    log: Log = {}
    for sender in range(4):
        for clock in rng.sample(range(1, 5), 2):
            used = frozenset(d for (s, _), dests in log.items() if s == sender for d in dests)
            log[sender, clock] = frozenset(rng.sample(range(4), 2)) - used
    return log


@pytest.mark.parametrize("seed", range(20))
def test_both_ways_to_send_send_the_same(seed: int) -> None:
    rng = Random(seed)
    log, dests = some_log(rng), frozenset(rng.sample(range(4), 3))
    (_, printed), (_, common) = send_printed(log, dests), send_common(log, dests)
    assert printed == common


@pytest.mark.parametrize("seed", range(40))
def test_both_ways_to_merge_do_what_the_specification_does(seed: int) -> None:
    rng = Random(seed)
    log, o_m = some_log(rng), some_log(rng)
    spec = Process("0", tuple("0123"))
    spec.log = _named(log)
    spec.merge(_named(o_m))
    for merge in (merge_printed, merge_sorted):
        assert purge_null_entries(_named(merge(log, o_m)[1])) == spec.log


def _named(log: Log) -> dict[tuple[str, int], frozenset[str]]:
    return {(str(s), t): frozenset(map(str, dests)) for (s, t), dests in log.items()}


def test_the_counts_are_those_of_the_worst_case() -> None:
    n = 12
    units = (n - 1) * (n - 2)
    assert operations(PRINTED, n) == (n - 1) * units
    assert operations(COMMON, n) == 2 * units
    assert operations(PAIRS, n) == units * (n - 2)
    assert operations(SORTED, n) == 2 * units


@pytest.mark.parametrize("protocol", [RST, SEMANTIC])
def test_cells_are_counted_for_a_message_and_its_delivery(protocol: str) -> None:
    assert cells(protocol, 20) / cells(protocol, 10) == pytest.approx(4, rel=0.1)
