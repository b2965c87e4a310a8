"""The playground: one page where a reader drags arrivals and sees what each protocol does.

The page holds every possible course of a few small plays, computed by the protocols' endpoints
(:mod:`antecede.check.plays`). Its script only selects and draws.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import resources
from typing import Any

import antecede
from antecede.check.plays import UNORDERED, Move, Play, Ways, can_play, every_way

PLAYS = (
    Play(
        "reply",
        "A reply overtakes its question",
        "Ann asks Bob and Cy. Bob answers both. Cy can get the answer before the question.",
        ("Ann", "Bob", "Cy"),
        (
            Move("lunch?", "Ann", ("Bob", "Cy")),
            Move("yes!", "Bob", ("Ann", "Cy"), ("lunch?",)),
        ),
        ("lunch? to Bob", "yes! to Cy", "lunch? to Cy", "yes! to Ann"),
    ),
    Play(
        "payment",
        "The receipt overtakes the order, by a detour",
        "The shop sends the order to the warehouse and then the payment to the bank. The bank "
        "tells the courier, and the courier the warehouse. The order can come last.",
        ("shop", "bank", "courier", "warehouse"),
        (
            Move("order", "shop", ("warehouse",)),
            Move("payment", "shop", ("bank",)),
            Move("paid", "bank", ("courier",), ("payment",)),
            Move("pick up", "courier", ("warehouse",), ("paid",)),
        ),
        ("payment to bank", "paid to courier", "pick up to warehouse", "order to warehouse"),
    ),
    Play(
        "thread",
        "A discussion in which everybody hears everything",
        "Ann posts, Bob answers her, Cy answers Bob. All of them get all posts.",
        ("Ann", "Bob", "Cy"),
        (
            Move("post", "Ann", ("Bob", "Cy")),
            Move("answer", "Bob", ("Ann", "Cy"), ("post",)),
            Move("objection", "Cy", ("Ann", "Bob"), ("answer",)),
        ),
        ("post to Bob", "answer to Cy", "post to Cy", "objection to Ann", "answer to Ann"),
    ),
    Play(
        "fifo",
        "Three messages on one channel",
        "A sensor sends three readings to a logger. The network may swap them.",
        ("sensor", "logger"),
        (
            Move("20 C", "sensor", ("logger",)),
            Move("25 C", "sensor", ("logger",)),
            Move("30 C", "sensor", ("logger",)),
        ),
        ("25 C to logger", "20 C to logger", "30 C to logger"),
    ),
    Play(
        "independent",
        "Two messages that know nothing of each other",
        "Ann and Bob write to Cy at the same time. Neither message is a cause of the other, so any "
        "order is right, and a good protocol holds nothing.",
        ("Ann", "Bob", "Cy"),
        (Move("hello", "Ann", ("Cy",)), Move("good morning", "Bob", ("Cy",))),
        ("good morning to Cy", "hello to Cy"),
    ),
)


def playground_page(protocols: Iterable[str] | None = None) -> str:
    """Return the page as one HTML document that needs nothing from the network."""
    names = tuple(antecede.PROTOCOLS) if protocols is None else tuple(protocols)
    data = {
        "plays": [_play(play, (UNORDERED, *names)) for play in PLAYS],
        "protocols": {name: _protocol(name) for name in (UNORDERED, *names)},
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    template = resources.files("antecede.report").joinpath("templates", "playground.html")
    return template.read_text(encoding="utf-8").replace("/* data */ null", text)


def _play(play: Play, protocols: Iterable[str]) -> dict[str, Any]:
    ways = {name: _ways(every_way(play, name)) for name in protocols if can_play(play, name)}
    plain = ("name", "title", "text", "members", "arrivals")
    return {**{name: getattr(play, name) for name in plain}, "ways": ways}


def _ways(ways: Ways) -> dict[str, Any]:
    ends = [end for _, _, end in ways.paths()]
    return {
        "first": ways.first,
        "nodes": ways.nodes,
        "events": ways.events,
        "total": len(ends),
        "broken": sum(bool(end["violations"]) for end in ends),
    }


def _protocol(name: str) -> dict[str, str]:
    if name == UNORDERED:
        return {"title": "no protocol", "idea": "deliver every message as it arrives", "paper": ""}
    info = antecede.PROTOCOLS[name]
    return {"title": info.title, "idea": info.idea, "paper": info.paper}
