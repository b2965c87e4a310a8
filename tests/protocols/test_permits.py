"""permits against the oracle, its queues and packets, bad controls, snapshots and mutants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from antecede import Endpoint, Need, Packet, PeerError, QueueFullError, endpoint, size
from antecede.check import explore
from antecede.core.messages import Sending
from antecede.protocols.permits import Permits
from tests.protocols.support import (
    assert_goes_on_equal,
    assert_refused,
    promise_broken_by,
    run,
    scripts,
)

if TYPE_CHECKING:
    from antecede.core.info import Cast

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
    with pytest.raises(QueueFullError, match="send again after permits of a have come") as caught:
        b.send(["c"])
    assert (caught.value.queued, caught.value.queue_max) == (1, 1)
    assert b.state() == before
    assert b.send(["a"]).packets


def test_malformed_control_is_refused_and_leaves_no_trace() -> None:
    ends = group()
    (packet,) = ends["a"].send(["b"]).packets
    assert packet.control == (1, 0)
    bad: list[object] = [None, (), (1,), (1, 0, 0), [1, 0], (0, 0), (2, 0), (1, 1), (1, -1)]
    bad += [(True, 0), ("1", 0), (1, 1 << 70)]
    assert_refused(ends["b"], packet, bad)


def test_acknowledgements_of_what_was_not_sent_are_refused() -> None:
    ends = group()
    (answer,) = carry(ends, ends["a"].send(["b"]).packets)
    assert answer.control == (1, 0)
    assert_refused(ends["a"], answer, [None, (), (2, 0), (-1,), (1, 0, 0), (1, None)])
    with pytest.raises(PeerError, match="knows of 1 sends of 'a', which has made 0"):
        group()["a"].receive(answer)


@pytest.mark.parametrize("pull", [False, True])
def test_a_snapshot_goes_on_as_if_nothing_happened(pull: bool) -> None:
    for script in scripts(4, ALL_CASTS, first=60, pull=pull):
        assert_goes_on_equal(script, "permits")


# Mutants: each breaks one step; the oracle must notice.


class NeedsNothing(Permits):
    """Sends on at once: only the order of each channel is left."""

    def _post(self, sending: Sending) -> None:
        self._needs.clear()
        super()._post(sending)


class Trusting(Permits):
    """Accepts what a mutant sends; the real one refuses it."""

    def _check(self, packet: Packet) -> None:
        """Accept everything."""


class OneSpeaksForAll(Trusting):
    """An acknowledgement by one destination counts for all."""

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        if len(packet.control) == 2:  # type: ignore[arg-type]  # our own packet
            self._open.clear()
        return super()._on_control(packet)


class ForgetsWhatIsQueued(Trusting):
    """Copies that wait count as acknowledged."""

    def _raise_mark(self) -> None:
        before = {dest: list(numbers) for dest, numbers in self._open.items()}
        for dest, queue in self._output.items():
            waiting = {posting[1].seq for posting in queue}
            rest = [number for number in self._open.get(dest, ()) if number not in waiting]
            self._open.pop(dest, None)
            if rest:
                self._open[dest] = rest
        super()._raise_mark()
        self._open = before


class AnyOrder(Permits):
    """Delivers what arrives, whatever its place on the channel."""

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        return iter(())


class AcknowledgesArrival(Permits):
    """Acknowledges on arrival, although the application takes messages by source."""

    def _on_data(self, packet: Packet) -> None:
        self._emit_control(packet.source, (packet.message_id.seq, self._mark))
        super()._on_data(packet)


class KeepsPermits(Permits):
    """Never tells that its mark has risen."""

    def _raise_mark(self) -> None:
        owed, self._owed = self._owed, {}
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
    found = explore("permits", 3, 2, casts=("multicast",), endpoint_class=OneSpeaksForAll)
    assert found.promise == "safety"
