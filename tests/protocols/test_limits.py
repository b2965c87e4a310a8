"""Limits on what is held, from none at all to more than the default, on every protocol.

A packet that is refused leaves no trace and may be offered again, so nothing is lost in the end. A
limit above the default is what counts, also for endpoints inside an endpoint.
"""

from __future__ import annotations

from random import Random

import pytest

import antecede
from antecede import Effects, Endpoint, HoldFullError, Packet
from antecede.check import random_script, run_script
from antecede.check.cases import cases, random_groups
from antecede.check.scripts import process_names
from tests.support.rounds import seeds

LABELS = [
    (name, case.label)
    for name in antecede.PROTOCOLS
    for case in {case.label: case for case in cases(name, process_names(4))}.values()
]
HUGE = 10**9
LIMITS = [0, 1, 3, HUGE]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[Packet]:
    """Watch every ``receive``: see that refusals leave no trace, and collect what was refused."""
    packets: list[Packet] = []
    receive = Endpoint.receive

    def watched(end: Endpoint, packet: Packet) -> Effects:
        before = end.state()
        try:
            effects = receive(end, packet)
        except HoldFullError:
            packets.append(packet)
            assert end.state() == before
            raise
        assert end.held <= end.held_max
        return effects

    monkeypatch.setattr(Endpoint, "receive", watched)
    return packets


@pytest.mark.parametrize("held_max", LIMITS)
@pytest.mark.parametrize(("name", "label"), LABELS)
def test_a_limit_loses_nothing(
    name: str,
    label: str,
    held_max: int,
    refused: list[Packet],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a huge limit the default is tiny, so an endpoint that used it would refuse packets."""
    if held_max == HUGE:
        defaults = Endpoint.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "held_max", 0)
    first = LABELS.index((name, label)) + LIMITS.index(held_max)
    for seed in seeds(1, first):
        members = process_names(3 + seed % (6 if held_max == HUGE else 3))
        case = next(case for case in cases(name, members) if case.label == label)
        script = random_script(
            seed,
            members=members,
            casts=(case.cast,),
            steps=50,
            pull=seed % 3 == 2,
            groups=random_groups(members, seed) if case.cast == "groups" else None,
        )
        options = {key: value for key, value in case.options.items() if key != "groups"}
        run_script(
            script,
            name,
            options=options,
            promises=case.promises,
            held_max=held_max,
            drain=Random(seed),
        )
    if held_max == HUGE:
        assert not refused
