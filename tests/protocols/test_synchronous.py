"""synchronous: order for free, and deadlock when sends cross."""

from random import Random

import pytest

from antecede.check import Script, World, causal_violations, random_script
from antecede.check.scripts import run_step
from antecede.endpoint.messages import Need, Packet
from antecede.endpoint.registry import PROTOCOLS, size
from antecede.errors import UsageError
from antecede.protocols.synchronous import Synchronous
from tests.protocols.rig import assert_refused, delivered, forged


def run(script: Script, rules: type[Synchronous] | None = None) -> World:
    """Run a script; a process that stands still passes over its sends."""
    world = World("synchronous", script.members, pull=script.pull, promises=(), rules=rules)
    for step in script.steps:
        try:
            run_step(world, step)
        except UsageError:
            assert step[0] == "send"
    world.drain(Random(1))
    return world


def test_sends_that_cross_deadlock() -> None:
    """Figure 1 of [MF95]; the record promises no liveness."""
    world = World("synchronous", "ab")
    world.send("a", ["b"])
    world.send("b", ["a"])
    world.drain()
    world.check()

    assert delivered(world, "a") == delivered(world, "b") == []
    assert world.endpoints["a"].waiting() == {("b", 1): (Need("b", 1, "ack"),)}
    assert "liveness" not in PROTOCOLS["synchronous"].promises


def test_a_process_stands_still_until_its_message_is_delivered() -> None:
    world = World("synchronous", "abc")
    world.send("a", ["b"])
    before = world.endpoints["a"].state()
    with pytest.raises(
        UsageError, match=r"'a' cannot send until its message 1 to 'b' is delivered"
    ):
        world.send("a", ["c"])
    assert world.endpoints["a"].state() == before
    world.send("c", ["a"])
    world.arrive_packet("c", "a")
    assert delivered(world, "a") == [], "while it stands still it delivers nothing"
    world.arrive_packet("a", "b")
    world.arrive_packet("b", "a")
    assert delivered(world, "a") == [("c", 1)]
    world.send("a", ["c"])


@pytest.mark.parametrize("pull", [False, True])
def test_safe_and_without_control_information(pull: bool) -> None:
    deliveries = deadlocks = 0
    for seed in range(150):
        script = random_script(
            seed, members=2 + seed % 4, casts=("unicast",), steps=60, send_share=0.2, pull=pull
        )
        world = run(script)
        assert causal_violations(world.history) == []
        assert all(size(packet) == (0, 0, 0) for packet in world.packets)
        acks = [packet for packet in world.packets if packet.kind == "control"]
        sent = [packet for packet in world.packets if packet.kind == "data"]
        assert len(acks) <= len(sent)
        deliveries += len(acks)
        deadlocks += len(acks) < len(sent)
    assert deliveries > 250
    assert deadlocks > 0


def test_without_crossing_sends_everything_arrives() -> None:
    world = World("synchronous", "abcd", promises={"safety", "liveness", "quiescence"})
    rng = Random(3)
    for _ in range(60):
        sender, dest = rng.sample("abcd", 2)
        world.send(sender, [dest])
        world.drain()
    world.check()


def test_what_was_not_sent_cannot_be_acknowledged() -> None:
    world = World("synchronous", "ab")
    world.send("a", ["b"])
    world.arrive(0)
    ack = world.packets[-1]
    assert ack.control == 1
    assert_refused(world.endpoints["a"], [forged(ack, control=2)], "only 1 were sent")
    world.arrive_packet("b", "a")
    world.send("a", ["b"])
    world.endpoints["a"].receive(forged(ack, n=2))
    assert world.endpoints["a"].waiting() == {}
    with pytest.raises(UsageError):
        world.send("a", ["b"])


def test_who_waits_for_a_process_that_is_gone_goes_on() -> None:
    world = World("synchronous", "abc")
    world.send("a", ["b"])
    world.send("c", ["a"])
    world.arrive_packet("c", "a")
    world.crash("b")
    world.settle()
    assert delivered(world, "a") == [("c", 1)]
    world.send("a", ["c"])


def test_going_on_after_a_restart() -> None:
    world = World("synchronous", "ab")
    world.send("a", ["b"])
    state = world.endpoints["a"].state()
    assert state["rules"] == {"awaited": [1, 1]}


class DeliversMeanwhile(Synchronous):
    """Delivers while it waits, and sends on: what buffers would have to make good."""

    def needs(self, packet: Packet) -> list[int]:
        return []

    def admit(self, others: tuple[int, ...]) -> None:
        self._awaited = None


def test_mutants_are_caught() -> None:
    found = 0
    for seed in range(100):
        script = random_script(seed, members=3, casts=("unicast",), steps=60)
        found += len(causal_violations(run(script, DeliversMeanwhile).history))
    assert found > 0
