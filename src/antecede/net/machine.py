"""The node without its network and disk: a state machine that can be replayed.

The machine holds an endpoint for the newest view, and one for each earlier view that has not ended
here; an outbox of packets that peers have not acknowledged; and an inbox of deliveries that the
application has not marked done. Its inputs are calls; it reads no clock and uses no randomness. So
its journal of inputs determines its state: after a crash the last checkpoint is loaded and the
journal replayed, and the machine is where it was, with the same packets under the same numbers.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from typing import Any, Final, NamedTuple, Protocol, Self

from antecede.endpoint import messages
from antecede.endpoint.arguments import LIMIT_MAX
from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.messages import Effects, Message, MessageId, Need, Packet, new_tuple
from antecede.endpoint.registry import endpoint, view_of
from antecede.endpoint.view import View
from antecede.errors import AntecedeError, PeerError, StoreError, UsageError, shown
from antecede.net import journal
from antecede.net.fields import (
    Fields,
    put_bytes,
    put_names,
    put_number,
    put_numbers,
    put_text,
)
from antecede.net.group.flush import (
    ABOVE_MAX,
    ENDING,
    OVER,
    PASSING,
    UNSTABLE,
    UNSTABLE_MAX,
    Flush,
    Report,
)
from antecede.net.group.views import (
    Ballot,
    Change,
    Group,
    Welcome,
    Wish,
    founding,
    is_group_of,
    was_removed,
)
from antecede.net.journal import Input, Logged
from antecede.net.parcels import ALONE, NEXT, copy_for, heading, later, packet_of, ticket_of
from antecede.net.settings import Setup
from antecede.wire.codec import Codec

FORMAT: Final = 6
"""Raise it when bytes change, or when an endpoint answers the same inputs differently."""
VIEW_STEP: Final = 10**12
"""In view v, message 1 of a process has the number v * VIEW_STEP + 1, so ids are never used twice.

Likewise, a process that joined in view v counts its events from v * VIEW_STEP.
"""

TOLD_TICKETS: Final = 64
TOLD_BYTES: Final = 1 << 20
"""After this many multicasts, or bytes of them, the others hear which ones someone still lacks."""
FRESH_MIN: Final = 32
"""How many copies must arrive before it is worth checking which are no longer needed."""


class Send(NamedTuple):
    """The arguments of a call of ``send``."""

    dests: tuple[str, ...] | str
    payload: bytes
    after: int | None


class Keeper(Protocol):
    """The owner of a delivery once the application has it."""

    def done(self, event: int) -> Awaitable[None]:
        """Mark a delivery as handled."""

    async def commit(self, event: int, sends: list[Send]) -> tuple[MessageId, ...]:
        """Send messages and mark a delivery as handled, both or neither."""


class Transaction:
    """Sends because of a delivery, which leave together with the mark that it is handled."""

    def __init__(self) -> None:
        self.sends: list[Send] = []
        self.sent: tuple[MessageId, ...] = ()
        """The ids of the messages, after the block."""
        self.is_over = False

    async def send(
        self, dests: Iterable[str] | str, payload: bytes = b"", *, after: int | None = None
    ) -> None:
        """Send a message at the end of the block, unless it ends with an error."""
        self.add(dests, payload, after)

    def add(self, dests: Iterable[str] | str, payload: bytes, after: int | None) -> None:
        """Do as :meth:`send` without await: nothing happens before the end of the block."""
        if self.is_over:
            msg = "the block of this transaction was left; send by the node, or in a new block"
            raise UsageError(msg)
        self.sends.append(Send(named(dests), payload, after))


def named(dests: Iterable[str] | str) -> tuple[str, ...] | str:
    """Return destinations in the form that the machine takes; refuse anything else."""
    if isinstance(dests, str):
        return dests
    if not isinstance(dests, Iterable):
        msg = f"destinations {shown(dests)} are not names of processes; expected a list of strings"
        raise UsageError(msg)
    return tuple(dests)


class Known(NamedTuple):
    """The facts about a delivery's message."""

    message: MessageId
    dests: tuple[str, ...]
    unmet: tuple[Need, ...]


class Delivery:
    """A message handed to the application, which calls :meth:`done` when it has handled it."""

    __slots__ = ("_about", "_ahead", "_transaction", "event", "keeper", "payload")

    keeper: Keeper

    def __init__(self, about: Message | Known, event: int, payload: bytes) -> None:
        self._about = about
        self._ahead = 0
        """How many places the message comes after that one, in a run."""
        self.event = event
        """Its number among the sends and deliveries of this process."""
        self.payload = payload
        """What was sent."""

    @property
    def message(self) -> MessageId:
        """The message's id, which no other message has."""
        about = self._about
        if isinstance(about, Known):
            return about.message
        found = id_of(about)
        return MessageId(found.sender, found.seq + self._ahead) if self._ahead else found

    @property
    def dests(self) -> tuple[str, ...]:
        """The destinations."""
        about = self._about
        return about.dests if isinstance(about, Known) else about.view.names(about.dests)

    @property
    def unmet(self) -> tuple[Need, ...]:
        """What the message should have waited for but was lost."""
        return self._about.unmet if isinstance(self._about, Known) else ()

    @property
    def source(self) -> str:
        """The process that sent the message."""
        about = self._about
        if isinstance(about, Known):
            return about.message.sender
        return about.view.members[about.sender]

    def done(self) -> Awaitable[None]:
        """Mark the delivery as handled; it is not delivered again, even after a restart.

        The call makes the mark. Awaiting the result waits until the mark is saved.
        """
        return self.keeper.done(self.event)

    async def __aenter__(self) -> Transaction:
        """Begin a block whose sends leave together with the mark, or not at all."""
        self._transaction = Transaction()
        return self._transaction

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        made = self._transaction
        made.is_over = True
        if error is None:
            made.sent = await self.keeper.commit(self.event, made.sends)

    def __repr__(self) -> str:
        return f"Delivery({self.message}, {len(self.payload)} bytes)"

    @classmethod
    def of_run(cls, first: Message, event: int, payloads: list[bytes]) -> list[Delivery]:
        """Make the deliveries of messages after the first of a run; ``event`` numbers the next."""
        deliveries, new = [], object.__new__  # quicker than calling the class
        for ahead, payload in enumerate(payloads, 1):
            made = new(cls)
            made._about = first
            made._ahead = ahead
            made.event = event
            made.payload = payload
            event += 1
            deliveries.append(made)
        return deliveries


