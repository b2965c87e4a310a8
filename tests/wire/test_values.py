"""Any plain control survives the way to bytes and back, whatever its shape."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede import MessageId, Packet
from antecede.wire import Codec
from antecede.wire.bits import BitReader, BitWriter
from antecede.wire.roster import Scope, WireRoster
from antecede.wire.sets import get_set, put_set
from antecede.wire.stream import INTEGER_MAX, Reader
from antecede.wire.values import get_value, put_value
from tests.wire.runs import names

MEMBERS = names(11)
CODEC = Codec(MEMBERS)
A_PACKET = Packet(
    MEMBERS[0], MEMBERS[1], 7, "data", MessageId(MEMBERS[0], 5), (MEMBERS[1],), b"hi", (), "history"
)

members = st.sampled_from(MEMBERS)
sets = st.sets(members).map(lambda some: tuple(sorted(some)))
clocks = st.integers(1, 300) | st.integers(1, INTEGER_MAX)
logs = st.dictionaries(st.tuples(members, clocks), sets, max_size=30).map(
    lambda entries: tuple((*key, entries[key]) for key in sorted(entries))
)
counts = st.integers(0, 300) | st.integers(0, INTEGER_MAX)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-INTEGER_MAX, INTEGER_MAX)
    | st.text(max_size=5).filter(lambda text: text.isprintable())
    | st.binary(max_size=5)
    | members
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[object, ...]:
    """Draw rows of one shape: what records are made of, or nearly."""
    width = draw(st.integers(1, 3))
    columns = [draw(st.sampled_from((counts, members, sets, leaves))) for _ in range(width)]
    columns.append(st.tuples(*[counts] * draw(st.integers(0, 3))))
    return tuple(draw(st.lists(st.tuples(*columns), max_size=8)))


controls = st.recursive(
    leaves | sets | logs | tables() | st.lists(counts, max_size=12).map(tuple),
    lambda inner: st.lists(inner, max_size=5).map(tuple),
    max_leaves=12,
)


@settings(max_examples=200)
@given(controls)
def test_any_control_comes_back_equal(control: object) -> None:
    packet = replace(A_PACKET, control=control)
    data = CODEC.encode(packet)
    again = CODEC.decode(data)
    assert again == packet
    assert same_types(again.control, control)
    assert CODEC.encode(again) == data


def same_types(left: object, right: object) -> bool:
    """Tell 1 from True, and a MessageId from a pair."""
    if type(left) is not type(right):
        return False
    if isinstance(left, tuple) and isinstance(right, tuple):
        return all(map(same_types, left, right))
    return True


@settings(max_examples=80)
@given(logs)
def test_any_log_comes_back_equal(log: tuple[tuple[str, int, tuple[str, ...]], ...]) -> None:
    packet = replace(A_PACKET, control=log)
    assert CODEC.decode(CODEC.encode(packet)) == packet


plain = st.recursive(
    leaves | st.builds(MessageId, members, counts) | st.frozensets(members) | st.sets(counts),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(members | counts, inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
    ),
    max_leaves=12,
)


@settings(max_examples=100)
@given(plain)
def test_any_state_comes_back_equal(value: object) -> None:
    out = bytearray()
    put_value(out, value, Scope(WireRoster(MEMBERS), is_flat=False))
    reader = Reader(bytes(out), len(out))
    assert get_value(reader, Scope(WireRoster(MEMBERS), is_flat=False)) == value
    assert reader.left == 0


@settings(max_examples=100)
@given(st.data(), st.integers(1, 300))
def test_any_set_comes_back_equal(data: st.DataObject, count: int) -> None:
    roster = WireRoster(tuple(f"m{number}" for number in range(count)))
    numbers = sorted(data.draw(st.sets(st.integers(0, count - 1))))
    if data.draw(st.booleans()):
        numbers = [number for number in range(count) if number not in numbers]
    out = bytearray()
    bits = BitWriter(out)
    put_set(bits, numbers, Scope(roster))
    bits.close()
    assert get_set(BitReader(Reader(bytes(out), len(out))), Scope(roster)) == numbers


@pytest.mark.parametrize(
    ("numbers", "width"),
    [
        ([], 3),  # a list of none
        ([7], 7),  # one member
        ([3, 9], 2 + 3 + 12),  # a list
        (list(range(0, 50, 2)), 3 + 50),  # a bit set
        (list(range(1, 50)), 3 + 3 + 6),  # all but one
        (list(range(50)), 3 + 1),  # all
    ],
)
def test_a_set_takes_its_smallest_form(numbers: list[int], width: int) -> None:
    out = bytearray()
    bits = BitWriter(out)
    put_set(bits, numbers, Scope(WireRoster(tuple(f"m{number}" for number in range(50)))))
    bits.close()
    assert len(out) == (width + 7) // 8


@given(st.lists(st.integers(0, INTEGER_MAX), max_size=20), st.integers(0, 7))
def test_blocks_of_numbers_come_back_at_any_bit(values: list[int], offset: int) -> None:
    out = bytearray()
    writer = BitWriter(out)
    writer.put(0, offset)
    writer.spread(values)
    writer.small(values)
    writer.close()
    reader = Reader(bytes(out), len(out))
    bits = BitReader(reader)
    bits.get(offset)
    assert bits.spread(len(values)) == values
    assert bits.small(len(values)) == values
    bits.close()
    assert reader.left == 0
