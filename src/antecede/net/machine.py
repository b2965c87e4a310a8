"""The node without its network and disk: a state machine that can be replayed.

The machine holds an endpoint, an outbox of packets that peers have not acknowledged, and an inbox
of deliveries that the application has not marked done. Its inputs are calls; it reads no clock and
uses no randomness. So its journal of inputs is a full account of its state: after a crash the last
checkpoint is loaded and the journal replayed, and the machine stands where it stood, with the same
packets under the same numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from antecede.core.endpoint import Endpoint
from antecede.core.messages import Delivery, Effects, MessageId
from antecede.core.registry import endpoint as make_endpoint
from antecede.errors import PeerError, SnapshotError, StoreError
from antecede.net.fields import Fields, put_bytes, put_names, put_number, put_numbers
from antecede.net.records import (
    ACKNOWLEDGED,
    ARRIVE,
    DONE,
    MEET,
    SEND,
    Logged,
    get_delivery,
    get_logged,
    put_delivery,
    put_logged,
    records,
    sealed,
    unsealed,
)
from antecede.wire.codec import Codec

FORMAT: Final = 1
"""Raise it when bytes change, and when an endpoint answers the same inputs otherwise."""
DIGEST_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Setup:
    """What all members must agree on, and this process's name."""

    process: str
    members: tuple[str, ...]
    protocol: str
    options: Mapping[str, Any]

    @property
    def digest(self) -> bytes:
        """A short digest of what all members must agree on."""
        text = repr((self.protocol, _plain(self.options), self.members))
        return hashlib.blake2b(
            text.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES
        ).digest()

    @property
    def sentence(self) -> str:
        """The setup as an error message names it."""
        options = "".join(f", {key}={value!r}" for key, value in self.options.items())
        return f"{self.process} of {', '.join(self.members)} ({self.protocol}{options})"


def _plain(value: object) -> object:
    """Return options in one form, however they were written: as lists, tuples or sets."""
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), _plain(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(map(str, value)))
    return value


@dataclass(slots=True)
class Channel:
    """What is known about the packets to and from one peer."""

    identity: bytes = b""
    outbox: dict[int, bytes] = field(default_factory=dict)
    outbox_bytes: int = 0
    prefix: int = 0
    above: set[int] = field(default_factory=set)

    def has(self, n: int) -> bool:
        """Tell whether the peer's packet of this number has arrived."""
        return n <= self.prefix or n in self.above

    def accept(self, n: int) -> None:
        """Note that a packet has arrived."""
        self.above.add(n)
        while self.prefix + 1 in self.above:
            self.prefix += 1
            self.above.remove(self.prefix)

    def put(self, n: int, packet: bytes) -> None:
        """Keep a packet until the peer has acknowledged it."""
        self.outbox[n] = packet
        self.outbox_bytes += len(packet)

    def drop(self, numbers: Iterable[int]) -> list[int]:
        """Forget acknowledged packets; return the numbers that were still here."""
        gone = []
        for n in numbers:
            packet = self.outbox.pop(n, None)
            if packet is not None:
                self.outbox_bytes -= len(packet)
                gone.append(n)
        return gone

    def acknowledged(self, prefix: int, above: Iterable[int]) -> list[int]:
        """Forget the packets up to ``prefix`` and those ``above``; return their numbers."""
        low = []
        for n in self.outbox:
            if n > prefix:
                break
            low.append(n)
        return self.drop((*low, *above))


class Step(NamedTuple):
    """The outcome of an input.

    ``packets`` are for peers; ``logged`` is for the event log. ``held`` is the message that arrived
    and has to wait; ``control`` counts the bytes of the packets that are not payload.
    """

    packets: list[tuple[str, int, bytes]]
    deliveries: tuple[Delivery, ...]
    logged: list[Logged]
    control: int
    held: MessageId | None = None