def id_of(content: Message) -> MessageId:
    """Return the id of a message among those of all views."""
    view = content.view
    return MessageId(view.members[content.sender], view.number * VIEW_STEP + content.seq)


def needs_in(view: int, needs: Iterable[Need]) -> tuple[Need, ...]:
    """Return needs of a view with the numbers that messages have among all views."""
    return tuple(
        need._replace(number=view * VIEW_STEP + need.number) if need.unit == "message" else need
        for need in needs
    )


class Outcome:
    """The effects of inputs of a machine, collected until they may leave the node.

    ``packets`` are for peers, by channel; ``logged`` is for the event log. ``held`` are messages
    that arrived and must wait. ``size`` counts the bytes of the packets, ``control`` those of them
    that are not payload.
    """

    __slots__ = ("control", "deliveries", "held", "logged", "packets", "size")

    def __init__(self) -> None:
        self.packets: dict[Channel, list[tuple[int, bytes]]] = {}
        self.deliveries: list[Delivery] = []
        self.logged: list[Logged] = []
        self.held: list[MessageId] = []
        self.size = 0
        self.control = 0


class Channel:
    """What is known about the packets to and from one peer in one view.

    A *parcel* is a packet with the bytes needed to make the other copies of its message: see
    :func:`heading`. ``kept`` has the parcels of the peer's messages that others may lack.
    """

    __slots__ = (
        "above",
        "fresh",
        "kept",
        "kept_bytes",
        "last_in",
        "name",
        "outbox",
        "outbox_bytes",
        "prefix",
        "runs",
        "sent",
        "tickets",
        "view",
    )

    def __init__(self, name: str, view: int) -> None:
        self.name = name
        self.view = view
        self.outbox: dict[int, bytes] = {}
        self.outbox_bytes = 0
        self.sent = 0
        self.prefix = 0
        self.above: set[int] = set()
        self.kept: dict[int, bytes] = {}
        """By ticket, which is the sender's own number for a message with several copies."""
        self.kept_bytes = 0
        self.fresh = 0
        """How many parcels came since the last check which of them others may lack."""
        self.tickets: dict[int, int] = {}
        """The tickets of messages in the outbox, by the numbers of their packets."""
        self.runs: dict[int, Packet] = {}
        """By number, the first packets of the runs in the outbox, and of the last run, which may go
        on. The other packets of a run only say that they follow."""
        self.last_in: Packet | None = None
        """The packet accepted last from the frame that is being processed."""

    def has(self, n: int) -> bool:
        """Return whether the peer's packet of this number has arrived."""
        return n <= self.prefix or n in self.above

    def accept(self, n: int) -> None:
        """Note that a packet has arrived."""
        self.above.add(n)
        while self.prefix + 1 in self.above:
            self.prefix += 1
            self.above.remove(self.prefix)

    def listed(self, numbers: Iterable[int]) -> list[int]:
        """Return the distinct numbers whose packets are in the outbox."""
        return list(filter(self.outbox.__contains__, dict.fromkeys(numbers)))

    def drop(self, gone: list[int]) -> list[int]:
        """Forget acknowledged packets, which must all be in the outbox; return their numbers."""
        outbox, runs = self.outbox, self.runs
        if len(gone) == len(outbox):  # the usual case
            outbox.clear()
            self.outbox_bytes = 0
        else:
            self.outbox_bytes -= sum(map(len, map(outbox.pop, gone)))
        if len(runs) > 1:
            low = next(iter(outbox), self.sent + 1)
            for start, after in list(pairwise(runs)):
                if after <= low:
                    del runs[start]
        return gone

    def whole(self, codec: Codec, n: int) -> bytes:
        """Return a parcel of the outbox in a form that can be read without the others."""
        parcel = self.outbox[n]
        if not parcel.startswith(NEXT):
            return parcel
        start = next(start for start in reversed(self.runs) if start < n)
        return ALONE + codec.encode(later(self.runs[start], n, parcel[len(NEXT) :]))

    def keep(self, ticket: int, parcel: bytes) -> None:
        """Keep a message that others may lack."""
        self.fresh += 1
        if ticket not in self.kept:
            self.kept[ticket] = parcel
            self.kept_bytes += len(parcel)

    def settle(self, stable: int) -> None:
        """Forget messages that all their destinations have: those up to ticket ``stable``.

        Those that came after one with a higher ticket stay until that one goes.
        """
        for ticket in list(takewhile(lambda ticket: ticket <= stable, self.kept)):
            self.kept_bytes -= len(self.kept.pop(ticket))

    def settle_but(self, upto: int, unstable: Iterable[int]) -> None:
        """Forget messages up to a ticket except these; do so only when there may be many."""
        if self.fresh >= FRESH_MIN:
            self.fresh, lacking = 0, set(unstable)
            for ticket in [one for one in self.kept if one <= upto and one not in lacking]:
                self.kept_bytes -= len(self.kept.pop(ticket))

    def write(self, out: bytearray, codec: Codec) -> None:
        """Append the whole channel."""
        put_text(out, self.name)
        put_number(out, self.sent)
        put_number(out, self.prefix)
        put_numbers(out, sorted(self.above))
        put_numbers(out, self.outbox)
        for n in self.outbox:
            put_bytes(out, self.whole(codec, n))
        put_numbers(out, self.tickets)
        for ticket in self.tickets.values():
            put_number(out, ticket)
        put_number(out, len(self.kept))
        for ticket, parcel in self.kept.items():
            put_number(out, ticket)
            put_bytes(out, parcel)

    @classmethod
    def read(cls, reader: Fields, view: int) -> Channel:
        """Read what :meth:`write` wrote."""
        made = cls(reader.text(), view)
        made.sent, made.prefix = reader.number(), reader.number()
        made.above = set(reader.numbers())
        for n in reader.numbers():
            made.outbox[n] = parcel = reader.bytes()
            made.outbox_bytes += len(parcel)
        made.tickets = {n: reader.number() for n in reader.numbers()}
        for _ in range(reader.count("messages")):
            ticket = reader.number()
            made.keep(ticket, reader.bytes())
        return made


