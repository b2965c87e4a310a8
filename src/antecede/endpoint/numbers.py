"""Numbers as bytes: varints, columns of small numbers, sets of members, and clocks.

A column has lanes of 3, 4, 6 or 8 bits. A lane with its greatest number means that the rest of the
value follows the column as a varint. The mean decides the width. The standard library converts
lanes quickly: 3 and 4 bits as octal and hexadecimal text, 6 as base 64. All forms are canonical: a
reader refuses what no writer writes.
"""

from binascii import a2b_base64, a2b_hex, b2a_base64, b2a_hex
from bisect import bisect
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from operator import sub
from typing import Final

from antecede.endpoint.messages import COUNT_MAX
from antecede.endpoint.series import ascending
from antecede.endpoint.view import CACHE_MAX, View
from antecede.errors import PeerError

BYTE: Final = [bytes((value,)) for value in range(256)]
FEW: Final = 3
"""Up to this many values take a byte each: packing would gain little."""
WIDTHS: Final = (3, 4, 6, 8)
EIGHT: Final = 3
"""The index of the widest lane."""
_MEANS: Final = (3, 11, 45)
"""Below these means of a column, lanes of 3, 4 and 6 bits are about the shortest."""
_MOST: Final = (7, 15, 63, 255)
_BELOW: Final = [bytes(range(most)) for most in _MOST]
_RESTS: Final = [bytes([*[max(v - most, 0) for v in range(255)], 255]) for most in _MOST]
"""The rest of a number that a lane cannot hold; 255 stands for any higher rest."""
_FILL: Final = [(1 << fill) - 1 for fill in range(8)]
_BEFORE: Final = (-1,)
_LESS: Final = bytes([0, *range(255)])
_ZEROS: Final = (b"", b"\0\0", b"\0")
_STRANGER: Final = "names someone who is not a member"
_NOT_SHORTEST: Final = "has sets of members in a form that is not the shortest"
_NOT_FILLED: Final = "ends too early, or is not filled up with zeros"
_HEX: Final = b"0123456789abcdef"
_B64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_OCTAL: Final = _HEX[:8].ljust(256, b"7")
_TO_HEX: Final = _HEX.ljust(256, b"f")
_TO_B64: Final = _B64.ljust(256, b"/")
_FROM_HEX: Final = bytes([max(_HEX.find(char), 0) for char in range(256)])
_FROM_B64: Final = bytes([max(_B64.find(char), 0) for char in range(256)])
_HIGH: Final = bytes([value >> 2 for value in _FROM_HEX])
_LOW: Final = bytes([value & 3 for value in _FROM_HEX])
_SMALL: Final = COUNT_MAX >> 1
_SHIFTED_MAX: Final = 1024
"""Up to this many bits, shifting one number is quicker than reading text."""


