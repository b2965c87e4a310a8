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
from antecede.wire.stream import Reader, put_varint

CHECKSUM_BYTES: Final = 8
SEND, ARRIVE, ACKNOWLEDGED, DONE, MEET = b"SAKDM"


class Logged(NamedTuple):
    """A send or a delivery for the event log; ``dests`` is None for a delivery."""

    event: int
    message: MessageId
    dests: tuple[str, ...] | None


def sealed(body: bytes) -> bytes:
    """Return ``body`` with its checksum."""
    return body + hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest()


def unsealed(data: bytes, what: str) -> Reader:
    """Return a reader of what was sealed; refuse damaged bytes."""
    body = bytes(data[:-CHECKSUM_BYTES])
    if len(data) < CHECKSUM_BYTES or sealed(body) != bytes(data):
        msg = (
            f"{what} of {len(data)} bytes does not match its checksum: the store is damaged; "
            "put back a copy of it, or remove this process and add it under a new name"
        )
        raise StoreError(msg)
    return Reader(body)


def put_bytes(out: bytearray, data: bytes) -> None:
    """Append bytes behind their length."""
    put_varint(out, len(data))
    out += data


def put_text(out: bytearray, text: str) -> None:
    """Append text."""
    put_bytes(out, text.encode(errors="surrogatepass"))


def put_names(out: bytearray, names: Iterable[str]) -> None:
    """Append names behind their number."""
    listed = tuple(names)
    put_varint(out, len(listed))
    for name in listed:
        put_text(out, name)


def put_numbers(out: bytearray, numbers: Iterable[int]) -> None:
    """Append ascending numbers behind how many they are, as distances."""
    listed = tuple(numbers)
    put_varint(out, len(listed))
    last = 0
    for number in listed:
        put_varint(out, number - last)
        last = number


def get_bytes(reader: Reader) -> bytes:
    """Read what :func:`put_bytes` wrote."""
    return reader.take(reader.varint())


def get_text(reader: Reader) -> str:
    """Read what :func:`put_text` wrote."""
    try:
        return get_bytes(reader).decode(errors="surrogatepass")
    except UnicodeDecodeError:
        reader.fail("holds a name that is not UTF-8")


def get_names(reader: Reader) -> tuple[str, ...]:
    """Read what :func:`put_names` wrote."""
    return tuple(get_text(reader) for _ in range(reader.count("names")))


def get_numbers(reader: Reader) -> list[int]:
    """Read what :func:`put_numbers` wrote."""
    numbers, last = [], 0
    for _ in range(reader.count("numbers")):
        last += reader.varint()
        numbers.append(last)
    return numbers


def put_delivery(out: bytearray, delivery: Delivery) -> None:
    """Append a delivery."""
    put_varint(out, delivery.event)
    put_text(out, delivery.message.sender)
    put_varint(out, delivery.message.seq)
    put_names(out, delivery.dests)
    put_bytes(out, delivery.payload)
    put_varint(out, len(delivery.unmet))
    for need in delivery.unmet:
        put_text(out, need.process)
        put_varint(out, need.number)
        put_names(out, (need.unit, need.scope))


def get_delivery(reader: Reader) -> Delivery:
    """Read what :func:`put_delivery` wrote."""
    event = reader.varint()
    message = MessageId(get_text(reader), reader.varint())
    dests, payload = get_names(reader), get_bytes(reader)
    unmet = tuple(
        Need(get_text(reader), reader.varint(), *get_names(reader))
        for _ in range(reader.count("needs"))
    )
    return Delivery(message, dests, payload, event, unmet)


def put_logged(out: bytearray, logged: Logged) -> None:
    """Append an event for the event log."""
    put_varint(out, logged.event)
    put_text(out, logged.message.sender)
    put_varint(out, logged.message.seq)
    out.append(logged.dests is not None)
    put_names(out, logged.dests or ())


def get_logged(reader: Reader) -> Logged:
    """Read what :func:`put_logged` wrote."""
    event, sender, seq = reader.varint(), get_text(reader), reader.varint()
    is_send, dests = reader.byte(), get_names(reader)
    return Logged(event, MessageId(sender, seq), dests if is_send else None)


def send_record(dests: Iterable[str] | str, payload: bytes, after: int | None) -> bytes:
    """Return the record of a call of ``send``."""
    out = bytearray((SEND, isinstance(dests, str), after is not None))
    put_names(out, [dests] if isinstance(dests, str) else dests)
    put_varint(out, after or 0)
    put_bytes(out, payload)
    return bytes(out)


def arrive_record(peer: str, n: int, packet: bytes) -> bytes:
    """Return the record of a packet that was accepted."""
    out = bytearray((ARRIVE,))
    put_text(out, peer)
    put_varint(out, n)
    put_bytes(out, packet)
    return bytes(out)


def acknowledged_record(peer: str, numbers: Iterable[int]) -> bytes:
    """Return the record of packets that ``peer`` has saved."""
    out = bytearray((ACKNOWLEDGED,))
    put_text(out, peer)
    put_numbers(out, sorted(numbers))
    return bytes(out)


def done_record(event: int) -> bytes:
    """Return the record of a delivery that the application has dealt with."""
    out = bytearray((DONE,))
    put_varint(out, event)
    return bytes(out)


def meet_record(peer: str, identity: bytes) -> bytes:
    """Return the record of a peer's identity, learnt at its first frame."""
    out = bytearray((MEET,))
    put_text(out, peer)
    put_bytes(out, identity)
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


def _fields(kind: int, reader: Reader) -> tuple[object, ...]:
    if kind == SEND:
        is_group, has_after = reader.byte(), reader.byte()
        names, after, payload = get_names(reader), reader.varint(), get_bytes(reader)
        return (names[0] if is_group else names, payload, after if has_after else None)
    if kind == ARRIVE:
        return get_text(reader), reader.varint(), get_bytes(reader)
    if kind == ACKNOWLEDGED:
        return get_text(reader), get_numbers(reader)
    if kind == DONE:
        return (reader.varint(),)
    if kind != MEET:
        reader.fail(f"has a record of kind {kind}")
    return get_text(reader), get_bytes(reader)
