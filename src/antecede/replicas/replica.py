"""A causally consistent key-value store, replicated in part or in full: Opt-Track [HKS18]_.

Each key is kept by some of the processes. A write goes to the processes that keep its key. A read
of a key that is kept here is answered at once; any other key is fetched from a process that keeps
it. A process that sees a write has seen, of the keys that it keeps, every write before it: those
that the writer had read, or written itself.

The logs are those of [KS98], as in ``optimal``, with one difference: a write depends on what its
process has *read*, not on every write that was applied there. So RCV(3) to RCV(5) are carried out
when a value is read, not when its write is delivered. If every process keeps every key, a log is
only a list of writes (Opt-Track-CRP): a write goes to all, and replaces everything before it.

Like an endpoint, a replica does no I/O: the caller passes its packets to the network, which may
delay, reorder and repeat them, and passes packets from the network to it.

Guarantee
---------
Causal memory: no process applies a write before another one that it depends on, and no read returns
a value that was overwritten in its causal past. Replicas converge: of concurrent writes of a key,
every process shows the one with the greater stamp. A log keeps exactly what the Propagation
Constraints of [KS98] require if dependence grows by reads.

Differences from the paper
--------------------------
The papers on Opt-Track were not available to us, so this is a reconstruction from [KS98] and from
their abstracts. A fetch waits at its receiver until that has applied every write that the reader
depends on, and the answer waits at the reader until the reader has applied every write that the
answer depends on. Without either, order is lost. A process carries out its operations one after the
other: during a fetch, it neither reads nor writes. Stamps, which decide between concurrent writes,
are ours.

References
----------
.. [HKS18] T. Hsu, A. D. Kshemkalyani and M. Shen. "Causal consistency algorithms for partially
   replicated and fully replicated systems". Future Generation Computer Systems, 2018 (Opt-Track
   first appeared in 2015). https://doi.org/10.1016/j.future.2017.04.044
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, cast

from antecede.endpoint import logs
from antecede.endpoint.arguments import distinct_names
from antecede.endpoint.endpoint import HELD_MAX, Endpoint
from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.logs import Log, LogWire, Tops
from antecede.endpoint.messages import PAIR_BYTES, ControlSize, MessageId, Need, is_key
from antecede.endpoint.numbers import get_ascending, put_ascending, read_count, varint
from antecede.endpoint.rules import ALIKE, NOBODY, Message, Own, Packet, Rules, View, Wire
from antecede.errors import PeerError, UsageError, listed, shown

KEY_MAX: Final = 1024
"""The most bytes of a key."""


class Write(NamedTuple):
    """A write that has been applied here."""

    message: MessageId
    key: str
    value: bytes


class Answer(NamedTuple):
    """The result of a fetch; the value is None if no process has written the key."""

    key: str
    value: bytes | None


class Outcome(NamedTuple):
    """The results of a call: packets for the network, writes applied here, a fetch's answer."""

    packets: tuple[Packet, ...] = ()
    applied: tuple[Write, ...] = ()
    answer: Answer | None = None


class Fetch(NamedTuple):
    """A request: its number, the key, and the writes to apply before answering."""

    number: int
    key: str
    needs: list[int]


class Nothing(NamedTuple):
    """The answer to a fetch if the key has no value. Otherwise the answer is its last write."""

    number: int


