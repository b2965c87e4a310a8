"""The plain data that goes into an endpoint and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

NOTHING: Final = 0
"""For ``send(..., after=NOTHING)``: the message depends on no local event."""


class MessageId(NamedTuple):
    """A message's name: its sender, and its number among that process's sends, from 1."""

    sender: str
    seq: int

    def __str__(self) -> str:
        return f"{self.sender}:{self.seq}"


@dataclass(frozen=True, slots=True)
class Packet:
    """One transmission on the channel ``source -> dest``; hand it to any network.

    ``n`` numbers the packets of that channel from 1, data and control alike. ``control`` is the
    protocol's own information: nested tuples of integers, strings, bytes and None.
    """

    source: str
    dest: str
    n: int
    kind: Literal["data", "control"]
    message: MessageId | None
    dests: tuple[str, ...]
    payload: bytes
    control: object
    protocol: str

    @property
    def message_id(self) -> MessageId:
        """The message that a data packet brings."""
        assert self.message is not None
        return self.message


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message handed to the application.

    ``event`` is its number among this endpoint's sends and deliveries. ``unmet`` is empty unless
    the message was released because what it waited for was to come from a removed process.
    """

    message: MessageId
    dests: tuple[str, ...]
    payload: bytes
    event: int
    unmet: tuple[Need, ...] = ()

    @property
    def source(self) -> str:
        """The process that sent the message, even if a relay brought it."""
        return self.message.sender


@dataclass(frozen=True, slots=True)
class Effects:
    """The outcome of a call: packets for the network, deliveries for the application.

    After ``send``, ``event`` is the number of that send; after any other call, the number of
    the endpoint's latest event (0 before the first).
    """

    packets: tuple[Packet, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    event: int = 0


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
