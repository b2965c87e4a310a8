"""Rows that carry encoded packets: the destination's own endpoint decides when each is delivered.

An endpoint here only receives. Most protocols leave out of a packet what its destination must know
because of its own sends; so a destination must be a process that only reads, such as an archive or
an analysis to which every message is also addressed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

import antecede
from antecede.endpoint.numbers import read_varint
from antecede.endpoint.view import DIGEST_BYTES
from antecede.errors import AntecedeError, UsageError
from antecede.reorder.columns import BUCKET, CAUSES, CHANNEL, DEST, KEY, REASON, SEQ, with_columns
from antecede.reorder.compiled_rows import Rows, pairs
from antecede.reorder.machine import Message, Out, RowMachine
from antecede.spark.tasks import no_collection

#: Protocols whose packets do not suffice to establish the order, and why.
UNFIT = {
    "buffered": "it keeps order by acknowledgements, not by what packets carry",
    "synchronous": "it keeps order by acknowledgements, not by what packets carry",
    "permits": "it keeps order by acknowledgements, not by what packets carry",
    "acknowledged": "its packets leave out what their destination has acknowledged",
    "server": "it orders only what reaches its one server",
    "flooding": "its packets bring the same message several times, by different links",
    "history": "its packets carry other messages inside them, which have no rows",
}
CONTROL = "a control packet, which brings no message"
HELD_MAX = 1 << 40
#: The causes of a message with a packet: only its endpoint knows them. Never modified.
_NO_CAUSES: list[int] = []
_NOTHING_LACKS: set[int] = set()


@dataclass(frozen=True)
class Plan:
    """How to read packets: the column, the members, and the parameters of the endpoints."""

    column: str
    members: tuple[str, ...]
    protocol: str | None
    readers: frozenset[str] | None
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, column: str, fixed: Mapping[str, Any]) -> Plan:
        """Return the plan saved in a checkpoint: what :meth:`fixed` returned, from JSON."""
        options = tuple((name, _as_tuples(value)) for name, value in fixed["options"])
        return cls(column, tuple(fixed["members"]), fixed["protocol"], None, options)

    def fixed(self) -> dict[str, Any]:
        """Return what a checkpoint fixes."""
        options = [[name, value] for name, value in self.options]
        return {"members": list(self.members), "protocol": self.protocol, "options": options}

    @cached_property
    def _codecs(self) -> dict[bytes, antecede.Codec]:
        """The Codecs of the views met so far, by number and digest as packets carry them."""
        return {}

    def codec(self, data: bytes) -> antecede.Codec:
        """Return the Codec for the view of an encoded packet, or one that refuses it."""
        try:
            number, at = read_varint(data, 1)
        except IndexError:
            number, at = 0, 1
        identity = data[1 : at + DIGEST_BYTES]
        found = self._codecs.get(identity)
        if found is None:
            if self.protocol is None:
                found = antecede.Codec(self.members)
            else:
                view = antecede.view_of(
                    self.protocol, self.members, number=number, **dict(self.options)
                )
                found = antecede.Codec(view)
            found.decode(data)
            self._codecs[identity] = found
        return found

    def decode(self, data: bytes) -> antecede.Packet:
        """Return the decoded packet; PeerError says what is wrong with the data."""
        return self.codec(data).decode(data)

    def restore(self, snapshot: bytes) -> antecede.Endpoint:
        """Return the endpoint of a snapshot, which continues as if it had never stopped."""
        return antecede.Codec(self.members).restore(snapshot, resumed=True)

    def endpoint(self, dest: str, protocol: str, view: int = 0) -> antecede.Endpoint:
        """Return a fresh endpoint for a destination."""
        return antecede.endpoint(
            protocol,
            process=dest,
            members=self.members,
            view=view,
            held_max=HELD_MAX,
            **dict(self.options),
        )

    def refusal(self, packet: antecede.Packet) -> str | None:
        """Return why a packet cannot be ordered here, or None."""
        if self.protocol is not None and packet.protocol != self.protocol:
            return f"a packet of {packet.protocol}, not of {self.protocol}"
        if packet.protocol in UNFIT:
            return f"a packet of {packet.protocol}: {UNFIT[packet.protocol]}"
        if self.readers is not None:
            if packet.dest not in self.readers:
                return f"destination {packet.dest!r} is not among the readers"
            if packet.source in self.readers:
                return f"{packet.source!r} is named as a reader, but sends"
        return None


def make_plan(
    column: str,
    members: Iterable[str] | None,
    protocol: str | None,
    readers: Iterable[str] | None,
    options: Mapping[str, Any] | None,
) -> Plan:
    """Return the plan for packets, after checking what the caller gave."""
    if members is None:
        raise UsageError(
            "packet= needs members=(...), the names of all processes in the Codec's order"
        )
    names = antecede.Codec(members).members
    if protocol in UNFIT:
        raise UsageError(f"packets of {protocol} cannot be reordered: {UNFIT[protocol]}")
    if readers is None:
        raise UsageError(
            "packet= needs readers=(...), the destinations: processes that only receive"
        )
    known = frozenset(readers)
    strangers = sorted(known - set(names))
    if strangers:
        raise UsageError(f"reader {strangers[0]!r} is not among the members {', '.join(names)}")
    plan = Plan(column, names, protocol, known, tuple(sorted((options or {}).items())))
    if protocol is not None:
        plan.endpoint(names[0], protocol)
    return plan


@lru_cache(maxsize=1 << 16)
def channel_of(dest: str, *source: str) -> int:
    """Return :func:`number_of` for words that are used again and again."""
    return number_of(dest, *source)


def number_of(*words: str) -> int:
    """Return a 63-bit hash of some words."""
    digest = hashlib.blake2b("\0".join(words).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big") >> 1


def decoded(plan: Plan, data: bytes | None) -> tuple[antecede.Packet | None, str | None]:
    """Return a row's packet, or the reason why there is none."""
    if data is None:
        return None, f"{plan.column} is missing"
    try:
        packet = plan.decode(bytes(data))
    except AntecedeError as error:
        return None, f"{plan.column}: {error}"
    return packet, plan.refusal(packet)


