"""Damaged control does no harm: it is refused without side effects, or happens to be valid."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from antecede import PROTOCOLS, Endpoint, HoldFullError, Packet, PeerError, UsageError
from antecede.check import World, random_script
from antecede.check.scripts import run_step
from antecede.endpoint.registry import restore

JUNK: tuple[object, ...] = (
    None,
    -1,
    0,
    1,
    7,
    1 << 70,
    True,
    1.5,
    "",
    "a",
    "zz",
    b"a",
    (),
    ("a",),
    (1,),
    ((),),
    [],
    {},
)


def damaged(value: object, rng: Random) -> object:
    """Return ``value`` with one place in it replaced, left out, doubled or swapped."""
    if type(value) is not tuple or not value or rng.random() < 0.1:
        return rng.choice(JUNK)
    place = rng.randrange(len(value))
    head, tail = value[:place], value[place + 1 :]
    match rng.randrange(6):
        case 0:
            return (*head, *tail)
        case 1:
            return (*head, value[place], value[place], *tail)
        case 2:
            return (*value[place:], *head)
        case _:
            return (*head, damaged(value[place], rng), *tail)


def is_refused(ep: Endpoint, packet: Packet) -> bool:
    """Offer a packet; if it is refused, see that it left no trace."""
    before = ep.state()
    try:
        ep.receive(packet)
    except (PeerError, HoldFullError) as error:
        message = str(error)
    else:
        return False
    assert "\n" not in message
    assert ep.state() == before
    return True


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_damaged_control_is_refused_without_a_trace_or_is_none(name: str) -> None:
    outcomes: Counter[bool] = Counter()
    for seed in range(25):
        rng = Random(seed)
        casts = [cast for cast in PROTOCOLS[name].casts if cast != "groups"][:2]
        script = random_script(seed, members=2 + seed % 4, casts=casts, steps=40)
        world = World(name, script.members, promises=())
        for step in script.steps:
            with suppress(UsageError):  # a send out of turn, where the protocol knows turns
                run_step(world, step)
            if world.in_flight:
                packet = rng.choice(world.in_flight)
                twin = restore(world.endpoints[packet.dest].state())
                outcomes[
                    is_refused(twin, replace(packet, control=damaged(packet.control, rng)))
                ] += 1
    assert outcomes[True] > 100
