"""The node without its network and disk: a state machine that can be replayed.

The machine holds an endpoint, an outbox of packets that peers have not acknowledged, and an inbox
of deliveries that the application has not marked done. Its inputs are calls; it reads no clock and
uses no randomness. So its journal of inputs is a full account of its state: after a crash the last
checkpoint is loaded and the journal replayed, and the machine stands where it stood, with the same
packets under the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Self

from antecede.core.endpoint import Endpoint
from antecede.core.messages import Effects, MessageId, Packet
from antecede.core.registry import PROTOCOLS, endpoint
from antecede.errors import PeerError, SnapshotError, StoreError, UsageError
from antecede.net.bursts import Burst, burst_after, received
from antecede.net.channels import Channel
from antecede.net.copies import ALONE, heading, packet_in
from antecede.net.deliveries import Delivery, follow
from antecede.net.fields import Fields, put_bytes, put_names, put_number
from antecede.net.groups import Group, Welcome, founding, is_group_of, was_removed
from antecede.net.outcomes import Outcome, dests_of
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
from antecede.net.runs import NEXT, is_next, later_packet, next_packet
from antecede.net.setups import Setup
from antecede.wire.codec import Codec

FORMAT: Final = 3
"""Raise it when bytes change, and when an endpoint answers the same inputs otherwise."""


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
        self.endpoint: Endpoint = endpoint(
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
        self.into = Outcome()
        """Where the outcome of inputs goes."""
        self.keeps_log = True
        """Whether events are collected for the event log."""

    def _index(self) -> None:
        """Find channels and numbers by label quickly."""
        self.last_sent: Packet | None = None
        self.last_dests: tuple[str, ...] | str = ""
        """The packet of the last message, and for whom, if it was for one and others may follow."""
        self.burst: Burst | None = None
        """What goes on with that; see :meth:`found_burst`."""
        self.by_label = {channel.label: (name, channel) for name, channel in self.channels.items()}
        self.numbers = {label: number for number, label in enumerate(self.codec.members)}

    @property
    def stable(self) -> int:
        """The number of the message up to which all destinations have all of ours."""
        return next(iter(self.unstable)) - 1 if self.unstable else self.sends

    # Inputs. Each either succeeds and belongs into the journal, or raises and changes nothing.

    def send(self, dests: Iterable[str] | str, payload: bytes, after: int | None) -> None:
        """Send a message."""
        given = dests
        if not self.group.is_plain and not isinstance(dests, str):
            dests = self._labels(tuple(dests))
        effects = self.endpoint.send(dests, payload, after=after)
        self.last_sent = self.burst = None
        self.sends += 1
        if self.keeps_log:
            message = MessageId(self.label, self.sends)
            named = dests if not isinstance(dests, str) else dests_of(effects)
            self.into.logged.append(Logged(effects.event, message, tuple(named)))
        if len(effects.packets) == 1 and not effects.deliveries:
            packet = effects.packets[0]
            self._post(packet, ALONE)
            if type(given) is tuple and not self.keeps_log:
                self.last_sent, self.last_dests = packet, given
        else:
            self._carry_out(effects)

    def found_burst(self) -> Burst | None:
        """Return what a message can go on with that goes where the last one went."""
        last = self.last_sent
        if self.burst is None and last is not None and last.dest in self.by_label:
            self.burst = burst_after(self.endpoint, last, *self.by_label[last.dest])
        self.last_sent = None
        return self.burst

    def send_on(self, burst: Burst, payload: bytes) -> bool:
        """Do as :meth:`send` for such a message; False if anything has happened since the last."""
        n = burst.add()
        if not n:
            self.burst = None
            return False
        channel, into = burst.channel, self.into
        self.sends += 1
        data = NEXT + payload
        size = len(data)
        channel.outbox[n] = data
        channel.outbox_bytes += size
        channel.sent = n
        channel.last_out = None
        channel.runs[n] = burst.first
        into.size += size
        into.control += 1
        packets = into.packets.get(burst.name)
        if packets is None:
            into.packets[burst.name] = [(n, data)]
        else:
            packets.append((n, data))
        return True

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

    def arrive(self, peer: str, n: int, parcel: bytes) -> None:
        """Take a packet that ``peer`` sent under number ``n`` and that is new."""
        self.take_in(self.channels[peer], n, parcel)

    def take_in(self, channel: Channel, n: int, parcel: bytes) -> None:
        """Do the same; ``channel`` is the peer's."""
        if parcel[:1] == NEXT:
            packet = next_packet(channel.last_in, n, parcel[1:])
        else:
            packet = self.codec.decode(packet_in(parcel))
        if packet.n != n or packet.source != channel.label:
            peer = channel.label
            msg = f"{peer!r} sent packet {n}, but it says packet {packet.n} of {packet.source!r}"
            raise PeerError(msg)
        effects = self.endpoint.receive(packet)
        if n == channel.prefix + 1 and not channel.above:
            channel.prefix = n
        else:
            channel.accept(n)
        channel.last_in = packet
        if parcel[0] > 1 and packet.message is not None:
            channel.kept[packet.message.seq] = parcel
        if effects.packets or self.keeps_log or len(effects.deliveries) != 1:
            if not effects.deliveries and packet.message is not None and self.label in packet.dests:
                self.into.held.append(packet.message)
            self._carry_out(effects)
            return
        # What follows is _carry_out() for a message that did not have to wait: the usual case.
        delivery = Delivery(effects.deliveries[0])
        self.inbox[delivery.event] = delivery
        self.inbox_bytes += len(delivery.payload)
        self.into.deliveries.append(delivery)

    def take_run(self, channel: Channel, packets: list[tuple[int, bytes]], bytes_max: int) -> int:
        """Take new packets that follow the one taken last, and one another, as long as they do.

        Return how many were taken. 0 means that each of them has to be looked at: something waits,
        or there may be more than ``bytes_max`` bytes in the inbox.
        """
        first, size, payloads = channel.last_in, 0, list[bytes]()
        for _, parcel in packets:
            if parcel[:1] != NEXT:
                break
            size += len(parcel)
            payloads.append(parcel[1:])
        count = len(payloads)
        if (
            first is None
            or channel.above
            or not first.n == channel.prefix == packets[0][0] - 1
            or self.keeps_log
            or self.group.flush is not None
            or self.inbox_bytes + size > bytes_max
        ):
            return 0
        event = received(self.endpoint, first, count)
        if not event:
            return 0
        made = follow(first, event, payloads)
        self.inbox.update(zip(range(event, event + count), made, strict=True))
        self.inbox_bytes += size - count
        self.into.deliveries += made
        channel.prefix += count
        channel.last_in = None
        return count

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

    def _carry_out(self, effects: Effects) -> None:
        """Put packets into outboxes and deliveries into the inbox, and both into the outcome."""
        into, packets = self.into, effects.packets
        if packets:
            before = ALONE
            if len(packets) > 1 and self.is_dynamic:
                before = heading(self.codec, packets, self.numbers)
            for packet in packets:
                self._post(packet, before)
        for released in effects.deliveries:
            delivery = Delivery(released)
            self.inbox[delivery.event] = delivery
            self.inbox_bytes += len(delivery.payload)
            into.deliveries.append(delivery)
            if self.keeps_log:
                into.logged.append(Logged(delivery.event, delivery.message, None))

    def _post(self, packet: Packet, before: bytes) -> None:
        found = self.by_label.get(packet.dest)
        if found is None:  # it is being removed
            return
        name, channel = found
        n, into, last = packet.n, self.into, channel.last_out
        if last is not None and before is ALONE and is_next(last, packet):
            data = NEXT + packet.payload
            assert channel.base is not None
            channel.runs[n] = channel.base
        else:
            data = before + self.codec.encode(packet)
            channel.base = packet
        channel.last_out = packet
        size = len(data)
        channel.outbox[n] = data
        channel.outbox_bytes += size
        channel.sent = n
        into.size += size
        into.control += size - len(packet.payload)
        if before is not ALONE and packet.message is not None:
            seq = channel.seqs[n] = packet.message.seq
            self.unstable[seq] = self.unstable.get(seq, 0) + 1
        if name in into.packets:
            into.packets[name].append((n, data))
        else:
            into.packets[name] = [(n, data)]

    def whole(self, channel: Channel, n: int) -> bytes:
        """Return a packet that is not acknowledged such that it can be read without others."""
        first, parcel = channel.runs.get(n), channel.outbox[n]
        if first is None:
            return parcel
        return ALONE + self.codec.encode(later_packet(first, n, parcel[len(NEXT) :]))

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
            channel.spell_out(self.codec)
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
                machine._replay(kind, fields)
        logged += machine.into.logged
        machine.into = Outcome()
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
        if process != setup.process or not is_group_of(setup, group):
            msg = (
                f"the store belongs to {sentence}, not to {setup.sentence}; start the node as it "
                "was, or give it another store"
            )
            raise StoreError(msg)
        machine = cls(setup, identity, group.welcome())
        machine.group, machine.sends = group, reader.number()
        # The journal holds every send since the checkpoint: the endpoint goes on as the same one.
        machine.endpoint = machine.codec.restore(reader.bytes(), resumed=True)
        machine.endpoint.recall(group.past)
        for name in machine.channels:
            channel = machine.channels[name] = Channel.read(reader)
            for seq in channel.seqs.values():
                machine.unstable[seq] = machine.unstable.get(seq, 0) + 1
        machine.unstable = dict(sorted(machine.unstable.items()))
        machine._index()
        for _ in range(reader.count("deliveries")):
            delivery = Delivery(get_delivery(reader))
            machine.inbox[delivery.event] = delivery
            machine.inbox_bytes += len(delivery.payload)
        return machine, [get_logged(reader) for _ in range(reader.count("events"))]

    def _replay(self, kind: int, fields: tuple[Any, ...]) -> None:
        inputs: dict[int, Callable[..., object]] = {
            SEND: self.send,
            ARRIVE: self.arrive,
            ACKNOWLEDGED: self.drop,
            DONE: self.done,
            MEET: self.meet,
        }
        inputs[kind](*fields)
