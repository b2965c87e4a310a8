"""The node without its network and disk: a state machine that can be replayed.

The machine holds an endpoint, an outbox of packets that peers have not acknowledged, and an inbox
of deliveries that the application has not marked done. Its inputs are calls; it reads no clock and
uses no randomness. So its journal of inputs is a full account of its state: after a crash the last
checkpoint is loaded and the journal replayed, and the machine stands where it stood, with the same
packets under the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Self

from antecede.core.endpoint import Endpoint
from antecede.core.messages import Delivery, Effects, MessageId, Packet
from antecede.core.registry import PROTOCOLS
from antecede.core.registry import endpoint as make_endpoint
from antecede.errors import PeerError, SnapshotError, StoreError, UsageError
from antecede.net.channels import Channel
from antecede.net.copies import ALONE, heading, packet_in
from antecede.net.fields import Fields, put_bytes, put_names, put_number
from antecede.net.groups import Group, Welcome, founding
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
from antecede.net.setups import Setup
from antecede.wire.codec import Codec

FORMAT: Final = 2
"""Raise it when bytes change, and when an endpoint answers the same inputs otherwise."""


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

    def __init__(self, setup: Setup, identity: bytes, start: Welcome | None = None) -> None:
        self.setup = setup
        self.identity = identity
        self.is_dynamic = (
            PROTOCOLS[setup.protocol].dynamic if setup.protocol in PROTOCOLS else False
        )
        first = start or founding(setup.digest, setup.rules, setup.members)
        self.group = Group(first)
        self.codec = Codec(first.labels)
        self.label = first.members[setup.process].label
        labels = tuple(member.label for member in first.members.values())
        gone = tuple(label for label in first.labels if label not in labels)
        options = {**setup.options, "removed": gone} if gone else setup.options
        self.endpoint: Endpoint = make_endpoint(
            setup.protocol, process=self.label, members=labels, **options
        )
        self.channels = {
            name: Channel(member.label, member.joined)
            for name, member in first.members.items()
            if name != setup.process
        }
        self._index()
        self.inbox: dict[int, Delivery] = {}
        self.inbox_bytes = 0
        self.sends = 0
        self.unstable: dict[int, int] = {}
        """How many copies of our messages are not acknowledged, if there is more than one."""
        self.keeps_log = True
        """Whether steps tell what to log; a node without an event log does not ask for it."""

    def _index(self) -> None:
        """Find channels and numbers by label quickly."""
        self.by_label = {channel.label: (name, channel) for name, channel in self.channels.items()}
        self.numbers = {label: number for number, label in enumerate(self.codec.members)}

    @property
    def stable(self) -> int:
        """The number of the message up to which all destinations have all of ours."""
        return next(iter(self.unstable)) - 1 if self.unstable else self.sends

    # Inputs. Each either succeeds and belongs into the journal, or raises and changes nothing.

    def send(self, dests: Iterable[str] | str, payload: bytes, after: int | None) -> Step:
        """Send a message."""
        if not self.group.is_plain and not isinstance(dests, str):
            dests = self._labels(tuple(dests))
        effects = self.endpoint.send(dests, payload, after=after)
        self.sends += 1
        logged = []
        if self.keeps_log:
            message = MessageId(self.label, self.sends)
            named = dests if not isinstance(dests, str) else _dests_of(effects)
            logged.append(Logged(effects.event, message, tuple(named)))
        return self._carry_out(effects, logged, None)

    def _labels(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the labels of members."""
        members = self.group.members
        for name in names:
            if name not in members:
                msg = f"process {name!r} is not a member; the members are {', '.join(members)}"
                raise UsageError(msg)
        if set(names) == set(members) and "multicast" not in PROTOCOLS[self.setup.protocol].casts:
            return self.endpoint.members  # perhaps one more, which is being removed
        return tuple(members[name].label for name in names)

    def arrive(self, peer: str, n: int, parcel: bytes) -> Step:
        """Take a packet that ``peer`` sent under number ``n`` and that is new."""
        return self._take_in(self.channels[peer], n, parcel)

    def _take_in(self, channel: Channel, n: int, parcel: bytes) -> Step:
        packet = self.codec.decode(packet_in(parcel))
        if packet.source != channel.label or packet.n != n:
            peer = channel.label
            msg = f"{peer!r} sent packet {n}, but it says packet {packet.n} of {packet.source!r}"
            raise PeerError(msg)
        effects = self.endpoint.receive(packet)
        channel.accept(n)
        held, deliveries = None, effects.deliveries
        if parcel[0] and packet.message is not None:
            channel.kept[packet.message.seq] = parcel
        if not deliveries or deliveries[0].message != packet.message:
            held = self._held(packet, deliveries)
        return self._carry_out(effects, [], held)

    def drop(self, peer: str, numbers: Iterable[int]) -> list[int]:
        """Forget packets that ``peer`` has acknowledged; return those that were still here."""
        channel = self.channels.get(peer)
        return [] if channel is None else self._settled(channel, channel.drop(numbers))

    def acknowledged(self, peer: str, prefix: int, above: Iterable[int]) -> list[int]:
        """Forget packets up to ``prefix`` and those ``above``; return their numbers."""
        channel = self.channels[peer]
        return self._settled(channel, channel.acknowledged(prefix, above))

    def _settled(self, channel: Channel, numbers: list[int]) -> list[int]:
        if channel.seqs:
            for n in numbers:
                seq = channel.seqs.pop(n, 0)
                if seq:
                    self.unstable[seq] -= 1
                    if not self.unstable[seq]:
                        del self.unstable[seq]
        return numbers

    def done(self, event: int) -> Delivery | None:
        """Forget a delivery that the application has dealt with; None if it was forgotten."""
        delivery = self.inbox.pop(event, None)
        if delivery is not None:
            self.inbox_bytes -= len(delivery.payload)
        return delivery

    def meet(self, peer: str, identity: bytes) -> None:
        """Remember a peer's identity."""
        if peer in self.channels:
            self.channels[peer].identity = identity

    def _held(self, packet: Packet, deliveries: tuple[Delivery, ...]) -> MessageId | None:
        """Return the message that arrived if it is for us and has not been delivered."""
        message = packet.message
        if message is None or self.label not in packet.dests:
            return None
        return message if all(message != delivery.message for delivery in deliveries) else None

    def _carry_out(self, effects: Effects, logged: list[Logged], held: MessageId | None) -> Step:
        packets, control, found = [], 0, effects.packets
        before = ALONE
        if len(found) > 1 and self.is_dynamic:
            before = heading(self.codec, found, self.numbers)
        for packet in found:
            data = before + self.codec.encode(packet)
            control += len(data) - len(packet.payload)
            name, channel = self.by_label.get(packet.dest, ("", None))
            if channel is None:  # it is being removed
                continue
            n = packet.n
            channel.put(n, data)
            if before is not ALONE and packet.message is not None:
                seq = channel.seqs[n] = packet.message.seq
                self.unstable[seq] = self.unstable.get(seq, 0) + 1
            packets.append((name, n, data))
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
        put_bytes(out, self.identity)
        self.group.write(out)
        put_number(out, self.sends)
        put_bytes(out, self.codec.snapshot(self.endpoint))
        for channel in self.channels.values():
            channel.write(out)
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
    ) -> tuple[Self, list[Logged]]:
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
        if machine.group.is_removed:
            raise StoreError(was_removed(setup.process))
        return machine, logged

    @classmethod
    def _loaded(cls, setup: Setup, reader: Fields) -> tuple[Self, list[Logged]]:
        if (form := reader.byte()) != FORMAT:
            msg = (
                f"the store is in format {form}, this version of antecede reads format {FORMAT}; "
                "open it with the version that wrote it"
            )
            raise StoreError(msg)
        process, sentence = reader.names()
        identity, group = reader.bytes(), Group.read(reader)
        if group.is_removed:
            raise StoreError(was_removed(process))
        if process != setup.process or not _is_group_of(setup, group):
            msg = (
                f"the store belongs to {sentence}, not to {setup.sentence}; start the node as it "
                "was, or give it another store"
            )
            raise StoreError(msg)
        machine = cls(setup, identity, group.welcome())
        machine.group = group
        machine.sends = reader.number()
        # The journal holds every send since the checkpoint: the endpoint goes on as the same one.
        machine.endpoint = machine.codec.restore(reader.bytes(), resumed=True)
        for name in machine.channels:
            channel = machine.channels[name] = Channel.read(reader)
            for seq in channel.seqs.values():
                machine.unstable[seq] = machine.unstable.get(seq, 0) + 1
        machine.unstable = dict(sorted(machine.unstable.items()))
        machine._index()
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


def was_removed(process: str) -> str:
    """Return what to do for a process that was removed."""
    return (
        f"process {process!r} was removed from its group; to come back, start it with an empty "
        "store and joining=True, and let a member add it"
    )


def _is_group_of(setup: Setup, group: Group) -> bool:
    """Tell whether a saved group is the one that a node is started for.

    Its members may have changed since. A founder is started with the founders or with the members
    as they are now; whoever joined later may name any of them.
    """
    if setup.rules != group.rules:
        return False
    if setup.process in group.members and group.members[setup.process].joined:
        return True
    return setup.digest == group.digest or set(setup.members) == set(group.members)
