"""Limits on what is held by bytes, and the share of each peer."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

import antecede
from antecede import PROTOCOLS, Endpoint, HoldFullError, Packet
from antecede.check import random_script, run_script
from antecede.check.cases import cases
from antecede.check.scripts import process_names
from antecede.endpoint.registry import restored

MEMBERS = ("a", "b", "c", "d")


def early(protocol: str, source: str, count: int, payload: bytes = b"") -> list[Packet]:
    """Return packets from ``source`` to d that all wait for a missing one."""
    end = antecede.endpoint(protocol, process=source, members=MEMBERS)
    sent = [end.send(["d"], payload).packets[0] for _ in range(count + 1)]
    return sent[1:]


def receiver(protocol: str, **limits: Any) -> Endpoint:
    return antecede.endpoint(protocol, process="d", members=MEMBERS, pull=False, **limits)


@pytest.mark.parametrize("protocol", ["optimal", "matrix", "pruned"])
def test_payloads_that_are_held_are_limited(protocol: str) -> None:
    end = receiver(protocol, held_bytes_max=1000)
    first, *rest = early(protocol, "a", 9, bytes(150))
    for packet in [first, *rest]:
        with suppress(HoldFullError):
            end.receive(packet)
    assert end.held == 4  # two thirds of the half that is divided are kept for b and c
    before = end.state()
    with pytest.raises(HoldFullError, match=r"\(150 bytes\) must be held, but 4 \(600 bytes\)"):
        end.receive(rest[-1])
    assert end.state() == before
    for packet in early(protocol, "b", 1, bytes(150)):
        end.receive(packet)
    assert end.held == 5


@pytest.mark.parametrize("protocol", ["optimal", "matrix", "pruned", "direct", "two_hop"])
def test_one_peer_leaves_the_others_their_share(protocol: str) -> None:
    end = receiver(protocol, held_max=60)
    for packet in early(protocol, "a", 100):
        with suppress(HoldFullError):
            end.receive(packet)
    assert end.held == 40
    for source in ("b", "c"):
        for packet in early(protocol, source, 10):
            end.receive(packet)
    assert end.held == 60
    with pytest.raises(HoldFullError, match="10 of them from 'b'"):
        end.receive(early(protocol, "b", 11)[-1])


def test_what_can_be_delivered_is_never_refused() -> None:
    end = receiver("optimal", held_bytes_max=0, held_max=0)
    sender = antecede.endpoint("optimal", process="a", members=MEMBERS)
    assert len(end.receive(sender.send(["d"], bytes(5000)).packets[0]).deliveries) == 1


def test_the_count_goes_down_again() -> None:
    end = receiver("optimal")
    sender = antecede.endpoint("optimal", process="a", members=MEMBERS)
    packets = [sender.send(["d"], bytes(10)).packets[0] for _ in range(5)]
    for packet in packets[1:]:
        end.receive(packet)
    assert end.held == 4
    end.receive(packets[0])
    assert end.held == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_tally_agrees_with_what_is_held(protocol: str) -> None:
    """Whether packets are refused, parked, in transit or ready to be taken."""
    for seed in range(4):
        members = process_names(3 + seed % 2)
        case = cases(protocol, members)[0]
        script = random_script(
            seed, members=members, casts=(case.cast,), steps=50, pull=seed % 2 == 1
        )
        world = run_script(script, protocol, promises=(), held_max=2 + seed, drain=Random(seed))
        for end in world.endpoints.values():
            for one in (end, restored(world.view, end.state(), resumed=True)):
                assert one.held == counted(one)


def counted(end: Endpoint) -> int:
    state = end.state()
    held, taken = state["held"], state["taken"]
    assert isinstance(held, list)
    assert isinstance(taken, list)
    return len(held) + len(taken)


def test_a_limit_is_a_number() -> None:
    with pytest.raises(antecede.UsageError, match="held_bytes_max=-1 is not an integer from 0"):
        receiver("optimal", held_bytes_max=-1)
