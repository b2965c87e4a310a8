"""Checks on what a peer sent: the packet itself, and the parts that controls consist of."""

from __future__ import annotations

from collections.abc import Iterable
from operator import lt
from typing import TYPE_CHECKING, Final, cast

from antecede.core.messages import MessageId, Packet
from antecede.errors import PeerError, UsageError

if TYPE_CHECKING:
    from antecede.core.endpoint import Endpoint

COUNT_MAX: Final = 1 << 48
"""The highest count, clock or number accepted from a peer.

A million a second reach it after nine years. It is far below what the wire format can encode, so
counts that were accepted can always be added to, sent and saved.
"""


def check_address(endpoint: Endpoint, packet: Packet) -> None:
    """Refuse anything that is not a packet for this endpoint and its protocol."""
    if not isinstance(packet, Packet):
        msg = f"receive() takes a Packet, got {type(packet).__name__}; decode bytes with a Codec"
        raise UsageError(msg)
    if not is_count(packet.n, 1) or packet.kind not in ("data", "control"):
        msg = (
            f"packet from {shown(packet.source)} has number {shown(packet.n)} and kind "
            f"{shown(packet.kind)}; expected a number from 1 to {COUNT_MAX} and 'data' or 'control'"
        )
        raise PeerError(msg)
    if packet.dest != endpoint.process:
        msg = (
            f"packet {packet.n} from {shown(packet.source)} is for {shown(packet.dest)}, but this "
            f"endpoint is {endpoint.process!r}; hand it to the endpoint it is for"
        )
        raise UsageError(msg)
    if packet.protocol != endpoint.INFO.name:
        msg = (
            f"packet {packet.n} from {shown(packet.source)} is of protocol "
            f"{shown(packet.protocol)}, but this endpoint runs {endpoint.INFO.name!r}; all members "
            "must run the same protocol"
        )
        raise PeerError(msg)
    if packet.source == endpoint.process:
        msg = f"packet {packet.n} comes from this process itself; endpoints never send that"
        raise PeerError(msg)


def check_message(endpoint: Endpoint, packet: Packet) -> None:
    """Refuse a packet whose message, destinations or payload no endpoint would send."""
    is_empty = packet.message is None and packet.dests == () and packet.payload == b""
    if packet.kind == "control":
        if not is_empty:
            msg = f"control packet {packet.n} from {packet.source!r} brings a message; drop it"
            raise PeerError(msg)
        return
    message, dests = packet.message, packet.dests
    if not isinstance(message, MessageId) or not _is_id(message):
        msg = (
            f"packet {packet.n} from {packet.source!r} has an invalid message id: {shown(message)}"
        )
        raise PeerError(msg)
    if not are_names(dests) or not isinstance(packet.payload, bytes):
        msg = (
            f"packet {packet.n} from {packet.source!r} has destinations {shown(dests)} and a "
            f"{type(packet.payload).__name__} as payload; expected sorted names and bytes"
        )
        raise PeerError(msg)
    if not endpoint.RELAYS and (message.sender != packet.source or packet.dest not in dests):
        msg = (
            f"packet {packet.n} from {packet.source!r} brings message {message} for {dests}; "
            f"expected one of {packet.source!r} for {packet.dest!r}"
        )
        raise PeerError(msg)


def _is_id(message: MessageId) -> bool:
    return type(message.sender) is str and is_count(message.seq, 1)


def checked_basis(after: object, events: int) -> int:
    """Return ``after`` if it is the number of a local event, or NOTHING."""
    if type(after) is not int or not 0 <= after <= events:
        known = f"expected a number from 1 to {events}" if events else "there is none yet"
        msg = (
            f"after={after!r} is not a local event; {known}; use antecede.NOTHING for none "
            "and None for everything so far"
        )
        raise UsageError(msg)
    return after


def malformed(packet: Packet, expected: str) -> PeerError:
    """Return the error for a control that is not what this protocol sends."""
    return PeerError(
        f"packet {packet.n} from {packet.source!r} carries malformed {packet.protocol} control "
        f"{shown(packet.control)}; expected {expected}; the sender probably runs another version "
        "or other options"
    )