def routed(plan: Plan, data: bytes | None) -> tuple[tuple[str, str, int], str | None]:
    """Return the source, the destination and the number of a row's packet, or what is wrong."""
    try:
        if data is not None:
            return plan.codec(data).route(data), None
        reason = f"{plan.column} is missing"
    except AntecedeError as error:
        reason = f"{plan.column}: {error}"
    return ("", "", 0), reason


@dataclass(frozen=True)
class Routed:
    """Adds numbers to rows with packets.

    They are in the beginning of a packet; the bucket reads the rest, and may still reject the row.
    """

    plan: Plan
    buckets: int

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the rows with the numbers that the machine needs."""
        plan = self.plan
        dests: list[int] = []
        channels: list[int] = []
        numbers: list[int] = []
        reasons: list[str | None] = []
        for data in table.column(plan.column).to_pylist():
            (source, dest, n), reason = routed(plan, data)
            dests.append(channel_of(dest))
            channels.append(channel_of(dest, source))
            numbers.append(n)
            reasons.append(reason)
        channel, seq = np.array(channels, np.int64), np.array(numbers, np.int64)
        added = {
            DEST: pa.array(dests, pa.int64()),
            KEY: pa.array(pairs(channel, seq)),
            CHANNEL: pa.array(channel),
            SEQ: pa.array(seq),
            REASON: pa.array(reasons, pa.string()),
            CAUSES: pa.array([[]] * len(dests), pa.list_(pa.int64())),
            BUCKET: pa.array([dest % self.buckets for dest in dests], pa.int32()),
        }
        return with_columns(table, added)


class PacketMachine(RowMachine):
    """Passes packets to endpoints, one per destination, and releases rows as they deliver."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.snapshots: dict[int, tuple[str, bytes]] = {}
        self.endpoints: dict[int, antecede.Endpoint] = {}
        self.touched: dict[int, str] = {}
        self._named: dict[tuple[int, antecede.MessageId | None], Message] = {}

    def offer_packets(
        self, rows: Rows, packets: pa.ChunkedArray, chunk: int, now: int
    ) -> list[Out]:
        """Take the rows of a batch; return those that leave, in the order of delivery."""
        out: list[Out] = []
        encoded, plan, seen = packets.to_pylist(), self.plan, self.seen
        columns = (column.tolist() for column in rows[:5])
        with no_collection():
            for row, dest, key, channel, seq in zip(*columns, strict=True):
                packet, reason = decoded(plan, encoded[row])
                if packet is None or reason is not None:
                    out.append(Out.refused(chunk, row, reason))
                    continue
                runs = seen.get(channel)
                if runs is not None and not runs.is_new(seq, seq):
                    self.duplicates += 1
                    continue
                try:
                    effects = self._endpoint(dest, packet).receive(packet)
                except AntecedeError as error:
                    out.append(Out.refused(chunk, row, str(error)))
                    continue
                self._note(dest, channel, seq, now)
                self.touched[dest] = packet.dest
                if packet.kind == "data":
                    message = Message(chunk, row, dest, key, _NO_CAUSES, now, _NOTHING_LACKS)
                    self._named[dest, packet.message] = message
                    self._hold(message)
                else:
                    out.append(Out.refused(chunk, row, CONTROL))
                if effects.deliveries:
                    self._deliver(dest, effects.deliveries, now, out)
        self._order_held()
        return out

    def _deliver(
        self, dest: int, deliveries: Iterable[antecede.Delivery], now: int, out: list[Out]
    ) -> None:
        named, left = self._named, self.changes.left
        position = self.positions.get(dest, 0)
        for delivery in deliveries:
            found = named.pop((dest, delivery.message))
            del self.held[found.key]
            left.append((found.chunk, found.row))
            position += 1
            held = now - found.arrived
            out.append(Out(found.chunk, found.row, position, held, released=False, late=False))
        self.positions[dest] = position
        self.since.setdefault(dest, now)
        self.last[dest] = now
        self.changes.dests.add(dest)

    def name(self, message: Message, data: bytes) -> None:
        """Read a held message's name from its packet."""
        packet, reason = decoded(self.plan, data)
        assert packet is not None, reason
        self._named[message.dest, packet.message] = message

    def _endpoint(self, dest: int, packet: antecede.Packet) -> antecede.Endpoint:
        found = self.endpoints.get(dest)
        if found is None:
            if dest in self.snapshots:
                found = self.plan.restore(self.snapshots[dest][1])
            else:
                found = self.plan.endpoint(packet.dest, packet.protocol, packet.view.number)
            self.endpoints[dest] = found
        return found

    def take_snapshots(self) -> Iterator[tuple[int, str, bytes]]:
        """Return the snapshots of endpoints that received something since the last call."""
        touched, self.touched = self.touched, {}
        for dest, name in touched.items():
            endpoint = self.endpoints[dest]
            yield dest, name, antecede.Codec(endpoint).snapshot(endpoint)


def _as_tuples(value: object) -> object:
    """Return an option as it was given: JSON has lists for tuples."""
    if isinstance(value, list):
        return tuple(map(_as_tuples, value))
    if isinstance(value, dict):
        return {name: _as_tuples(part) for name, part in value.items()}
    return value
