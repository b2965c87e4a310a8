"""The general coder: any plain data, each value preceded by its kind.

It encodes snapshots, and every control that has no packed form. Small integers, members and the
lengths of short tuples share a byte with the kind, so the result is compact too.
"""

from typing import Any, Final, TypeAlias

from antecede.core.messages import Delivery, MessageId, Need, Packet
from antecede.errors import UsageError
from antecede.wire.packed import PACKED, get_packed, packed_form, put_packed
from antecede.wire.roster import Scope
from antecede.wire.stream import Reader, put_varint

Plain: TypeAlias = Any
"""Plain data; its exact type decides how it is encoded."""
DEPTH_MAX: Final = 32
"""How deep values may nest; controls and states nest far less."""

MEMBER_AT: Final = 0x80
TUPLE_AT: Final = 0xC0
INTEGERS: Final = MEMBER_AT
MEMBERS: Final = TUPLE_AT - MEMBER_AT
NONE, FALSE, TRUE, INTEGER, NEGATIVE, TEXT, BYTES, MEMBER = range(0xE0, 0xE8)
TUPLE, LIST, DICT, SET, FROZENSET, MESSAGE, NEED, PACKET, DELIVERY = range(0xE8, 0xF1)
WORD: Final = 0xF7
TUPLES: Final = NONE - TUPLE_AT
WORDS: Final = ("diff", "ask", "promise", "wish")
"""Words that occur in controls, by number. Append only."""

RECORDS: Final[dict[Plain, int]] = {
    MessageId: MESSAGE,
    Need: NEED,
    Packet: PACKET,
    Delivery: DELIVERY,
}
SEQUENCES: Final[dict[type, int]] = {tuple: TUPLE, list: LIST, set: SET, frozenset: FROZENSET}
FLAT: Final = frozenset(
    {NONE, FALSE, TRUE, INTEGER, NEGATIVE, TEXT, BYTES, MEMBER, TUPLE, MESSAGE, WORD}
)
"""The kinds that a control may contain."""
FLAT_TYPES: Final = (tuple, MessageId)
_CONSTANTS: Final = {NONE: None, FALSE: False, TRUE: True}
_RECORD_OF: Final = {tag: kind for kind, tag in RECORDS.items()}


def put_value(out: bytearray, value: Plain, scope: Scope, depth: int = 0) -> None:
    """Append any plain value."""
    kind = type(value)
    if depth > DEPTH_MAX:
        msg = f"data nests deeper than {DEPTH_MAX} levels and cannot be encoded"
        raise UsageError(msg)
    if value is None or kind is bool:
        out.append(NONE if value is None else TRUE if value else FALSE)
    elif kind is int:
        _put_integer(out, value)
    elif kind is str:
        _put_text(out, value, scope)
    elif kind is bytes:
        out.append(BYTES)
        put_varint(out, len(value))
        out += value
    elif scope.is_flat and kind not in FLAT_TYPES:
        msg = f"a value of type {kind.__name__} cannot be encoded in a control; use tuples"
        raise UsageError(msg)
    elif kind is dict:
        out.append(DICT)
        put_varint(out, len(value))
        for key, item in value.items():
            put_value(out, key, scope, depth + 1)
            put_value(out, item, scope, depth + 1)
    elif kind in SEQUENCES:
        _put_sequence(out, value, scope, depth)
    elif kind in RECORDS:
        out.append(RECORDS[kind])
        for name in kind.__match_args__:
            put_value(out, getattr(value, name), scope, depth + 1)
    else:
        msg = f"a value of type {kind.__name__} cannot be encoded; use plain data"
        raise UsageError(msg)


def _put_integer(out: bytearray, value: int) -> None:
    if 0 <= value < INTEGERS:
        out.append(value)
    elif value > 0:
        out.append(INTEGER)
        put_varint(out, value - INTEGERS)
    else:
        out.append(NEGATIVE)
        put_varint(out, -1 - value)


def _put_text(out: bytearray, value: str, scope: Scope) -> None:
    number = scope.roster.numbers.get(value)
    if number is not None:
        if number < MEMBERS:
            out.append(MEMBER_AT + number)
        else:
            out.append(MEMBER)
            put_varint(out, number - MEMBERS)
    elif value in WORDS:
        out.append(WORD)
        put_varint(out, WORDS.index(value))
    else:
        try:
            text = value.encode()
        except UnicodeEncodeError as error:
            msg = f"text {value!r} is not valid Unicode and cannot be encoded"
            raise UsageError(msg) from error
        out.append(TEXT)
        put_varint(out, len(text))
        out += text


