"""The plain data that goes into an endpoint and comes out of it."""

from __future__ import annotations

from dataclasses import Field, fields, make_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from antecede.core.roster import Roster
    from antecede.core.stamps import Stamp

COMPILED: Final = False
"""Whether this is the compiled form; see tools/compiled.py."""
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


_Fields = dict[str, Field[Any]]


class Packet:
    """One transmission on the channel ``source -> dest``; hand it to any network.

    ``n`` numbers the packets of that channel from 1, data and control alike. ``control`` is the
    protocol's own information: nested tuples of integers, strings, bytes and None. Packets that
    endpoints and Codecs make are known to be well-formed, and spell out names only when asked:
    they have the numbers of a roster. In a packet that was made from names, ``roster`` is None, and
    the other numbers are not there.
    """

    __slots__ = (
        "_control",
        "_dests",
        "_message",
        "_protocol",
        "dest",
        "dest_no",
        "dest_set",
        "kind",
        "n",
        "needs",
        "payload",
        "roster",
        "seq",
        "source",
        "source_no",
        "stamp",
    )
    __match_args__: ClassVar = (
        "source",
        "dest",
        "n",
        "kind",
        "message",
        "dests",
        "payload",
        "control",
        "protocol",
    )
    __dataclass_fields__: ClassVar[_Fields] = {}

    roster: Roster | None
    source_no: int
    dest_no: int
    seq: int
    dest_set: int
    stamp: Stamp
    needs: list[int]

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
        self.payload = payload
        self._message = message
        self._dests = dests
        self._control = control
        self._protocol = protocol
        self.roster = None

    @property
    def message(self) -> MessageId | None:
        """The message that a data packet brings."""
        return self._message if self.roster is None else MessageId(self.source, self.seq)

    @property
    def message_id(self) -> MessageId:
        """The message that a data packet brings; do not ask a control packet."""
        message = self.message
        assert message is not None
        return message

    @property
    def dests(self) -> tuple[str, ...]:
        """All destinations of the message, sorted."""
        return self._dests if self.roster is None else self.roster.sorted_names(self.dest_set)

    @property
    def control(self) -> object:
        """The protocol's own information."""
        if self._control is None and self.roster is not None:
            self._control = self.stamp.control(self.roster, self.dest_no, self.needs)
        return self._control

    @property
    def protocol(self) -> str:
        """The protocol of the endpoint that sent this."""
        return self._protocol if self.roster is None else self.stamp.PROTOCOL

    @property
    def incarnation(self) -> int:
        """How often the source had restarted from an old snapshot when it sent this."""
        return incarnation_of(self.n)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return _values(self) == _values(other) if isinstance(other, Packet) else NotImplemented

    def __hash__(self) -> int:
        return hash(_values(self))

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
    names = roster.names
    packet = Packet("", "", 0, "data", None, (), b"", None, "") if COMPILED else _new(Packet)
    packet.source = names[source_no]
    packet.dest = names[dest_no]
    packet.n = n
    packet.kind = "data"
    packet.payload = payload
    packet._control = None
    packet.roster = roster
    packet.source_no = source_no
    packet.dest_no = dest_no
    packet.seq = seq
    packet.dest_set = dest_set
    packet.stamp = stamp
    packet.needs = needs
    return packet


class Delivery:
    """A message handed to the application.

    ``event`` is its number among this endpoint's sends and deliveries. ``unmet`` is empty unless
    the message was released because what it waited for was to come from a removed process.
    """

    __slots__ = ("_dests", "_message", "_packet", "event", "payload", "unmet")
    __match_args__: ClassVar = ("message", "dests", "payload", "event", "unmet")
    __dataclass_fields__: ClassVar[_Fields] = {}

    _packet: Packet | None

    def __init__(
        self,
        message: MessageId,
        dests: tuple[str, ...],
        payload: bytes,
        event: int,
        unmet: tuple[Need, ...] = (),
    ) -> None:
        self._packet = None
        self._message = message
        self._dests = dests
        self.payload = payload
        self.event = event
        self.unmet = unmet

    @property
    def message(self) -> MessageId:
        """The message delivered."""
        return self._message if self._packet is None else self._packet.message_id

    @property
    def dests(self) -> tuple[str, ...]:
        """All destinations of the message, sorted."""
        return self._dests if self._packet is None else self._packet.dests

    @property
    def source(self) -> str:
        """The process that sent the message, even if a relay brought it."""
        return self.message.sender

    def __eq__(self, other: object) -> bool:
        return _values(self) == _values(other) if isinstance(other, Delivery) else NotImplemented

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        return f"Delivery({_shown(self)})"


def delivery_of(packet: Packet, event: int, unmet: tuple[Need, ...] = ()) -> Delivery:
    """Make the delivery of a packet's message; names are spelt out when asked for."""
    made = Delivery(_NOBODY, (), b"", 0) if COMPILED else _new(Delivery)
    made._packet = packet
    made.payload = packet.payload
    made.event = event
    made.unmet = unmet
    return made


class Effects:
    """The outcome of a call: packets for the network, deliveries for the application.

    After ``send``, ``event`` is the number of that send; after any other call, the number of
    the endpoint's latest event (0 before the first). ``restarts`` tells of processes that turned
    out to have restarted from an old snapshot; it is usually empty.
    """

    __slots__ = ("_restarts", "deliveries", "event", "packets")
    __match_args__: ClassVar = ("packets", "deliveries", "event")
    __dataclass_fields__: ClassVar[_Fields] = {}

    _restarts: tuple[Restart, ...]

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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Effects):
            return NotImplemented
        return _values(self) == _values(other) and self.restarts == other.restarts

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        return f"Effects({_shown(self)})"


def effects_of(
    packets: tuple[Packet, ...], deliveries: tuple[Delivery, ...], event: int
) -> Effects:
    """Make effects; quicker than calling the class."""
    made = Effects() if COMPILED else _new(Effects)
    made.packets = packets
    made.deliveries = deliveries
    made.event = event
    return made


_new = object.__new__  # quicker than calling a class, but for compiled ones
_NOBODY: Final = MessageId("", 0)


def _fields(names: tuple[str, ...]) -> _Fields:
    """Return what ``dataclasses.replace``, ``fields`` and ``astuple`` ask a class for."""
    made = make_dataclass("Record", names, init=False, repr=False, eq=False)
    return {field.name: field for field in fields(made)}


Packet.__dataclass_fields__ = _fields(Packet.__match_args__)
Delivery.__dataclass_fields__ = _fields(Delivery.__match_args__)
Effects.__dataclass_fields__ = _fields(Effects.__match_args__)


def _values(record: Packet | Delivery | Effects) -> tuple[object, ...]:
    return tuple([getattr(record, name) for name in record.__match_args__])


def _shown(record: Packet | Delivery | Effects) -> str:
    return ", ".join([f"{name}={getattr(record, name)!r}" for name in record.__match_args__])


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
