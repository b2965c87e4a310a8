"""Kinds of values in saved state: how one is written as plain data, read back and checked.

A kind looks like a type: ``[(int, {3: bytes})]`` is a list of pairs of a number and a dict from
numbers below 3 to bytes, which is written as sorted pairs. ``[int, 5]`` is a list of five numbers,
``range(2, 4)`` a number from 2 to 3.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from antecede.endpoint.messages import COUNT_MAX, is_key
from antecede.endpoint.view import View
from antecede.errors import shown

NUMBER: Final = range(COUNT_MAX + 1)
HEX: Final = frozenset("0123456789abcdef")


class Kind(NamedTuple):
    """A kind with its own way to write a value, and to read it or raise ValueError."""

    put: Callable[[Any], object]
    get: Callable[[Any], Any]


ANY: Final = Kind(lambda value: value, lambda value: value)


def put(kind: Any, value: Any) -> object:
    """Return a value in the form in which its kind is written."""
    form = type(kind)
    if form is list:
        of = kind[0]
        return list(value) if type(of) in (range, type) else [put(of, one) for one in value]
    if form is tuple:
        return [put(of, one) for of, one in zip(kind, value, strict=True)]
    if form is dict:
        (of,) = kind.values()
        return [[key, put(of, one)] for key, one in sorted(value.items())]
    return kind.put(value) if form is Kind else value


def get(kind: Any, value: Any) -> Any:
    """Return the value that was written; raise ValueError if no value of its kind is so."""
    form, kind = type(kind), NUMBER if kind is int else kind
    if form is list:
        of, length = kind if len(kind) == 2 else (kind[0], None)
        if type(value) is not list or length not in (None, len(value)):
            raise wrong(value, "a list" if length is None else f"a list of {length}")
        bounds = NUMBER if of is int else of
        if type(bounds) is not range:
            return [get(of, one) for one in value]
        if value and not (set(map(type, value)) == {int} and all(map(bounds.__contains__, value))):
            raise wrong(value, f"numbers from {bounds.start} to {bounds.stop - 1}")
        return value
    if type(kind) is range:
        if type(value) is not int or value not in kind:
            raise wrong(value, f"a number from {kind.start} to {kind.stop - 1}")
        return value
    if form is tuple:
        return tuple(map(get, kind, get([ANY, len(kind)], value)))
    if form is dict:
        ((first, of),) = kind.items()
        pairs = get([(range(first) if type(first) is int else first, of)], value)
        if len(dict(pairs)) != len(pairs):
            raise wrong(value, "pairs with distinct first numbers")
        return dict(pairs)
    if form is not Kind and type(value) is not kind:
        raise wrong(value, kind.__name__)
    return kind.get(value) if form is Kind else value


def wrong(value: object, expected: str) -> ValueError:
    """Return the error for a value that was read and is not right."""
    return ValueError(f"{shown(value)}; expected {expected}")


def key(view: View) -> Kind:
    """Return the kind of a message's key."""

    def read(value: Any) -> Any:
        if type(value) is not int or not is_key(value, view):
            raise wrong(value, "the key of a message")
        return value

    return Kind(int, read)


def mask(n: int) -> Kind:
    """Return the kind of a set of ``n`` members, which is written in hexadecimal."""

    def read(value: Any) -> int:
        is_hex = type(value) is str and 0 < len(value) <= n // 4 + 1 and set(value) <= HEX
        if not is_hex or int(value, 16) >> n:
            raise wrong(value, f"a set of {n} members in hexadecimal")
        return int(value, 16)

    return Kind("{:x}".format, read)


def optional(kind: object) -> Kind:
    """Return the kind of a value that may be None."""
    return Kind(
        lambda value: None if value is None else put(kind, value),
        lambda value: None if value is None else get(kind, value),
    )
