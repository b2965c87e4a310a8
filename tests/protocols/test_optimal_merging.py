"""Merging late and leaving out what others knew gives the log that merging at once gives."""

import random

import pytest

import antecede
from antecede.protocols.optimal import HEARD_MAX

NAMES = tuple("abcdef")


def run(seed: int, *, senders: int = len(NAMES)) -> int:
    """Compare endpoints that are asked for their log after every event with those that are not.

    Return the longest series of deliveries between two sends of a process.
    """
    rng = random.Random(seed)
    asked, unasked = (
        {name: antecede.endpoint("optimal", process=name, members=NAMES) for name in NAMES}
        for _ in range(2)
    )
    flight: list[tuple[antecede.Packet, antecede.Packet]] = []
    series, longest = dict.fromkeys(NAMES, 0), 0
    for _ in range(600):
        if flight and rng.random() < 0.7:
            first, second = flight.pop(rng.randrange(len(flight)))
            name = first.dest
            effects = asked[name].receive(first)
            assert effects.deliveries == unasked[name].receive(second).deliveries
            series[name] += len(effects.deliveries)
        else:
            name = rng.choice(NAMES[:senders])
            dests = rng.sample(NAMES, rng.randint(1, 4))
            effects = asked[name].send(dests)
            other = unasked[name].send(dests)
            assert effects.packets == other.packets
            flight += zip(effects.packets, other.packets, strict=True)
            longest, series[name] = max(longest, series[name]), 0
        asked[name].dependencies()
    for name in NAMES:
        assert asked[name].state() == unasked[name].state()
    return max(longest, *series.values())


@pytest.mark.parametrize("seed", range(12))
def test_a_log_does_not_depend_on_when_it_is_asked_for(seed: int) -> None:
    assert run(seed) > 5


def test_a_process_that_only_receives_merges_now_and_then() -> None:
    assert run(0, senders=2) > HEARD_MAX