def varint(value: int) -> bytes:
    """Return a number from 0 as bytes with seven bits each, the lowest first."""
    if value < 0x80:
        return BYTE[value]
    if value < 0x4000:
        return BYTE[value & 0x7F | 0x80] + BYTE[value >> 7]
    return BYTE[value & 0x7F | 0x80] + varint(value >> 7)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after it."""
    value = data[at]
    if value < 0x80:
        return value, at + 1
    more = data[at + 1]
    if 0 < more < 0x80:
        return value & 0x7F | more << 7, at + 2
    if more and 0 < (last := data[at + 2]) < 0x80:
        return value & 0x7F | (more & 0x7F) << 7 | last << 14, at + 3
    value &= 0x7F
    for shift in range(7, 70, 7):
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if not byte:
                break
            return value, at + 1
    raise PeerError("has a number that is longer than it needs to be")


def read_count(data: bytes, at: int, least: int = 0) -> tuple[int, int]:
    """Return the number of a message, packet or event, and the offset after it."""
    value, at = data[at], at + 1
    if value > 0x7F:
        if 0 < data[at] < 0x80:
            value, at = value & 0x7F | data[at] << 7, at + 1
        else:
            value, at = read_varint(data, at - 1)
    if not least <= value <= COUNT_MAX:
        raise PeerError(f"has the number {value}; expected {least} to {COUNT_MAX}")
    return value, at


def put_column(values: list[int] | bytes) -> tuple[int, bytes]:
    """Return the index of the width, and the column."""
    count = len(values)
    try:
        column = bytes(values)
    except ValueError:
        column = bytes([min(value, 255) for value in values])
    if count <= FEW:
        number, lane = EIGHT, column
        if 255 not in column:
            return number, lane
    else:
        number = bisect(_MEANS, sum(column) // count)
        lane = put_lane(column, WIDTHS[number])
    rests = column.translate(_RESTS[number], _BELOW[number])
    if rests and not rests.isascii():  # some rests take several bytes
        most = _MOST[number]
        rests = b"".join([varint(value - most) for value in values if value >= most])
    return number, lane + rests


def get_column(data: bytes, at: int, count: int, number: int) -> tuple[Sequence[int], int]:
    """Read ``count`` values, and return the offset after them."""
    most = _MOST[number]
    if number == EIGHT:
        lane = data[at : at + count]
        at += count
        if at > len(data):
            raise PeerError(_NOT_FILLED)
    else:
        lane, at = get_lane(data, at, count, WIDTHS[number])
    values: Sequence[int] = lane
    if most in lane:
        values, at = _with_rests(data, at, lane, most)
    is_right = number == EIGHT
    if count > FEW:
        is_small = values is lane or max(values) < 256
        total = sum(values) if is_small else sum([min(value, 255) for value in values])
        is_right = number == bisect(_MEANS, total // count)
    if not is_right:
        raise PeerError(f"has a column of {count} in lanes of another width than it should have")
    return values, at


def _with_rests(data: bytes, at: int, lane: bytes, most: int) -> tuple[list[int], int]:
    """Return the values of a column in which some are larger than its lanes can hold."""
    values, place = list(lane), -1
    for _ in range(lane.count(most)):
        place = lane.index(most, place + 1)
        more, at = data[at], at + 1
        if more > 0x7F:
            more, at = read_varint(data, at - 1)
        values[place] = most + more
    return values, at


def put_gaps(values: list[int]) -> tuple[int, bytes]:
    """Return a column of the first of ascending numbers and the gaps between neighbours."""
    steps = list(map(sub, values, chain(_BEFORE, values)))
    try:
        return put_column(bytes(steps).translate(_LESS))
    except ValueError:
        return put_column([step - 1 for step in steps])


def put_ascending(values: list[int]) -> bytes:
    """Return distinct ascending numbers from 0: their count, and a column of gaps."""
    if not values:
        return b"\0"
    number, column = put_gaps(values)
    return varint(len(values) << 2 | number) + column


def get_ascending(data: bytes, at: int) -> tuple[list[int], int]:
    """Read what :func:`put_ascending` wrote, and return the offset after it."""
    code, at = read_varint(data, at)
    if 0 < code < 4:
        raise PeerError("has a column of nothing in a form that it should not have")
    gaps, at = get_column(data, at, code >> 2, code & 3) if code else ((), at)
    return ascending(gaps), at


def put_lane(column: bytes, width: int) -> bytes:
    """Return values in lanes; one that is too large becomes the lane's greatest number."""
    if width == 8:
        return column
    if width == 6:
        digits = column.translate(_TO_B64)
        over = -len(digits) & 3
        whole = a2b_base64(digits + b"A" * over if over else digits)
        return whole[: len(digits) * 6 + 7 >> 3]
    if width == 4:
        digits = column.translate(_TO_HEX)
        return a2b_hex(digits + b"0" if len(digits) & 1 else digits)
    return _put_digits(column.translate(_TO_OCTAL), width)