class Side:
    """One process's side of one view: an endpoint, and a channel to each of the others."""

    def __init__(self, setup: Setup, number: int, end: Endpoint) -> None:
        self.process = setup.process
        self.number = number
        self.offset = number * VIEW_STEP
        self.endpoint = end
        self.view: View = end.view
        self.codec = Codec(end.view)
        self.channels = {
            name: Channel(name, number) for name in end.members if name != setup.process
        }
        self.posts: list[Channel | None] = []
        """By member number, its channel; None if nothing is sent there any more."""
        self.sends = 0
        self.events = 0
        """How many events of this process belong to this view."""
        self.early: list[int] = []
        """The numbers of those that happened before the previous view had ended."""
        self.base = 0
        """How far the numbers of the other events are above those of the endpoint."""
        self.tickets = 0
        self.unstable: dict[int, int] = {}
        """By ticket, how many copies of the message are not acknowledged."""
        self.lost: dict[str, int] = {}
        """By process, the number up to which messages that had not arrived were declared lost."""
        self.told, self.told_bytes = 0, 0
        """The last ticket when the others heard of unstable ones, and the bytes posted since."""
        self.index()

    @classmethod
    def begun(cls, setup: Setup, number: int, members: Iterable[str]) -> Side:
        """Return this process's side of a new view."""
        end = endpoint(
            setup.protocol, process=setup.process, members=members, view=number, **setup.options
        )
        return cls(setup, number, end)

    def index(self) -> None:
        """Index channels by number."""
        self.posts = [self.channels.get(name) for name in self.view.members]

    @property
    def stable(self) -> int:
        """The ticket up to which all destinations have all copies."""
        return next(iter(self.unstable)) - 1 if self.unstable else self.tickets

    def unstable_note(self) -> bytes | None:
        """Return a note on messages that others lack if it is time, as peers keep all later ones.

        Every frame tells about those up to :attr:`stable`.
        """
        fresh = self.tickets - max(self.told, self.stable)
        if fresh < TOLD_TICKETS and self.told_bytes < TOLD_BYTES:
            return None
        self.told, self.told_bytes = self.tickets, 0
        out = bytearray((UNSTABLE,))
        put_number(out, self.number)
        listed = list(islice(self.unstable, UNSTABLE_MAX))
        put_number(out, self.tickets if len(listed) < UNSTABLE_MAX else listed[-1])
        put_numbers(out, listed)
        return bytes(out)

    def is_lost(self, packet: Packet) -> bool:
        """Return whether a packet's message was declared lost, by itself or with what follows it.

        What a relay sent before a packet that no longer waits for it comes too late.
        """
        content = packet.content
        is_own = packet.source_no == content.sender
        if is_own and 0 < content.seq <= self.lost.get(packet.source, 0):
            return True
        rules = self.endpoint.rules
        key = rules.key(packet)
        return bool(self.lost) and rules.RELAYS and key <= rules.reached[key & rules.low]

    def count(self, event: int, *, is_early: bool) -> None:
        """Note that an event of this process belongs to this view."""
        self.events += 1
        if is_early:
            self.early.append(event)
        else:
            self.base = event - self.events

    @property
    def last(self) -> int:
        """The number of the last event of this view, or a lower one."""
        return max(self.base + self.events, *self.early[-1:], 0)

    def local(self, event: int) -> int:
        """Return how many events of this view there were up to an event of this process."""
        if self.early and event <= self.early[-1]:
            return bisect_right(self.early, event)
        return min(max(event - self.base, len(self.early)), self.events)

    def part(self, name: str) -> None:
        """Send nothing more to a process that was removed."""
        channel = self.channels.get(name)
        if channel is not None:
            self.settled(channel, channel.drop(list(channel.outbox)))
            self.posts[self.view.numbers[name]] = None

    def settled(self, channel: Channel, numbers: list[int]) -> list[int]:
        """Note that copies of messages have arrived, or need not arrive."""
        if channel.tickets:
            for n in numbers:
                ticket = channel.tickets.pop(n, 0)
                if ticket:
                    self.unstable[ticket] -= 1
                    if not self.unstable[ticket]:
                        del self.unstable[ticket]
        return numbers

    def widen(self) -> None:
        """Lift the limits on held packets, as nobody begins to send in this view any more."""
        record = json.loads(self.codec.snapshot(self.endpoint))
        record["endpoint"] |= {"held_max": LIMIT_MAX, "held_bytes_max": LIMIT_MAX}
        self.endpoint = self.codec.restore(json.dumps(record).encode(), resumed=True)

    def write(self, out: bytearray) -> None:
        """Append the whole side."""
        put_number(out, self.number)
        put_names(out, self.view.members)
        put_bytes(out, self.codec.snapshot(self.endpoint))
        for value in (self.sends, self.events, self.base, self.tickets):
            put_number(out, value)
        put_numbers(out, self.early)
        put_names(out, self.lost)
        for number in self.lost.values():
            put_number(out, number)
        put_names(out, [name for name, channel in self.channels.items() if self.is_open(channel)])
        for channel in self.channels.values():
            channel.write(out, self.codec)

    def is_open(self, channel: Channel) -> bool:
        """Return whether packets may be sent on a channel."""
        return self.posts[self.view.numbers[channel.name]] is not None

    @classmethod
    def read(cls, setup: Setup, reader: Fields) -> Side:
        """Read what :meth:`write` wrote."""
        number, members = reader.number(), reader.names()
        view = view_of(setup.protocol, members, number=number, **setup.own_options)
        # The journal holds every send since the checkpoint, so the endpoint may resume.
        made = cls(setup, number, Codec(view).restore(reader.bytes(), resumed=True))
        made.sends, made.events = reader.number(), reader.number()
        made.base, made.tickets = reader.number(), reader.number()
        made.early = reader.numbers()
        made.lost = {name: reader.number() for name in reader.names()}
        open_ones = reader.names()
        for name in made.channels:
            channel = made.channels[name] = Channel.read(reader, number)
            if channel.name != name:
                reader.fail(f"hold a channel to {channel.name!r} instead of {name!r}")
            for ticket in channel.tickets.values():
                made.unstable[ticket] = made.unstable.get(ticket, 0) + 1
        made.unstable = dict(sorted(made.unstable.items()))
        made.posts = [
            made.channels[name] if name in open_ones else None for name in made.view.members
        ]
        return made


