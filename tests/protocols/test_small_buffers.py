"""Holding buffers with one or two places: packets are refused, yet everything is delivered."""

from __future__ import annotations

from random import Random

import pytest

from antecede.check import World, random_script
from antecede.check.scripts import run_step
from antecede.endpoint.info import MULTICAST, Cast

CASES: list[tuple[str, tuple[Cast, ...], dict[str, object]]] = [
    ("buffered", ("unicast",), {}),
    ("buffered", ("unicast",), {"pipelined": True}),
    ("pruned", MULTICAST, {}),
    ("semantic", MULTICAST, {}),
    ("bounded", MULTICAST, {"k": 6}),
    ("matrix", MULTICAST, {}),
    ("optimal", MULTICAST, {}),
]


@pytest.mark.parametrize(("name", "casts", "options"), CASES)
@pytest.mark.parametrize("pull", [False, True])
@pytest.mark.parametrize("held_max", [1, 2])
def test_nothing_is_stuck(
    name: str, casts: tuple[Cast, ...], options: dict[str, object], pull: bool, held_max: int
) -> None:
    for seed in range(8):
        script = random_script(seed, members=5, casts=casts, steps=60, pull=pull)
        world = World(name, script.members, options=options, pull=pull, held_max=held_max)
        for step in script.steps:
            run_step(world, step)
            assert all(ep.held <= held_max for ep in world.endpoints.values())
        assert world.drain(Random(seed)), f"{name} refuses packets for good"
        world.check()
