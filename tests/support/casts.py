"""Destinations of messages, under protocols that allow different casts."""

from __future__ import annotations

import random
from collections.abc import Sequence

from antecede import PROTOCOLS

ASKED = ("optimal", "broadcast", "matrix", "buffered", "permits", "semantic")
"""The protocols that every campaign tries."""


def dests_among(members: Sequence[str], protocol: str, chance: random.Random) -> tuple[str, ...]:
    """Return some of the members, as many as the protocol allows."""
    dests = chance.sample(members, chance.randint(1, len(members)))
    casts = PROTOCOLS[protocol].casts
    if "multicast" not in casts:
        dests = dests[:1] if "unicast" in casts else list(members)
    return tuple(dests)
