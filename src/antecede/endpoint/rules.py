"""The part of an endpoint that a protocol defines: a few decisions, by numbers.

The endpoint numbers packets, drops duplicates, holds, wakes and delivers; rules never see the same
packet twice. A packet waits for *keys*: it may be delivered when ``reached`` is at least the key
that it asks for, at the *place* that the key names. Usually a place is a sender, and a key is
``seq << shift | sender``. Any other packets that rules want to send go into ``outbox``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from antecede.endpoint import kinds
from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.messages import FREE, ControlSize, Message, MessageId, Need, Packet
from antecede.endpoint.saved import Saved
from antecede.endpoint.view import View
from antecede.errors import QueueFullError

__all__ = ["Message", "Own", "Packet", "Rules", "Saved", "View", "Wire"]

Places = tuple[int, ...]
Own = Mapping[int, object]
"""The control of single copies of a message, by destination."""
ALIKE: Final[Own] = {}
"""The answer of :meth:`Rules.stamp` if no copy has control of its own."""
NOBODY: Final[list[int]] = []
"""No keys: a packet that waits for nobody."""


class Wire:
    """The forms of a view's controls: as bytes, with names, and counted in the model of [JPCY97].

    This class is for rules without control. Bytes are canonical: ``get`` refuses what ``put``
    would not write, by PeerError, or by ValueError or IndexError if the bytes end too early.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.relays = False
        """Whether packets bring messages of others than their source."""
        self.info: ProtocolInfo

    def put(self, message: Message) -> bytes:
        """Return ``message.control``, which all copies share, as bytes."""
        return b""

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        """Read the control of a message with all other parts; return the offset after it."""
        return None, at

    def put_own(self, packet: Packet) -> bytes:
        """Return ``packet.own`` as bytes."""
        return b""

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Any, int]:
        """Read the control of one copy alone, and return the offset after it."""
        return None, at

    def later(self, first: Packet, ahead: int, payload: bytes) -> Packet | None:
        """Return the packet ``ahead`` places after ``first`` in a run of :meth:`Rules.repeat`."""
        return None

    def spell(self, packet: Packet) -> object:
        """Return a packet's control with names, as its paper writes it: nested tuples."""
        return ()

    def entries(self, packet: Packet) -> int:
        """Return how many entries a packet's control has: by default, as the formula says."""
        formula = self.info.formula
        return formula.entries(self.view.n) if formula else 0

    def measure(self, packet: Packet) -> ControlSize:
        """Return the size of a packet's control in the model."""
        entries = self.entries(packet)
        return ControlSize(entries, 0, entries * (self.info.bytes_per_entry or 0))


