"""Bytes that were written once are read for ever: packets and snapshots of docs/wire-vectors.json.

If the format changes on purpose, raise its version and run python -m tools.wire_vectors.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from antecede import PROTOCOLS, Codec, view_of
from tools.wire_vectors import plain

RECORDS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "docs" / "wire-vectors.json").read_text(encoding="utf-8")
)


def tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(tuples(part) for part in value)
    if isinstance(value, dict):
        return {name: tuples(part) for name, part in value.items()}
    return value


def test_every_protocol_is_there() -> None:
    assert {record["protocol"] for record in RECORDS} == set(PROTOCOLS)
    assert all(record["packets"] for record in RECORDS)


@pytest.mark.parametrize(
    "record", RECORDS, ids=[f"{r['protocol']}-{r['variant']}-{i}" for i, r in enumerate(RECORDS)]
)
def test_old_bytes_are_read_and_written_as_before(record: dict[str, Any]) -> None:
    known = record["view"]
    view = view_of(
        record["protocol"], known["members"], number=known["number"], **tuples(known["options"])
    )
    assert view.digest.hex() == known["digest"]
    codec = Codec(view)
    for entry in record["packets"]:
        data = bytes.fromhex(entry["bytes"])
        packet = codec.decode(data)
        assert codec.encode(packet) == data
        assert (packet.source, packet.dest, packet.n) == tuple(
            entry[name] for name in ("source", "dest", "n")
        )
        assert packet.kind == entry["kind"]
        assert packet.message == (entry["message"] and tuple(entry["message"]))
        assert packet.dests == tuple(entry["dests"])
        assert packet.payload.hex() == entry["payload"]
        assert plain(packet.control) == entry["control"]
    end = codec.restore(record["snapshot"].encode(), resumed=True)
    assert codec.snapshot(end).decode() == record["snapshot"]