class Machine:
    """A node's whole state; :meth:`restored` makes it from a store's contents."""

    def __init__(self, setup: Setup, identity: bytes) -> None:
        self.setup = setup
        self.identity = identity
        self.codec = Codec(setup.members)
        self.endpoint: Endpoint = make_endpoint(
            setup.protocol, process=setup.process, members=setup.members, **setup.options
        )
        self.channels = {name: Channel() for name in setup.members if name != setup.process}
        self.inbox: dict[int, Delivery] = {}
        self.inbox_bytes = 0
        self.sends = 0
        self.keeps_log = True
        """Whether steps tell what to log; a node without an event log does not ask for it."""

    # Inputs. Each either succeeds and belongs into the journal, or raises and changes nothing.

    def send(self, dests: Iterable[str] | str, payload: bytes, after: int | None) -> Step:
        """Send a message."""
        effects = self.endpoint.send(dests, payload, after=after)
        self.sends += 1
        logged = []
        if self.keeps_log:
            message = MessageId(self.setup.process, self.sends)
            named = dests if not isinstance(dests, str) else _dests_of(effects)
            logged.append(Logged(effects.event, message, tuple(named)))
        return self._carry_out(effects, logged, None)

    def arrive(self, peer: str, n: int, data: bytes) -> Step:
        """Take a packet that ``peer`` sent under number ``n`` and that is new."""
        packet = self.codec.decode(data)
        if packet.source != peer or packet.n != n:
            msg = f"{peer!r} sent packet {n}, but it says packet {packet.n} of {packet.source!r}"
            raise PeerError(msg)
        effects = self.endpoint.receive(packet)
        self.channels[peer].accept(n)
        held, deliveries = None, effects.deliveries
        if not deliveries or deliveries[0].message != packet.message:
            held = self._held(packet.message, packet.dests, deliveries)
        return self._carry_out(effects, [], held)

    def drop(self, peer: str, numbers: Iterable[int]) -> list[int]:
        """Forget packets that ``peer`` has acknowledged; return those that were still here."""
        return self.channels[peer].drop(numbers)

    def done(self, event: int) -> Delivery | None:
        """Forget a delivery that the application has dealt with; None if it was forgotten."""
        delivery = self.inbox.pop(event, None)
        if delivery is not None:
            self.inbox_bytes -= len(delivery.payload)
        return delivery

    def meet(self, peer: str, identity: bytes) -> None:
        """Remember a peer's identity."""
        self.channels[peer].identity = identity

    def _held(
        self, message: MessageId | None, dests: tuple[str, ...], deliveries: tuple[Delivery, ...]
    ) -> MessageId | None:
        """Return the message that arrived if it is for us and has not been delivered."""
        if message is None or self.setup.process not in dests:
            return None
        return message if all(message != delivery.message for delivery in deliveries) else None

    def _carry_out(self, effects: Effects, logged: list[Logged], held: MessageId | None) -> Step:
        packets, control = [], 0
        for packet in effects.packets:
            dest, n, data = packet.dest, packet.n, self.codec.encode(packet)
            self.channels[dest].put(n, data)
            packets.append((dest, n, data))
            control += len(data) - len(packet.payload)
        for delivery in effects.deliveries:
            self.inbox[delivery.event] = delivery
            self.inbox_bytes += len(delivery.payload)
            if self.keeps_log:
                logged.append(Logged(delivery.event, delivery.message, None))
        return Step(packets, effects.deliveries, logged, control, held)

    # The store's contents.

    def checkpoint(self, unlogged: Iterable[Logged] = ()) -> bytes:
        """Return the whole state as bytes, with the events that are not in the event log yet."""
        out = bytearray((FORMAT,))
        put_names(out, (self.setup.process, self.setup.sentence))
        put_bytes(out, self.setup.digest)
        put_bytes(out, self.identity)
        put_number(out, self.sends)
        put_bytes(out, self.codec.snapshot(self.endpoint))
        for channel in self.channels.values():
            put_bytes(out, channel.identity)
            put_number(out, channel.prefix)
            put_numbers(out, sorted(channel.above))
            put_numbers(out, channel.outbox)
            for packet in channel.outbox.values():
                put_bytes(out, packet)
        put_number(out, len(self.inbox))
        for delivery in self.inbox.values():
            put_delivery(out, delivery)
        events = tuple(unlogged)
        put_number(out, len(events))
        for logged in events:
            put_logged(out, logged)
        return sealed(bytes(out))

    @classmethod
    def restored(
        cls, setup: Setup, checkpoint: bytes, journal: Iterable[bytes]
    ) -> tuple[Machine, list[Logged]]:
        """Return the machine that was saved, and the events since then for the event log."""
        reader = unsealed(checkpoint, "the checkpoint")
        try:
            machine, logged = cls._loaded(setup, reader)
        except (PeerError, SnapshotError) as error:
            msg = f"the checkpoint cannot be read ({error}); it was made by another version"
            raise StoreError(msg) from error
        for entry in journal:
            for kind, fields in records(entry):
                logged += machine._replay(kind, fields)
        return machine, logged

    @classmethod
    def _loaded(cls, setup: Setup, reader: Fields) -> tuple[Machine, list[Logged]]:
        if (form := reader.byte()) != FORMAT:
            msg = (
                f"the store is in format {form}, this version of antecede reads format {FORMAT}; "
                "open it with the version that wrote it"
            )
            raise StoreError(msg)
        process, sentence = reader.names()
        if process != setup.process or reader.bytes() != setup.digest:
            msg = (
                f"the store belongs to {sentence}, not to {setup.sentence}; start the node as it "
                "was, or give it another store"
            )
            raise StoreError(msg)
        machine = cls(setup, reader.bytes())
        machine.sends = reader.number()
        # The journal holds every send since the checkpoint: the endpoint goes on as the same one.
        machine.endpoint = machine.codec.restore(reader.bytes(), resumed=True)
        for channel in machine.channels.values():
            channel.identity, channel.prefix = reader.bytes(), reader.number()
            channel.above = set(reader.numbers())
            for n in reader.numbers():
                channel.put(n, reader.bytes())
        for _ in range(reader.count("deliveries")):
            delivery = get_delivery(reader)
            machine.inbox[delivery.event] = delivery
            machine.inbox_bytes += len(delivery.payload)
        return machine, [get_logged(reader) for _ in range(reader.count("events"))]

    def _replay(self, kind: int, fields: tuple[Any, ...]) -> list[Logged]:
        if kind == SEND:
            return self.send(*fields).logged
        if kind == ARRIVE:
            return self.arrive(*fields).logged
        if kind == ACKNOWLEDGED:
            self.drop(*fields)
        elif kind == DONE:
            self.done(*fields)
        else:
            assert kind == MEET
            self.meet(*fields)
        return []


def _dests_of(effects: Effects) -> tuple[str, ...]:
    """Return the members of the group that a message went to, as far as its effects show them."""
    found = [packet.dests for packet in effects.packets if packet.message is not None]
    found += [delivery.dests for delivery in effects.deliveries]
    return found[0] if found else ()
