"""Packed forms for the shapes that controls have: numbers, names, records and logs.

Each form is chosen by the shape of a value alone, so any protocol's control gets it wherever the
shape occurs. [KS98] section 6.2 suggests complements for large destination sets; see ``sets``.

A *log* is what ``optimal`` and ``pruned`` carry: entries (sender, clock, destinations). Most senders
have one entry, often without destinations, so entries are grouped by sender: the newest clock of
each (near each other), how many older ones, their distances, then the destination sets.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, cast

from antecede.wire.bits import BitReader, BitWriter
from antecede.wire.sets import get_set, number_width, put_set
from antecede.wire.stream import INTEGER_MAX, put_varint

if TYPE_CHECKING:
    from antecede.wire.roster import Scope
    from antecede.wire.stream import Reader

NUMBERS, NAMES, RECORDS, LOG = range(0xF1, 0xF5)
PACKED: Final = frozenset({NUMBERS, NAMES, RECORDS, LOG})
NUMBERS_MIN: Final = 4
NAMES_MIN: Final = 4
RECORDS_MIN: Final = 2

Entry = tuple[str, int, tuple[str, ...]]
Row = tuple[object, ...]


def packed_form(value: tuple[object, ...], scope: Scope) -> int | None:
    """Return the packed form that fits a tuple's shape, if any does."""
    length = len(value)
    if length == 0:
        return None
    kind = type(value[0])
    form = None
    if kind is int and length >= NUMBERS_MIN:
        form = NUMBERS if all(type(item) is int and item >= 0 for item in value) else None
    elif kind is str and length >= NAMES_MIN:
        form = NAMES if is_names(value, scope) else None
    elif kind is tuple and is_log(value, scope):
        form = LOG
    elif kind is tuple and length >= RECORDS_MIN and _columns(value, scope) is not None:
        form = RECORDS
    return form


def put_packed(out: bytearray, form: int, value: tuple[object, ...], scope: Scope) -> None:
    """Append a tuple in the packed form that :func:`packed_form` found."""
    out.append(form)
    if form == NUMBERS:
        put_varint(out, len(value))
        bits = BitWriter(out)
        bits.spread(cast("tuple[int, ...]", value))
    elif form == NAMES:
        bits = BitWriter(out)
        put_names(bits, cast("tuple[str, ...]", value), scope)
    elif form == RECORDS:
        put_varint(out, len(value))
        put_varint(out, len(cast("Row", value[0])))
        bits = BitWriter(out)
        _put_records(bits, cast("tuple[Row, ...]", value), scope)
    else:
        bits = BitWriter(out)
        _put_log(bits, cast("tuple[Entry, ...]", value), scope)
    bits.close()


def get_packed(reader: Reader, form: int, scope: Scope) -> tuple[object, ...]:
    """Read a tuple in a packed form."""
    result: tuple[object, ...]
    if form == NUMBERS:
        length = reader.varint()
        bits = BitReader(reader)
        bits.expect(length, 1)
        result = tuple(bits.spread(length))
    elif form == NAMES:
        bits = BitReader(reader)
        result = scope.roster.in_order(get_set(bits, scope))
    elif form == RECORDS:
        length, width = reader.varint(), reader.varint()
        bits = BitReader(reader)
        result = _get_records(bits, length, width, scope)
    else:
        bits = BitReader(reader)
        result = _get_log(bits, scope)
    bits.close()
    return result


def is_names(value: tuple[object, ...], scope: Scope) -> bool:
    """Tell whether a tuple holds members, sorted by name and each once."""
    numbers = scope.roster.numbers
    return all(type(name) is str and name in numbers for name in value) and all(
        a < b  # type: ignore[operator]
        for a, b in itertools.pairwise(value)
    )


def put_names(bits: BitWriter, names: tuple[str, ...], scope: Scope) -> None:
    """Append members as a set."""
    numbers = scope.roster.numbers
    put_set(bits, sorted(numbers[name] for name in names), scope)


# Records: tuples of one length whose columns hold either members or numbers.


def _columns(value: tuple[object, ...], scope: Scope) -> list[bool] | None:
    """Return for each column whether it holds members; None if these are no records."""
    first = value[0]
    if type(first) is not tuple or not first:
        return None
    members = [type(item) is str for item in first]
    numbers = scope.roster.numbers
    for row in value:
        if type(row) is not tuple or len(row) != len(first):
            return None
        for item, is_member in zip(row, members, strict=True):
            fits = (
                type(item) is str and item in numbers
                if is_member
                else type(item) is int and 0 <= item <= INTEGER_MAX
            )
            if not fits:
                return None
    return members


