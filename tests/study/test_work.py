"""The timed steps are what they are called: worst logs, the printed send, a whole receipt."""

from __future__ import annotations

import pytest

import antecede
from antecede.protocols.optimal import Optimal
from antecede.study.experiments.work import (
    COMMON,
    PRINTED,
    RECEIPT,
    AsPrinted,
    receipt,
    send,
    with_log,
    worst,
)


@pytest.mark.parametrize("n", [3, 6])
def test_the_worst_log_is_that_of_theorem_8(n: int) -> None:
    names, log = worst(n)
    world = {name: antecede.endpoint("optimal", process=name, members=names) for name in names}
    hub, rest = names[0], names[1:]
    for one in rest:
        for other in rest:
            if one != other:
                world[one].send([other])
    for one in rest:
        (packet,) = world[one].send([hub]).packets
        world[hub].receive(packet)
    explicit = with_log(Optimal, hub, names, log).dependencies()
    assert explicit == world[hub].dependencies()
    assert sum(map(len, explicit.values())) == (n - 1) * (n - 2)


def test_the_printed_send_sends_and_keeps_the_same() -> None:
    names, log = worst(5)
    printed = with_log(AsPrinted, names[0], names, log)
    ours = with_log(Optimal, names[0], names, log)
    for dests in (names[1:], names[2:4]):
        sent = {packet.dest: packet.control for packet in ours.send(dests).packets}
        assert {p.dest: p.control for p in printed.send(dests).packets} == sent
        assert printed.dependencies() == ours.dependencies()


def test_each_step_does_its_work() -> None:
    for series in (PRINTED, COMMON):
        effects = send(5, series)()()
        assert isinstance(effects, antecede.Effects)
        assert len(effects.packets) == 4
    received = receipt(5, RECEIPT)()()
    assert isinstance(received, tuple)
    effects, kept = received  # merged: an endpoint would leave that to its next send
    assert isinstance(effects, antecede.Effects)
    assert len(effects.deliveries) == 1
    assert kept == 10  # of 12 units, those for the receiver are settled; and the message itself
