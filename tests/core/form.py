"""Run protocols on scripts and nodes under faults, and print the outcome: the same in either form.

`tests/core/test_compiled.py` runs this on the sources and on what mypyc made of them.
"""

from __future__ import annotations

import json
import logging
import sys
from hashlib import blake2b
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import antecede
from antecede import PROTOCOLS, Codec, PeerError
from antecede.check import process_names, random_script, run_script
from antecede.check.cases import cases, random_groups
from antecede.core import numbered
from tests.net import churn, schedules

SCRIPTS = 4
MESSAGES = 150
SPOKEN = ("optimal", "pruned", "matrix", "broadcast", "history")
"""Those whose bytes, deliveries, errors and snapshots are compared too."""


def judged(name: str) -> int:
    """Let the oracle judge scripts of every case; return how many deliveries it saw."""
    found = 0
    members = process_names(4)
    for case in cases(name, members):
        options = {key: value for key, value in case.options.items() if key != "groups"}
        for seed in range(SCRIPTS):
            groups = random_groups(members, seed) if case.cast == "groups" else None
            script = random_script(
                seed, members=members, casts=(case.cast,), steps=50, pull=seed == 3, groups=groups
            )
            world = run_script(
                script, name, options=options, promises=case.promises, drain=Random(seed)
            )
            found += sum(event.kind == "deliver" for event in world.history.events)
    return found


def spoken(name: str) -> str:
    """Send over a network that reorders and duplicates; return a digest of all that was said."""
    chance = Random(7)
    members = process_names(5)
    codec = Codec(members)
    ends = {member: antecede.endpoint(name, process=member, members=members) for member in members}
    said = blake2b(digest_size=8)
    flight: list[bytes] = []

    def carry_on(effects: antecede.Effects) -> None:
        for delivery in effects.deliveries:
            said.update(repr(delivery).encode())
        for packet in effects.packets:
            flight.append(codec.encode(packet))
            said.update(flight[-1])
            said.update(repr((packet, antecede.size(packet))).encode())

    for number in range(MESSAGES):
        source = chance.choice(members)
        others = [member for member in members if member != source]
        several = chance.sample(others, chance.randint(1, len(others)))
        dests = several if "multicast" in PROTOCOLS[name].casts else others
        carry_on(ends[source].send(dests, b"x" * (number % 40)))
        while flight and chance.random() < 0.6:
            data = flight.pop(chance.randrange(len(flight)))
            packet = codec.decode(data)
            carry_on(ends[packet.dest].receive(packet))
            if chance.random() < 0.1:
                carry_on(ends[packet.dest].receive(codec.decode(data)))
            said.update(_damaged(codec, data, chance))
        if number % 40 == 39:
            ends = {k: codec.restore(codec.snapshot(end), resumed=True) for k, end in ends.items()}
    return said.hexdigest()


def _damaged(codec: Codec, data: bytes, chance: Random) -> bytes:
    """Return what becomes of a packet with another byte at some place."""
    place = chance.randrange(len(data))
    wrong = data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
    try:
        return repr(codec.decode(wrong)).encode()
    except PeerError as error:
        return str(error).encode()


def nodes() -> list[int]:
    """Let nodes live through crashes, joins and removals; return how many there were."""
    logging.getLogger("antecede.net").setLevel(logging.CRITICAL)
    with TemporaryDirectory() as folder:
        crashes = [schedules.try_seed(seed, Path(folder)) for seed in range(6)]
        return crashes + [churn.try_seed(seed, Path(folder)) for seed in (0, 5, 9)]


def main() -> None:
    """Print which form this is, and a result for each protocol and for nodes."""
    result: dict[str, object] = {name: [judged(name), spoken(name)] for name in SPOKEN}
    result |= {name: [judged(name), ""] for name in PROTOCOLS if name not in SPOKEN}
    result["nodes"] = nodes()
    is_compiled = not str(numbered.__file__).endswith(".py")
    json.dump({"compiled": is_compiled, "result": result}, sys.stdout)


if __name__ == "__main__":
    main()