@dataclass(slots=True)
class Run:
    """Our consecutive messages to one peer: the destination, and the first packet of the run."""

    dests: tuple[str, ...]
    side: Side
    channel: Channel
    first: Packet


class Met(NamedTuple):
    """What identifies a peer's store: its identity, its latest opening, and that run's mark."""

    identity: bytes = b""
    opening: int = 0
    mark: int = 0


class Machine:
    """A node's whole state; :meth:`restored` makes it from a store's contents."""

    def __init__(self, setup: Setup, identity: bytes, start: Welcome | None = None) -> None:
        self.setup = setup
        self.identity = identity
        self.is_stale = False
        """Whether others have shown that the store is an old copy."""
        self.opening = 1
        """How often the store was opened."""
        first = start or founding(setup)
        self.group = Group(setup, first)
        self.sides = [Side.begun(setup, first.number, first.members)]
        """The views that have not ended: deliveries belong to the first one, sends to the last
        one."""
        self.flush: Flush | None = None
        """How far the first view has come to its end, if there are several."""
        self.met: dict[str, Met] = {}
        self.known_by: set[str] = set()
        """Members that know our store."""
        self.events = first.number * VIEW_STEP
        self.inbox: dict[int, Delivery] = {}
        self.inbox_bytes = 0
        self.into = Outcome()
        """Where the effects of inputs are collected."""
        self.keeps_log = True
        """Whether events are collected for the event log."""
        self.packet_bytes_max = 0
        """The largest packet that the transport carries; 0 for no limit, as during a replay."""
        self.run: Run | None = None
        """The run that a message to the same process as the last one continues."""

    # Inputs. Each either succeeds and goes into the journal, or raises and changes nothing.

    def send(self, dests: Iterable[str] | str, payload: bytes, after: int | None) -> MessageId:
        """Send a message; return its id."""
        side, before = self.sides[-1], b""
        if self.packet_bytes_max and side.endpoint.info.carries_messages:
            before = side.codec.snapshot(side.endpoint)
        try:
            effects = self._effects(side.endpoint, dests, payload, after)
        except UsageError:
            if before:
                side.endpoint = side.codec.restore(before, resumed=True)
            raise
        self.run = None
        side.sends += 1
        self.events += 1
        side.count(self.events, is_early=len(self.sides) > 1)
        message = MessageId(side.process, side.offset + side.sends)
        if self.keeps_log:
            named = dests if not isinstance(dests, str) else _dests_of(effects)
            self.into.logged.append(Logged(self.events, message, tuple(named)))
        self._carry_out(side, effects)
        if len(effects.packets) == 1 and not effects.deliveries and type(dests) is tuple:
            packet = effects.packets[0]
            channel = side.posts[packet.dest_no]
            is_plain = len(self.sides) == 1 and not self.keeps_log
            if channel is not None and packet.content.seq == side.sends and is_plain:
                self.run = Run(dests, side, channel, packet)
                channel.runs[packet.n] = packet
        return message

    def check_sends(self, sends: Iterable[Send]) -> None:
        """Raise what the first failing send of several would raise; change nothing."""
        side = self.sides[-1]
        trial = side.codec.restore(side.codec.snapshot(side.endpoint), resumed=True)
        for dests, payload, after in sends:
            self._effects(trial, dests, payload, after)

    def _effects(
        self, end: Endpoint, dests: Iterable[str] | str, payload: bytes, after: int | None
    ) -> Effects:
        """Let an endpoint send; then refuse packets larger than the transport carries."""
        side = self.sides[-1]
        if after is not None and type(after) is int and 0 <= after <= self.events:
            after = side.local(after)
        effects = end.send(dests, payload, after=after)
        if not self.packet_bytes_max or not end.info.carries_messages:
            return effects
        largest = max([len(side.codec.encode(packet)) for packet in effects.packets], default=0)
        if largest <= self.packet_bytes_max:
            return effects
        msg = (
            f"with the past that it must carry the message takes {largest} bytes, and packets of "
            f"at most {self.packet_bytes_max} bytes can be carried; send it when those who are "
            "down have answered, or use another protocol"
        )
        raise UsageError(msg)

    def send_on(self, run: Run, payload: bytes) -> MessageId | None:
        """Do as :meth:`send` for the next message of a run; return None if it cannot be one."""
        side, channel = run.side, run.channel
        n = side.endpoint.repeat(run.first.dest_no)
        if not n:
            self.run = None
            return None
        side.sends = sends = side.sends + 1
        side.events += 1
        self.events += 1
        data = NEXT + payload
        size = len(data)
        channel.outbox[n] = data
        channel.outbox_bytes += size
        channel.sent = n
        into = self.into
        into.size += size
        into.control += 1
        found = into.packets.get(channel)
        if found is None:
            into.packets[channel] = [(n, data)]
        else:
            found.append((n, data))
        return new_tuple(MessageId, (side.process, side.offset + sends))

    def arrive(self, peer: str, n: int, parcel: bytes) -> None:
        """Process a new packet of the first view, which ``peer`` sent under number ``n``."""
        side = self.sides[0]
        self._take_in(side, side.channels[peer], n, parcel)
        if self.flush is not None:
            self._advance()

    def _take_in(self, side: Side, channel: Channel, n: int, parcel: bytes) -> None:
        packet = packet_of(side.codec, channel.last_in, n, parcel)
        members = side.view.members
        source, dest = members[packet.source_no], members[packet.dest_no]
        if packet.n != n or source != channel.name or dest != side.process:
            msg = (
                f"{channel.name!r} sent packet {n}, but it says packet {packet.n} from "
                f"{source!r} to {dest!r}"
            )
            raise PeerError(msg)
        ticket = ticket_of(parcel) if parcel[0] > 1 else 0
        try:
            effects = side.endpoint.receive(packet)
        except PeerError:
            if not side.is_lost(packet):
                raise
            effects = None  # it was declared lost: accept it, so that it is not resent
        if n == channel.prefix + 1 and not channel.above:
            channel.prefix = n
        else:
            channel.accept(n)
        channel.last_in = packet
        if ticket:
            channel.keep(ticket, parcel)
        if effects is None:
            return
        if not effects.deliveries and packet.content.seq and self._is_for_me(packet):
            self.into.held.append(id_of(packet.content))
        self._carry_out(side, effects)

    def take_run(self, channel: Channel, packets: list[tuple[int, bytes]], bytes_max: int) -> int:
        """Process new packets that continue the run of the last one; return how many.

        0 means that each must be processed alone, because something waits or there may be more
        than ``bytes_max`` bytes in the inbox.
        """
        first, size, payloads = channel.last_in, 0, []
        for _, parcel in packets:
            if not parcel.startswith(NEXT):
                break
            size += len(parcel)
            payloads.append(parcel[1:])
        count = len(payloads)
        if (
            first is None
            or channel.above
            or not first.n == channel.prefix == packets[0][0] - 1
            or self.keeps_log
            or len(self.sides) > 1
            or self.inbox_bytes + size > bytes_max
        ):
            return 0
        side = self.sides[0]
        if not side.endpoint.receive_run(first, count):
            return 0
        made = Delivery.of_run(first.content, self.events + 1, payloads)
        self.inbox.update(zip(range(self.events + 1, self.events + count + 1), made, strict=True))
        self.events += count
        side.events += count
        self.inbox_bytes += size - count
        self.into.deliveries += made
        channel.prefix += count
        channel.last_in = None
        return count

    def _is_for_me(self, packet: Packet) -> bool:
        return bool(packet.content.dests >> packet.dest_no & 1)

    def acknowledged(self, side: Side, peer: str, prefix: int, above: Iterable[int]) -> list[int]:
        """Forget packets up to ``prefix`` and those ``above``; return their numbers."""
        channel = side.channels[peer]
        if prefix >= channel.sent:
            gone = list(channel.outbox)
        else:
            gone = list(takewhile(prefix.__ge__, channel.outbox))
        if above:
            gone = channel.listed((*gone, *above))
        return side.settled(channel, channel.drop(gone)) if gone else gone

    def drop(self, view: int, peer: str, numbers: Iterable[int]) -> None:
        """Forget packets that ``peer`` has acknowledged, according to the journal."""
        for side in self.sides:
            if side.number == view and peer in side.channels:
                channel = side.channels[peer]
                side.settled(channel, channel.drop(channel.listed(numbers)))

    def done(self, event: int) -> Delivery | None:
        """Forget and return a delivery that the application has handled; None if already done."""
        delivery = self.inbox.pop(event, None)
        if delivery is not None:
            self.inbox_bytes -= len(delivery.payload)
        return delivery

    def meet(self, peer: str, identity: bytes, opening: int, mark: int) -> None:
        """Remember what identifies a peer's store."""
        self.met[peer] = Met(identity, opening, mark)
        self.group.newcomers.discard(peer)

    def skip(self, process: str, upto: int | None) -> None:
        """Declare lost messages of the first view; ``upto`` is a number in that view."""
        side = self.sides[0]
        effects = side.endpoint.skip(process, upto)
        side.lost[process] = max(upto or 0, side.lost.get(process, 0))
        self._carry_out(side, effects)

    def _carry_out(self, side: Side, effects: Effects) -> None:
        """Put packets into outboxes and deliveries into the inbox, and both into the outcome."""
        packets = effects.packets
        if packets:
            if len(packets) == 1:
                self._post(side, packets[0], ALONE, 0)
            else:
                self._post_copies(side, packets)
        if effects.deliveries:
            self._deliver(side, effects.deliveries)

    def _deliver(self, side: Side, deliveries: Iterable[messages.Delivery]) -> None:
        into, is_early = self.into, side is not self.sides[0]
        self.run = None  # the next send causally follows these
        for released in deliveries:
            content = released.content
            self.events = event = self.events + 1
            side.count(event, is_early=is_early)
            about: Message | Known = content
            if released.unmet:
                unmet = needs_in(side.number, released.unmet)
                about = Known(id_of(content), released.dests, unmet)
            delivery = Delivery(about, event, content.payload)
            self.inbox[event] = delivery
            self.inbox_bytes += len(content.payload)
            into.deliveries.append(delivery)
            if self.keeps_log:
                into.logged.append(Logged(event, delivery.message, None))

    def _post_copies(self, side: Side, packets: tuple[Packet, ...]) -> None:
        """Post packets; each copy carries the bytes that make the other copies of its message."""
        groups: dict[tuple[int, int], list[Packet]] = {}
        for packet in packets:
            content = packet.content
            if content.seq:  # after a restart, copies that waited have contents of their own
                groups.setdefault((content.sender, content.seq), []).append(packet)
        headings: dict[tuple[int, int], tuple[bytes, int]] = {}
        for key, copies in groups.items():
            if len(copies) > 1:
                side.tickets += 1
                headings[key] = heading(side.view, side.tickets, copies), side.tickets
        for packet in packets:
            key = packet.content.sender, packet.content.seq
            self._post(side, packet, *headings.get(key, (ALONE, 0)))

    def _post(self, side: Side, packet: Packet, before: bytes, ticket: int) -> None:
        channel = side.posts[packet.dest_no]
        if channel is None:  # it was removed
            return
        n, into = packet.n, self.into
        data = before + side.codec.encode(packet)
        size = len(data)
        channel.outbox[n] = data
        channel.outbox_bytes += size
        channel.sent = n
        into.size += size
        into.control += size - len(packet.content.payload)
        if ticket:
            channel.tickets[n] = ticket
            side.told_bytes += size
            side.unstable[ticket] = side.unstable.get(ticket, 0) + 1
        found = into.packets.get(channel)
        if found is None:
            into.packets[channel] = [(n, data)]
        else:
            found.append((n, data))

    # Views.

    def change(self, given: Input) -> None:
        """Process an input about the group; it goes into the journal."""
        group, flush = self.group, self.flush
        if given.kind == journal.PROMISE:
            group.promised = Ballot(given.b, given.name)
        elif given.kind == journal.ACCEPT:
            group.check(Change.decoded(given.data))
            group.promised = group.accepted = Ballot(given.b, given.name)
            group.value = given.data
        elif given.kind == journal.WISH:
            group.wishes.append(Wish(bool(given.b), given.name, given.a, given.data.decode()))
        elif given.kind == journal.UNWISH:
            group.wishes = [wish for wish in group.wishes if wish.name != given.name]
        elif given.kind == journal.KNOWN:
            self.known_by.add(given.name)
        elif given.kind == journal.LEARN:
            self._learn(Change.decoded(given.data))
        elif given.kind == journal.RELAY:
            self._relay(given)
        elif flush is not None and given.kind == journal.REPORT:
            report = Report.decoded(given.data)
            if flush.takes(given.name, report):
                flush.reports[given.name] = report
        elif flush is not None and given.kind == journal.ANSWERED and flush.upto == given.a:
            flush.answered.add(given.name)
        self._advance()

    def _learn(self, change: Change) -> None:
        group, process = self.group, self.setup.process
        if change.number <= group.number:
            return
        group.apply(change)
        if process in change.leaves:
            group.is_removed = True
            return
        self.run = None
        for name in change.leaves:
            self.met.pop(name, None)
            self.known_by.discard(name)
            for side in self.sides:
                side.part(name)
        self.sides.append(Side.begun(self.setup, group.number, group.members))
        self._begin_flush()

    def _begin_flush(self) -> None:
        """Begin to end the first view, anew if that is under way already."""
        side, members, before = self.sides[0], self.group.members, self.flush
        if before is None:
            side.widen()
        stayers, removed = list[str](), list[str]()
        for name in side.channels:
            member = members.get(name)
            is_same = member is not None and member.joined <= side.number
            (stayers if is_same else removed).append(name)
        self.flush = Flush(side.number, self.group.number, stayers, removed)
        if before is not None and before.view == side.number:
            over = {name: one for name, one in before.reports.items() if one.stage == OVER}
            self.flush.reports = {name: one for name, one in over.items() if name in stayers}

    def report(self, flush: Flush) -> Report:
        """Return our report to the others about a view that ends."""
        side = self.sides[0]
        made = Report(flush.view, flush.upto, flush.stage)
        for name in flush.stayers:
            made.sent[name] = side.channels[name].sent
            made.got[name] = side.channels[name].prefix
        if flush.stage == PASSING:
            for name in flush.removed:
                channel = side.channels[name]
                made.has[name] = channel.prefix, sorted(channel.above)[:ABOVE_MAX]
        return made

    def _advance(self) -> None:
        """Advance by as many stages as the reports allow."""
        while (flush := self.flush) is not None and not self.group.is_removed:
            stage = flush.next_stage(self.setup.process, self.report(flush))
            if stage == flush.stage:
                return
            if stage >= ENDING > flush.stage:
                for name in flush.removed:
                    self.skip(name, None)
            flush.stage = stage
            if stage == OVER:
                self._end_view(flush)

    def _end_view(self, flush: Flush) -> None:
        """Deliver the rest of the first view, and go on to the next one."""
        side = self.sides[0]
        if side.endpoint.held:  # its causes went through a removed process
            for name in flush.stayers:
                self.skip(name, None)
        del self.sides[0]
        self.flush = None
        if len(self.sides) > 1:
            self._begin_flush()

    def check_relay(self, name: str, n: int) -> bool:
        """Return whether we lack a copy that was passed on."""
        flush = self.flush
        if flush is None or flush.stage != PASSING or name not in flush.removed:
            return False
        return not self.sides[0].channels[name].has(n)

    def _relay(self, given: Input) -> None:
        """Process a copy that a removed process sent to us and another member passed on."""
        if self.check_relay(given.name, given.a):
            side = self.sides[0]
            self._take_in(side, side.channels[given.name], given.a, given.data)

    def copies_for(self, name: str, has: dict[str, tuple[int, list[int]]]) -> Iterator[Copy]:
        """Yield the copies of removed processes' messages that a member lacks."""
        side, flush = self.sides[0], self.flush
        for source, (prefix, above) in has.items():
            if flush is None or source not in flush.removed:
                continue
            for parcel in side.channels[source].kept.values():
                try:
                    made = copy_for(side.codec, parcel, name)
                except (AntecedeError, ValueError, IndexError):
                    continue  # it has no bytes to make the others
                if made is not None and made[0] > prefix and made[0] not in above:
                    yield source, *made

    def waiting(self) -> dict[MessageId, tuple[Need, ...]]:
        """Return what each held message waits for, with the ids of all views."""
        side = self.sides[0]
        return {
            MessageId(one.sender, side.number * VIEW_STEP + one.seq): needs_in(side.number, needs)
            for one, needs in side.endpoint.waiting().items()
        }

    def known_of(self, process: str) -> int:
        """Return the highest number known of a process's messages in the first view.

        What other units count has numbers of its own.
        """
        side = self.sides[0]
        end = side.endpoint
        if process not in end.members:
            return VIEW_STEP - 1  # the endpoint reports that it is not a member
        known = [end.rules.newest(side.view.numbers[process]), side.lost.get(process, 0)]
        for message, needs in end.waiting().items():
            known += [n for name, n, unit in needs if (name, unit) == (process, "message")]
            known.append(message.seq if message.sender == process else 0)
        return max(known)

    # The store's contents.

    def checkpoint(self, unlogged: Iterable[Logged] = ()) -> bytes:
        """Return the whole state as bytes, with the events that are not in the event log yet."""
        out = bytearray((FORMAT,))
        put_names(out, (self.setup.process, self.setup.sentence))
        put_bytes(out, self.identity)
        put_number(out, self.opening)
        out.append(self.is_stale)
        self.group.write(out)
        put_number(out, self.events)
        put_number(out, len(self.met))
        for name, (identity, opening, mark) in self.met.items():
            put_text(out, name)
            put_bytes(out, identity)
            put_number(out, opening)
            put_number(out, mark)
        put_names(out, sorted(self.known_by))
        put_number(out, len(self.sides))
        for side in self.sides:
            side.write(out)
        self._write_flush(out)
        put_number(out, len(self.inbox))
        for delivery in self.inbox.values():
            _put_delivery(out, delivery)
        events = tuple(unlogged)
        put_number(out, len(events))
        for logged in events:
            journal.put_logged(out, logged)
        return journal.sealed(bytes(out))

    def _write_flush(self, out: bytearray) -> None:
        flush = self.flush
        out.append(flush is not None)
        if flush is not None:
            put_number(out, flush.upto)
            put_number(out, flush.stage)
            put_names(out, flush.stayers)
            put_names(out, flush.removed)
            put_names(out, sorted(flush.answered))
            put_number(out, len(flush.reports))
            for name, report in flush.reports.items():
                put_text(out, name)
                put_bytes(out, report.encoded())

    def _read_flush(self, reader: Fields) -> None:
        if reader.byte():
            upto, stage, stayers, removed = (
                reader.number(),
                reader.number(),
                reader.names(),
                reader.names(),
            )
            flush = self.flush = Flush(self.sides[0].number, upto, stayers, removed)
            flush.stage = stage
            flush.answered = set(reader.names())
            for _ in range(reader.count("reports")):
                name = reader.text()
                flush.reports[name] = Report.decoded(reader.bytes())

    @classmethod
    def restored(
        cls, setup: Setup, checkpoint: bytes, entries: Iterable[bytes]
    ) -> tuple[Self, list[Logged]]:
        """Return the machine that was saved, and the events since then for the event log."""
        reader, before = journal.unsealed(checkpoint), checkpoint
        try:
            machine, logged = cls._loaded(setup, reader)
            for entry in entries:
                for kind, fields in journal.records(entry, before):
                    machine._replay(kind, fields)
                before = entry
            machine.checkpoint()  # a state that cannot be saved is damaged
        except StoreError:
            raise
        except _DAMAGES as error:
            msg = (
                f"the store cannot be read ({error}): it is damaged; remove {setup.process!r} "
                "from the group and add it again with an empty store"
            )
            raise StoreError(msg) from error
        logged += machine.into.logged
        machine.into = Outcome()
        if machine.group.is_removed:
            raise StoreError(was_removed(setup.process))
        return machine, logged

    @classmethod
    def _loaded(cls, setup: Setup, reader: Fields) -> tuple[Self, list[Logged]]:
        if (form := reader.byte()) != FORMAT:
            msg = (
                f"the store is in format {form}, this version of antecede reads format {FORMAT}: "
                "let the nodes of the version that wrote it deliver everything, then start all "
                "nodes with new stores"
            )
            raise StoreError(msg)
        process, sentence = reader.names()
        identity, opening, is_stale = reader.bytes(), reader.number(), reader.byte()
        group = Group.read(setup, reader)
        if is_stale:
            msg = (
                f"the store is an old copy, which others have found out; remove {process!r} from "
                "the group and add it again with an empty store"
            )
            raise StoreError(msg)
        if group.is_removed:
            raise StoreError(was_removed(process))
        if process != setup.process or not is_group_of(setup, group):
            msg = (
                f"the store belongs to {sentence}, not to {setup.sentence}; start the node as it "
                "was, or give it another store"
            )
            raise StoreError(msg)
        machine = cls(setup, identity, group.welcome())
        machine.group, machine.opening, machine.events = group, opening, reader.number()
        for _ in range(reader.count("peers")):
            name = reader.text()
            machine.met[name] = Met(reader.bytes(), reader.number(), reader.number())
        machine.known_by = set(reader.names())
        machine.sides = [Side.read(setup, reader) for _ in range(reader.count("views"))]
        if any(side.last > machine.events for side in machine.sides):
            reader.fail("count more events in a view than there were")
        machine._read_flush(reader)
        for _ in range(reader.count("deliveries")):
            delivery = _get_delivery(reader)
            machine.inbox[delivery.event] = delivery
            machine.inbox_bytes += len(delivery.payload)
        return machine, [journal.get_logged(reader) for _ in range(reader.count("events"))]

    def _replay(self, kind: int, fields: tuple[Any, ...]) -> None:
        inputs: dict[int, Callable[..., object]] = {
            journal.SEND: self.send,
            journal.ARRIVE: self.arrive,
            journal.ACKNOWLEDGED: self.drop,
            journal.DONE: self.done,
            journal.MEET: self.meet,
            journal.SKIP: self.skip,
            journal.CHANGE: lambda *given: self.change(Input(*given)),
        }
        inputs[kind](*fields)


