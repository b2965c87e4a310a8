"""The plain data that goes into an endpoint and comes out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from antecede.core.roster import Roster
    from antecede.core.stamps import Stamp

INCARNATION_SHIFT: Final = 32
"""Numbers of messages and packets begin anew, and higher, at ``incarnation << 32``."""


def incarnation_of(number: int) -> int:
    """Return the incarnation to which the number of a message or packet belongs."""
    return number >> INCARNATION_SHIFT


NOTHING: Final = 0
"""For ``send(..., after=NOTHING)``: the message depends on no local event."""


class MessageId(NamedTuple):
    """A message's name: its sender, and its number among that process's sends, from 1."""

    sender: str
    seq: int

    def __str__(self) -> str:
        return f"{self.sender}:{self.seq}"


class Numbers:
    """A packet by the numbers of a roster, as endpoints and Codecs make it and endpoints read it.

    ``roster`` is None in a packet that was made from names; the rest is then not there.
    """

    __slots__ = ("dest_no", "dest_set", "needs", "roster", "seq", "source_no", "stamp")

    roster: Roster | None
    source_no: int
    dest_no: int
    seq: int
    dest_set: int
    stamp: Stamp
    needs: list[int]


@dataclass(init=False, repr=False, eq=False)
class Packet(Numbers):
    """One transmission on the channel ``source -> dest``; hand it to any network.

    ``n`` numbers the packets of that channel from 1, data and control alike. ``control`` is the
    protocol's own information: nested tuples of integers, strings, bytes and None. Packets that
    endpoints and Codecs make are known to be well-formed, and spell out names only when asked.
    """

    __slots__ = (
        "control",
        "dest",
        "dests",
        "kind",
        "message",
        "n",
        "payload",
        "protocol",
        "source",
    )

    source: str
    dest: str
    n: int
    kind: Literal["data", "control"]
    message: MessageId | None
    dests: tuple[str, ...]
    payload: bytes
    control: object
    protocol: str

    def __init__(
        self,
        source: str,
        dest: str,
        n: int,
        kind: Literal["data", "control"],
        message: MessageId | None,
        dests: tuple[str, ...],
        payload: bytes,
        control: object,
        protocol: str,
    ) -> None:
        self.source = source
        self.dest = dest
        self.n = n
        self.kind = kind
        self.message = message
        self.dests = dests
        self.payload = payload
        self.control = control
        self.protocol = protocol
        self.roster = None

    if not TYPE_CHECKING:  # a type checker should not take every name for an attribute

        def __getattr__(self, name: str) -> object:
            """Work out what numbers stand for, at the first use."""
            if name not in _LAZY:
                msg = f"a Packet has no attribute {name!r}"
                raise AttributeError(msg)
            value = _LAZY[name](self)
            setattr(self, name, value)
            return value

    @property
    def message_id(self) -> MessageId:
        """The message that a data packet brings."""
        assert self.message is not None
        return self.message

    @property
    def incarnation(self) -> int:
        """How often the source had restarted from an old snapshot when it sent this."""
        return incarnation_of(self.n)

    def _fields(self) -> tuple[object, ...]:
        return (
            self.source,
            self.dest,
            self.n,
            self.kind,
            self.message,
            self.dests,
            self.payload,
            self.control,
            self.protocol,
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._fields() == other._fields() if isinstance(other, Packet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"Packet({_shown(self)})"


def numbered_packet(
    roster: Roster,
    source_no: int,
    dest_no: int,
    n: int,
    seq: int,
    dest_set: int,
    payload: bytes,
    stamp: Stamp,
    needs: list[int],
) -> Packet:
    """Make a data packet that is known to be well-formed."""
    packet = _new(Packet)
    packet.roster = roster
    packet.source_no = source_no
    packet.dest_no = dest_no
    packet.n = n
    packet.seq = seq
    packet.dest_set = dest_set
    packet.payload = payload
    packet.stamp = stamp
    packet.needs = needs
    names = roster.names
    packet.source = names[source_no]
    packet.dest = names[dest_no]
    return packet


_new = object.__new__
_LAZY: Final[dict[str, Callable[[Packet], object]]] = {
    "kind": lambda _: "data",
    "message": lambda packet: MessageId(packet.source, packet.seq),
    "dests": lambda packet: _roster(packet).sorted_names(packet.dest_set),
    "control": lambda packet: packet.stamp.control(_roster(packet), packet.dest_no, packet.needs),
    "protocol": lambda packet: packet.stamp.PROTOCOL,
}


def _roster(packet: Packet) -> Roster:
    assert packet.roster is not None
    return packet.roster


@dataclass(init=False, repr=False, eq=False)
class Delivery:
    """A message handed to the application.

    ``event`` is its number among this endpoint's sends and deliveries. ``unmet`` is empty unless
    the message was released because what it waited for was to come from a removed process.
    """

    __slots__ = ("_packet", "dests", "event", "message", "payload", "unmet")

    message: MessageId
    dests: tuple[str, ...]
    payload: bytes
    event: int
    unmet: tuple[Need, ...]

    def __init__(
        self,
        message: MessageId,
        dests: tuple[str, ...],
        payload: bytes,
        event: int,
        unmet: tuple[Need, ...] = (),
    ) -> None:
        self.message = message
        self.dests = dests
        self.payload = payload
        self.event = event
        self.unmet = unmet

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Ask the packet, at the first use."""
            if name not in ("message", "dests"):
                msg = f"a Delivery has no attribute {name!r}"
                raise AttributeError(msg)
            value = getattr(self._packet, name)
            setattr(self, name, value)
            return value

    @property
    def source(self) -> str:
        """The process that sent the message, even if a relay brought it."""
        return self.message.sender

    def _fields(self) -> tuple[object, ...]:
        return self.message, self.dests, self.payload, self.event, self.unmet

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Delivery) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"Delivery({_shown(self)})"


