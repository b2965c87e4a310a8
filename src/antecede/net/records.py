"""Bytes of a node's journal and checkpoints: fields, records, and the checksum around them.

A journal entry is a sequence of records, one per input of the node. Every entry and every
checkpoint ends with a checksum, because a damaged disk must not look like another history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from antecede.core.messages import Delivery, MessageId, Need
from antecede.errors import PeerError, StoreError
from antecede.net import deliveries
from antecede.net.fields import (
    Fields,
    names,
    number,
    put_bytes,
    put_names,
    put_number,
    put_numbers,
    put_text,
)

CHECKSUM_BYTES: Final = 8
SEND, ARRIVE, ACKNOWLEDGED, DONE, MEET, CHANGE = b"SAKDMG"
PROMISE, ACCEPT, WISH, UNWISH, LEARN, RELAY, REPORT, ANSWERED, FINISHED = b"pawulrcxf"
"""The kinds of inputs that concern the group."""
_ARRIVE, _DONE = bytes((ARRIVE,)), bytes((DONE,))


class Input(NamedTuple):
    """An input that concerns the group; what its fields mean depends on its kind.

    For votes, ``a`` is the number of the view voted on, ``name`` and ``b`` the ballot, ``data`` the
    change. For wishes and changes learnt, ``data`` is the change. For copies that are passed on,
    ``name`` is the removed process, ``a`` the number of the packet, ``data`` the parcel. For the
    flush, ``name`` is a survivor, ``a`` the view, ``b`` the survivor's cut.
    """

    kind: int
    name: str = ""
    a: int = 0
    b: int = 0
    data: bytes = b""


class Logged(NamedTuple):
    """A send or a delivery for the event log; ``dests`` is None for a delivery."""

    event: int
    message: MessageId
    dests: tuple[str, ...] | None


def sealed(body: bytes) -> bytes:
    """Return ``body`` with its checksum."""
    return body + hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest()


def unsealed(data: bytes, what: str) -> Fields:
    """Return a reader of what was sealed; refuse damaged bytes."""
    body = bytes(data[:-CHECKSUM_BYTES])
    if len(data) < CHECKSUM_BYTES or sealed(body) != bytes(data):
        msg = (
            f"{what} of {len(data)} bytes does not match its checksum: the store is damaged; "
            "put back a copy of it, or remove this process and add it under a new name"
        )
        raise StoreError(msg)
    return Fields(body)


def put_delivery(out: bytearray, delivery: deliveries.Delivery) -> None:
    """Append a delivery."""
    put_number(out, delivery.event)
    put_text(out, delivery.message.sender)
    put_number(out, delivery.message.seq)
    put_names(out, delivery.dests)
    put_bytes(out, delivery.payload)
    put_number(out, len(delivery.unmet))
    for need in delivery.unmet:
        put_text(out, need.process)
        put_number(out, need.number)
        put_names(out, (need.unit, need.scope))


def get_delivery(reader: Fields) -> Delivery:
    """Read what :func:`put_delivery` wrote."""
    event = reader.number()
    message = MessageId(reader.text(), reader.number())
    dests, payload = reader.names(), reader.bytes()
    unmet = tuple(
        Need(reader.text(), reader.number(), *reader.names()) for _ in range(reader.count("needs"))
    )
    return Delivery(message, dests, payload, event, unmet)


def put_logged(out: bytearray, logged: Logged) -> None:
    """Append an event for the event log."""
    put_number(out, logged.event)
    put_text(out, logged.message.sender)
    put_number(out, logged.message.seq)
    out.append(logged.dests is not None)
    put_names(out, logged.dests or ())


def get_logged(reader: Fields) -> Logged:
    """Read what :func:`put_logged` wrote."""
    event, sender, seq = reader.number(), reader.text(), reader.number()
    is_send, dests = reader.byte(), reader.names()
    return Logged(event, MessageId(sender, seq), dests if is_send else None)


def send_record(dests: Iterable[str] | str, payload: bytes, after: int | None) -> bytes:
    """Return the record of a call of ``send``."""
    is_group = isinstance(dests, str)
    listed = (dests,) if isinstance(dests, str) else tuple(dests)
    head = bytes((SEND, is_group, after is not None))
    return b"".join((head, names(listed), number(after or 0), number(len(payload)), payload))


def arrive_record(peer: str, n: int, packet: bytes) -> bytes:
    """Return the record of a packet that was accepted."""
    return b"".join((_ARRIVE, names((peer,)), number(n), number(len(packet)), packet))


def acknowledged_record(peer: str, numbers: Iterable[int]) -> bytes:
    """Return the record of packets that ``peer`` has saved."""
    out = bytearray((ACKNOWLEDGED,))
    put_text(out, peer)
    put_numbers(out, sorted(numbers))
    return bytes(out)


def done_record(event: int) -> bytes:
    """Return the record of a delivery that the application has dealt with."""
    return _DONE + number(event)


def meet_record(peer: str, identity: bytes) -> bytes:
    """Return the record of a peer's identity, learnt at its first frame."""
    out = bytearray((MEET,))
    put_text(out, peer)
    put_bytes(out, identity)
    return bytes(out)


def change_record(given: Input) -> bytes:
    """Return the record of an input that concerns the group."""
    out = bytearray((CHANGE, given.kind))
    put_text(out, given.name)
    put_number(out, given.a)
    put_number(out, given.b)
    put_bytes(out, given.data)
    return bytes(out)


def records(entry: bytes) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Yield the records of a journal entry: what each is, and its fields."""
    reader = unsealed(entry, "a journal entry")
    try:
        while reader.left:
            kind = reader.byte()
            yield kind, _fields(kind, reader)
    except PeerError as error:
        msg = f"the journal cannot be read ({error}); it was made by another version of antecede"
        raise StoreError(msg) from error


def _fields(kind: int, reader: Fields) -> tuple[object, ...]:
    if kind == SEND:
        is_group, has_after = reader.byte(), reader.byte()
        names, after, payload = reader.names(), reader.number(), reader.bytes()
        return (names[0] if is_group else names, payload, after if has_after else None)
    if kind == ARRIVE:
        (peer,) = reader.names()
        return peer, reader.number(), reader.bytes()
    if kind == ACKNOWLEDGED:
        return reader.text(), reader.numbers()
    if kind == DONE:
        return (reader.number(),)
    if kind == CHANGE:
        return reader.byte(), reader.text(), reader.number(), reader.number(), reader.bytes()
    if kind != MEET:
        reader.fail(f"hold a record of kind {kind}")
    return reader.text(), reader.bytes()
