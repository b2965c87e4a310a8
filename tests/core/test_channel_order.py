"""Packets that came before their turn on a channel: the next one is found without a search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

import antecede
from antecede import Endpoint, Packet

CASES: list[tuple[str, dict[str, object]]] = [
    ("optimal", {"differential": True}),
    ("buffered", {"pipelined": True}),
    ("central", {}),
    ("phases", {}),
    ("hierarchy", {"clusters": (("a",), ("b",))}),
]


class Unsearched(dict[int, Packet]):
    """Packets by number; looking at all of them fails."""

    def _refuse(self) -> NoReturn:
        pytest.fail("one packet makes it look at all that came too early")

    def __iter__(self) -> Iterator[int]:
        self._refuse()

    def values(self) -> NoReturn:
        self._refuse()

    def items(self) -> NoReturn:
        self._refuse()


def parked(end: Endpoint) -> dict[object, dict[int, Packet]]:
    """Return what came too early; by names, or by numbers where an endpoint works on these."""
    channels: Any = end._channels
    found: dict[object, dict[int, Packet]] = channels.parked or vars(end)["_links"].parked
    return found


@pytest.mark.parametrize(("protocol", "options"), CASES, ids=str)
def test_a_packet_releases_those_behind_it_without_a_search(
    protocol: str, options: dict[str, object]
) -> None:
    a, b = (
        antecede.endpoint(protocol, process=name, members=("a", "b"), pull=False, **options)
        for name in "ab"
    )
    packets = [packet for _ in range(9) for packet in a.send(["b"]).packets]
    for packet in packets[1::2]:
        assert b.receive(packet).deliveries == ()
    assert b.held == 4
    early = parked(b)
    for source, waiting in early.items():
        early[source] = Unsearched(waiting)
    found = [d.message.seq for packet in packets[::2] for d in b.receive(packet).deliveries]
    assert found == [*range(1, 10)]
    assert b.held == 0


def test_answers_that_come_early_are_not_counted_each_time() -> None:
    a, b = (
        antecede.endpoint("buffered", process=name, members=("a", "b"), pipelined=True)
        for name in "ab"
    )
    sent = [a.send(["b"]).packets[0] for _ in range(9)]
    answers = [b.receive(packet).packets[0] for packet in sent]
    a.receive(answers[1])
    early = parked(a)
    early["b"] = Unsearched(early["b"])
    for answer in (*answers[2:4], answers[0], *answers[4:]):
        a.receive(answer)
    assert a.held == 0
    assert len(a.send(["b"]).packets) == 1
