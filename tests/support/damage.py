"""Ways to damage a log: bytes, lines, words, and the values of JSON documents."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

EDGES = b'\x00\n\r\t ",;{}[]:\\\x7f\x80\xc3\xed\xff'
#: Values that readers must cope with in place of any other value.
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308,
    float("inf"), float("nan"), "", " ", "0", "-1", "a", "a\nb", "\x00", "\u202e", "\ud800",
    "é" * 50, "x" * 5000, [], [None], [[]], {}, {"": None}, {"a": {"b": []}},
)  # fmt: skip
WORDS = (
    "",
    "0",
    "-1",
    "1e999",
    "1e308",
    "nan",
    "9" * 30,
    "send",
    "deliver",
    "{}",
    '{"a":1}',
    "null",
    '"',
)


def damaged_bytes(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Return bytes after one to four changes of single bytes or stretches."""
    result = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(result) + 1)
        end = place + chance.randint(1, 40)
        match chance.randrange(7):
            case 0:
                result[place : place + 1] = bytes((chance.choice(EDGES),))
            case 1:
                del result[place:]
            case 2:
                del result[place:end]
            case 3:
                result[place:place] = chance.randbytes(chance.randint(1, 4))
            case 4:
                other = chance.choice(others)
                at = chance.randrange(len(other) + 1)
                result[place:place] = other[at : at + chance.randint(1, 200)]
            case 5:
                result[place:place] = result[place:end] * chance.randint(1, 30)
            case _:
                if place < len(result):
                    result[place] ^= 1 << chance.randrange(8)
    return bytes(result)


def damaged_lines(chance: random.Random, data: bytes) -> bytes:
    """Return a text with lines dropped, doubled, swapped, joined or torn, and words replaced."""
    lines = data.decode(errors="surrogateescape").split("\n")
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(lines))
        match chance.randrange(6):
            case 0:
                lines[place : place + 1] = []
                lines = lines or [""]
            case 1:
                lines[place:place] = [lines[place]] * chance.randint(1, 3)
            case 2:
                other = chance.randrange(len(lines))
                lines[place], lines[other] = lines[other], lines[place]
            case 3:
                lines[place : place + 2] = ["".join(lines[place : place + 2])]
            case 4:
                at = chance.randrange(len(lines[place]) + 1)
                lines[place : place + 1] = [lines[place][:at], lines[place][at:]]
            case _:
                words = re.split(r"(\W+)", lines[place])
                words[chance.randrange(len(words))] = chance.choice(WORDS)
                lines[place] = "".join(words)
    return "\n".join(lines).encode(errors="surrogateescape")


def damaged_json(chance: random.Random, data: bytes) -> bytes:
    """Return JSON (one document, or one per line) with some of its values replaced."""
    try:
        documents = [json.loads(data)]
    except ValueError:
        documents = [json.loads(line) for line in data.splitlines() if line.strip()]
    for _ in range(chance.randint(1, 4)):
        _change(chance, documents)
    return "\n".join(json.dumps(document) for document in documents).encode()


def _change(chance: random.Random, documents: list[Any]) -> None:
    """Replace, remove or double one value at any depth."""
    owner: Any = documents
    while True:
        keys: list[Any] = list(owner) if isinstance(owner, dict) else list(range(len(owner)))
        if not keys:
            return
        key = chance.choice(keys)
        below = owner[key]
        if isinstance(below, dict | list) and below and chance.random() < 0.85:
            owner = below
            continue
        break
    match chance.randrange(5):
        case 0:
            del owner[key]
        case 1 if isinstance(owner, list):
            owner.append(owner[key])
        case 2:
            owner[key] = [owner[key]]
        case 3:
            other = chance.choice(list(owner) if isinstance(owner, dict) else range(len(owner)))
            owner[key], owner[other] = owner[other], owner[key]
        case _:
            owner[key] = copy.deepcopy(chance.choice(ODD))


#: Types that a column may have in other people's files.
TYPES = (
    pa.string(), pa.large_string(), pa.binary(), pa.string_view(), pa.int8(), pa.int64(),
    pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(38, 0), pa.decimal128(9, 2),
    pa.timestamp("us"), pa.date32(), pa.list_(pa.string()), pa.large_list(pa.binary()),
    pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64()), pa.map_(pa.int32(), pa.float64()),
    pa.struct([("a", pa.int64())]), pa.null(), pa.dictionary(pa.int32(), pa.string()),
)  # fmt: skip


def damaged_table(chance: random.Random, data: bytes) -> bytes:
    """Return a Parquet file with columns of other types and values, or without some."""
    table = pq.read_table(io.BytesIO(data))
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(table.num_columns)
        name, column = table.column_names[place], table.column(place)
        match chance.randrange(6):
            case 0 if table.num_columns > 1:
                table = table.remove_column(place)
            case 1:
                names = [*table.column_names]
                names[place] = chance.choice(table.column_names)
                table = table.rename_columns(names)
            case 2:
                some = [table.slice(chance.randrange(len(table)), 1) for _ in range(12)]
                table = pa.concat_tables(some)
            case 3:
                rows = [chance.choice(ODD) for _ in range(len(table))]
                kind = chance.choice(TYPES)
                values = [_scalar(value, kind) for value in rows]
                table = table.set_column(place, name, pa.array(values, kind))
            case _:
                rows = column.to_pylist()
                rows[chance.randrange(len(rows))] = chance.choice([None, *rows])
                table = table.set_column(place, name, pa.array(rows, column.type))
    sink = io.BytesIO()
    try:
        pq.write_table(table, sink)
    except pa.ArrowException:  # Parquet has no such column.
        return data
    return sink.getvalue()


def _scalar(value: object, kind: pa.DataType) -> object:
    """Return a value converted to a type, or None if that is impossible."""
    tries: tuple[object, ...] = (value, [value], [("a", value)], {"a": value}, str(value))
    if pa.types.is_map(kind):  # Arrow itself aborts on a map made of nulls.
        tries = tries[2:3]
    for one in tries:
        with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            return pa.array([one], kind)[0].as_py()
    return None
