"""Specifications under the oracle: unchanged, they keep their protocols' promises."""

from random import Random

import pytest

from antecede import PROTOCOLS, UsageError
from antecede.check import World, edited, explore, random_script, rules_from, run_script
from antecede.endpoint.info import Cast
from antecede.protocols.specs import SPECIFIED, specification


def widest(name: str) -> Cast:
    casts = PROTOCOLS[name].casts
    return "multicast" if "multicast" in casts else casts[0]


@pytest.mark.parametrize("name", SPECIFIED)
def test_two_messages_are_exhausted_as_under_the_rules(name: str) -> None:
    rules = rules_from(specification(name).Process)
    result = explore(name, 3, 2, casts=(widest(name),), rules=rules)
    assert result.is_clean, f"{result}\n{result.script!r}"
    assert result.situations == explore(name, 3, 2, casts=(widest(name),)).situations


@pytest.mark.parametrize("name", SPECIFIED)
def test_random_scripts_with_restarts_keep_every_promise(name: str) -> None:
    info, rules = PROTOCOLS[name], rules_from(specification(name).Process)
    for seed in range(6):
        script = random_script(
            seed,
            members=4,
            casts=(widest(name),),
            steps=60,
            self_share=0.0,
            restart_share=0.05,
            ranks=info.orders_by_after,
        )
        world = run_script(script, name, rules=rules, drain=Random(seed))
        same = run_script(script, name, drain=Random(seed))
        assert world.history.events == same.history.events
        assert [p.control for p in world.packets] == [p.control for p in same.packets]


def test_an_edited_step_is_what_runs() -> None:
    deaf = rules_from(edited("matrix", ("self.deliv[k] >= st_m[k][self.i]", "False")))
    world = World("matrix", "ab", rules=deaf, promises=())
    message = world.send("a", ["b"])
    world.drain()
    assert not world.history.is_delivered("b", message)


@pytest.mark.parametrize(("old", "times"), [("no such line", 0), ("for k in self.names", 3)])
def test_what_is_edited_must_be_there_once(old: str, times: int) -> None:
    with pytest.raises(UsageError, match=f"has '{old}' {times} times; expected once"):
        edited("matrix", (old, ""))
