"""Crashes, losses and skips: what worlds do, and what the oracle demands and notices."""

from __future__ import annotations

import pytest

import antecede
from antecede import Delivery, MessageId, Need, Packet
from antecede.check import BrokenPromiseError, Script, World, random_script, run_script
from antecede.check.campaign import main, run, script_for
from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.messages import FREE
from antecede.endpoint.skips import Skips
from antecede.protocols.optimal import Optimal

A1, A2, A3, B1 = MessageId("a", 1), MessageId("a", 2), MessageId("a", 3), MessageId("b", 1)
LOSING = [
    name for name, info in antecede.PROTOCOLS.items() if {"safety", "liveness"} <= info.promises
]


def unmet(world: Noting, process: str, message: MessageId) -> tuple[Need, ...]:
    """Return the unmet causes that a delivery states."""
    return next(one.unmet for one in world.delivered[process] if one.message == message)


class Noting(World):
    """Keeps the deliveries."""

    def _deliver(self, process: str, delivery: Delivery) -> None:
        self.__dict__.setdefault("delivered", {}).setdefault(process, []).append(delivery)
        super()._deliver(process, delivery)

    delivered: dict[str, list[Delivery]]


def test_what_waits_for_a_lost_message_is_delivered_and_says_so() -> None:
    world = Noting("optimal", "abc")
    world.send("a", ["b", "c"])
    world.send("a", ["b", "c"])
    world.lose_packet("a", "c", 1)
    assert world.settle()
    assert world.history.deliveries("c") == [A2]
    assert unmet(world, "c", A2) == (Need("a", 1),)
    assert unmet(world, "b", A2) == ()
    world.check()


def test_a_message_that_was_declared_lost_is_refused_when_it_comes() -> None:
    world = World("optimal", "ab")
    world.send("a", ["b"])
    world.send("a", ["b"])
    world.arrive_packet("a", "b", 2)
    world.skip("b", "a", 1)
    assert world.history.deliveries("b") == [A2]
    assert world.arrive_packet("a", "b", 1)
    assert world.history.deliveries("b") == [A2]
    world.settle()
    world.check()
    assert world.has_skips


def test_of_a_crashed_process_only_what_arrived_counts() -> None:
    world = World("optimal", "abc")
    world.send("a", ["b", "c"])
    world.send("a", ["b", "c"])
    world.send("b", ["a"])
    world.crash("a", lost=0b0011)  # the first to b, and the first to c
    assert [(p.source, p.dest, p.n) for p in world.in_flight] == [("a", "b", 2), ("a", "c", 2)]
    world.settle()
    world.check()
    assert world.history.deliveries("b") == world.history.deliveries("c") == [A2]
    world.send("b", ["a", "c"])  # nobody waits for the one who is gone
    world.settle()
    world.check()


def test_a_loss_in_the_middle_is_known_after_later_messages_came() -> None:
    """b:1 asks for a:1, which is lost, though a:3 has come: its delivery must say so."""
    world = Noting("optimal", "abc")
    world.send("a", ["c"])
    world.send("a", ["b"])
    world.arrive_packet("a", "b")
    world.send("a", ["c"])
    world.send("b", ["c"])
    world.lose_packet("a", "c", 1)
    world.arrive_packet("a", "c", 2)
    world.skip("c", "a", 1)
    world.arrive_packet("b", "c", 1)
    assert world.history.deliveries("c") == [A3, B1]
    assert unmet(world, "c", B1) == (Need("a", 1),)


class Silent(Optimal):
    """Needs no causes, so no cause is unmet, and every message is delivered at once."""

    def needs(self, packet: Packet) -> list[int]:
        return []

    def blocker(self, packet: Packet) -> int:
        return FREE


def test_a_delivery_that_hides_a_loss_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Skips, "unmet", lambda *_: ())
    world = World("optimal", "ab")
    world.send("a", ["b"])
    world.send("a", ["b"])
    world.lose_packet("a", "b", 1)
    with pytest.raises(BrokenPromiseError, match="broke marks: b delivers a:2 without a word on"):
        world.settle()


def test_a_held_cause_that_is_overtaken_after_a_skip_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """d holds a:1, which b:1 knew of; b:1 is lost, and c:1 depends on it."""

    def story() -> World:
        world = World("optimal", "abcde")
        world.send("e", ["d"])  # the cause of a:1 that is missing at d
        world.send("e", ["a"])
        world.arrive_packet("e", "a")
        world.send("a", ["b", "d"])
        world.arrive_packet("a", "b")
        world.send("b", ["c", "d"])
        world.arrive_packet("b", "c")
        world.send("c", ["d"])
        for source in "ac":
            world.arrive_packet(source, "d")
        world.lose_packet("b", "d", 1)
        world.skip("d", "b", 1)
        return world

    world = story()
    assert world.history.deliveries("d") == []
    world.settle()
    world.check()
    assert [str(message) for message in world.history.deliveries("d")] == ["e:1", "a:1", "c:1"]
    monkeypatch.setattr(Skips, "_precedes", lambda *_: False)
    with pytest.raises(BrokenPromiseError, match="broke safety: a:1 comes before c:1"):
        story()


def test_what_was_lost_and_is_delivered_all_the_same_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Skips, "check", lambda *_: "")
    monkeypatch.setattr(Skips, "drops", lambda *_: False)
    world = World("optimal", "ab")
    world.send("a", ["b"])
    world.skip("b", "a", 1)
    with pytest.raises(BrokenPromiseError, match="b delivers a:1, which it declared lost"):
        world.drain()


def test_what_waits_for_ever_after_a_crash_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Endpoint.skip
    monkeypatch.setattr(Endpoint, "skip", lambda one, source, _=None: real(one, source, 1))
    world = World("optimal", "abc")
    for _ in range(3):
        world.send("a", ["b"])
    world.arrive_packet("a", "b", 3)
    world.crash("a")
    world.settle()
    with pytest.raises(BrokenPromiseError, match="b never delivers a:3; it waits for message 2"):
        world.check()


@pytest.mark.parametrize("name", LOSING)
def test_every_protocol_goes_on_after_crashes_and_losses(name: str) -> None:
    found = run(name, "loss", 40)
    assert not found.broken, found.failures[0]
    assert found.scripts == 40
    assert found.events > 400


def test_scripts_crash_lose_and_settle() -> None:
    kinds = {step[0] for seed in range(8) for step in script_for("optimal", "loss", seed)[1].steps}
    assert {"crash", "settle", "lose", "send", "arrive"} <= kinds
    script = random_script(3, members=4, casts=("multicast",), steps=40, crashes=1)
    world = run_script(script, "optimal", drain=0)
    again = run_script(world.script, "optimal")
    assert again.history.events == world.history.events
    assert [step for step in world.steps if step[0] == "crash"]


def test_a_campaign_prints_its_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scripts", "9", "--protocol", "optimal"]) == 0
    order, loss = capsys.readouterr().out.splitlines()
    assert order.startswith("optimal order: 9 scripts, ")
    assert loss.startswith("optimal loss: 9 scripts, ")
    assert main(["--protocol", "optimun"]) == 2
    assert "did you mean optimal" in capsys.readouterr().err


def test_a_campaign_shows_the_smallest_script_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Optimal, "blocker", Silent.blocker)
    assert main(["--scripts", "40", "--protocol", "optimal", "--kind", "order"]) == 1
    printed = capsys.readouterr().out
    assert "optimal-multicast safety: " in printed
    assert "optimal broke safety: " in printed
    assert Script.__name__ in printed
