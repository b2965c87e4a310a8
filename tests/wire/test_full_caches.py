"""What is kept to be quick is limited, and forgetting it changes nothing; limits of a Codec."""

from dataclasses import replace
from typing import Any

import pytest

import antecede
from antecede import PeerError, SnapshotError, UsageError
from antecede.core import casts
from antecede.core import roster as core_roster
from antecede.wire import Codec, codec, counted, packets, quick, roster, sets, snapshots, stamps
from antecede.wire.bits import BitWriter
from tests.wire.runs import Run, names
from tests.wire.test_codec import A_PACKET

KEPT: list[tuple[Any, str]] = [
    (casts, "TARGETS_MAX"),
    (core_roster, "SETS_MAX"),
    (core_roster, "TABLES_MAX"),
    (counted, "STARTS_MAX"),
    (packets, "KEPT_MAX"),
    (quick, "CACHE_MAX"),
    (roster, "KEPT_MAX"),
    (sets, "KEPT_MAX"),
    (stamps, "CACHE_MAX"),
]


@pytest.mark.parametrize("count", [5, 20])
@pytest.mark.parametrize("protocol", ["optimal", "pruned", "matrix", "direct"])
def test_full_caches_change_no_byte(
    protocol: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encoded() -> list[bytes]:
        writer, reader = Codec(names(count)), Codec(names(count))
        sent = Run(protocol, writer.members, 5).go(60).packets
        data = [writer.encode(packet) for packet in sent]
        assert [reader.decode(one) for one in data] == sent
        return data

    expected = encoded()
    for module, limit in KEPT:
        monkeypatch.setattr(module, limit, 2)
    assert encoded() == expected


def test_a_codec_forgets_the_oldest_members_that_it_once_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codec, "ROSTERS_MAX", 3)
    one = Codec(tuple("abc"))
    data = []
    for gone in "cdef":
        data.append(one.encode(replace(A_PACKET, dests=("b",))))
        one.add(chr(ord(gone) + 1))
        one.remove(gone)
    assert one.decode(data[-1]).dests == ("b",)
    with pytest.raises(PeerError):
        one.decode(data[0])


def test_a_codec_has_at_most_so_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MEMBERS_MAX", 3)
    one = Codec(tuple("ab"))
    one.add("c")
    with pytest.raises(UsageError, match="at most 3 members"):
        one.add("d")
    assert one.members == ("a", "b", "c")


def test_snapshots_that_are_too_long_or_of_nobody_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Codec(tuple("abcd"))
    end = antecede.endpoint("matrix", process="a", members=tuple("abc"))
    data = one.snapshot(end)
    assert one.restore(data, resumed=True).process == "a"
    end.process = "d"
    with pytest.raises(SnapshotError, match="of process 'd', which is not among its own members"):
        one.restore(one.snapshot(end), resumed=True)
    monkeypatch.setattr(snapshots, "SNAPSHOT_BYTES_MAX", 10)
    with pytest.raises(SnapshotError, match="is longer than the 10 allowed"):
        one.restore(data, resumed=True)


def test_plain_data_of_any_size_can_be_written_and_nothing_else() -> None:
    many = tuple(f"m{number:03}" for number in range(300))
    one = Codec(many)
    packet = replace(A_PACKET, source="m000", dest="m001", dests=(), message=None, payload=b"")
    odd = replace(packet, kind="control", control=("m299", "m007", "nobody", -5, 1 << 40))
    assert one.decode(one.encode(odd)) == odd
    with pytest.raises(UsageError, match="a value of type complex cannot be encoded"):
        one.encode(replace(odd, control=(1j,)))
    with pytest.raises(UsageError, match="cannot be encoded; expected 0 to"):
        BitWriter(bytearray()).spread([1 << 70])
