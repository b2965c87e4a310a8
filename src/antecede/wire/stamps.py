"""Stamps as bytes: tops and log once for all copies of a message, then each copy's needs.

Messages are told by their distance from their sender's newest: ``(top - clock) << shift | sender``,
where ``shift`` is the width of a member's number. These *places* are small and close together.
Reading checks every choice that writing makes, so nothing is encoded again to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from antecede.core.messages import COMPILED
from antecede.core.roster import Roster
from antecede.core.validation import COUNT_MAX
from antecede.wire.lanes import (
    BYTE,
    BYTES,
    FEW,
    LESS,
    ColumnError,
    get_column,
    get_lane,
    least_of,
    put_column,
    put_lane,
    put_steps,
    read_varint,
    varint,
)
from antecede.wire.stream import CONTROL_BYTES_MAX

SINGLES: Final = 0
LISTS: Final = 1
BITS: Final = 2
"""How destinations are written: one number each, lists, or a bit for every member."""
CACHE_MAX: Final = 4096
ENTRIES_MAX: Final = 1 << 17
"""How many entries a log, and how many needs a packet may have here."""
SET_BITS_MAX: Final = 1 << 31
"""How many bits the destinations of a log may take in memory, a bit for every member."""
SMALL: Final = 1 << 31
"""With fewer messages, a few more cannot lead to another incarnation."""
SHIFTED_MAX: Final = 1024
"""Up to so many bits, shifting one number is quicker than reading text."""
TOO_EARLY: Final = "needs a message before its sender's first"
NOT_FOR_IT: Final = "has an entry before its sender's first message, or for its own destination"
NOT_SHORTEST: Final = "has destinations in a form that is not the shortest"
Log = dict[int, int]
ONE: Final = 8 | BYTES
"""The beginning of a single need that fits into a byte."""
_NEED: Final = [bytes((ONE, place)) for place in range(0xFF)]


class Stamps:
    """Writes and reads the stamps of one roster."""

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        count = len(roster)
        self._count = count
        # Wide enough for a member's number, and for ``count``, which stands for a large set.
        self._lane = 4 if count < 16 else 6 if count < 64 else 8 if count < 256 else 16
        self._large = count // (self._lane + 1) + 1  # sets with more members are written as bits
        self.entries_max = min(ENTRIES_MAX, SET_BITS_MAX // count)
        self._lists: dict[int, tuple[list[int], str]] = {}
        self._sets: dict[Sequence[int], int] = {}
        self._bits: dict[int, str] = {}

    # Write.

    def put(self, tops: list[int], log: Log, seq: int) -> bytes:
        """Return tops and log; tops must know at least one message."""
        roster = self.roster
        shift, low = roster.shift, roster.low
        least = least_of(tops) if COMPILED else min(tops)
        if least > low:
            base = least >> shift
            before = base - 1
            codes = [(top >> shift) - before for top in tops]
        else:  # of someone nothing is known
            base = min([top for top in tops if top > low]) >> shift
            codes = [(top >> shift) - base + 1 if top > low else 0 for top in tops]
        form, column = put_column(codes)
        start = varint(2 * (seq - base) if seq >= base else 2 * (base - seq) - 1)
        if not log:
            return b"".join((BYTE[form], start, column, b"\0"))
        if len(log) == 1:  # usual in small groups
            ((key, mask),) = log.items()
            sender, number = key & low, mask.bit_length() - 1
            place = tops[sender] - key | sender
            if place < 0xFF and self._lane < 8 and mask == roster.bits[number]:
                form |= BYTES << 3
                return b"".join((BYTE[form], start, column, b"\1", BYTE[place], BYTE[number]))
        by_place = {tops[key & low] - key | key & low: mask for key, mask in log.items()}
        places = sorted(by_place)
        width, gaps = put_steps(places)
        how, dests = self._put_dests(list(map(by_place.__getitem__, places)))
        form |= width << 3 | how << 6
        return b"".join((BYTE[form], start, column, varint(len(places)), gaps, dests))

    def put_needs(self, tops: list[int], needs: list[int]) -> bytes:
        """Return the messages that the destination must have delivered."""
        if not needs:
            return b"\0"
        low = self.roster.low
        if len(needs) == 1:
            key = needs[0]
            place = tops[key & low] - key | key & low
            if place < 0xFF:
                return _NEED[place]
        places = sorted([tops[key & low] - key | key & low for key in needs])
        width, gaps = put_steps(places)
        return varint(len(places) << 3 | width) + gaps

    def _put_dests(self, masks: list[int]) -> tuple[int, bytes]:
        if sum(map(int.bit_count, masks)) == len(masks):
            if self._lane > 8:
                return SINGLES, put_lane([mask.bit_length() - 1 for mask in masks], self._lane)
            numbers = bytes(list(map(int.bit_length, masks))).translate(LESS)
            few = len(numbers) <= FEW and self._lane < 8
            return SINGLES, numbers if few else put_lane(numbers, self._lane)
        find = self._lists.get
        lists = [find(mask) or self._list(mask) for mask in masks]
        codes = list(chain.from_iterable([numbers for numbers, _ in lists]))
        large = codes.count(self._count)
        if not self._is_list(len(codes), large, len(masks)):
            return BITS, _as_bytes(self._texts(masks))
        text = "".join([marks for _, marks in lists])
        if large:
            text += self._texts([mask for mask in masks if mask.bit_count() > self._large])
        column = put_lane(codes, self._lane)
        return LISTS, varint(len(codes) - len(masks)) + column + _as_bytes(text)

    def _is_list(self, codes: int, large: int, sets: int) -> bool:
        """Tell whether lists are as short as bits."""
        return codes * (self._lane + 1) + large * self._count <= sets * self._count

    def _texts(self, masks: list[int]) -> str:
        texts = self._bits
        return "".join([texts.get(mask) or self._text(mask) for mask in masks])

    def _list(self, mask: int) -> tuple[list[int], str]:
        """Return the members of a set, or the number that stands for a large one; and marks.

        A mark of 1 says that another member follows.
        """
        if len(self._lists) >= CACHE_MAX:
            self._lists.clear()
        is_large = mask.bit_count() > self._large
        numbers = [self._count] if is_large else self.roster.members(mask)
        result = self._lists[mask] = numbers, "1" * (len(numbers) - 1) + "0"
        return result

    def _text(self, mask: int) -> str:
        if len(self._bits) >= CACHE_MAX:
            self._bits.clear()
        text = self._bits[mask] = format(mask, f"0{self._count}b")
        return text

    # Read.

    def get(self, data: bytes, at: int, seq: int, dest: int) -> tuple[list[int], Log, int, int]:
        """Read the tops and the log of a packet for ``dest``.

        Return also a clock, and the place behind all: no clock belongs to a later incarnation.
        """
        roster, count = self.roster, self._count
        shift, low = roster.shift, roster.low
        form, code = data[at], data[at + 1]
        at += 2
        if code > 0x7F:
            code, at = read_varint(data, at - 1)
        base = seq + (code + 1 >> 1) if code & 1 else seq - (code >> 1)
        codes, at = get_column(data, at, count, form & 7)
        start, newest = base - 1, base
        if base >= SMALL or type(codes) is not bytes:  # else there is no need to look at each
            newest = start + max(codes)
        if 1 not in codes or base < 1 or newest > COUNT_MAX:
            msg = f"has clocks from {base}, but none is that, or one above {COUNT_MAX}"
            raise ColumnError(msg)
        if 0 in codes:
            tops = [start + code << shift | i if code else i for i, code in enumerate(codes)]
        else:
            tops = [i + (code << shift) for i, code in enumerate(codes, start << shift)]
        length = data[at]
        if not length:
            if form > 7:
                msg = f"has form {form} for a log without entries"
                raise ColumnError(msg)
            return tops, {}, newest, at + 1
        if length > 1 or form >> 3 != BYTES or self._lane >= 8 or data[at + 1] == 0xFF:
            log, at = self._get_log(data, at, form >> 3, tops, dest)
            return tops, log, newest, at
        place, number = data[at + 1], data[at + 2]  # a single entry: usual in small groups
        key = tops[place & low] - (place & ~low)
        if key <= low or number == dest:
            raise ColumnError(NOT_FOR_IT)
        return tops, {key: roster.bits[number]}, newest, at + 3

    def _get_log(
        self, data: bytes, at: int, form: int, tops: list[int], dest: int
    ) -> tuple[Log, int]:
        """Read entries; refuse those for ``dest``."""
        low, bits = self.roster.low, self.roster.bits
        high = ~low
        length, at = read_varint(data, at)
        if length > min(8 * (len(data) - at), self.entries_max):
            msg = f"claims {length} entries, but {len(data) - at} bytes are left"
            raise ColumnError(msg)
        gaps, at = get_column(data, at, length, form & 7)
        log: Log = {}
        place = -1
        if form >> 3 == SINGLES:
            few = length <= FEW and self._lane < 8
            numbers, at = get_lane(data, at, length, 8 if few else self._lane)
            for gap, number in zip(gaps, numbers):  # noqa: B905 - hot
                place += gap + 1
                log[tops[place & low] - (place & high)] = bits[number]
            is_open = dest not in numbers
        else:
            masks, at = self._get_sets(data, at, length, form >> 3)
            for gap, mask in zip(gaps, masks, strict=True):
                place += gap + 1
                log[tops[place & low] - (place & high)] = mask
            bit = bits[dest]
            is_open = not any([mask & bit for mask in masks])  # noqa: C419 - quicker so
        if min(log) <= low or not is_open:
            raise ColumnError(NOT_FOR_IT)
        return log, at

    def _get_sets(self, data: bytes, at: int, length: int, how: int) -> tuple[list[int], int]:
        """Read destinations where some messages have several."""
        if how == LISTS:
            extra, at = read_varint(data, at)
            codes = length + extra
            lane, at = get_lane(data, at, codes, self._lane)
            large = lane.count(self._count)
            text, at = _get_text(data, at, codes + large * self._count)
            masks = self._sets_of(
                lane, text[:codes], self._masks(text[codes:])[::-1] if large else []
            )
            is_right = extra + large > 0 and self._is_list(codes, large, length)
        elif how == BITS:
            masks, at = self._get_bits(data, at, length)
            sizes = [mask.bit_count() for mask in masks]
            kept = [size for size in sizes if size <= self._large]
            large = length - len(kept)
            is_single = sum(sizes) == length
            is_right = not is_single and not self._is_list(sum(kept) + large, large, length)
        else:
            msg = f"has destinations in form {how}, which this version does not know"
            raise ColumnError(msg)
        if len(masks) != length or 0 in masks or not is_right:
            msg = NOT_SHORTEST
            raise ColumnError(msg)
        return masks, at

    def _get_bits(self, data: bytes, at: int, length: int) -> tuple[list[int], int]:
        """Read sets that are written with a bit for every member."""
        count = self._count
        bits = length * count
        if bits > SHIFTED_MAX:
            text, at = _get_text(data, at, bits)
            return self._masks(text), at
        end = at + (bits + 7 >> 3)
        fill, full = -bits & 7, (1 << count) - 1
        whole = int.from_bytes(data[at:end], "big")
        if end > len(data) or whole & (1 << fill) - 1:
            msg = "ends too early, or is not padded with zeros"
            raise ColumnError(msg)
        return [whole >> i & full for i in range(fill + bits - count, fill - 1, -count)], end

    def _masks(self, text: str) -> list[int]:
        count = self._count
        return [int(text[i : i + count], 2) for i in range(0, len(text), count)]

    def _sets_of(self, lane: Sequence[int], marks: str, large: list[int]) -> list[int]:
        """Return sets by their members; a mark of 1 says that another member follows."""
        find, masks, at = self._sets.get, list[int](), 0
        *runs, last = marks.split("0")
        for run in runs:
            end = at + len(run) + 1
            part = lane[at:end]
            masks.append(find(part) or self._set_of(part, large))
            at = end
        if last:
            raise ColumnError(NOT_SHORTEST)
        return masks

    def _set_of(self, part: Sequence[int], large: list[int]) -> int:
        """Return a set by its members, or the next large one, which come last first."""
        if len(part) == 1 and part[0] == self._count:
            mask = large.pop()
            if mask.bit_count() <= self._large:
                raise ColumnError(NOT_SHORTEST)
            return mask
        if self._count > SHIFTED_MAX and len(part) > FEW:
            return self._wide_set(part)
        mask = sum(map(self.roster.bits.__getitem__, part))
        if list(part) != self.roster.members(mask) or len(part) > self._large:
            raise ColumnError(NOT_SHORTEST)
        if len(self._sets) >= CACHE_MAX:
            self._sets.clear()
        self._sets[part] = mask
        return mask

    def _wide_set(self, part: Sequence[int]) -> int:
        """Return a set of several among many members: to add them up would copy all each time."""
        if list(part) != sorted(set(part)) or part[-1] >= self._count or len(part) > self._large:
            raise ColumnError(NOT_SHORTEST)
        flags = bytearray(self._count + 7 >> 3)
        for number in part:
            flags[number >> 3] |= 1 << (number & 7)
        return int.from_bytes(flags, "little")

    def get_needs(self, data: bytes, at: int, tops: list[int]) -> tuple[list[int], int]:
        """Read needs, and return the place behind them."""
        code = data[at]
        at += 1
        if not code:
            return [], at
        low = self.roster.low
        if code == ONE and data[at] < 0xFF:
            place = data[at]
            key = tops[place & low] - (place & ~low)
            if key <= low:
                raise ColumnError(TOO_EARLY)
            return [key], at + 1
        if code > 0x7F:
            code, at = read_varint(data, at - 1)
        length = code >> 3
        if not 0 < length <= min(8 * (len(data) - at), ENTRIES_MAX):
            msg = f"claims {length} needs, but {len(data) - at} bytes are left"
            raise ColumnError(msg)
        gaps, at = get_column(data, at, length, code & 7)
        needs = []
        place = -1
        for gap in gaps:
            place += gap + 1
            needs.append(tops[place & low] - (place & ~low))
        if min(needs) <= low:
            raise ColumnError(TOO_EARLY)
        return needs, at


def _as_bytes(text: str) -> bytes:
    length = len(text) + 7 >> 3
    return (int(text or "0", 2) << 8 * length - len(text)).to_bytes(length, "big")


def _get_text(data: bytes, at: int, bits: int) -> tuple[str, int]:
    """Read bits as text of 0 and 1; what fills them up must be zeros."""
    end = at + (bits + 7 >> 3)
    if end > min(len(data), CONTROL_BYTES_MAX):
        msg = f"claims {bits} bits, but {len(data) - at} bytes are left, or the control is too long"
        raise ColumnError(msg)
    text = format(int.from_bytes(data[at:end], "big"), f"0{8 * (end - at)}b")
    if "1" in text[bits:]:
        msg = "is not padded with zeros"
        raise ColumnError(msg)
    return text[:bits], end
