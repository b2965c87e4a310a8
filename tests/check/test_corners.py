"""The oracle's tools where the property tests seldom go: steps, sentences, broken promises."""

from __future__ import annotations

from typing import Any

import pytest

from antecede.check import BrokenPromiseError, History, Script, World, explore, random_script
from antecede.check.cases import chain_of_groups
from antecede.check.exploration import main
from antecede.check.scripts import run_step
from antecede.core.messages import MessageId, Need
from antecede.core.registry import protocol_class

MATRIX: Any = protocol_class("matrix")


def test_steps_add_take_and_remove() -> None:
    world = World("optimal", "ab", pull=True)
    run_step(world, ("add", "c"))
    run_step(world, ("send", "a", ("b", "c"), None))
    run_step(world, ("packet", "a", "c", 1, False))
    run_step(world, ("take", "c", None))
    run_step(world, ("restart", "c"))
    run_step(world, ("remove", "b"))
    assert world.endpoints["a"].members == ("a", "c")
    assert [str(event) for event in world.history.events] == [
        "a sends a:1 to b, c",
        "c delivers a:1",
    ]
    run_step(world, ("send", "b", ("a",), None))  # it is gone, so nothing happens
    assert len(world.history.events) == 2
    with pytest.raises(ValueError, match="unknown step"):
        run_step(world, ("dance",))


def test_a_script_may_restart_endpoints_also_of_a_class_of_ones_own() -> None:
    made = random_script(1, members=3, casts=("multicast",), steps=40, restart_share=0.3)
    restarts = [step for step in made.steps if step[0] == "restart"]
    assert restarts
    world = World("matrix", made.members, endpoint_class=MATRIX)
    for step in made.steps:
        run_step(world, step)
    world.drain()
    world.check()


def test_a_message_that_was_never_sent_follows_all_its_sender_did() -> None:
    history = History(("a", "b"))
    history.send("a", MessageId("a", 1), ("b",))
    ((before, link),) = history.influenced_directly(MessageId("a", 2))
    assert (before, str(link)) == (MessageId("a", 1), "a sends a:1 to b")
    assert History(("a", "b"), history.events).events == history.events


def test_too_few_for_a_ring_are_one_group() -> None:
    assert chain_of_groups(("a", "b")) == {"all": ("a", "b")}


class Deaf(MATRIX):  # type: ignore[misc]  # a class that the registry returned
    """Delivers nothing, whatever arrives."""

    def _unmet(self, packet: Any) -> Any:
        yield Need(packet.source, 99, "count")

    def _first_unmet(self, packet: Any) -> Any:
        return Need(packet.source, 99, "count")


class Echoing(MATRIX):  # type: ignore[misc]  # a class that the registry returned
    """Delivers everything twice."""

    def _deliver(self, packet: Any) -> None:
        super()._deliver(packet)
        self._delivered.append(self._delivered[-1])


@pytest.mark.parametrize(
    ("mutant", "promise", "word"),
    [(Deaf, "liveness", "never delivers a:1"), (Echoing, "integrity", "a:1 twice")],
)
def test_what_is_broken_is_told_with_a_script(mutant: Any, promise: str, word: str) -> None:
    found = explore("matrix", 2, 1, endpoint_class=mutant, promises=("safety", "liveness"))
    assert found.promise == promise
    assert word in found.sentence
    assert f"BROKEN {promise}: " in str(found)
    assert isinstance(found.script, Script)
    assert not found.is_clean


def test_one_that_holds_for_ever_is_not_quiescent() -> None:
    found = explore("matrix", 2, 1, endpoint_class=Deaf, promises=("quiescence",))
    assert found.promise == "quiescence"
    world = World("matrix", "ab", endpoint_class=Deaf, promises=("quiescence",))
    world.send("a", ("b",))
    world.drain()
    with pytest.raises(BrokenPromiseError, match="quiescence"):
        world.check()


def test_the_command_says_which_script_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MATRIX, "_unmet", Deaf._unmet)
    monkeypatch.setattr(MATRIX, "_first_unmet", Deaf._first_unmet)
    words = ["--processes", "2", "--messages", "1", "--protocol", "matrix"]
    assert main(words) == 1
    assert "shortest failing script: Script(members=" in capsys.readouterr().out
