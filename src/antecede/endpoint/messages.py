"""The plain data that goes into an endpoint and comes out of it.

Only endpoints and Codecs make packets, so their parts are known to be well-formed. Inside,
processes are numbers; names appear only when somebody asks for them.
"""

from typing import Any, ClassVar, Final, Literal, NamedTuple

from antecede.endpoint.view import View

NOTHING: Final = 0
"""For ``send(..., after=NOTHING)``: the message depends on no local event."""
COUNT_MAX: Final = 1 << 48
"""The highest number of a message, packet or event: a million a second reach it in nine years."""
PAYLOAD_MAX: Final = 1 << 26
"""The largest payload, in bytes."""
FREE: Final = -1
"""In place of a key: the packet waits for nothing."""

ID_BYTES: Final = 2
CLOCK_BYTES: Final = 4
PAIR_BYTES: Final = ID_BYTES + CLOCK_BYTES


def is_key(key: int, view: View) -> bool:
    """Return whether a key can belong to a member's message."""
    return key & view.low < view.n and 1 <= key >> view.shift <= COUNT_MAX


class MessageId(NamedTuple):
    """A message's name: its sender, and its number among that process's sends, from 1."""

    sender: str
    seq: int

    def __str__(self) -> str:
        return f"{self.sender}:{self.seq}"


class Need(NamedTuple):
    """One thing that a held message waits for.

    Usually it is the process's message with that number or, if channels keep order, all up to it:
    ``skip`` takes the same numbers. Other units are ``ack``, an acknowledgement of our message,
    ``stamp``, a promise up to that stamp, ``relayed``, a count of what the process passed on, and
    ``packet``, one that the protocol sent for itself before the process's first message: these end
    if the process is gone.
    """

    process: str
    number: int
    unit: str = "message"

    @property
    def message(self) -> MessageId | None:
        """The message waited for, if it is one."""
        return MessageId(self.process, self.number) if self.unit == "message" else None

    def __str__(self) -> str:
        return f"{self.unit} {self.number} of {self.process}"


class ControlSize(NamedTuple):
    """The size of a packet's control in the model of [JPCY97]: 2 bytes an id, 4 bytes a clock."""

    entries: int
    destinations: int
    model_bytes: int


class Record:
    """Defines equality, hash and text by the attributes in ``__match_args__``."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    def _values(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        parts = zip(self.__match_args__, self._values(), strict=True)
        return f"{type(self).__name__}({', '.join([f'{name}={value!r}' for name, value in parts])})"


class Message:
    """What all copies of a message share; ``dests`` is a mask.

    A message that a protocol sends for its own purposes has number 0 and no destinations.
    """

    __slots__ = ("body", "control", "dests", "payload", "sender", "seq", "view")

    def __init__(
        self, view: View, sender: int, seq: int, dests: int, payload: bytes, control: Any
    ) -> None:
        self.view, self.sender, self.seq, self.dests = view, sender, seq, dests
        self.payload, self.control = payload, control
        self.body: tuple[int, bytes] | None = None
        """Its encoding by a Codec, which its copies share."""

    @property
    def id(self) -> MessageId:
        """The message's name."""
        return MessageId(self.view.members[self.sender], self.seq)

    def under(self, control: Any) -> "Message":
        """Return the same message with another control."""
        return Message(self.view, self.sender, self.seq, self.dests, self.payload, control)


class Packet(Record):
    """One transmission on the channel ``source -> dest``; hand it to any network.

    ``n`` numbers the packets of that channel from 1, data and control alike. ``content`` is what it
    shares with the other copies of its message, ``own`` the control of this copy alone.
    """

    __slots__ = ("content", "dest_no", "n", "own", "source_no")
    __match_args__: ClassVar = (
        "source", "dest", "n", "kind", "message", "dests", "payload", "control", "view",
    )  # fmt: skip

    def __init__(self, content: Message, source_no: int, dest_no: int, n: int, own: Any) -> None:
        self.content, self.own = content, own
        self.source_no, self.dest_no, self.n = source_no, dest_no, n

    @property
    def view(self) -> View:
        """The view that it belongs to."""
        return self.content.view

    @property
    def protocol(self) -> str:
        """The protocol of that view."""
        return self.content.view.protocol

    @property
    def source(self) -> str:
        """The process that sent the packet; with a relay, not the message's sender."""
        return self.content.view.members[self.source_no]

    @property
    def dest(self) -> str:
        """The process that it goes to."""
        return self.content.view.members[self.dest_no]

    @property
    def kind(self) -> Literal["data", "control"]:
        """Whether it brings a message, or only something for the protocol."""
        return "data" if self.content.seq else "control"

    @property
    def message(self) -> MessageId | None:
        """The message that a data packet brings."""
        return self.content.id if self.content.seq else None

    @property
    def dests(self) -> tuple[str, ...]:
        """All destinations of the message, sorted."""
        return self.content.view.names(self.content.dests)

    @property
    def payload(self) -> bytes:
        """What was sent."""
        return self.content.payload

    @property
    def control(self) -> object:
        """The protocol's own information, with names, as its paper writes it."""
        return self.content.view.forms.spell(self)


class Delivery(Record):
    """A message handed to the application.

    ``event`` is its number among this endpoint's sends and deliveries. ``unmet`` names the messages
    that it depends on and that ``skip`` declared lost; usually there are none.
    """

    __slots__ = ("content", "event", "unmet")
    __match_args__: ClassVar = ("message", "dests", "payload", "event", "unmet")

    def __init__(self, content: Message, event: int, unmet: tuple[Need, ...]) -> None:
        self.content, self.event, self.unmet = content, event, unmet

    @property
    def message(self) -> MessageId:
        """The message delivered."""
        return self.content.id

    @property
    def source(self) -> str:
        """The process that sent the message, even if a relay brought it."""
        return self.content.view.members[self.content.sender]

    @property
    def dests(self) -> tuple[str, ...]:
        """All destinations of the message, sorted."""
        return self.content.view.names(self.content.dests)

    @property
    def payload(self) -> bytes:
        """What was sent."""
        return self.content.payload


class Effects(NamedTuple):
    """The outcome of a call: packets for the network, deliveries for the application.

    After ``send``, ``event`` is the number of that send; after any other call, the number of the
    endpoint's latest event (0 before the first).
    """

    packets: tuple[Packet, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    event: int = 0


# Endpoints and Codecs make their records with these, which is quicker than calling the class.

_new = object.__new__
new_tuple: Final = tuple.__new__


def new_message(
    view: View, sender: int, seq: int, dests: int, payload: bytes, control: Any
) -> Message:
    """Make a message."""
    made = _new(Message)
    made.view = view
    made.sender = sender
    made.seq = seq
    made.dests = dests
    made.payload = payload
    made.control = control
    made.body = None
    return made


def new_packet(content: Message, source_no: int, dest_no: int, n: int, own: Any) -> Packet:
    """Make a packet."""
    made = _new(Packet)
    made.content = content
    made.source_no = source_no
    made.dest_no = dest_no
    made.n = n
    made.own = own
    return made


def new_delivery(content: Message, event: int, unmet: tuple[Need, ...]) -> Delivery:
    """Make a delivery."""
    made = _new(Delivery)
    made.content = content
    made.event = event
    made.unmet = unmet
    return made