def _put_records(bits: BitWriter, rows: tuple[Row, ...], scope: Scope) -> None:
    width = number_width(len(scope.roster))
    for column in zip(*rows, strict=True):
        if type(column[0]) is str:
            bits.put(1, 1)
            for name in column:
                bits.put(scope.roster.numbers[cast("str", name)], width)
        else:
            bits.put(0, 1)
            bits.spread(cast("tuple[int, ...]", column))


def _get_records(bits: BitReader, length: int, width: int, scope: Scope) -> tuple[Row, ...]:
    bits.expect(length, max(width, 1))
    count = len(scope.roster)
    columns: list[list[object]] = []
    for _ in range(width):
        if bits.get(1):
            numbers = [bits.get(number_width(count)) for _ in range(length)]
            if max(numbers, default=0) >= count:
                bits.fail(f"names member {max(numbers)} of {count}")
            columns.append([scope.roster.names[number] for number in numbers])
        else:
            columns.append(cast("list[object]", bits.spread(length)))
    return tuple(zip(*columns, strict=True))


# Logs.


def is_log(value: tuple[object, ...], scope: Scope) -> bool:
    """Tell whether a tuple is a log: sorted, and no entry without destinations but the newest.

    Where only processes can be meant, a log that names a stranger is refused: nobody could make
    sense of it.
    """
    last_sender, last_clock, last_is_empty = "", 0, False
    for entry in value:
        if type(entry) is not tuple or len(entry) != 3:
            return False
        sender, clock, dests = entry
        if type(sender) is not str or type(clock) is not int or type(dests) is not tuple:
            return False
        if not 1 <= clock <= INTEGER_MAX or any(type(dest) is not str for dest in dests):
            return False
        same = sender == last_sender
        if sender < last_sender or (same and (clock <= last_clock or last_is_empty)):
            return False
        if any(a >= b for a, b in itertools.pairwise(dests)):
            return False
        last_sender, last_clock, last_is_empty = sender, clock, not dests
    names = {
        name for sender, _, dests in cast("tuple[Entry, ...]", value) for name in (sender, *dests)
    }
    strangers = sorted(names.difference(scope.roster.numbers))
    if strangers and scope.is_strict:
        scope.roster.number(strangers[0])
    return not strangers


def _put_log(bits: BitWriter, log: tuple[Entry, ...], scope: Scope) -> None:
    groups: dict[int, list[Entry]] = {}
    for entry in log:
        groups.setdefault(scope.roster.numbers[entry[0]], []).append(entry)
    senders = sorted(groups)
    for sender in senders:
        groups[sender].reverse()
    put_set(bits, senders, scope)
    bits.spread([groups[sender][0][1] for sender in senders])
    bits.small([len(groups[sender]) - 1 for sender in senders])
    bits.small(
        [
            newer[1] - older[1] - 1
            for sender in senders
            for newer, older in itertools.pairwise(groups[sender])
        ]
    )
    for sender in senders:
        bits.put(1 if groups[sender][0][2] else 0, 1)
        for _, _, dests in groups[sender]:
            if dests:
                put_names(bits, dests, scope)


def _get_log(bits: BitReader, scope: Scope) -> tuple[Entry, ...]:
    roster = scope.roster
    senders = get_set(bits, scope)
    newest = bits.spread(len(senders))
    counts = bits.small(len(senders), INTEGER_MAX)
    bits.expect(sum(counts), 1)
    gaps = iter(bits.small(sum(counts), INTEGER_MAX))
    groups: dict[int, list[Entry]] = {}
    for sender, first, count in zip(senders, newest, counts, strict=True):
        name, clock = roster.names[sender], first
        has_dests = bits.get(1)
        dests = roster.in_order(get_set(bits, scope)) if has_dests else ()
        group = [(name, clock, dests)]
        for gap in itertools.islice(gaps, count):
            clock -= gap + 1
            group.append((name, clock, roster.in_order(get_set(bits, scope))))
        if clock < 1:
            bits.fail(f"has an entry of clock {clock}")
        groups[sender] = group[::-1]
    by_name = sorted(groups, key=roster.ranks.__getitem__)
    return tuple(entry for sender in by_name for entry in groups[sender])
