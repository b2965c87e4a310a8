"""All courses of small plays: the oracle judges each, and protocols keep their promises."""

from __future__ import annotations

import pytest

import antecede
from antecede import UsageError
from antecede.check import Script, explore, run_script
from antecede.check.plays import UNORDERED, Move, Play, can_play, every_way
from antecede.report.playground import PLAYS

REPLY = PLAYS[0]
ORDERED = [name for name, info in antecede.PROTOCOLS.items() if "safety" in info.promises]


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.name)
@pytest.mark.parametrize("protocol", ORDERED)
def test_a_protocol_that_promises_order_keeps_it_on_every_way(play: Play, protocol: str) -> None:
    if not can_play(play, protocol):
        assert play.cast not in antecede.PROTOCOLS[protocol].casts
        return
    ways = list(every_way(play, protocol).paths())
    assert ways
    for copies, events, end in ways:
        assert end == {"violations": [], "undelivered": []}, copies
        sent = [event[2] for event in events if event[0] == "send"]
        assert sorted(sent) == sorted(move.name for move in play.moves)
        delivered = {(event[1], event[2]) for event in events if event[0] == "deliver"}
        assert delivered == {(dest, move.name) for move in play.moves for dest in move.dests}


def test_without_a_protocol_the_reply_overtakes_the_question() -> None:
    ways = list(every_way(REPLY, UNORDERED).paths())
    broken = {tuple(copies) for copies, _, end in ways if end["violations"]}
    assert len(ways) == 8
    assert broken == {
        tuple(copies)
        for copies, _, _ in ways
        if copies.index("yes! to Cy") < copies.index("lunch? to Cy")
    }
    assert broken


def test_an_arrival_says_what_it_waits_for_and_a_copy_what_it_carries() -> None:
    order = ["lunch? to Bob", "yes! to Cy", "lunch? to Cy", "yes! to Ann"]
    ways = every_way(REPLY, "optimal").paths()
    events = next(events for copies, events, _ in ways if copies == order)
    assert ["arrive", "Cy", "yes! to Cy", "yes!", "'lunch?' from Ann"] in events
    reply = next(event for event in events if event[:3] == ["send", "Bob", "yes!"])
    assert ["yes! to Cy", "Cy", "((Ann, 1, (Cy)))", 8] in reply[3]


def test_a_cycle_of_conditions_sends_nothing() -> None:
    stuck = Play(
        "x", "x", "x", ("a", "b"), (Move("m", "a", ("b",), ("n",)), Move("n", "b", ("a",), ("m",)))
    )
    assert [end for _, _, end in every_way(stuck, "matrix").paths()] == [
        {"violations": [], "undelivered": []}
    ]


def test_a_cast_that_a_protocol_lacks_is_refused_by_every_tool() -> None:
    refusal = "buffered"
    with pytest.raises(UsageError, match=refusal):
        explore("buffered", 3, 1, casts=("multicast",), symmetric=False)
    with pytest.raises(UsageError, match=refusal):
        run_script(Script(("a", "b", "c"), (("send", "a", ("b", "c"), None),)), "buffered")
    moves = (Move("m", "a", ("b", "c")),)
    with pytest.raises(UsageError, match=refusal):
        every_way(Play("x", "x", "x", ("a", "b", "c"), moves), "buffered")
