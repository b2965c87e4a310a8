"""Snapshots with a right checksum and a state that no endpoint has are refused, whole."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any, cast

import pytest

import antecede
from antecede import PROTOCOLS, Endpoint
from antecede.core.state import State
from antecede.errors import AntecedeError, SnapshotError
from antecede.wire import Codec
from tests.wire.runs import Run, names

PARTS = ("own", "own", "own", "channels", "held", "seq", "events", "arrivals", "members")
JUNK: tuple[Any, ...] = (
    *(None, -1, 1 << 60, True, "", "zz", b"x", (), ("a",), [], {}, {"a": 1}, set(), [1], [[]]),
)


def damaged(value: Any, rng: Random) -> Any:
    """Return plain data with one place in it changed, left out or doubled."""
    if not value or rng.random() < 0.1:
        return rng.choice(JUNK)
    if type(value) is dict:
        key = rng.choice(sorted(value, key=repr))
        rest = {k: v for k, v in value.items() if k != key}
        new_key = rng.choice(("zz", 5)) if rng.random() < 0.1 else key
        return rest if rng.random() < 0.1 else rest | {new_key: damaged(value[key], rng)}
    if type(value) in (list, tuple):
        place = rng.randrange(len(value))
        item = value[place]
        middle = rng.choice(([], [item, item], *[[damaged(item, rng)]] * 4))
        return type(value)((*value[:place], *middle, *value[place + 1 :]))
    return rng.choice(JUNK)


def use(codec: Codec, end: Endpoint, run: Run) -> None:
    """Do with an endpoint what a driver does; its own errors are fine."""
    codec.snapshot(end)
    end.waiting()
    for packet in run.packets:
        if packet.dest == end.process:
            with suppress(AntecedeError):
                end.receive(packet)
    with suppress(AntecedeError):
        for packet in end.send([name for name in end.members if name != end.process]).packets:
            codec.encode(packet)
    codec.snapshot(end)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_impossible_state_is_refused_or_does_no_harm(protocol: str) -> None:
    codec = Codec(names(4))
    run = Run(protocol, codec.members, 3).go(40)
    refused = 0
    for seed in range(40):
        rng = Random(seed)
        end = run.endpoints[rng.choice(codec.members)]
        state = cast("dict[str, Any]", end.state())
        part = rng.choice(PARTS)
        state[part] = damaged(state[part], rng)
        twin = antecede.endpoint(protocol, process=end.process, members=codec.members)
        vars(twin)["state"] = lambda state=state: cast("State", state)
        data = codec.snapshot(twin)
        try:
            again = codec.restore(data, resumed=True)
        except SnapshotError:
            refused += 1
        else:
            use(codec, again, run)
    assert refused >= 20
