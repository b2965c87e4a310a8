"""The oracle's tools where the property tests seldom go: steps, sentences, broken promises."""

from __future__ import annotations

from typing import Any

import pytest

from antecede.check import (
    BrokenPromiseError,
    History,
    Script,
    World,
    explore,
    random_script,
    run_script,
)
from antecede.check.cases import chain_of_groups
from antecede.check.exploration import main
from antecede.check.plays import Move, Play, every_way
from antecede.check.scripts import run_step
from antecede.check.search import Explorer
from antecede.core.messages import Delivery, Effects, MessageId, Need
from antecede.core.registry import protocol_class
from antecede.errors import UsageError

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


class Misdirecting(MATRIX):  # type: ignore[misc]  # a class that the registry returned
    """Delivers the first message of all in the place of any other."""

    def _deliver(self, packet: Any) -> None:
        super()._deliver(packet)
        last = self._delivered[-1]
        self._delivered[-1] = Delivery(last.message, last.dests, b"0", last.event)


class Miscounting(MATRIX):  # type: ignore[misc]  # a class that the registry returned
    """Numbers its sends wrongly."""

    def send(self, dests: Any, payload: bytes = b"", **given: Any) -> Effects:
        made: Effects = super().send(dests, payload, **given)
        return Effects(made.packets, made.deliveries, made.event + 1)


def test_a_delivery_at_the_wrong_process_is_told() -> None:
    found = explore("matrix", 3, 2, casts=("unicast",), endpoint_class=Misdirecting)
    assert found.promise == "integrity"
    assert found.script is not None
    assert [step[0] for step in found.script.steps] == ["send", "send", "packet"]


def test_a_send_with_a_wrong_number_is_told() -> None:
    world = World("matrix", "ab", endpoint_class=Miscounting)
    with pytest.raises(BrokenPromiseError, match="the send of a:1 is event 1, not 2"):
        world.send("a", ("b",))


def test_order_is_judged_also_after_the_fact() -> None:
    world = World("matrix", "ab", endpoint_class=Hasty, promises=())
    world.send("a", ("b",))
    world.send("a", ("b",))
    world.arrive(1)
    world.check()
    world.promises = frozenset({"safety"})
    with pytest.raises(BrokenPromiseError, match="b delivered a:2 first"):
        world.check()


class Hasty(MATRIX):  # type: ignore[misc]  # a class that the registry returned
    """Delivers everything at once."""

    def _unmet(self, packet: Any) -> Any:
        yield from ()

    def _first_unmet(self, packet: Any) -> Any:
        return None


def test_a_cast_that_a_protocol_lacks_is_refused_by_every_tool() -> None:
    refusal = "buffered"
    with pytest.raises(UsageError, match=refusal):
        explore("buffered", 3, 1, casts=("multicast",), symmetric=False)
    with pytest.raises(UsageError, match=refusal):
        run_script(Script(("a", "b", "c"), (("send", "a", ("b", "c"), None),)), "buffered")
    moves = (Move("m", "a", ("b", "c")),)
    with pytest.raises(UsageError, match=refusal):
        every_way(Play("x", "x", "x", ("a", "b", "c"), moves), "buffered")


def test_long_explorations_say_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Explorer, "run", lambda _, is_time_up: not is_time_up(4096, 7))
    lines: list[str] = []
    assert explore("matrix", progress=lines.append).is_complete
    assert lines == ["matrix: 4,096 situations, 7 steps deep, 0 CPU s"]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["--protocol", "matrix"]) == 0
    assert capsys.readouterr().err == f"\r{lines[0]}  "


def test_a_failure_is_replayed_step_by_step() -> None:
    info = MATRIX.INFO
    explorer = Explorer(
        "matrix", ("a", "b"), 1, options={}, casts=info.casts, promises=info.promises,
        endpoint_class=None, symmetric=True,
    )  # fmt: skip
    assert explorer.run(lambda *_: False)
    world = explorer.replay([("send", "a", ("b",), None), ("arrive", 0)])
    assert world.history.deliveries("b") == [MessageId("a", 1)]
    with pytest.raises(ValueError, match="unknown step"):
        explorer.replay([("dance",)])
