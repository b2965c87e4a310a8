"""Holding buffers of one or two places under the baselines and special cases: nothing is stuck."""

from random import Random

import pytest

from antecede.check import World, random_script
from antecede.check.scripts import run_step
from antecede.endpoint.registry import PROTOCOLS

CASES: list[tuple[str, dict[str, object]]] = [
    ("broadcast", {}),
    ("central", {}),
    ("context", {}),
    ("direct", {}),
    ("hierarchy", {"clusters": (("a", "b"), ("c",), ("e", "d"))}),
    ("history", {}),
    ("optimal", {"differential": True}),
    ("serial", {}),
    ("server", {}),
    ("two_hop", {}),
    ("vectors", {}),
    ("zones", {"zones": (("a", "b", "c"), ("c", "d", "e"))}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("pull", [False, True])
@pytest.mark.parametrize("held_max", [1, 2])
def test_what_is_refused_can_be_offered_again_until_all_is_delivered(
    name: str, options: dict[str, object], pull: bool, held_max: int
) -> None:
    casts = [cast for cast in PROTOCOLS[name].casts if cast != "groups"]
    for seed in range(8):
        script = random_script(seed, members=5, casts=casts, steps=30, pull=pull)
        world = World(name, script.members, options=options, pull=pull, held_max=held_max)
        for step in script.steps:
            run_step(world, step)
            assert all(endpoint.held <= held_max for endpoint in world.endpoints.values())
        assert world.drain(Random(seed)), f"{name} refuses packets for good"
        world.check()


def test_phases_needs_room_as_it_says() -> None:
    """An answer comes behind messages that are refused: its page tells to leave room."""
    assert "a holding buffer that does not fill" in PROTOCOLS["phases"].assumptions
    stuck = 0
    for seed in range(30):
        script = random_script(seed, members=4, casts=("broadcast",), steps=40)
        world = World("phases", script.members, held_max=1)
        for step in script.steps:
            run_step(world, step)
        stuck += not world.drain(0)
    assert stuck > 0