_DAMAGES: Final = (
    AntecedeError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
Copy = tuple[str, int, bytes]
"""The process that sent it, the number of the packet, and the parcel."""


def _dests_of(effects: Effects) -> tuple[str, ...]:
    """Return the members that a message went to, as far as its effects show them."""
    found = [packet.dests for packet in effects.packets if packet.message is not None]
    found += [delivery.dests for delivery in effects.deliveries]
    return found[0] if found else ()


def _put_delivery(out: bytearray, delivery: Delivery) -> None:
    """Append a delivery."""
    put_number(out, delivery.event)
    put_text(out, delivery.message.sender)
    put_number(out, delivery.message.seq)
    put_names(out, delivery.dests)
    put_bytes(out, delivery.payload)
    put_number(out, len(delivery.unmet))
    for need in delivery.unmet:
        put_names(out, (need.process, need.unit))
        put_number(out, need.number)


def _get_delivery(reader: Fields) -> Delivery:
    """Read what :func:`_put_delivery` wrote."""
    event, message = reader.number(), MessageId(reader.text(), reader.number())
    dests, payload, unmet = reader.names(), reader.bytes(), []
    for _ in range(reader.count("needs")):
        process, unit = reader.names()
        unmet.append(Need(process, reader.number(), unit))
    return Delivery(Known(message, dests, tuple(unmet)), event, payload)
