"""Packets that came before their turn on a channel: the next one is found without a search."""

from __future__ import annotations

from typing import Any

import pytest

import antecede
from antecede import Packet
from antecede.endpoint.registry import rules_of
from antecede.endpoint.rules import Rules

CASES: list[tuple[str, dict[str, Any]]] = [
    ("optimal", {"differential": True}),
    ("buffered", {"pipelined": True}),
    ("central", {}),
    ("phases", {}),
    ("hierarchy", {"clusters": (("a",), ("b",))}),
]


@pytest.mark.parametrize(("protocol", "options"), CASES, ids=str)
def test_a_packet_releases_those_behind_it_without_a_search(
    protocol: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (
        antecede.endpoint(protocol, process=name, members=("a", "b"), pull=False, **options)
        for name in "ab"
    )
    packets = [packet for _ in range(99) for packet in a.send(["b"]).packets]
    for packet in packets[1::2]:
        assert b.receive(packet).deliveries == ()
    assert b.held == 49
    cls: type[Rules] = rules_of(protocol).of(b.view)
    looked_at: list[int] = []
    blocker = cls.blocker

    def spy(self: Rules, packet: Packet) -> int:
        looked_at.append(packet.n)
        return blocker(self, packet)

    monkeypatch.setattr(cls, "blocker", spy)
    found = [d.message.seq for packet in packets[::2] for d in b.receive(packet).deliveries]
    assert found == [*range(1, 100)]
    assert b.held == 0
    assert len(looked_at) <= 5 * len(packets), "one packet makes it look at all that came too early"
