"""Every protocol x every property it promises, on random scripts, judged by the oracle.

The list is made from the registry: a new protocol is covered as soon as it is registered. Scripts
reorder and duplicate packets, use each cast the protocol offers, and have 2 to 8 processes. Every
promise of a case is judged in every run, after every step where that is possible.
"""

from dataclasses import replace
from functools import partial
from random import Random

import pytest

import antecede
from antecede.check import PROPERTIES, BrokenPromiseError, random_script, run_script, shrunk
from antecede.check.cases import Case, cases, random_groups
from antecede.check.promises import Script
from antecede.check.scripts import process_names
from tests.support.rounds import seeds

SCRIPTS_PER_CASE = 7
SIZES = tuple(range(2, 9))

LABELS = [
    (name, case.label, case.cast)
    for name in antecede.PROTOCOLS
    for case in cases(name, process_names(3))
]


def case_for(name: str, label: str, cast: str, members: tuple[str, ...]) -> Case:
    return next(case for case in cases(name, members) if (case.label, case.cast) == (label, cast))


def script_for(case: Case, members: tuple[str, ...], seed: int, *, is_fifo: bool) -> Script:
    groups = random_groups(members, seed) if case.cast == "groups" else None
    return random_script(
        seed,
        members=members,
        casts=(case.cast,),
        steps=30 + (2 if case.cast == "broadcast" else 6) * len(members),
        self_share=0.08,
        ranks=antecede.PROTOCOLS[case.protocol].orders_by_after,
        fifo=is_fifo,
        pull=seed % 6 == 5,
        groups=groups,
    )


@pytest.mark.parametrize(("name", "label", "cast"), LABELS)
def test_every_promise_holds_on_random_scripts(name: str, label: str, cast: str) -> None:
    for seed in seeds(SCRIPTS_PER_CASE):
        members = process_names(SIZES[seed % len(SIZES)])
        case = case_for(name, label, cast, members)
        options = {key: value for key, value in case.options.items() if key != "groups"}
        script = script_for(case, members, seed, is_fifo=seed % 4 == 3)
        order = (Random(seed), 0, -1)[seed % 3]
        run = partial(
            run_script, protocol=name, options=options, promises=case.promises, drain=order
        )
        try:
            run(script)
        except BrokenPromiseError:
            raise shrunk(script, run) from None


@pytest.mark.parametrize("name", antecede.PROTOCOLS)
def test_going_on_from_a_saved_state_changes_nothing(name: str) -> None:
    """Endpoints are replaced by what their ``state()`` restores, again and again."""
    for seed in seeds(4):
        members = process_names(2 + seed % 4)
        for case in cases(name, members):
            options = {key: value for key, value in case.options.items() if key != "groups"}
            script = random_script(
                seed,
                members=members,
                casts=(case.cast,),
                steps=40,
                restart_share=0.25,
                ranks=antecede.PROTOCOLS[name].orders_by_after,
                pull=seed % 5 == 4,
                groups=random_groups(members, seed) if case.cast == "groups" else None,
            )
            world = run_script(script, name, options=options, promises=case.promises, drain=-1)
            steps = tuple(step for step in world.script.steps if step[0] != "restart")
            plain = run_script(
                replace(world.script, steps=steps), name, options=options, promises=()
            )
            assert plain.history.events == world.history.events
            assert plain.packets == world.packets


@pytest.mark.parametrize("name", antecede.PROTOCOLS)
def test_little_room_to_hold_loses_nothing(name: str) -> None:
    """Packets that are refused are offered again, and in the end all is delivered."""
    for seed in seeds(5):
        members = process_names(2 + seed % 5)
        case = cases(name, members)[-1]
        options = {key: value for key, value in case.options.items() if key != "groups"}
        script = script_for(case, members, 6 * seed, is_fifo=False)
        run_script(
            script,
            name,
            options=options,
            promises=case.promises,
            held_max=seed % 3,
            drain=Random(seed),
        )


@pytest.mark.parametrize("name", antecede.PROTOCOLS)
def test_promises_are_properties_that_the_oracle_knows(name: str) -> None:
    info = antecede.PROTOCOLS[name]
    assert info.promises <= set(PROPERTIES)
    assert {"safety", "liveness", "quiescence"} - info.promises == set(info.missing_promises)
    assert all(info.missing_promises.values())
