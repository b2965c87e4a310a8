"""Write docs/wire-vectors.json: packets and snapshots of every protocol, with their bytes.

    python -m tools.wire_vectors

Other implementations of the wire format read it, and so does tests/wire/test_vectors.py: bytes
written once must stay readable for ever, or the version must change.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import antecede

PAGE = Path(__file__).resolve().parents[1] / "docs" / "wire-vectors.json"
PACKETS = 4
STEPS = 40


def vectors() -> list[dict[str, object]]:
    """Return one record per protocol and variant, for a group of four and a group of twenty."""
    found = []
    for name, info in antecede.PROTOCOLS.items():
        for count in (4, 20):
            members = tuple(f"p{number}" for number in range(count))
            choices = {"": {}, **{v.label: v.options(members) for v in info.variants}}
            if "groups" in info.casts:
                choices["groups"] = {"groups": {"all": members, "half": members[: count // 2]}}
            for label, options in choices.items():
                found.append(vector(name, members, label, dict(options)))
    return found


def vector(
    name: str, members: tuple[str, ...], label: str, options: dict[str, object]
) -> dict[str, object]:
    """Run a small group and return its last packets and one snapshot."""
    chance = random.Random(f"{name} {label} {len(members)}")
    view = antecede.view_of(name, members, number=3, **options)
    make: Callable[..., antecede.Endpoint] = antecede.endpoint
    ends = {
        process: make(name, process=process, members=members, view=3, **options)
        for process in members
    }
    codec, flight, seen = antecede.Codec(view), list[antecede.Packet](), list[antecede.Packet]()
    casts = antecede.PROTOCOLS[name].casts
    for step in range(STEPS):
        if flight and chance.random() < 0.6:
            packet = flight.pop(chance.randrange(len(flight)))
            made = ends[packet.dest].receive(packet).packets
        else:
            process = chance.choice(members)
            others = [other for other in members if other != process]
            if "multicast" in casts:
                others = chance.sample(others, chance.randint(1, 3))
            elif "unicast" in casts:
                others = [chance.choice(others)]
            try:
                made = ends[process].send(others, b"%d" % step).packets
            except antecede.UsageError:  # blocked, or no group for these
                continue
        flight += made
        seen += made
    return {
        "protocol": name,
        "variant": label,
        "view": {
            "number": view.number,
            "members": members,
            "options": view.options,
            "digest": view.digest.hex(),
        },
        "packets": [shown(packet, codec) for packet in seen[-PACKETS:]],
        "snapshot": codec.snapshot(ends[members[1]]).decode(),
    }


def shown(packet: antecede.Packet, codec: antecede.Codec) -> dict[str, object]:
    """Return a packet's parts by name, and its bytes."""
    return {
        "source": packet.source,
        "dest": packet.dest,
        "n": packet.n,
        "kind": packet.kind,
        "message": packet.message,
        "dests": packet.dests,
        "payload": packet.payload.hex(),
        "control": plain(packet.control),
        "bytes": codec.encode(packet).hex(),
    }


def plain(value: object) -> object:
    """Return a control as JSON values: bytes as hexadecimal text."""
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    return value.hex() if isinstance(value, bytes) else value


def main() -> None:
    """Write the file."""
    lines = ",\n".join(json.dumps(record, separators=(",", ":")) for record in vectors())
    PAGE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"wrote {PAGE.name}: {len(vectors())} runs")


if __name__ == "__main__":
    main()
