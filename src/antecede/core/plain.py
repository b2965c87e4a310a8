"""Plain data: deep copies for snapshots, and the checks on what a peer sent."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar, cast

from antecede.errors import PeerError

if TYPE_CHECKING:
    from antecede.core.messages import Packet

T = TypeVar("T")


def copied(value: T) -> T:
    """Return ``value`` with every mutable container in it copied; leaves are shared."""
    return cast("T", _copied(value))


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    if isinstance(value, set):
        return set(value)
    return value


def malformed(packet: Packet, expected: str) -> PeerError:
    """Return the error for a control that is not what this protocol sends."""
    return PeerError(
        f"packet {packet.n} from {packet.source!r} carries malformed {packet.protocol} control "
        f"{shown(packet.control)}; expected {expected}; the sender probably runs another version "
        "or options"
    )


def shown(value: object) -> str:
    """Return a value as an error shows it: short, on one line, whatever it is."""
    try:
        text = repr(value)
    except ValueError:  # an integer too long for Python to write out
        text = f"<{type(value).__name__} too long to show>"
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def is_count(value: object, least: int = 0) -> bool:
    """Tell whether ``value`` is an integer (not a bool) of at least ``least``."""
    return type(value) is int and value >= least


def is_counts(value: object, length: int) -> bool:
    """Tell whether ``value`` is a tuple of ``length`` counts."""
    return type(value) is tuple and len(value) == length and all(is_count(x) for x in value)


def is_pairs(value: object) -> bool:
    """Tell whether ``value`` is a tuple of pairs (name, number from 1), sorted, each name once."""
    if type(value) is not tuple:
        return False
    last = ""
    for pair in value:
        if type(pair) is not tuple or len(pair) != 2:
            return False
        if type(pair[0]) is not str or pair[0] <= last or not is_count(pair[1], 1):
            return False
        last = pair[0]
    return True


def packet_fields(packet: Packet) -> tuple[object, ...]:
    """Return a packet's fields in order, for encoders."""
    return tuple(getattr(packet, item.name) for item in fields(packet))
