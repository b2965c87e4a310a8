"""A megabyte from a hostile member is refused or decoded in well under a second.

What these packets cost grew with what few of their bits stood for: destinations, empty groups,
columns, large sets. The bounds here are far above what a slow machine takes, and far below that.
"""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random

import pytest

from antecede import MessageId, Packet, PeerError, UsageError
from antecede.core.roster import roster_of
from antecede.wire import Codec, records
from antecede.wire.bits import BitWriter
from antecede.wire.lanes import varint
from antecede.wire.packed import GROUPED
from antecede.wire.packets import STAMPED, TAGS
from antecede.wire.quick import MARK, quick_of
from antecede.wire.roster import Scope, WireRoster
from antecede.wire.stamps import Stamps

SECONDS_MAX = 1.0
FEW = tuple(f"m{number:02}" for number in range(30))


def seconds(codec: Codec, data: bytes) -> float:
    start = time.process_time()
    with suppress(PeerError):
        codec.decode(data)
    return time.process_time() - start


def packet(control: object, protocol: str) -> Packet:
    return Packet(FEW[0], FEW[1], 1, "data", MessageId(FEW[0], 1), FEW[1:2], b"", control, protocol)


def unlimited(control: object, protocol: str, patch: pytest.MonkeyPatch) -> bytes:
    """Return a packet as a peer writes it that does not count what it sends."""
    with patch.context() as without:
        without.setattr(Scope, "charge", lambda self, cells: None)
        return Codec(FEW).encode(packet(control, protocol))


def test_destinations_in_a_log_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(2)
    sets = [tuple(sorted(chance.sample(FEW[2:], 4))) for _ in range(1000)]
    log = tuple((name, clock, sets[clock % 1000]) for name in FEW for clock in range(1, 8000))
    with pytest.raises(UsageError, match="more than"):
        Codec(FEW).encode(packet(log, "context"))
    data = unlimited(log, "context", monkeypatch)
    assert len(data) < 1 << 20
    assert seconds(Codec(FEW), data) < SECONDS_MAX


@pytest.mark.parametrize("row", [(FEW[3:21],), (5, FEW[3:21])])
def test_sets_in_records_are_counted(
    row: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = unlimited((row,) * 120_000, "history", monkeypatch)
    assert len(data) < 1 << 20
    assert seconds(Codec(FEW), data) < SECONDS_MAX


def test_names_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    data = unlimited((*((FEW[3:21],) * 120_000), 1), "history", monkeypatch)
    assert len(data) < 1 << 20
    assert seconds(Codec(FEW), data) < SECONDS_MAX


@pytest.mark.parametrize("group", [(), ((5,),)])
def test_groups_are_counted(group: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    first = ((FEW[0], 1),) if not group else ((5,),)
    data = unlimited((first, *((group,) * 250_000)), "history", monkeypatch)
    assert seconds(Codec(FEW), data) < SECONDS_MAX


@pytest.mark.parametrize(("rows", "kind"), [(0, records.SET), (0, records.MEMBER)])
def test_columns_without_records_are_refused(rows: int, kind: int) -> None:
    start = Codec(FEW).encode(packet((1, 2), "history"))[:-3]
    out = bytearray((GROUPED, 1))
    bits = BitWriter(out)
    columns = 2_000_000
    bits.golomb(columns, 0)
    bits.put(0, 1)
    bits.small([rows])
    bits.each([kind] * columns, records.KIND_BITS)
    bits.close()
    data = start + bytes(out)
    with pytest.raises(PeerError):
        Codec(FEW).decode(data)
    assert seconds(Codec(FEW), data) < SECONDS_MAX


def listed(members: int, count: int, number: int) -> bytes:
    """Return a packet of ``optimal`` with a list of so many destinations."""
    wire = WireRoster(tuple(f"m{number}" for number in range(members)))
    start = bytes([MARK]) + wire.identity + varint(TAGS + STAMPED + 1)
    return start + bytes((0, 1, 1, 1)) + varint(count) + varint(number) * count


@pytest.mark.parametrize(("members", "count"), [(20, 3_000_000), (5000, 1_000_000)])
def test_more_destinations_than_members_are_refused_at_once(members: int, count: int) -> None:
    codec, data = Codec(tuple(f"m{n}" for n in range(members))), listed(members, count, 19)
    with pytest.raises(PeerError, match=f"{members} members"):
        codec.decode(data)
    assert seconds(codec, data) < 0.1


def test_unsorted_destinations_are_limited() -> None:
    codec = Codec(("a", "b"))
    many = ("b", "a") * 200_000
    with pytest.raises(UsageError, match="400000 destinations"):
        codec.encode(Packet("a", "b", 1, "data", MessageId("a", 1), many, b"", (), "direct"))


def test_large_sets_of_many_members_take_linear_time() -> None:
    members = tuple(f"m{number}" for number in range(8000))
    quick, stamps, chance = quick_of(members), Stamps(roster_of(members)), Random(1)
    shift = stamps.roster.shift
    size = stamps._large - 1
    tops = [1000 << shift | number for number in range(len(members))]
    log = {
        999 << shift | entry: sum(1 << n for n in chance.sample(range(2, len(members)), size))
        for entry in range(400)
    }
    start = bytes([MARK]) + quick.wire.identity + varint(TAGS + STAMPED) + bytes((0, 1, 1))
    data = start + varint(1001) + stamps.put(tops, log, 1001) + b"\0"
    codec = Codec(members)
    quick._stamps._sets.clear()
    found = codec.decode(data)
    assert found.stamp.log == log
    quick._stamps._sets.clear()
    assert seconds(codec, data) < 0.5