class Rules:
    """One process's side of a protocol, in one view."""

    INFO: ClassVar[ProtocolInfo]
    WIRE: ClassVar[type[Wire]] = Wire
    RELAYS: ClassVar[bool] = False
    """Whether packets bring messages of others than their source."""
    IS_EAGER: ClassVar[bool] = False
    """Whether in pull mode packets take effect when ready, and are taken later in that order."""
    IS_JOINT: ClassVar[bool] = False
    """Whether one lost need makes the others of a packet doubtful, so that it waits for none."""

    def __init__(self, view: View, me: int) -> None:
        self.view = view
        self.me = me
        self.shift, self.low = view.shift, view.low
        """Where a key's number begins, and the mask of its place."""
        self.made = 0
        """How many messages this process has sent."""
        self.events = 0
        """The number of the latest delivery, among all local events."""
        self.now = 0
        """The time, for protocols that use it."""
        self.is_stale = False
        """Whether others may know of more sends than we do, as we were restored and not resumed."""
        self.queued = self.queue_max = 0
        """How many messages (or copies) wait here to be sent, and how many may wait."""
        self.reached = view.firsts.copy()
        """By place, the key up to which all is delivered here; changed in place, never replaced."""
        self.places = view.places
        """By sender, the usual answer of :meth:`taken`."""
        self.outbox: list[tuple[int, Message, object]] = []
        """Copies to send now: (destination, message, own)."""

    def widen(self, places: int) -> None:
        """Make room for more places than members: keys then have more bits for the place."""
        self.shift = (places - 1).bit_length()
        self.low = (1 << self.shift) - 1
        self.reached = list(range(self.low + 1))

    @classmethod
    def has(cls, step: str) -> bool:
        """Return whether these rules define a step; the endpoint skips steps that they lack."""
        return getattr(cls, step) is not getattr(Rules, step)

    @classmethod
    def of(cls, view: View) -> "type[Rules]":
        """Return the class of rules for a view: options may ask for another one than this."""
        return cls

    @classmethod
    def check_options(cls, options: dict[str, object], members: tuple[str, ...]) -> None:
        """Refuse options that do not go together; their records check each alone."""

    @classmethod
    def forms(cls, view: View) -> Wire:
        """Return the forms of a view's controls."""
        made = cls.WIRE(view)
        made.relays, made.info = cls.RELAYS, cls.INFO
        return made

    # Send.

    def admit(self, others: Places) -> None:
        """Raise to refuse a send to these destinations, before anything changes."""

    def stamp(self, message: Message, others: Places, event: int, after: int) -> Own | None:
        """Set the control of a message of ours; return the control of single copies.

        Its send is local event number ``event``, and it depends on those up to ``after``. If this
        returns None, the copies leave by ``outbox``, now or later.
        """
        raise NotImplementedError

    def repeat(self) -> bool:
        """Send one more message in a *run*, or return False.

        It goes to the one process to which the last one went, and nothing was delivered since, so
        :meth:`Wire.later` can make its packet from the last one's.
        """
        return False

    # Receive.

    def check(self, packet: Packet) -> str:
        """Return what is wrong with a packet that no correct peer sends, or ""."""
        return self.too_new(self.made + self.knows(packet, self.me, self.made + 1))

    def too_new(self, number: int) -> str:
        """Return what is wrong with a packet that knows of this message of ours, or ""."""
        return knows_too_much(self.made) if number > self.made and not self.is_stale else ""

    def arrived(self, packet: Packet) -> Places | None:
        """Note that a packet arrived, perhaps early; raise ``reached`` as :meth:`taken` does."""
        return None

    def frees(self, packet: Packet) -> bool:
        """Return whether :meth:`arrived` will free a packet that :meth:`blocker` holds up."""
        return False

    def readmit(self, packet: Packet) -> str:
        """Note that a saved state holds a packet; return what is wrong with that, or ""."""
        return self.check(packet)

    def unpack(self, packet: Packet) -> list[Packet]:
        """Return the messages of a packet that have not arrived yet, causes first.

        In pull mode they may wait for each other, but for nothing else.
        """
        raise NotImplementedError

    def needs(self, packet: Packet) -> Iterable[int]:
        """Return the keys that a packet waits for."""
        return NOBODY

    def missing(self, packet: Packet) -> list[int]:
        """Return the keys of :meth:`needs` that are not reached."""
        reached, low = self.reached, self.low
        return [key for key in self.needs(packet) if key > reached[key & low]]

    def blocker(self, packet: Packet) -> int:
        """Return one of :meth:`missing`, or FREE."""
        reached, low = self.reached, self.low
        for key in self.needs(packet):
            if key > reached[key & low]:
                return key
        return FREE

    def taken(self, packet: Packet) -> Places:
        """Let a packet take effect; raise ``reached``, and return the places where it rose."""
        raise NotImplementedError

    def drops(self, packet: Packet) -> bool:
        """Return whether a message is not delivered in its turn: it is a repeat, or too late."""
        return False

    def repeated(self, first: Packet, count: int) -> bool:
        """Let ``count`` messages after ``first`` in a run take effect, or return False."""
        return False

    # What applications and drivers may tell it.

    def tick(self, now: int) -> Places:
        """Note the time; like :meth:`taken`, raise ``reached`` and return the places."""
        raise NotImplementedError

    def link(self, dest: int) -> None:
        """Open a link to a process, unless there is one."""
        raise NotImplementedError

    # How messages wait for each other, and what happens if some are lost.

    def key(self, packet: Packet) -> int:
        """Return the key that others ask for if they wait for this packet's message."""
        return packet.content.seq << self.shift | packet.content.sender

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return the sender and number of the message that a packet asks for by a key."""
        return key & self.view.low, key >> self.shift

    def need(self, packet: Packet, key: int) -> Need:
        """Return the need that a packet's key stands for, as ``waiting()`` shows it."""
        sender, seq = self.wanted(packet, key)
        return Need(self.view.members[sender], seq) if seq else self.need_packet(packet)

    def need_packet(self, packet: Packet) -> Need:
        """Return the need of a packet that waits for the one before it, which is no message."""
        return Need(packet.source, packet.n - 1, "packet")

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Return whether a packet shows that its sender already knew of a message."""
        return False

    def gap(self, packet: Packet) -> int:
        """Return the key of another packet that must come before one whose need is lost, or FREE.

        This is asked if the sender of what is lost is gone, but nobody named the message itself.
        """
        return FREE

    def lost(self, sender: int, seq: int) -> None:
        """Note that a sender's messages up to this number that are not here are lost."""

    def follows(self, packet: Packet, other: Packet) -> bool:
        """Return whether a packet that lacks lost needs shows that another's message is first.

        Its sender knew of that message, or it asks for a lost one sent later by the same process.
        """
        sender, seq = other.content.sender, other.content.seq
        if self.knows(packet, sender, seq):
            return True
        wanted = [self.wanted(packet, key) for key in self.missing(packet)]
        return self.INFO.is_fifo and any(who == sender and upto >= seq for who, upto in wanted)

    def newest(self, sender: int) -> int:
        """Return the number up to which all messages of a sender for this process are delivered."""
        return self.reached[sender] >> self.low.bit_length()

    def ahead(self, sender: int) -> list[int]:
        """Return the numbers of messages beyond :meth:`newest` that are delivered too."""
        return NOBODY

    def gone(self, source: int) -> None:
        """Expect nothing more from a process: no messages, acknowledgements or permits."""

    # What is kept.

    def kept(self) -> object:
        """Return what is kept, with names, as the specification in ``protocols.specs`` does."""
        return None

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the explicit information kept, if the protocol keeps any."""
        return {}

    def kept_entries(self) -> int | None:
        """Return how many entries are kept, or None if they are not counted."""
        return None

    def notes(self) -> dict[str, int]:
        """Return what a protocol counts for studies."""
        return {}

    def keep(self, saved: Saved) -> None:
        """Save or restore this process's fields, except ``reached``, which the endpoint keeps."""

    def require_own(self, saved: Saved, name: str, number: int) -> None:
        """Refuse a saved field that knows of our message with this number unless we sent it."""
        is_right = number <= self.made or self.is_stale
        saved.require(is_right, name, number, f"at most {self.made} messages of its own")

    def say(self, dest: int, word: object) -> None:
        """Send a packet for the protocol alone, without a message."""
        self.outbox.append((dest, Message(self.view, self.me, 0, 0, b"", word), None))

    def _check_queue(self, waiting: int) -> None:
        """Refuse a send if its ``waiting`` copies do not fit into the queue."""
        if self.queued + waiting > self.queue_max:
            msg = (
                f"{self.queued} messages wait to be sent already (queue_max={self.queue_max}), and "
                f"{waiting} more would; send again after some have left"
            )
            raise QueueFullError(msg, queued=self.queued, queue_max=self.queue_max)


def own_message(rules: Rules) -> kinds.Kind:
    """Return the kind of a message of ours that waits to be sent to others."""
    parts = range(1, rules.made + 1), kinds.mask(rules.view.n), bytes

    def read(value: object) -> Message:
        seq, dests, payload = kinds.get(parts, value)
        if dests == 1 << rules.me or not dests:
            raise kinds.wrong(value, "a message to others")
        return Message(rules.view, rules.me, seq, dests, payload, None)

    return kinds.Kind(lambda one: kinds.put(parts, (one.seq, one.dests, one.payload)), read)


def knows_too_much(made: int) -> str:
    """Return what is wrong with a packet that knows of more sends than this process made."""
    return (
        f"knows of more messages of this process than the {made} that it sent: a member lies, or "
        "this process was restored from a snapshot older than its last send"
    )
