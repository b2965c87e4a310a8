"""Damaged packets do no harm: they are refused without side effects, or are other valid packets."""

from __future__ import annotations

import pytest

from antecede import PROTOCOLS
from antecede.check import random_script, run_script
from antecede.check.cases import cases, random_groups
from antecede.check.scripts import process_names
from tests.protocols.rig import assert_damage_is_harmless
from tests.support.rounds import some

LABELS = [
    (name, case.label)
    for name in PROTOCOLS
    for case in {case.label: case for case in cases(name, process_names(4))}.values()
]


@pytest.mark.parametrize(("name", "label"), LABELS)
def test_a_damaged_packet_is_refused_or_is_another_packet(name: str, label: str) -> None:
    for seed in range(3):
        members = process_names(3 + seed)
        case = next(case for case in cases(name, members) if case.label == label)
        script = random_script(
            seed,
            members=members,
            casts=(case.cast,),
            steps=90,
            ranks=PROTOCOLS[name].orders_by_after,
            groups=random_groups(members, seed) if case.cast == "groups" else None,
        )
        options = {key: value for key, value in case.options.items() if key != "groups"}
        world = run_script(script, name, options=options, promises=())
        assert_damage_is_harmless(world, count=min(some(30), len(world.packets)))
