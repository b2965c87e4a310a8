"""Snapshots with a right checksum that hold one impossible part are refused when they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

import antecede
from antecede import PROTOCOLS, SnapshotError
from antecede.core.state import State
from antecede.core.validation import COUNT_MAX
from antecede.wire import Codec

MEMBERS = ("a", "b", "c")
Change = Callable[[dict[str, Any]], object]


def own(**parts: object) -> Change:
    return lambda state: state["own"].update(parts)


def controlled(control: object) -> Change:
    def change(state: dict[str, Any]) -> None:
        state["held"] = [(n, replace(packet, control=control)) for n, packet in state["held"]]

    return change


def channel(**parts: object) -> Change:
    return lambda state: state["channels"].update(parts)


def twice(state: dict[str, Any]) -> None:
    """Hold a packet twice."""
    ((arrival, packet),) = state["held"]
    state.update(held=[(arrival, packet), (arrival + 1, packet)], arrivals=arrival + 1)


def strange(state: dict[str, Any]) -> None:
    """Let representatives run something else."""
    other = antecede.endpoint("matrix", process="a", members=MEMBERS).state()
    state["own"].update(_inner_state=other)


CASES: dict[str, tuple[str, Change]] = {
    "closed-number": ("optimal", own(_closed={"b": 1})),
    "closed-empty": ("optimal", own(_closed={"b": {}})),
    "closed-names": ("pruned", own(_closed={"b": {"a": 1}})),
    "log": ("pruned", own(_info={"b": {1: ["a"]}})),
    "seq": ("optimal", lambda state: state.update(seq=COUNT_MAX)),
    "sent": ("matrix", lambda state: state["channels"].update(sent={"b": COUNT_MAX})),
    "counter": ("server", own(_counts=[1 << 62, 0, 0])),
    "sets": ("direct", controlled(((), ()))),
    "entries": ("acknowledged", controlled(((), 5))),
    "cells": ("bounded", controlled(((0, 0, 0),))),
    "pending": ("phases", own(_pending={"all": [(1, "b", 1)]})),
    "vectors": ("zones", lambda state: state["own"]["_vectors"][0].pop("c")),
    "own-log": ("pruned", own(_info={"a": {5: frozenset("b")}})),
    "own-packets": ("optimal", channel(sent={"c": 7})),
    "own-events": ("semantic", lambda state: state.update(seq=5)),
    "gaps-overlap": ("matrix", channel(prefix={"b": 1}, ahead={"b": [(3, 7), (5, 9)]})),
    "gaps-touch": ("direct", channel(prefix={"b": 1}, ahead={"b": [(2, 2)]})),
    "gaps-none": ("context", channel(prefix={"b": 2}, ahead={"b": []})),
    "own-channel": ("zones", channel(prefix={"a": 1, "b": 2}, ahead={})),
    "held-unseen": ("vectors", channel(prefix={}, ahead={})),
    "held-twice": ("broadcast", twice),
    "held-first": ("server", lambda state: state.update(held=[(0, state["held"][0][1])])),
    "early-dropped": ("phases", channel(parked={})),
    "early-in-turn": ("phases", channel(prefix={"b": 2}, ahead={})),
    "early-none": ("phases", channel(parked={"b": {}}, ahead={})),
    "member-left": ("optimal", lambda state: state.update(removed={"b"})),
    "fixed": ("semantic", lambda state: state.update(removed={"z"})),
    "limit": ("permits", lambda state: state.update(held_max=-1)),
    "option": ("two_hop", lambda state: state.update(options={"z": 1})),
    "inner": ("hierarchy", strange),
    "queue": ("serial", own(_queue=[(antecede.MessageId("a", 1), ("z",), b"")])),
}


@pytest.mark.parametrize("name", CASES)
def test_an_impossible_part_is_refused(name: str) -> None:
    protocol, change = CASES[name]
    ends = {who: antecede.endpoint(protocol, process=who, members=MEMBERS) for who in MEMBERS}
    dests = ["a"] if "unicast" in PROTOCOLS[protocol].casts else ["a", "c"]
    sent = [ends["b"].send(dests).packets for _ in range(2)]
    for packet in sent[1]:
        if packet.dest == "a":
            ends["a"].receive(packet)  # held: the first is missing
    codec = Codec(MEMBERS)
    assert codec.restore(codec.snapshot(ends["a"]), resumed=True).held == ends["a"].held
    state = cast("dict[str, Any]", ends["a"].state())
    change(state)
    vars(ends["a"])["state"] = lambda: cast("State", state)
    data = codec.snapshot(ends["a"])
    with pytest.raises(SnapshotError):
        codec.restore(data, resumed=True)


def test_a_parked_packet_stands_at_its_own_number() -> None:
    ends = [
        antecede.endpoint("optimal", process=who, members=MEMBERS, differential=True)
        for who in MEMBERS[:2]
    ]
    packets = [ends[1].send(["a"]).packets[0] for _ in range(3)]
    ends[0].receive(packets[1])
    state = cast("dict[str, Any]", ends[0].state())
    assert state["channels"]["parked"]["b"].keys() == {2}
    state["channels"]["parked"]["b"] = {2: packets[2]}
    codec = Codec(MEMBERS)
    vars(ends[0])["state"] = lambda: cast("State", state)
    with pytest.raises(SnapshotError):
        codec.restore(codec.snapshot(ends[0]), resumed=True)
