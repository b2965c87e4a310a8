"""A second decoder, written from docs/wire.md alone: slow, trusting, and sharing no code.

If it reads what the Codec writes, the page says enough.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
NUMBERS = PAGE.split("p is the protocol: ")[1].split(" any other.")[0]
PROTOCOLS = {int(number): name for number, name in re.findall(r"(\d+) (\w+)", NUMBERS)}
Entries = dict[tuple[int, int], set[int]]
WORDS = ("diff", "ask", "promise", "wish")


class Second:
    """Reads one packet; bits are text of 0 and 1."""

    def __init__(self, data: bytes, members: tuple[str, ...]) -> None:
        self.data = data
        self.at = 0
        self.members = members
        self.bits = ""
        self.bit_at = 0

    def packet(self) -> tuple[object, ...]:
        assert self.byte() == 0xA2
        self.members = self.members[: self.varint()]
        assert self.raw(3) == self.digest()
        number, kind = divmod(self.varint(), 21)
        assert not number or number in PROTOCOLS, f"docs/wire.md lacks {number}; run: make docs"
        protocol = PROTOCOLS[number] if number else self.raw(self.varint()).decode()
        if len(self.members) <= 16:
            numbers = divmod(self.byte(), 16)
        else:
            numbers = self.varint(), self.varint()
        source, dest = map(self.name, numbers)
        n = self.varint()
        if kind >= 9:
            what = self.stamped(numbers, kind - 9, protocol)
        else:
            what = self.plain(source, *divmod(kind, 3))
        message, dests, control = what
        word = "control" if message is None else "data"
        rest = self.data[self.at :]
        return source, dest, n, word, message, dests, rest, control, protocol

    def digest(self) -> bytes:
        whole = b""
        for name in self.members:
            whole = hashlib.blake2b(whole + name.encode(), digest_size=16).digest()
        return whole[:3]

    def plain(self, source: str, shape: int, absence: int) -> tuple[object, object, object]:
        message: tuple[str, int] | None = None
        dests: tuple[str, ...] = ()
        if shape < 2:
            sender = source if shape == 0 else self.name(self.varint())
            message = (sender, self.varint())
            dests = self.dests()
        return message, dests, ((), None)[absence - 1] if absence else self.value()

    # Stamps.

    def stamped(
        self, numbers: tuple[int, int], form: int, protocol: str
    ) -> tuple[object, object, object]:
        source, dest = numbers
        seq = self.varint()
        has_news, form = divmod(form, 6)
        is_empty, how = divmod(form, 3)
        dests = self.mask() if how == 2 else [dest]
        if how == 1:
            dests = [self.varint() for _ in range(self.varint())]
            dests = dests or [i for i in range(len(self.members)) if i != source]
        news: list[tuple[str, ...]] = []
        if has_news:
            news = [self.spelt(self.mask()), self.spelt(self.mask())]
            assert set(news[1]) <= set(news[0]) != set()
        head = (self.name(source), seq), self.spelt(dests)
        counting = {"broadcast": self.heard, "matrix": self.sent, "vectors": self.times}
        counting["newcomer"] = self.sent  # a test adds matrix by this name
        if protocol in counting:
            if is_empty:
                self.members = tuple([self.name(number) for number in self.mask()])
            control = counting[protocol]()
            control = (None, *news, control) if news else control
        else:
            entries, needs = ({}, []) if is_empty else self.stamp(seq)
            control = self.logged(protocol, dest, entries, needs)
            control = (control, *news) if news and protocol == "pruned" else control
        return *head, control

    def logged(
        self, protocol: str, dest: int, entries: Entries, needs: list[tuple[int, int]]
    ) -> tuple[object, ...]:
        if protocol == "pruned":
            pairs = sorted((self.name(sender), clock) for sender, clock in needs)
            return self.rows(entries), tuple(pairs)
        for message in needs:
            entries.setdefault(message, set()).add(dest)
        return self.rows(entries)

    def rows(self, entries: Entries) -> tuple[object, ...]:
        return tuple(
            sorted(
                (self.name(sender), clock, self.spelt(dests))
                for (sender, clock), dests in entries.items()
                if clock
            )
        )

    def spelt(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(sorted(map(self.name, numbers)))

    def heard(self) -> tuple[object, ...]:
        return tuple(sorted(zip(self.members, self.row(), strict=True)))

    def sent(self) -> tuple[object, ...]:
        size, least = len(self.members), self.row()
        rest = self.block(size * (size - 1))
        cells = iter(rest)
        table = {
            (a, b): 0 if a == b else least[i] + next(cells)
            for i, a in enumerate(self.members)
            for b in self.members
        }
        names = sorted(self.members)
        return tuple((a, tuple(table[a, b] for b in names)) for a in names)

    def times(self) -> tuple[object, ...]:
        owners, time = self.mask(), dict(zip(self.members, self.row(), strict=True))
        size, names = len(self.members), sorted(self.members)
        rest = self.block(size * len(owners)) if owners else []
        vectors = []
        for i, owner in enumerate(owners):
            below = dict(zip(self.members, rest[i * size : (i + 1) * size], strict=True))
            vectors.append((self.name(owner), tuple(time[a] - below[a] for a in names)))
        return tuple(sorted(time.items())), tuple(sorted(vectors))

    def row(self) -> list[int]:
        base = self.varint()
        return [base + value for value in self.block(len(self.members))]

    def mask(self) -> list[int]:
        bits = int.from_bytes(self.raw(-(-len(self.members) // 8)), "little")
        return [i for i in range(len(self.members)) if bits >> i & 1]

    def stamp(self, seq: int) -> tuple[Entries, list[tuple[int, int]]]:
        count = len(self.members)
        form, zigzag = self.byte(), self.varint()
        base = seq + (zigzag + 1) // 2 if zigzag % 2 else seq - zigzag // 2
        tops = [value and value + base - 1 for value in self.lanes(count, form % 8)]
        entries: Entries = {(i, top): set() for i, top in enumerate(tops)}
        length = self.varint()
        if length:
            places = self.places(length, form // 8 % 8)
            for place, dests in zip(places, self.dest_sets(length, form // 64), strict=True):
                entries.setdefault(self.message(place, tops), set()).update(dests)
        code = self.varint()
        places = self.places(code // 8, code % 8) if code else []
        return entries, [self.message(place, tops) for place in places]

    def message(self, place: int, tops: list[int]) -> tuple[int, int]:
        distance, sender = divmod(place, 2 ** self.width())
        return sender, tops[sender] - distance

    def places(self, count: int, width: int) -> list[int]:
        gaps = self.lanes(count, width)
        return [sum(gaps[: i + 1]) + i for i in range(count)]

    def lanes(self, count: int, number: int) -> list[int]:
        width = (3, 4, 6, 8, 16)[number]
        most, values = 2**width - 1, self.codes(count, width)
        return [value + self.varint() if value == most else value for value in values]

    def block(self, count: int) -> list[int]:
        number = self.byte()
        if number < 5:
            return self.lanes(count, number)
        k, ones = number - 5, self.varint()
        low, marks = self.codes(count, k), self.codes(count + ones, 1)
        high = map(len, "".join(map(str, marks)).split("0")[:-1])
        return [ones * 2**k + rest for ones, rest in zip(high, low, strict=True)]

    def codes(self, count: int, width: int) -> list[int]:
        if width == 16:
            return [int.from_bytes(self.raw(2), "little") for _ in range(count)]
        self.open()
        values = [self.take(width) for _ in range(count)]
        self.close()
        return values

    def dest_sets(self, length: int, how: int) -> list[list[int]]:
        count = len(self.members)
        lane = 4 if count < 16 else 6 if count < 64 else 8 if count < 256 else 16
        if how == 0:
            width = 8 if length <= 3 and lane < 8 else lane
            return [[number] for number in self.codes(length, width)]
        if how == 2:
            self.open()
            sets = [self.bit_set() for _ in range(length)]
            self.close()
            return sets
        codes = self.codes(length + self.varint(), lane)
        self.open()
        marks = [self.take(1) for _ in codes]
        sets = [[]]
        for code, mark in zip(codes, marks, strict=True):
            sets[-1].append(code)
            if not mark:
                sets.append([])
        result = [self.bit_set() if one == [count] else one for one in sets[:-1]]
        self.close()
        return result

    def bit_set(self) -> list[int]:
        return [i for i in reversed(range(len(self.members))) if self.take(1)]

    def byte(self) -> int:
        return self.raw(1)[0]

    def raw(self, length: int) -> bytes:
        self.at += length
        return self.data[self.at - length : self.at]

    def varint(self) -> int:
        byte = self.byte()
        return byte if byte < 128 else byte - 128 + 128 * self.varint()

    def name(self, number: int) -> str:
        return self.members[number]

    # Bits.

    def open(self) -> None:
        self.bits = "".join(f"{byte:08b}" for byte in self.data[self.at :])
        self.bit_at = 0

    def close(self) -> None:
        self.at += -(-self.bit_at // 8)

    def take(self, width: int) -> int:
        self.bit_at += width
        assert self.bit_at <= len(self.bits), "read past the end"
        return int(self.bits[self.bit_at - width : self.bit_at] or "0", 2)

    def golomb(self, k: int) -> int:
        zeros = 0
        while self.take(1) == 0:
            zeros += 1
        return (1 << zeros + k | self.take(zeros + k)) - (1 << k)

    def small(self, count: int) -> list[int]:
        if not count:
            return []
        k = self.take(5)
        return [self.golomb(k) for _ in range(count)]

    def spread(self, count: int) -> list[int]:
        if not count:
            return []
        base = self.golomb(6)
        return [base - (d + 1) // 2 if d % 2 else base + d // 2 for d in self.small(count)]

    def width(self) -> int:
        return max(1, len(f"{len(self.members) - 1:b}"))

    def set(self) -> list[int]:
        everyone = range(len(self.members))
        if self.take(1) == 0:
            return [self.take(self.width())]
        if self.take(1) == 0:
            code = self.golomb(0)
            return [self.take(self.width()) for _ in range(code + 1 if code else 0)]
        if self.take(1) == 0:
            return [number for number in everyone if self.take(1)]
        gone = [self.take(self.width()) for _ in range(self.golomb(0))]
        return [number for number in everyone if number not in gone]

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(map(self.name, self.set())))

    def dests(self) -> tuple[str, ...]:
        self.open()
        if self.take(1):
            result = self.names()
        else:
            count = self.golomb(0)
            result = tuple(self.name(self.take(self.width())) for _ in range(count))
        self.close()
        return result

    # Values.

    def value(self) -> object:
        tag = self.byte()
        if tag < 0x80:
            return tag
        if tag < 0xC0:
            return self.name(tag - 0x80)
        if tag < 0xE0:
            return tuple(self.value() for _ in range(tag - 0xC0))
        if 0xF1 <= tag <= 0xF6:
            return self.packed(tag)
        return self.other(tag)

    def other(self, tag: int) -> object:
        readers: dict[int, Callable[[], object]] = {
            0xE0: lambda: None,
            0xE1: lambda: False,
            0xE2: lambda: True,
            0xE3: lambda: 128 + self.varint(),
            0xE4: lambda: -1 - self.varint(),
            0xE5: lambda: self.raw(self.varint()).decode(),
            0xE6: lambda: self.raw(self.varint()),
            0xE7: lambda: self.name(64 + self.varint()),
            0xE8: lambda: tuple(self.value() for _ in range(32 + self.varint())),
            0xED: lambda: (self.value(), self.value()),
            0xF7: lambda: WORDS[self.varint()],
        }
        return readers[tag]()

    def packed(self, tag: int) -> object:
        result: object
        if tag == 0xF1:
            count = self.varint()
            self.open()
            result = tuple(self.spread(count))
        elif tag == 0xF2:
            self.open()
            result = self.names()
        elif tag == 0xF3:
            self.open()
            result = self.log()
        elif tag == 0xF4:
            rows, columns = self.varint(), self.varint()
            self.open()
            result = self.table(rows, columns, by_rows=columns >= rows)
        elif tag == 0xF5:
            self.open()
            result = self.groups(1)[0]
        else:
            count = self.varint()
            self.open()
            result = tuple(self.groups(count))
        self.close()
        return result

    def log(self) -> tuple[object, ...]:
        senders = self.set()
        newest, further = self.spread(len(senders)), self.small(len(senders))
        distances = self.small(sum(further))
        entries = []
        for sender, clock, count in zip(senders, newest, further, strict=True):
            dests = self.names() if self.take(1) else ()
            entries.append((self.name(sender), clock, dests))
            for _ in range(count):
                clock -= distances.pop(0) + 1  # noqa: PLW2901
                entries.append((self.name(sender), clock, self.names()))
        return tuple(sorted(entries))

    def table(self, rows: int, columns: int, *, by_rows: bool) -> tuple[tuple[int, ...], ...]:
        if by_rows:
            return tuple(tuple(self.spread(columns)) for _ in range(rows))
        return tuple(zip(*[self.spread(rows) for _ in range(columns)], strict=True))

    def groups(self, count: int) -> list[tuple[object, ...]]:
        width, is_keyed = self.golomb(0), self.take(1)
        columns: list[list[object]] = []
        if is_keyed:
            keys = [self.names() for _ in range(count)]
            lengths = [len(names) for names in keys]
            columns.append([name for names in keys for name in names])
        else:
            lengths = self.small(count)
        for _ in range(width - is_keyed):
            columns.append(self.column(self.take(3), sum(lengths)))  # noqa: PERF401
        rows = iter(zip(*columns, strict=True))
        return [tuple(itertools.islice(rows, length)) for length in lengths]

    def column(self, kind: int, length: int) -> list[object]:
        if kind == 0:
            return list(self.spread(length))
        if kind == 1:
            return [self.name(self.take(self.width())) for _ in range(length)]
        if kind == 2:
            return [self.names() for _ in range(length)]
        if kind == 3:
            return list(self.table(length, self.golomb(0), by_rows=length < 8))
        if kind == 4:
            sizes = self.small(length)
            return [bytes(self.take(8) for _ in range(size)) for size in sizes]
        assert kind == 5
        return list(self.groups(length))