class Replica:
    """One process of the store; all have the same members and the same ``where``.

    The part of a key's name before the first ``/`` decides where it is kept: ``where`` maps parts
    to processes, and all processes keep the keys of parts that it does not name.
    """

    def __init__(
        self,
        process: str,
        members: Iterable[str],
        where: Mapping[str, Iterable[str]] | None = None,
        *,
        view: int = 0,
        held_max: int = HELD_MAX,
    ) -> None:
        names = distinct_names("members", members)
        if process not in names:
            msg = f"process {shown(process)} is not a member; the members are {listed(names)}"
            raise UsageError(msg)
        options: dict[str, object] = {"where": _placed(where or {}, names)}
        made = View(view, names, "replicas", options)
        chosen = Memory if where else FullMemory
        made.forms = chosen.forms(made)
        self.view: Final = made
        """The argument of a ``Codec`` for the packets."""
        self._endpoint = Endpoint(made, process, chosen, held_max=held_max)
        self._rules = cast("Memory", self._endpoint.rules)

    @property
    def process(self) -> str:
        """The name of this process."""
        return self._endpoint.process

    def keepers(self, key: str) -> tuple[str, ...]:
        """Return the processes that keep a key."""
        return self.view.names(self._rules.place(_checked(key)))

    def write(self, key: str, value: bytes) -> Outcome:
        """Write a value; its packets go to the others that keep the key."""
        rules, keepers = self._rules, self.keepers(key)
        self._require_idle("write")
        effects = self._endpoint.send(keepers, put_write(rules.stamp_max + 1, key, value))
        rules.stamp_max += 1
        applied = [rules.wrote(delivery.content) for delivery in effects.deliveries]
        return Outcome(effects.packets, tuple(applied))

    def read(self, key: str) -> bytes | None:
        """Return the value of a key that is kept here, None if it has not been written yet.

        From now on, the writes of this process depend on that value.
        """
        keepers = self.keepers(key)
        if self.process not in keepers:
            msg = f"{key!r} is kept by {listed(keepers)}, not by {self.process!r}; fetch it"
            raise UsageError(msg)
        self._require_idle("read")
        return self._rules.read(key)

    def fetch(self, key: str, source: str | None = None) -> Outcome:
        """Ask a process that keeps a key for its value; :meth:`receive` returns the answer.

        If no answer comes, fetch the key again from another process. A late answer is ignored.
        """
        keepers = self.keepers(key)
        if self.process in keepers:
            msg = f"{key!r} is kept by {self.process!r} itself; read it"
            raise UsageError(msg)
        if source not in (None, *keepers):
            msg = f"{shown(source)} does not keep {key!r}; expected one of {listed(keepers)}"
            raise UsageError(msg)
        if self._rules.asking not in ("", key):
            self._require_idle("fetch")
        self._rules.ask(self.view.numbers[source or keepers[0]], key)
        return Outcome(self._endpoint.flush().packets)

    def receive(self, packet: Packet) -> Outcome:
        """Accept a packet from the network; return its effects."""
        effects = self._endpoint.receive(packet)
        applied = [_read_out(delivery.content) for delivery in effects.deliveries]
        answer, self._rules.answer = self._rules.answer, None
        return Outcome(effects.packets, tuple(applied), answer)

    def waiting(self) -> dict[MessageId, tuple[Need, ...]]:
        """Return the writes that have arrived and wait, each with the writes that it waits for."""
        return self._endpoint.waiting()

    @property
    def held(self) -> int:
        """The number of packets that have arrived and wait."""
        return self._endpoint.held

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the writes that the next write depends on, and who may lack each."""
        return self._rules.dependencies()

    def kept(self) -> object:
        """Return the log by names, in the form of the specification."""
        return self._rules.kept()

    def _require_idle(self, what: str) -> None:
        if self._rules.asking:
            msg = (
                f"cannot {what} while the fetch of {self._rules.asking!r} is under way: operations "
                "of a process go one after the other; wait for its answer, or fetch it elsewhere"
            )
            raise UsageError(msg)


# The rules: what writes carry, and what they wait for.


class MemoryWire(LogWire):
    """The wire form: tops, log and needs as in ``optimal``; requests and answers."""

    def put(self, message: Message) -> bytes:
        if message.seq:
            return super().put(message)
        word: Fetch | Nothing = message.control
        if isinstance(word, Nothing):
            return b"\0" + varint(word.number)
        key = word.key.encode()
        head = varint(len(key) + 1) + key + varint(word.number)
        return head + put_ascending(sorted(word.needs))

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        if message.seq:
            return super().get(data, at, message)
        size, at = read_count(data, at)
        key, at = _get_text(data, at, size - 1) if size else ("", at)
        number, at = read_count(data, at, 1)
        if not size:
            return Nothing(number), at
        needs, at = get_ascending(data, at)
        if not all(is_key(need, self.view) for need in needs):
            raise PeerError("depends on writes of strangers")
        return Fetch(number, key, needs), at

    def put_own(self, packet: Packet) -> bytes:
        if not packet.content.seq:
            return b""
        return varint(packet.own) if _is_answer(packet) else super().put_own(packet)

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Any, int]:
        if not packet.content.seq:
            return None, at
        return read_count(data, at, 1) if _is_answer(packet) else super().get_own(data, at, packet)

    def spell(self, packet: Packet) -> object:
        """Return the sorted entries of a log, or the key and the named writes of a request."""
        word = packet.content.control
        if isinstance(word, Fetch):
            return word.key, tuple(sorted(map(self.view.id, word.needs)))
        if isinstance(word, Nothing):
            return ()
        return logs.spelt(self.view, *word) if _is_answer(packet) else super().spell(packet)

    def measure(self, packet: Packet) -> ControlSize:
        word = packet.content.control
        if isinstance(word, Fetch | Nothing):
            count = len(word.needs) if isinstance(word, Fetch) else 0
            return ControlSize(count, 0, PAIR_BYTES * count)
        if _is_answer(packet):
            return logs.size(len(logs.entries(self.view, *word)), word[1])
        return super().measure(packet)


class Memory(Rules):
    """One process's cells, and its log of writes that may be missing somewhere: Opt-Track."""

    INFO: ClassVar = ProtocolInfo(
        name="replicas",
        idea="a replicated key-value store; dependence grows by reads",
        paper="Hsu, Kshemkalyani, Shen 2018 (reconstructed from its abstract)",
        cost="as optimal, for the writes that were read",
        promises=frozenset(),
        bytes_per_entry=PAIR_BYTES,
    )
    WIRE: ClassVar[type[Wire]] = MemoryWire
    RELAYS: ClassVar = True  # an answer is the write itself, whoever wrote it

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        where = cast("dict[str, list[str]]", view.options["where"])
        self._bit = 1 << me
        self._masks = {part: view.mask(names) for part, names in where.items()}
        self._tops: Tops = list(range(view.n))
        self._log: Log = {}
        self._cells: dict[str, Message] = {}
        """By key, the write that is shown: the one with the greatest stamp."""
        self.stamp_max = 0
        """The greatest stamp that this process has written or read."""
        self.asking = ""
        """The key that is being fetched, and the number of the request."""
        self._asked = 0
        self.answer: Answer | None = None

    def place(self, key: str) -> int:
        """Return the processes that keep a key, as a set of bits."""
        return self._masks.get(key.partition("/")[0], self.view.everyone)

    # Write.

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """SND(2) to SND(5) of [KS98]."""
        log, dests = self._log.copy(), message.dests & ~self._bit
        needs = logs.take(log, dests) if log else ALIKE
        message.control = self._tops, log
        key = message.seq << self.shift | self.me
        self._tops, self._log = logs.entered(self._tops, log, key, dests, self.low)
        return needs

    def wrote(self, message: Message) -> Write:
        """Apply a write of this process here."""
        if message.control is None:  # no other process keeps the key, but any may fetch it
            self.stamp(message, (), 0, 0)
        return self._apply(message)

    def _apply(self, message: Message) -> Write:
        stamp, key, value = get_write(message.payload)
        shown_now = self._cells.get(key)
        if shown_now is None or _rank(shown_now) < (stamp, message.sender):
            self._cells[key] = message
        return Write(message.id, key, value)

    # Receive.

    def check(self, packet: Packet) -> str:
        """Refuse packets that depend on writes never made, or name keys that are kept elsewhere."""
        message = packet.content
        if isinstance(message.control, Nothing):
            return ""
        if isinstance(message.control, Fetch):
            _, key, needs = message.control
            newest = max(
                [need >> self.shift for need in needs if need & self.low == self.me] or [0]
            )
            return self.too_new(newest) or (
                "" if self.place(key) & self._bit else f"asks for {key!r}, which is not kept here"
            )
        try:
            _, key, _ = get_write(message.payload)
        except (PeerError, IndexError) as error:
            return f"brings no write: {error}"
        if message.dests != self.place(key):
            return f"is a write of {key!r} for others than those who keep it"
        if _is_answer(packet) and packet.own == self._asked and key != self.asking:
            return f"answers with {key!r}, but {self.asking!r} was asked for"
        return self.too_new(self._newest_known(message))

    def _newest_known(self, message: Message) -> int:
        """Return the number of this process's last write that a message depends on."""
        return int(message.control[0][self.me] >> self.shift)

    def needs(self, packet: Packet) -> list[int]:
        """RCV(1): the entries that name this process."""
        message = packet.content
        if isinstance(message.control, Fetch):
            return message.control.needs
        if not message.seq:
            return NOBODY
        if _is_answer(packet):
            return [key for key, mask in message.control[1].items() if mask & self._bit]
        return packet.own or NOBODY

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Apply a write, answer a request, or accept an answer."""
        message, source = packet.content, packet.source_no
        if isinstance(message.control, Fetch):
            number, key, _ = message.control
            if key in self._cells:
                self.outbox.append((source, self._cells[key], number))
            else:
                self.say(source, Nothing(number))
            return ()
        if isinstance(message.control, Nothing):
            if message.control.number == self._asked and self.asking:
                self.answer, self.asking = Answer(self.asking, None), ""
            return ()
        if _is_answer(packet):
            if packet.own == self._asked and self.asking:
                self.answer, self.asking = Answer(self.asking, self._learn(message, source)), ""
            return ()
        self.reached[message.sender] = message.seq << self.shift | message.sender
        self._apply(message)
        return self.places[message.sender]

    # Read.

    def read(self, key: str) -> bytes | None:
        """Return a value, and make later writes depend on its write."""
        message = self._cells.get(key)
        return None if message is None else self._learn(message, self.me)

    def _learn(self, message: Message, source: int) -> bytes:
        """Return the value of a write that was read at ``source``, and add the write to the past.

        The write and everything that it depends on are applied at ``source``.
        """
        stamp, _, value = get_write(message.payload)
        self.stamp_max = max(self.stamp_max, stamp)
        self.merge(message, message.seq << self.shift | message.sender, source)
        return value

    def merge(self, message: Message, key: int, source: int) -> None:
        """RCV(3) to RCV(5), when the write is read."""
        if key <= self._tops[message.sender] and source == self.me:
            return  # the control of a known write is merged already; an answer tells more
        tops, log = message.control
        here = ~(self._bit | 1 << source)
        theirs = {entry: rest for entry, mask in log.items() if (rest := mask & here)}
        dests = message.dests & ~(1 << message.sender) & here
        known = logs.entered(tops, theirs, key, dests, self.low)
        self._tops, self._log = logs.merged(self._tops, self._log, *known, self.low)

    def ask(self, source: int, key: str) -> None:
        """Ask for a key; the answer must follow the writes that may be missing at ``source``."""
        self._asked += 1
        self.asking = key
        needs = [entry for entry, mask in self._log.items() if mask >> source & 1]
        self.say(source, Fetch(self._asked, key, needs))

    def kept(self) -> object:
        return logs.spelt(self.view, self._tops, self._log)

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        return logs.explicit(self.view, self._log)


class FullWire(Wire):
    """The wire form: the writes that a write depends on directly."""

    def put(self, message: Message) -> bytes:
        return put_ascending(message.control)

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        return logs.get_keys(data, at, message)

    def spell(self, packet: Packet) -> object:
        return tuple(sorted(map(self.view.id, packet.content.control)))

    def measure(self, packet: Packet) -> ControlSize:
        count = len(packet.content.control)
        return ControlSize(count, 0, PAIR_BYTES * count)


class FullMemory(Memory):
    """Every process keeps every key: Opt-Track-CRP.

    The log has this process's last write and, by writer, the last write that was read since. A
    write goes to all processes, so it replaces the writes that it depends on.
    """

    WIRE: ClassVar[type[Wire]] = FullWire
    RELAYS: ClassVar = False

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        message.control = sorted(self._log)
        self._log = {message.seq << self.shift | self.me: 0}
        return ALIKE

    def _newest_known(self, message: Message) -> int:
        mine = [key >> self.shift for key in message.control if key & self.low == self.me]
        return max(mine, default=0)

    def needs(self, packet: Packet) -> list[int]:
        return [key for key in packet.content.control if key & self.low != self.me]

    def merge(self, message: Message, key: int, source: int) -> None:
        last = {known & self.low: known for known in self._log}
        if key > last.get(message.sender, 0) and message.sender != self.me:
            for cause in (*message.control, key):
                if last.get(cause & self.low, 0) <= cause:
                    last.pop(cause & self.low, None)
            self._log = dict.fromkeys([*last.values(), key], 0)

    def kept(self) -> object:
        return tuple(sorted(map(self.view.id, self._log)))

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        everyone = frozenset(self.view.members)
        ids = sorted(MessageId(*self.view.id(key)) for key in self._log)
        return {write: everyone - {write.sender, self.view.members[self.me]} for write in ids}


# Writes as bytes, and checks.


def put_write(stamp: int, key: str, value: bytes) -> bytes:
    """Return a write as the payload of its message."""
    if not isinstance(value, bytes):
        msg = f"the value of {key!r} is {type(value).__name__}; expected bytes: encode it first"
        raise UsageError(msg)
    name = key.encode()
    return b"".join((varint(stamp), varint(len(name)), name, value))


def get_write(payload: bytes) -> tuple[int, str, bytes]:
    """Return the stamp, the key and the value of a write."""
    stamp, at = read_count(payload, 0, 1)
    size, at = read_count(payload, at)
    key, at = _get_text(payload, at, size)
    return stamp, key, payload[at:]


def _get_text(data: bytes, at: int, size: int) -> tuple[str, int]:
    name = data[at : at + size]
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    if not text or len(name) != size or size > KEY_MAX:
        msg = f"has a key of {size} bytes that is no text, or ends too early"
        raise PeerError(msg)
    return text, at + size


def _rank(message: Message) -> tuple[int, int]:
    """Return the rank that decides between concurrent writes."""
    return get_write(message.payload)[0], message.sender


def _read_out(message: Message) -> Write:
    _, key, value = get_write(message.payload)
    return Write(message.id, key, value)


def _is_answer(packet: Packet) -> bool:
    """Return whether a write answers a request: its receiver does not keep the key."""
    return not packet.content.dests >> packet.dest_no & 1


def _checked(key: object) -> str:
    if not isinstance(key, str) or not 0 < len(key.encode()) <= KEY_MAX:
        msg = f"key {shown(key)} is not a text of 1 to {KEY_MAX} bytes"
        raise UsageError(msg)
    return key


def _placed(where: Mapping[str, Iterable[str]], members: tuple[str, ...]) -> dict[str, list[str]]:
    """Return where keys are kept, in the same form for all processes."""
    placed = {}
    for part, names in where.items():
        keepers = distinct_names(f"where[{part!r}]", names)
        strangers = [name for name in keepers if name not in members]
        if not keepers or strangers:
            msg = (
                f"where[{part!r}] is {shown(keepers)}; expected members, at least one of "
                f"{listed(members)}"
            )
            raise UsageError(msg)
        placed[part] = sorted(keepers)
    return placed