def _put_sequence(out: bytearray, value: Plain, scope: Scope, depth: int) -> None:
    kind = type(value)
    length = len(value)
    if kind is tuple:
        form, kinds = packed_form(value, scope)
        if form is not None:
            put_packed(out, form, value, scope, kinds)
            return
    scope.charge(length)
    if kind is tuple and length < TUPLES:
        out.append(TUPLE_AT + length)
    else:
        out.append(SEQUENCES[kind])
        put_varint(out, length - TUPLES if kind is tuple else length)
    if kind is tuple or kind is list:
        for item in value:
            put_value(out, item, scope, depth + 1)
        return
    items = []
    for item in value:
        encoded = bytearray()
        put_value(encoded, item, scope, depth + 1)
        items.append(bytes(encoded))
    for piece in sorted(items):  # a set has no order, so sort by the encoded bytes
        out += piece


def get_value(reader: Reader, scope: Scope, depth: int = 0) -> object:
    """Read any plain value; in a control, only the kinds that it may contain."""
    if depth > DEPTH_MAX:
        reader.fail(f"nests deeper than {DEPTH_MAX} levels")
    tag = reader.byte()
    value: object
    if tag < MEMBER_AT:
        value = tag
    elif tag < TUPLE_AT:
        value = get_member(reader, tag - MEMBER_AT, scope)
    elif tag < NONE:
        value = _items(reader, tag - TUPLE_AT, scope, depth)
    elif tag in PACKED:
        value = get_packed(reader, tag, scope)
    elif scope.is_flat and tag not in FLAT:
        reader.fail(f"has a value of kind {tag:#04x}, which controls do not contain")
    elif tag in _CONSTANTS:
        value = _CONSTANTS[tag]
    elif tag in _RECORD_OF:
        value = _record(reader, tag, scope, depth)
    else:
        value = _get_sized(reader, tag, scope, depth)
    return value


def _get_sized(reader: Reader, tag: int, scope: Scope, depth: int) -> object:
    value: object
    if tag == INTEGER:
        value = reader.varint() + INTEGERS
    elif tag == NEGATIVE:
        value = -1 - reader.varint()
    elif tag == MEMBER:
        value = get_member(reader, reader.varint() + MEMBERS, scope)
    elif tag == BYTES:
        value = reader.take(reader.varint())
    elif tag == TEXT:
        value = _text(reader, scope)
    elif tag == WORD:
        value = _word(reader)
    elif tag == TUPLE:
        value = _items(reader, reader.varint() + TUPLES, scope, depth)
    elif tag == LIST:
        value = list(_items(reader, reader.varint(), scope, depth))
    elif tag in (SET, FROZENSET):
        value = _set(reader, tag, scope, depth)
    elif tag == DICT:
        value = _dict(reader, scope, depth)
    else:
        reader.fail(f"has a value of unknown kind {tag:#04x}")
    return value


def get_member(reader: Reader, number: int, scope: Scope) -> str:
    """Return the name of a member by the number that was read."""
    if number >= len(scope.roster):
        reader.fail(f"names member {number} of {len(scope.roster)}")
    return scope.roster.names[number]


def _text(reader: Reader, scope: Scope) -> str:
    try:
        text = reader.take(reader.varint()).decode()
    except UnicodeDecodeError:
        reader.fail("has text that is not UTF-8")
    if text in scope.roster.numbers:
        reader.fail(f"spells out the member {text!r}, which has a number")
    return text


def _word(reader: Reader) -> str:
    number = reader.varint()
    if number >= len(WORDS):
        reader.fail(f"has word number {number}, which this version does not know")
    return WORDS[number]


def _items(reader: Reader, length: int, scope: Scope, depth: int) -> tuple[object, ...]:
    if length > reader.left:
        reader.fail(f"claims {length} values, but {reader.left} bytes are left")
    scope.charge(length)
    return tuple(get_value(reader, scope, depth + 1) for _ in range(length))


def _set(reader: Reader, tag: int, scope: Scope, depth: int) -> object:
    length = reader.count("values")
    items: list[object] = []
    last = b""
    for _ in range(length):
        start = reader.position
        items.append(_hashable(reader, get_value(reader, scope, depth + 1)))
        piece = reader.data[start : reader.position]
        if piece <= last:
            reader.fail("has a set out of order")
        last = piece
    return set(items) if tag == SET else frozenset(items)


def _dict(reader: Reader, scope: Scope, depth: int) -> dict[object, object]:
    length = reader.count("pairs", 2)
    result: dict[object, object] = {}
    for _ in range(length):
        key = _hashable(reader, get_value(reader, scope, depth + 1))
        result[key] = get_value(reader, scope, depth + 1)
    if len(result) != length:
        reader.fail("has the same key twice")
    return result


def _hashable(reader: Reader, value: object) -> object:
    try:
        hash(value)
    except TypeError:
        reader.fail(f"has a {type(value).__name__} as key or in a set")
    return value


def _record(reader: Reader, tag: int, scope: Scope, depth: int) -> object:
    kind = _RECORD_OF[tag]
    return kind(*_items(reader, len(kind.__match_args__), scope, depth))
