"""Sets of members as bits: one member, a list, a bit set or a complement, whichever is smallest."""

from collections.abc import Sequence
from typing import Final, cast

from antecede.wire.bits import BitReader, BitWriter, golomb_code
from antecede.wire.roster import KEPT_MAX, Scope

ONE: Final = 0b0
LIST: Final = 0b10
BITS: Final = 0b110
COMPLEMENT: Final = 0b111
_STR: Final = {str}


def put_set(bits: BitWriter, numbers: Sequence[int], scope: Scope) -> None:
    """Append a set of member numbers, given in ascending order."""
    shortest, second = _texts(numbers, len(scope.roster), scope.roster.width)
    bits.text(shortest if not second or scope.may_complement() else second)


def _texts(numbers: Sequence[int], count: int, width: int) -> tuple[str, str]:
    """Return the shortest form of a set; if that is a complement, also the bit set."""
    length = len(numbers)
    if length == 1:
        return f"{ONE:b}{numbers[0]:0{width}b}", ""
    code = max(length - 1, 0)
    as_list = 2 + _list_width(code, length, width)
    as_bits = 3 + count
    as_complement = 3 + _list_width(count - length, count - length, width)
    if as_list <= min(as_bits, as_complement):
        return f"{LIST:b}{_listed(code, numbers, width)}", ""
    there = set(numbers)
    flags = "".join(["1" if number in there else "0" for number in range(count)])
    if as_bits <= as_complement:
        return f"{BITS:b}{flags}", ""
    gone = [number for number in range(count) if number not in there]
    return f"{COMPLEMENT:b}{_listed(len(gone), gone, width)}", f"{BITS:b}{flags}"


def get_set(bits: BitReader, scope: Scope) -> list[int]:
    """Read a set of member numbers, in ascending order."""
    count, width = len(scope.roster), scope.roster.width
    if bits.get(1) == ONE:
        return _numbers(bits, 1, count, width)
    if bits.get(1) == LIST & 1:
        code = bits.golomb(0, count)
        return _numbers(bits, code + 1 if code else 0, count, width)
    if bits.get(1) == BITS & 1:
        text = f"{bits.get(count):0{count}b}"
        return [number for number, bit in enumerate(text) if bit == "1"]
    gone = set(_numbers(bits, bits.golomb(0, count), count, width))
    if not scope.may_complement():
        bits.fail("has more complements than are allowed")
    return [number for number in range(count) if number not in gone]


def get_names(bits: BitReader, scope: Scope) -> tuple[str, ...]:
    """Read members that were written by :func:`put_names`, and count them."""
    numbers = get_set(bits, scope)
    if scope.is_flat:
        scope.cells -= len(numbers)
        if scope.cells < 0:
            scope.charge(0)
    return scope.roster.in_order(numbers)


def _list_width(code: int, length: int, width: int) -> int:
    return 2 * (code + 1).bit_length() - 1 + length * width


def _listed(code: int, numbers: Sequence[int], width: int) -> str:
    form = f"0{width}b"
    return golomb_code(code, 0) + "".join([format(number, form) for number in numbers])


def _numbers(bits: BitReader, length: int, count: int, width: int) -> list[int]:
    if length == 1:
        numbers = [bits.get(width)]
    else:
        numbers = bits.each(length, width)
        if length and sorted(set(numbers)) != numbers:
            bits.fail("has a set out of order")
    if numbers and numbers[-1] >= count:
        bits.fail(f"names member {numbers[-1]} of {count}")
    return numbers


def get_list(bits: BitReader, length: int, scope: Scope) -> list[str]:
    """Read ``length`` members in any order."""
    names, width = scope.roster.names, scope.roster.width
    numbers = bits.each(length, width)
    if max(numbers, default=0) >= len(names):
        bits.fail(f"names member {max(numbers)} of {len(names)}")
    return [names[number] for number in numbers]


def is_names(value: tuple[object, ...], scope: Scope) -> bool:
    """Tell whether a tuple holds members, sorted by name, each once."""
    if not value:
        return True
    if set(map(type, value)) != _STR:
        return False
    if len(value) > 1 and value in scope.roster.sets:  # strings only, so it can be looked up
        return True
    names = cast("tuple[str, ...]", value)
    distinct = set(names)
    return scope.roster.numbers.keys() >= distinct and sorted(distinct) == list(names)


def put_names(bits: BitWriter, names: tuple[str, ...], scope: Scope) -> None:
    """Append members as a set; the same sets recur, so some thousands are kept."""
    sets = scope.roster.sets
    found = sets.get(names)
    if found is None:
        numbers = scope.roster.numbers
        roster = scope.roster
        found = _texts(sorted([numbers[name] for name in names]), len(roster), roster.width)
        if len(sets) >= KEPT_MAX:
            sets.clear()
        sets[names] = found
    shortest, second = found
    bits.text(shortest if not second or scope.may_complement() else second)
