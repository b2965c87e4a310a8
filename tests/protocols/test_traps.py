"""Seven traps: rules that look right, what they break, and that ours avoid them."""

from random import Random
from typing import cast

import pytest

from antecede.check import BrokenPromiseError, World, random_script, run_script
from antecede.check.scripts import run_step
from antecede.endpoint.counts import larger
from antecede.endpoint.messages import Need, Packet
from antecede.endpoint.registry import size
from antecede.endpoint.rules import Rules
from antecede.protocols.direct import Direct
from antecede.protocols.matrix import Matrix
from antecede.protocols.vectors import Vectors
from tests.protocols.rig import caught, control_of, delivered, forged
from tests.protocols.test_broadcast import OwnGroupsOnly, triangle
from tests.protocols.test_semantic import CountsDeliveries
from tests.support.literal import LiteralMatrix, LiteralVectors


def test_trap_1_matrix_counts_a_message_to_oneself_twice() -> None:
    """The example T1b: by the printed rule the second message waits for ever."""
    literal = LiteralMatrix(me=0, n=2)
    first = literal.send(0)
    assert literal.is_deliverable(first)
    literal.deliver(0, first)
    second = literal.send(0)
    assert second[0][0] == 2, "one message was sent before"
    assert not literal.is_deliverable(second)

    world = World("matrix", "ab")
    for _ in range(3):
        world.send("a", ["a"])
    world.send("a", ["a", "b"])
    world.drain()
    world.check()
    assert delivered(world, "a") == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]
    assert delivered(world, "b") == [("a", 4)]


def test_trap_2_vectors_overtake_a_message_to_oneself() -> None:
    """The clock passes a message to oneself when it is sent, not when it is delivered."""
    here, there = LiteralVectors(me=0, n=2), LiteralVectors(me=1, n=2)
    here.send(0)  # on its way to the sender itself
    there.deliver(*here.send(1))
    _, table = there.send(0)
    assert here.is_deliverable(table), "an effect of the message that is still on its way"

    world = World("vectors", "ab")
    world.send("a", ["a"])
    world.send("a", ["b"])
    world.drain()
    world.send("b", ["a"])
    world.drain()
    world.check()
    assert delivered(world, "a") == [("a", 1), ("b", 1)]


def overtaking(protocol: str, rules: type[Rules] | None = None) -> World:
    """Return the example T1c: b answers a multicast and its answer comes first to c."""
    world = World(protocol, "abc", rules=rules, promises=())
    world.send("a", ["b", "c"])
    world.arrive_packet("a", "b")
    world.send("b", ["c"])
    world.arrive_packet("b", "c")
    world.drain()
    return world


class NaiveMatrix(Matrix):
    """Records a multicast in its own column only."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        return super().taken(forged(packet, dests=1 << self.me))


class NaiveVectors(Vectors):
    """Records a multicast for no other destination."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        return super().taken(forged(packet, dests=1 << self.me))


@pytest.mark.parametrize(
    ("protocol", "naive"), [("matrix", NaiveMatrix), ("vectors", NaiveVectors)]
)
def test_traps_3_and_4_multicast_recorded_for_the_receiver_alone(
    protocol: str, naive: type[Rules]
) -> None:
    assert delivered(overtaking(protocol, naive), "c") == [("b", 1), ("a", 1)]
    assert delivered(overtaking(protocol), "c") == [("a", 1), ("b", 1)]


def test_trap_3_shows_in_the_matrix() -> None:
    empty = (0, 0, 0)
    rows = (("a", (0, 1, 1)), ("b", empty), ("c", empty))
    assert control_of(overtaking("matrix"), "b", 1, "c") == rows
    naive = (("a", (0, 1, 0)), ("b", empty), ("c", empty))
    assert control_of(overtaking("matrix", NaiveMatrix), "b", 1, "c") == naive


def test_trap_5_vectors_of_own_groups_only() -> None:
    assert delivered(triangle(OwnGroupsOnly), "c") == [("b", 1), ("a", 1)]
    assert delivered(triangle(), "c") == [("a", 1), ("b", 1)]


class UnionsTheSendersSlot(Direct):
    """Takes the predecessors of a message for constraints on its sender, and never cleans up."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        message, kept = packet.content, [dict(barrier) for barrier in self._barriers]
        places = super().taken(packet)
        newest = {message.sender: self.key(packet)}
        for dest, theirs in enumerate(cast("list[dict[int, int]]", message.control)):
            if dest != self.me:
                both = larger(kept[dest], theirs)
                self._barriers[dest] = larger(both, newest) if message.dests >> dest & 1 else both
        return places


def test_trap_6_the_senders_slot_names_predecessors_not_constraints() -> None:
    """A message back to the sender waits for the sender's own message, for ever."""

    def answered(rules: type[Rules] | None) -> World:
        world = World("direct", "ab", rules=rules, promises=())
        world.send("a", ["b"])
        world.send("a", ["b"])
        world.drain()
        world.send("b", ["a"])
        world.drain()
        return world

    stuck = answered(UnionsTheSendersSlot)
    assert stuck.endpoints["a"].waiting() == {("b", 1): (Need("a", 1),)}
    assert delivered(answered(None), "a") == [("b", 1)]
    assert caught("direct", UnionsTheSendersSlot, promises={"liveness"}) == "liveness"


def test_trap_7_counters_of_the_semantic_matrix_need_fifo_channels() -> None:
    """Counting deliveries is right where channels keep order, and loses order where they do not."""

    def run(fifo: bool, rules: type[Rules] | None) -> None:
        for seed in range(150):
            script = random_script(
                seed, members=4, casts=("multicast",), steps=80, ranks=True, fifo=fifo
            )
            run_script(
                script,
                "semantic",
                rules=rules,
                promises={"safety"},
                drain=Random(seed),
            )

    run(fifo=True, rules=CountsDeliveries)
    with pytest.raises(BrokenPromiseError, match="semantic broke safety"):
        run(fifo=False, rules=CountsDeliveries)
    run(fifo=False, rules=None)


def test_self_addressed_messages_harm_no_protocol() -> None:
    for protocol in ("matrix", "vectors", "direct", "history", "two_hop", "serial"):
        for seed in range(20):
            script = random_script(
                seed, members=3, casts=("unicast", "multicast"), steps=60, self_share=0.5
            )
            run_script(script, protocol, drain=Random(seed))


def test_in_broadcast_optimal_is_the_vector_of_broadcast() -> None:
    """[KS98] 7.1: one clock for each sender, as in vector time; the same moments of delivery."""
    for seed in range(40):
        script = random_script(seed, members=2 + seed % 4, casts=("broadcast",), steps=60)
        log, vector = World("optimal", script.members), World("broadcast", script.members)
        for step in script.steps:
            run_step(log, step)
            run_step(vector, step)
            for name in script.members:
                assert delivered(log, name) == delivered(vector, name)
        for mine, theirs in zip(log.packets, vector.packets, strict=True):
            assert mine.message == theirs.message
            assert mine.message is not None
            assert isinstance(mine.control, tuple)
            clocks = {sender: clock for sender, clock, _ in mine.control}
            assert len(clocks) == len(mine.control), "one entry for each sender"
            clocks[mine.source] = mine.message.seq
            assert isinstance(theirs.control, tuple)
            assert theirs.control == tuple((name, clocks.get(name, 0)) for name in script.members)
            assert size(mine).entries <= len(script.members)