def get_lane(data: bytes, at: int, count: int, width: int) -> tuple[bytes, int]:
    """Read ``count`` lanes, and return the offset after them."""
    if width in (1, 3):
        digits, at = _get_digits(data, at, count, width)
        return digits.encode().translate(_FROM_HEX), at
    bits = count * width
    end, fill = at + (bits + 7 >> 3), -bits & 7
    part = data[at:end]
    if end > len(data) or (fill and part[-1] & _FILL[fill]):
        raise PeerError(_NOT_FILLED)
    if width == 8:
        return part, end
    if width == 6:
        return b2a_base64(part + _ZEROS[len(part) % 3]).translate(_FROM_B64)[:count], end
    if width == 4:
        lane = b2a_hex(part).translate(_FROM_HEX)
        return lane[:-1] if count & 1 else lane, end
    pairs = b2a_hex(part)
    lanes = bytearray(2 * len(pairs))
    lanes[0::2], lanes[1::2] = pairs.translate(_HIGH), pairs.translate(_LOW)
    return bytes(lanes[:count]), end


def _put_digits(digits: str | bytes, width: int) -> bytes:
    """Return digits of 1, 2 or 3 bits."""
    bits = width * len(digits)
    return (int(digits or b"0", 1 << width) << (-bits & 7)).to_bytes(bits + 7 >> 3, "big")


def _get_digits(data: bytes, at: int, count: int, width: int) -> tuple[str, int]:
    """Read ``count`` digits of 1 or 3 bits as text, and return the offset after them."""
    bits = count * width
    end, fill = at + (bits + 7 >> 3), -bits & 7
    whole = int.from_bytes(data[at:end], "big")
    if end > len(data) or whole & _FILL[fill]:
        raise PeerError(_NOT_FILLED)
    return format(whole >> fill, f"0{count}{'b' if width == 1 else 'o'}") if count else "", end


# Blocks: many small numbers, as a column or in Rice's code.

RICE: Final = len(WIDTHS)
"""The first form of a block in Rice's code, with k = 0; the next ones have k = 1 and so on."""
_HALF_MEANS: Final = (3, 7, 15, 22)
"""Below these doubled means, k is 0, 1, 2 or 3; above them a column is as short."""
_UNARY: Final = ["1" * value + "0" for value in range(256)]
_OVER: Final = [bytes([value >> k for value in range(256)]) for k in range(4)]
_UNDER: Final = [bytes([value & (1 << k) - 1 for value in range(256)]) for k in range(4)]
"""The two parts of a number: ``_OVER`` is written in unary, ``_UNDER`` in a lane."""


def put_block(values: list[int]) -> bytes:
    """Return numbers after their form: k + 1 + (number >> k) bits for each, or a column."""
    k = _rice(len(values), sum(values))
    if k == len(_HALF_MEANS):
        number, column = put_column(values)
        return BYTE[number] + column
    try:
        column = bytes(values)
        text = "".join(map(_UNARY.__getitem__, column.translate(_OVER[k])))
        low = column.translate(_UNDER[k])
    except ValueError:
        text = "".join(["1" * (value >> k) + "0" for value in values])
        low = bytes([value & (1 << k) - 1 for value in values])
    lanes = put_lane(low, k) if k else b""
    return b"".join((BYTE[RICE + k], varint(len(text) - len(values)), lanes, _put_digits(text, 1)))


def get_block(data: bytes, at: int, count: int) -> tuple[Sequence[int], int]:
    """Read ``count`` numbers, and return the offset after them."""
    k = data[at] - RICE
    values: Sequence[int]
    if k < 0:
        values, at = get_column(data, at + 1, count, k + RICE)
    else:
        if k >= len(_HALF_MEANS):
            raise PeerError(f"has {count} numbers in an unknown form")
        ones, at = read_varint(data, at + 1)
        low, at = get_lane(data, at, count, k) if k else (b"", at)
        text, at = _get_digits(data, at, count + ones, 1) if ones <= 8 * len(data) else ("", at)
        values = list(map(len, text.split("0")))
        if len(values) != count + 1 or values.pop():
            raise PeerError(f"has another number of values than {count}")
        if k:
            values = [(high << k) + rest for high, rest in zip(values, low, strict=True)]
    if _rice(count, sum(values)) != (k if k >= 0 else len(_HALF_MEANS)):
        raise PeerError(f"has {count} numbers in a form that is not the shortest")
    return values, at


