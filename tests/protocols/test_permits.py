"""permits against the oracle, its queues and packets, lies, snapshots and mutants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import pytest

from antecede import Endpoint, Packet, QueueFullError, endpoint, size
from antecede.check import explore
from antecede.endpoint.messages import Message
from antecede.protocols.permits import Permits
from tests.protocols.support import (
    assert_goes_on_equal,
    assert_refused,
    promise_broken_by,
    run,
    scripts,
)

if TYPE_CHECKING:
    from antecede.endpoint.info import Cast

ALL_CASTS: tuple[Cast, ...] = ("unicast", "multicast", "broadcast")
MEMBERS = ("a", "b", "c")


def group(**options: Any) -> dict[str, Endpoint]:
    return {name: endpoint("permits", process=name, members=MEMBERS, **options) for name in MEMBERS}


def carry(ends: dict[str, Endpoint], packets: Iterable[Packet]) -> list[Packet]:
    """Let packets arrive; return those that they cause."""
    return [new for packet in packets for new in ends[packet.dest].receive(packet).packets]


@pytest.mark.parametrize("cast_name", ALL_CASTS)
def test_two_numbers_and_at_most_two_more_packets_per_copy(cast_name: Cast) -> None:
    for script in scripts(15, (cast_name,), pull=cast_name == "multicast"):
        world = run(script, "permits")
        data = [packet for packet in world.packets if packet.kind == "data"]
        assert {size(packet) for packet in data} <= {(2, 0, 8)}
        assert all(size(packet).model_bytes <= 8 for packet in world.packets)
        assert 2 * len(data) <= len(world.packets) <= 3 * len(data)


def test_sending_on_waits_for_the_permit() -> None:
    """The triangle, with a multicast: c cannot get b's message before a's."""
    ends = group()
    to_b, to_c = ends["a"].send(["b", "c"], b"question").packets
    (acknowledged,) = carry(ends, [to_b])
    assert ends["b"].send(["c"], b"answer").packets == ()
    assert ends["b"].queued == 1
    assert carry(ends, [acknowledged]) == []
    permits = carry(ends, carry(ends, [to_c]))
    assert [(p.dest, p.control) for p in permits] == [("b", (1,)), ("c", (1,))]
    (answer,) = carry(ends, permits)
    assert answer.payload == b"answer"
    assert ends["b"].queued == 0


def test_an_answer_to_the_sender_never_waits() -> None:
    ends = group()
    to_b, _ = ends["a"].send(["b", "c"]).packets
    carry(ends, [to_b])
    assert [p.dest for p in ends["b"].send(["a"]).packets] == ["a"]


def test_a_message_to_one_process_needs_no_permit_for_itself() -> None:
    ends = group()
    carry(ends, ends["a"].send(["b"]).packets)
    assert [p.dest for p in ends["b"].send(["c"]).packets] == ["c"]
    carry(ends, ends["a"].send(["b"]).packets)
    assert ends["b"].send(["c"]).packets == ()  # the first is not known to be acknowledged


def test_the_queue_is_bounded() -> None:
    ends = group(queue_max=1)
    carry(ends, ends["a"].send(["b", "c"]).packets[:1])
    b = ends["b"]
    b.send(["c"])
    before = b.state()
    with pytest.raises(QueueFullError, match="1 messages wait to be sent already") as caught:
        b.send(["c"])
    assert (caught.value.queued, caught.value.queue_max) == (1, 1)
    assert b.state() == before
    assert b.send(["a"]).packets


def test_acknowledgements_of_what_was_not_sent_are_refused() -> None:
    (answer,) = carry(ends := group(), ends["a"].send(["b"]).packets)
    assert answer.control == (1, 0)
    assert_refused(group()["a"], answer, match="more messages of this process than the 0")


@pytest.mark.parametrize("pull", [False, True])
def test_a_snapshot_goes_on_as_if_nothing_happened(pull: bool) -> None:
    for script in scripts(4, ALL_CASTS, first=60, pull=pull):
        assert_goes_on_equal(script, "permits")


# Mutants: each breaks one step; the oracle must notice.


class NeedsNothing(Permits):
    """Sends on at once: only the order of each channel is left."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        self._needs.clear()
        super().stamp(message, others, event, after)


class Trusting(Permits):
    """Accepts what a mutant sends; the real one refuses it."""

    def check(self, packet: Packet) -> str:
        return ""


class OneSpeaksForAll(Trusting):
    """An acknowledgement by one destination counts for all."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        if not packet.content.seq and cast("tuple[int, int]", packet.own)[0]:
            self._open = [[] for _ in self._open]
        return super().taken(packet)


class ForgetsWhatIsQueued(Trusting):
    """Copies that wait count as acknowledged."""

    def _raise_mark(self) -> None:
        before = self._open
        waiting = [{message.seq for _, message in queue} for queue in self._output]
        self._open = [
            [number for number in numbers if number not in queued]
            for numbers, queued in zip(before, waiting, strict=True)
        ]
        super()._raise_mark()
        self._open = before


class AnyOrder(Permits):
    """Delivers what arrives, whatever its place on the channel."""

    def needs(self, packet: Packet) -> list[int]:
        return []


class AcknowledgesArrival(Permits):
    """Acknowledges on arrival, although the application takes messages by source."""

    def arrived(self, packet: Packet) -> tuple[int, ...] | None:
        if packet.content.seq:
            self._tell(packet.source_no, packet.content.seq, self._word)
        return super().arrived(packet)


class KeepsPermits(Permits):
    """Never tells that its mark has risen."""

    def _raise_mark(self) -> None:
        owed, self._owed = self._owed, [[] for _ in self._owed]
        super()._raise_mark()
        self._owed = owed


@pytest.mark.parametrize("mutant", [NeedsNothing, OneSpeaksForAll, ForgetsWhatIsQueued, AnyOrder])
def test_a_broken_step_loses_order(mutant: type[Permits]) -> None:
    assert promise_broken_by(mutant, ALL_CASTS, promises={"safety"}) == "safety"


def test_acknowledging_arrival_loses_order_in_pull_mode() -> None:
    found = promise_broken_by(AcknowledgesArrival, ALL_CASTS, pull=True, promises={"safety"})
    assert found == "safety"


def test_permits_that_never_come_are_noticed() -> None:
    assert promise_broken_by(KeepsPermits, ALL_CASTS) in {"liveness", "quiescence"}


def test_the_explorer_finds_a_broken_step_too() -> None:
    found = explore("permits", 3, 2, casts=("multicast",), rules=OneSpeaksForAll)
    assert found.promise == "safety"
