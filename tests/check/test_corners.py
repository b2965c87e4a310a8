"""The oracle's tools where the property tests seldom go: steps, sentences, broken promises."""

from __future__ import annotations

from collections.abc import Callable
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
from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.messages import FREE, Delivery, Effects, Message, MessageId
from antecede.endpoint.registry import rules_of
from antecede.errors import UsageError

MATRIX: Any = rules_of("matrix")


def test_steps_take_restart_lose_and_crash() -> None:
    world = World("optimal", "abc", pull=True)
    run_step(world, ("send", "a", ("b", "c"), None))
    run_step(world, ("packet", "a", "c", 1, False))
    run_step(world, ("take", "c", None))
    run_step(world, ("restart", "c"))
    run_step(world, ("lose", 5))  # the only packet in flight
    assert not world.in_flight
    run_step(world, ("lose", 5))
    run_step(world, ("loss", "a", "b", 1))
    run_step(world, ("crash", "a", -1))
    run_step(world, ("send", "a", ("b",), None))  # it is gone, so nothing happens
    run_step(world, ("settle",))
    run_step(world, ("skip", "b", "c", None))  # it is there, so this is a part of something else
    assert [step[0] for step in world.steps] == [
        "send", "packet", "take", "restart", "loss", "crash", "take", "take", "skip", "skip",
        "take", "take",
    ]  # fmt: skip
    assert [str(event) for event in world.history.events] == [
        "a sends a:1 to b, c",
        "c delivers a:1",
    ]
    world.check()
    with pytest.raises(ValueError, match="unknown step"):
        run_step(world, ("dance",))


def test_a_script_may_restart_endpoints_also_with_rules_of_ones_own() -> None:
    made = random_script(1, members=3, casts=("multicast",), steps=40, restart_share=0.3)
    restarts = [step for step in made.steps if step[0] == "restart"]
    assert restarts
    world = World("matrix", made.members, rules=MATRIX)
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

    def blocker(self, packet: Any) -> int:
        return int(99 << self.view.shift | packet.source_no)


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Effects], Effects]], None]:
    """Return what spoils all that endpoints return from ``send`` and ``receive``."""

    def spoil(change: Callable[[Effects], Effects]) -> None:
        for name in ("send", "receive"):
            real = getattr(Endpoint, name)

            def spoilt(*given: Any, real: Any = real, **named: Any) -> Effects:
                return change(real(*given, **named))

            monkeypatch.setattr(Endpoint, name, spoilt)

    return spoil


def test_one_that_delivers_nothing_is_told_with_a_script() -> None:
    found = explore("matrix", 2, 1, rules=Deaf, promises=("safety", "liveness"))
    assert found.promise == "liveness"
    assert "never delivers a:1" in found.sentence
    assert "BROKEN liveness: " in str(found)
    assert isinstance(found.script, Script)
    assert not found.is_clean


def test_one_that_delivers_twice_is_told(spoil: Any) -> None:
    spoil(lambda made: Effects(made.packets, made.deliveries * 2, made.event))
    found = explore("matrix", 2, 1)
    assert found.promise == "integrity"
    assert "a:1 twice" in found.sentence


def test_one_that_holds_for_ever_is_not_quiescent() -> None:
    found = explore("matrix", 2, 1, rules=Deaf, promises=("quiescence",))
    assert found.promise == "quiescence"
    world = World("matrix", "ab", rules=Deaf, promises=("quiescence",))
    world.send("a", ("b",))
    world.drain()
    with pytest.raises(BrokenPromiseError, match="quiescence"):
        world.check()


def test_the_command_says_which_script_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MATRIX, "blocker", Deaf.blocker)
    words = ["--processes", "2", "--messages", "1", "--protocol", "matrix"]
    assert main(words) == 1
    assert "shortest failing script: Script(members=" in capsys.readouterr().out


def test_a_delivery_at_the_wrong_process_is_told(spoil: Any) -> None:
    """The first message of all is delivered in the place of any other."""

    def misdirected(made: Effects) -> Effects:
        return Effects(made.packets, tuple(map(as_first, made.deliveries)), made.event)

    def as_first(one: Delivery) -> Delivery:
        old = one.content
        first = Message(old.view, old.sender, old.seq, old.dests, b"0", old.control)
        return Delivery(first, one.event, ())

    spoil(misdirected)
    found = explore("matrix", 3, 2, casts=("unicast",))
    assert found.promise == "integrity"
    assert [step[0] for step in found.failure] == ["send", "send", "arrive"]


def test_a_send_with_a_wrong_number_is_told(spoil: Any) -> None:
    spoil(lambda made: Effects(made.packets, made.deliveries, made.event + 1))
    world = World("matrix", "ab")
    with pytest.raises(BrokenPromiseError, match="the send of a:1 is event 1, not 2"):
        world.send("a", ("b",))


def test_order_is_judged_also_after_the_fact() -> None:
    world = World("matrix", "ab", rules=Hasty, promises=())
    world.send("a", ("b",))
    world.send("a", ("b",))
    world.arrive(1)
    world.check()
    world.promises = frozenset({"safety"})
    with pytest.raises(BrokenPromiseError, match="b delivered a:2 first"):
        world.check()


class Hasty(MATRIX):  # type: ignore[misc]  # a class that the registry returned
    """Delivers everything at once."""

    def blocker(self, packet: Any) -> int:
        return FREE


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
        rules=None, symmetric=True,
    )  # fmt: skip
    assert explorer.run(lambda *_: False)
    world = explorer.replay([("send", "a", ("b",), None), ("arrive", 0)])
    assert world.history.deliveries("b") == [MessageId("a", 1)]
    with pytest.raises(ValueError, match="unknown step"):
        explorer.replay([("dance",)])