def _rice(count: int, total: int) -> int:
    return bisect(_HALF_MEANS, 2 * total // count) if count > FEW else len(_HALF_MEANS)


class Sets:
    """Writes and reads several sets: one member each, lists, or a bit for every member."""

    SINGLES: Final = 0
    LISTS: Final = 1
    BITS: Final = 2

    def __init__(self, view: View) -> None:
        self.view = view
        n = view.n
        # Wide enough for member numbers and for n, which stands for a large set.
        self._width = 4 if n < 16 else 6 if n < 64 else 8
        self._is_wide = n > 255
        bits = 16 if self._is_wide else self._width
        self._large = n // (bits + 1) + 1
        """Sets with more members are written as bits."""
        self._cost = bits + 1
        self.bits = [1 << number for number in range(n)]
        """By member, the set with only that member."""
        self._list: Final = lru_cache(CACHE_MAX)(self._list_of)
        self._set: Final = lru_cache(CACHE_MAX)(self._set_of)

    def put(self, masks: list[int]) -> tuple[int, bytes]:
        """Return the index of the form, and the sets, none of which may be empty."""
        n = self.view.n
        if sum(map(int.bit_count, masks)) == len(masks):
            lengths = list(map(int.bit_length, masks))
            if self._is_wide:
                return self.SINGLES, self._put_numbers([length - 1 for length in lengths])
            width = 8 if len(lengths) <= FEW else self._width
            return self.SINGLES, put_lane(bytes(lengths).translate(_LESS), width)
        lists = list(map(self._list, masks))
        codes = [number for numbers, _ in lists for number in numbers]
        large = codes.count(n)
        if not self._is_list(len(codes), large, len(masks)):
            return self.BITS, _put_digits("".join([format(mask, f"0{n}b") for mask in masks]), 1)
        text = "".join([marks for _, marks in lists])
        if large:
            wide = [mask for mask in masks if mask.bit_count() > self._large]
            text += "".join([format(mask, f"0{n}b") for mask in wide])
        extra = varint(len(codes) - len(masks))
        return self.LISTS, extra + self._put_numbers(codes) + _put_digits(text, 1)

    def get(self, data: bytes, at: int, count: int, form: int) -> tuple[list[int], int]:
        """Read ``count`` sets, and return the offset after them."""
        n = self.view.n
        if form == self.SINGLES:
            numbers, at = self._get_numbers(data, at, count)
            try:
                return [self.bits[number] for number in numbers], at
            except IndexError:
                raise PeerError(_STRANGER) from None
        if form == self.LISTS:
            extra, at = read_varint(data, at)
            length = count + extra
            codes, at = self._get_numbers(data, at, length)
            large = codes.count(n)
            text, at = _get_digits(data, at, length + large * n, 1)
            masks = self._sets_of(codes, text, length)
            is_right = extra + large > 0 and self._is_list(length, large, count)
        elif form == self.BITS:
            masks, at = self._get_masks(data, at, count)
            sizes = list(map(int.bit_count, masks))
            kept = [size for size in sizes if size <= self._large]
            large = count - len(kept)
            is_right = sum(sizes) > count and not self._is_list(sum(kept) + large, large, count)
        else:
            is_right, masks = False, []
        if not is_right or len(masks) != count or 0 in masks:
            raise PeerError(_NOT_SHORTEST)
        return masks, at

    def _is_list(self, codes: int, large: int, sets: int) -> bool:
        """Return whether lists are at least as short as bits."""
        return codes * self._cost + large * self.view.n <= sets * self.view.n

    def _list_of(self, mask: int) -> tuple[tuple[int, ...], str]:
        """Return a set's members, and a mark for each: 1 if another member follows."""
        is_large = mask.bit_count() > self._large
        numbers = (self.view.n,) if is_large else self.view.list(mask)
        return numbers, "1" * (len(numbers) - 1) + "0"

    def _sets_of(self, codes: bytes | tuple[int, ...], text: str, length: int) -> list[int]:
        n, masks, first, behind = self.view.n, list[int](), 0, length
        *runs, last = text[:length].split("0")
        is_right = not last
        for run in runs:
            end = first + len(run) + 1
            part = codes[first:end]
            if part[0] == n and not run:
                mask = int(text[behind : behind + n], 2)
                behind += n
                is_right &= mask.bit_count() > self._large
            else:
                mask = self._set(part)
            masks.append(mask)
            first = end
        if not is_right:
            raise PeerError(_NOT_SHORTEST)
        return masks

    def _set_of(self, part: bytes | tuple[int, ...]) -> int:
        if list(part) != sorted(set(part)) or part[-1] >= self.view.n or len(part) > self._large:
            raise PeerError(_NOT_SHORTEST)
        return sum([1 << number for number in part])

    def _get_masks(self, data: bytes, at: int, count: int) -> tuple[list[int], int]:
        n, full = self.view.n, self.view.everyone
        bits = n * count
        if bits > _SHIFTED_MAX:
            text, at = _get_digits(data, at, bits, 1)
            return [int(text[i : i + n], 2) for i in range(0, bits, n)], at
        end = at + (bits + 7 >> 3)
        fill, whole = -bits & 7, int.from_bytes(data[at:end], "big")
        if end > len(data) or whole & (1 << fill) - 1:
            raise PeerError(_NOT_FILLED)
        return [whole >> i & full for i in range(fill + bits - n, fill - 1, -n)], end

    def _put_numbers(self, numbers: list[int]) -> bytes:
        if self._is_wide:
            return b"".join([number.to_bytes(2, "big") for number in numbers])
        return put_lane(bytes(numbers), 8 if len(numbers) <= FEW else self._width)

    def _get_numbers(self, data: bytes, at: int, count: int) -> tuple[bytes | tuple[int, ...], int]:
        """Read ``count`` member numbers or codes, and return the offset after them."""
        if not self._is_wide:
            return get_lane(data, at, count, 8 if count <= FEW else self._width)
        end = at + 2 * count
        if end > len(data):
            raise PeerError(_NOT_FILLED)
        return tuple([data[i] << 8 | data[i + 1] for i in range(at, end, 2)]), end


def put_clocks(keys: Sequence[int], view: View, seq: int) -> tuple[bytes, int, bytes]:
    """Return a key for each member: a base near ``seq``, the width, and the column."""
    shift, low = view.shift, view.low
    least = min(keys)
    if least > low:
        base = (least >> shift) - 1
        number, column = put_column([(key >> shift) - base for key in keys])
    else:  # of some members nothing is known
        base = (min([key for key in keys if key > low], default=low + 1) >> shift) - 1
        number, column = put_column([(key >> shift) - base if key > low else 0 for key in keys])
    return varint(2 * (seq - base) if seq >= base else 2 * (base - seq) - 1), number, column


def get_clocks(data: bytes, at: int, number: int, view: View, seq: int) -> tuple[list[int], int]:
    """Read a key for each member, and return the offset after them."""
    code, at = data[at], at + 1
    if code > 0x7F:
        code, at = read_varint(data, at - 1)
    base = seq + (code + 1 >> 1) if code & 1 else seq - (code >> 1)
    codes: Sequence[int]
    codes, at = get_column(data, at, view.n, number)
    shift = view.shift
    is_small = 0 <= base < _SMALL and type(codes) is bytes  # usual: no need to check each
    if (1 not in codes and (base or any(codes))) or not (
        is_small or 0 <= base <= COUNT_MAX - max(codes)
    ):
        msg = f"has clocks from {base}, but none is next to it, or one is above {COUNT_MAX}"
        raise PeerError(msg)
    if 0 not in codes:
        return [i + (code << shift) for i, code in enumerate(codes, base << shift)], at
    return [base + code << shift | i if code else i for i, code in enumerate(codes)], at


def put_vector(keys: Sequence[int], view: View, seq: int) -> bytes:
    """Return a key for each member, preceded by the width."""
    base, number, column = put_clocks(keys, view, seq)
    return b"".join((BYTE[number], base, column))


def get_vector(data: bytes, at: int, view: View, seq: int) -> tuple[list[int], int]:
    """Read what :func:`put_vector` wrote, and return the offset after it."""
    if data[at] > EIGHT:
        raise PeerError("has lanes of an unknown width")
    return get_clocks(data, at + 1, data[at], view, seq)