def check_claim(endpoint: Endpoint, packet: Packet, claimed: int, made: int) -> None:
    """Refuse a control that knows of more sends of this process than it has made."""
    if claimed > made:
        msg = (
            f"packet {packet.n} from {packet.source!r} knows of {claimed} sends of "
            f"{endpoint.process!r}, which has made {made}; a member lies, or {endpoint.process!r} "
            "was restored from a snapshot older than its last send"
        )
        raise PeerError(msg)


def check_entry(
    endpoint: Endpoint, packet: Packet, sender: str, clock: int, dests: tuple[str, ...]
) -> None:
    """Refuse an entry of strangers, of oneself as a destination, or of what nobody can know."""
    endpoint._check_names(packet, dests)
    if sender in dests:
        raise malformed(packet, f"that {sender!r} is not to wait for its own message")
    check_number(endpoint, packet, sender, clock)


def check_number(endpoint: Endpoint, packet: Packet, sender: str, number: int) -> None:
    """Refuse the number of a message that its sender, or this process, has not sent yet."""
    endpoint._check_names(packet, (sender,))
    if sender == packet.source and number >= packet.message_id.seq:
        raise malformed(packet, f"messages of {sender!r} before {packet.message}")
    if sender == endpoint.process:
        check_claim(endpoint, packet, number, endpoint._seq)


def not_bytes(payload: object) -> str:
    """Return the text of the error for a payload that is not bytes."""
    return f"payload is {type(payload).__name__}; expected bytes: encode it first"


def shown(value: object) -> str:
    """Return a value as error messages show it: short and on one line."""
    try:
        text = repr(value)
    except ValueError:  # an integer too long for Python to print
        text = f"<{type(value).__name__} too long to show>"
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def listed(names: Iterable[str]) -> str:
    """Return names as error messages list them: on one line, whatever is in them."""
    return ", ".join([name if name.isprintable() else repr(name) for name in names])


def is_count(value: object, least: int = 0) -> bool:
    """Tell whether ``value`` is an integer (not a bool) from ``least`` to ``COUNT_MAX``."""
    return type(value) is int and least <= value <= COUNT_MAX


def is_counts(value: object, length: int) -> bool:
    """Tell whether ``value`` is a tuple of ``length`` counts."""
    if type(value) is not tuple or len(value) != length:
        return False
    if not value:
        return True
    return set(map(type, value)) == {int} and min(value) >= 0 and max(value) <= COUNT_MAX


def are_keyed(value: object, expected: tuple[str, ...]) -> bool:
    """Tell whether ``value`` is a tuple of pairs (name, ...), sorted, each name once.

    ``expected`` are the names that it probably has, so that they need not be compared.
    """
    if type(value) is not tuple or set(map(type, value)) != {tuple}:
        return False
    if set(map(len, value)) != {2}:
        return False
    names = tuple([pair[0] for pair in value])
    return names == expected or are_names(names)


def is_records(value: object, expected: tuple[str, ...]) -> bool:
    """Tell whether ``value`` is a tuple of pairs (name, count), sorted, each name once."""
    if not are_keyed(value, expected):
        return False
    pairs = cast("tuple[tuple[str, object], ...]", value)
    return is_counts(tuple([count for _, count in pairs]), len(pairs))


def are_names(value: object) -> bool:
    """Tell whether ``value`` is a tuple of names, sorted, each once."""
    if type(value) is not tuple or not set(map(type, value)) <= {str}:
        return False
    return all(map(lt, value, value[1:]))


def is_pairs(value: object) -> bool:
    """Tell whether ``value`` is a tuple of pairs (name, number from 1), sorted, each name once."""
    if type(value) is not tuple:
        return False
    if not value:
        return True
    if set(map(type, value)) != {tuple} or set(map(len, value)) != {2}:
        return False
    names, numbers = zip(*value, strict=True)
    return are_names(names) and is_counts(numbers, len(value)) and 0 not in numbers