def delivery_of(packet: Packet, event: int, unmet: tuple[Need, ...] = ()) -> Delivery:
    """Make the delivery of a packet's message; names are spelt out when asked for."""
    made = _new(Delivery)
    made._packet = packet  # type: ignore[attr-defined]  # a slot that is not a field
    made.payload = packet.payload
    made.event = event
    made.unmet = unmet
    return made


@dataclass(init=False, repr=False, eq=False)
class Effects:
    """The outcome of a call: packets for the network, deliveries for the application.

    After ``send``, ``event`` is the number of that send; after any other call, the number of
    the endpoint's latest event (0 before the first). ``restarts`` tells of processes that turned
    out to have restarted from an old snapshot; it is usually empty.
    """

    __slots__ = ("_restarts", "deliveries", "event", "packets")

    packets: tuple[Packet, ...]
    deliveries: tuple[Delivery, ...]
    event: int

    def __init__(
        self,
        packets: tuple[Packet, ...] = (),
        deliveries: tuple[Delivery, ...] = (),
        event: int = 0,
    ) -> None:
        self.packets = packets
        self.deliveries = deliveries
        self.event = event

    @property
    def restarts(self) -> tuple[Restart, ...]:
        """The processes that turned out to have restarted from an old snapshot."""
        return getattr(self, "_restarts", ())

    def _fields(self) -> tuple[object, ...]:
        return self.packets, self.deliveries, self.event, self.restarts

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Effects) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"Effects({_shown(self)})"


def effects_of(
    packets: tuple[Packet, ...], deliveries: tuple[Delivery, ...], event: int
) -> Effects:
    """Make effects; quicker than calling the class."""
    made = _new(Effects)
    made.packets = packets
    made.deliveries = deliveries
    made.event = event
    return made


def _shown(record: Packet | Delivery | Effects) -> str:
    return ", ".join(f"{field.name}={getattr(record, field.name)!r}" for field in fields(record))


class Restart(NamedTuple):
    """A process came back from an old snapshot: what of it has not arrived before is lost.

    ``missing`` counts the packets that are known to be lost, because later ones have arrived;
    there may be more.
    """

    process: str
    incarnation: int
    missing: int

    def __str__(self) -> str:
        start = f"{self.process} restarted (incarnation {self.incarnation})"
        return f"{start}, at least {self.missing} packets lost"


class Sending(NamedTuple):
    """One call of ``send``, as protocols see it.

    ``dests`` are all destinations, ``others`` those other than the sender itself; ``basis`` is the
    number of the last local event that the message depends on.
    """

    message: MessageId
    dests: tuple[str, ...]
    payload: bytes
    others: tuple[str, ...] = ()
    basis: int = 0


class Need(NamedTuple):
    """One thing a held message waits for.

    ``unit`` says what ``number`` counts: ``message`` (the process's message of that seq),
    ``count`` (that many of the process's messages delivered here), ``channel`` (the packet of that
    number on the channel from the process), ``event`` (the process's event of that number),
    ``ack`` (an acknowledgement by the process) or ``stamp`` (a promise up to that stamp).
    ``scope`` distinguishes needs that concern the same process, for example by group.
    """

    process: str
    number: int
    unit: str = "message"
    scope: str = ""

    @property
    def message(self) -> MessageId | None:
        """The message waited for, if the protocol knows which one it is."""
        return MessageId(self.process, self.number) if self.unit == "message" else None

    def __str__(self) -> str:
        where = f" in {self.scope}" if self.scope else ""
        match self.unit:
            case "message":
                return f"message {self.number} of {self.process}{where}"
            case "count":
                return f"{self.number} delivered from {self.process}{where}"
            case "channel":
                return f"packet {self.number} from {self.process}{where}"
            case _:
                return f"{self.unit} {self.number} of {self.process}{where}"


class ControlSize(NamedTuple):
    """The size of a packet's control by the model of [JPCY97]: 2 bytes an id, 4 bytes a clock."""

    entries: int
    destinations: int
    model_bytes: int


ID_BYTES: Final = 2
CLOCK_BYTES: Final = 4
PAIR_BYTES: Final = ID_BYTES + CLOCK_BYTES
