"""Sets of members as bits: one member, a list, a bit set or a complement, whichever is smallest."""

import itertools
from collections.abc import Sequence
from typing import Final, cast

from antecede.wire.bits import BitReader, BitWriter
from antecede.wire.roster import Scope

ONE: Final = 0b0
LIST: Final = 0b10
BITS: Final = 0b110
COMPLEMENT: Final = 0b111


def put_set(bits: BitWriter, numbers: Sequence[int], scope: Scope) -> None:
    """Append a set of member numbers, given in ascending order."""
    count, length = len(scope.roster), len(numbers)
    width = scope.roster.width
    if length == 1:
        bits.put(ONE, 1)
        bits.put(numbers[0], width)
        return
    code = max(length - 1, 0)
    as_list = 2 + _list_width(code, length, width)
    as_bits = 3 + count
    as_complement = 3 + _list_width(count - length, count - length, width)
    if as_list <= min(as_bits, as_complement):
        bits.put(LIST, 2)
        _put_list(bits, code, numbers, width)
    elif as_bits <= as_complement or not scope.may_complement():
        there = set(numbers)
        text = "".join("1" if number in there else "0" for number in range(count))
        bits.put(BITS, 3)
        bits.put(int(text, 2), count)
    else:
        there = set(numbers)
        gone = [number for number in range(count) if number not in there]
        bits.put(COMPLEMENT, 3)
        _put_list(bits, len(gone), gone, width)


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


def _list_width(code: int, length: int, width: int) -> int:
    return 2 * (code + 1).bit_length() - 1 + length * width


def _put_list(bits: BitWriter, code: int, numbers: Sequence[int], width: int) -> None:
    bits.golomb(code, 0)
    for number in numbers:
        bits.put(number, width)


def _numbers(bits: BitReader, length: int, count: int, width: int) -> list[int]:
    bits.expect(length, width)
    numbers = [bits.get(width) for _ in range(length)]
    if length > 1 and any(a >= b for a, b in itertools.pairwise(numbers)):
        bits.fail("has a set out of order")
    if numbers and numbers[-1] >= count:
        bits.fail(f"names member {numbers[-1]} of {count}")
    return numbers


def get_list(bits: BitReader, length: int, scope: Scope) -> list[str]:
    """Read ``length`` members in any order."""
    names, width = scope.roster.names, scope.roster.width
    bits.expect(length, width)
    numbers = [bits.get(width) for _ in range(length)]
    if max(numbers, default=0) >= len(names):
        bits.fail(f"names member {max(numbers)} of {len(names)}")
    return [names[number] for number in numbers]


def is_names(value: tuple[object, ...], scope: Scope) -> bool:
    """Tell whether a tuple holds members, sorted by name, each once."""
    numbers = scope.roster.numbers
    return all(type(name) is str and name in numbers for name in value) and all(
        a < b for a, b in itertools.pairwise(cast("tuple[str, ...]", value))
    )


def put_names(bits: BitWriter, names: tuple[str, ...], scope: Scope) -> None:
    """Append members as a set."""
    numbers = scope.roster.numbers
    put_set(bits, sorted(numbers[name] for name in names), scope)
