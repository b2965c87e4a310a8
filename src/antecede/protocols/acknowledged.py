"""Control information and acknowledgements combined: [KS98]_ until a message is acknowledged.

[MF95]_ asks how a protocol with control information and one with acknowledged buffers could be
combined. Here nothing waits at the sender, as under ``optimal``, and every delivery is
acknowledged, as under ``buffered``. Control information is carried only about messages that are
not known to be delivered at all their destinations.

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing. A process keeps no
information about its own messages beyond the copies that are not acknowledged yet. What it keeps
about the messages of others is what [KS98] requires, and some of what was delivered in the
meantime.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.

Cost
----
One entry per message that is not known to be delivered everywhere, one id per destination, and one
clock; an acknowledgement per copy; with ``releases``, at most one more packet per copy. The shorter
a round trip is against the gap between sends, the less is carried: the acknowledgements do what a
later message would do under ``optimal``. Under load, broadcasts gain little.

Names
-----
==================  ========================================================================
paper               here
==================  ========================================================================
``LOG_j``           ``Acknowledged._tops`` and ``._log``: see :mod:`antecede.endpoint.logs`
``SR_j``            ``Rules.reached``
``O_M``             ``Message.control`` (tops, log, own ``w``), ``Packet.own``: the needs of one copy
``w``               ``Acknowledged._stable``: per sender, all up to it is delivered everywhere
acknowledgement     a control packet (number delivered, own ``w``, corrections)
release             a control packet (own ``w``)
==================  ========================================================================

Differences from the paper
--------------------------
Neither paper describes this algorithm. Send, delivery and merging are those of [KS98] (SND and
RCV), with these additions:

- A delivery is acknowledged to the sender by the number of the message. Channels are in causal
  order, so this covers all earlier messages to that process. The sender drops the process from the
  entries of its own messages up to there. Acknowledging an arrival instead would lose order.
- ``w`` is the largest number such that all the sender's messages up to it are acknowledged by all
  destinations. Every packet carries the source's own ``w``. Whoever hears of it drops all entries
  of that sender up to ``w``, its newest one too. When ``w`` rises, a *release* tells it to those
  destinations of the messages up to ``w`` that have not heard so.
- Because the newest entry may be dropped too, absence does not always tell the receiver of a log
  that an older message is done. Such entries do no harm, since their messages are delivered. The
  next acknowledgement to whoever still carries them contains a *correction*: the sender's ``w``.

Acknowledgements carry facts about deliveries only, never what a later message promises; so they
may travel outside causal order, unlike the logs themselves.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938:197-213, 1995.
   https://doi.org/10.1007/3-540-60042-6_14
"""

from __future__ import annotations

from typing import ClassVar, cast

from antecede.endpoint.arguments import as_flag
from antecede.endpoint.fields import SAVED_MAX, Fields
from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.logs import (
    Log,
    LogWire,
    Tops,
    count,
    explicit,
    load_log,
    merged,
    saved,
    spelt,
    take,
    with_needs,
)
from antecede.endpoint.messages import (
    CLOCK_BYTES,
    ID_BYTES,
    PAIR_BYTES,
    ControlSize,
    Message,
    MessageId,
    Packet,
    new_message,
)
from antecede.endpoint.numbers import read_count, read_varint, varint
from antecede.endpoint.registry import register
from antecede.endpoint.rules import NOBODY, Own, Rules, State, knows_too_much
from antecede.endpoint.view import View
from antecede.errors import PeerError

Data = tuple[Tops, Log, int]
"""What the copies of a message share: tops, log, and its sender's own w."""
Pairs = list[tuple[int, int]]
Answer = tuple[int, int, Pairs]
"""The number delivered (0 in a mere release), the source's own w, and corrections by sender."""


class AcknowledgedWire(LogWire):
    """w and O_M, or an answer."""

    def put(self, message: Message) -> bytes:
        """Return the source's own w and its log; or what it answers."""
        if message.seq:
            tops, log, mark = cast("Data", message.control)
            plain = new_message(self.view, message.sender, message.seq, 0, b"", (tops, log))
            return varint(message.seq - 1 - mark) + super().put(plain)
        seq, mark, corrections = cast("Answer", message.control)
        out = [varint(seq), varint(mark)]
        if seq:
            out.append(varint(len(corrections)))
            out += [varint(part) for pair in corrections for part in pair]
        return b"".join(out)

    def get(self, data: bytes, at: int, message: Message) -> tuple[object, int]:
        """Read either."""
        if message.seq:
            gap, at = read_count(data, at)
            if gap >= message.seq:
                msg = "has a number below 0"
                raise PeerError(msg)
            (tops, log), at = cast("tuple[tuple[Tops, Log], int]", super().get(data, at, message))
            return (tops, log, message.seq - 1 - gap), at
        seq, at = read_count(data, at)
        mark, at = read_count(data, at)
        length, at = read_varint(data, at) if seq else (0, at)
        corrections: Pairs = []
        last = -1
        for _ in range(length):
            sender, at = read_varint(data, at)
            level, at = read_count(data, at, 1)
            if not last < sender < self.view.n or sender == message.sender:
                msg = "corrects its own sender, strangers, or in another order than it should"
                raise PeerError(msg)
            corrections.append((sender, level))
            last = sender
        return (seq, mark, corrections), at

    def put_own(self, packet: Packet) -> bytes:
        """Return the needs of a copy."""
        return super().put_own(packet) if packet.content.seq else b""

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[object, int]:
        """Read the needs of a copy."""
        return super().get_own(data, at, packet) if packet.content.seq else (None, at)

    def spell(self, packet: Packet) -> object:
        """Return (w, sorted entries), (number delivered, w, corrections), or (w,)."""
        if packet.content.seq:
            tops, log, mark = cast("Data", packet.content.control)
            return mark, spelt(self.view, tops, with_needs(packet, log))
        seq, mark, corrections = cast("Answer", packet.content.control)
        names = [(self.view.members[sender], level) for sender, level in corrections]
        return (seq, mark, tuple(sorted(names))) if seq else (mark,)

    def measure(self, packet: Packet) -> ControlSize:
        """Return the entries of the log or of the corrections, and all the clocks around them."""
        if packet.content.seq:
            tops, log, _ = cast("Data", packet.content.control)
            log = with_needs(packet, log)
            entries, dests = count(self.view, tops, log), sum(map(int.bit_count, log.values()))
            size = PAIR_BYTES * entries + ID_BYTES * dests + CLOCK_BYTES
            return ControlSize(entries, dests, size)
        seq, _, corrections = cast("Answer", packet.content.control)
        pairs = len(corrections)
        return ControlSize(pairs, 0, CLOCK_BYTES * (2 if seq else 1) + PAIR_BYTES * pairs)


class Acknowledged(Rules):
    """One process's log, and what it knows to be delivered everywhere."""

    INFO: ClassVar = ProtocolInfo(
        name="acknowledged",
        idea="control only about what is not acknowledged yet",
        paper="Kshemkalyani, Singhal 1998, with acknowledgements (asked by Mattern, Fünfrocken)",
        cost="one entry per message not known to be delivered everywhere; 1 or 2 packets per copy",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        options={
            "releases": Option(
                default=True,
                doc="tell destinations by packets of their own what is delivered everywhere",
            )
        },
        unmarked_by_skip="what is delivered everywhere is not told any more",
        bytes_per_entry=None,
        variants=(Variant("quiet", lambda _: {"releases": False}),),
    )
    WIRE: ClassVar = AcknowledgedWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        n = view.n
        self._releases = bool(view.options["releases"])
        self._tops: Tops = list(range(n))
        """Each sender's newest message, if it is not known to be delivered everywhere."""
        self._log: Log = {}
        self._stable = list(range(n))
        """w, as keys."""
        self._open: list[list[int]] = [[] for _ in range(n)]
        """By destination: own messages not acknowledged, the last one sent there, and those that
        it does not know to be delivered everywhere."""
        self._last = [0] * n
        self._owed: list[list[int]] = [[] for _ in range(n)]

    @classmethod
    def check_options(cls, options: dict[str, object], members: tuple[str, ...]) -> None:
        """Refuse what is not a flag."""
        as_flag("releases", options["releases"])

    # Send.

    def stamp(
        self, message: Message, others: tuple[int, ...], event: int, after: int
    ) -> Own | None:
        """SND(2) to SND(5), with this message among those that are not acknowledged."""
        seq, dests = message.seq, message.dests & ~(1 << self.me)
        for dest in others:
            self._open[dest].append(seq)
            self._last[dest] = seq
        self._raise_mark()
        for dest in others:
            self._tell(dest)
            if self._releases:
                self._owed[dest].append(seq)
        needs = take(self._log, dests)
        message.control = self._tops, self._log, self._mark()
        key = seq << self.view.shift | self.me
        self._tops = self._tops.copy()
        self._tops[self.me] = key
        self._log = {**self._log, key: dests}
        return needs

    # Receive.

    def check(self, packet: Packet) -> str:
        """Refuse to hear of messages that this process has not sent."""
        message = packet.content
        if message.seq:
            made, claimed = self.made, cast("Data", message.control)[0][self.me] >> self.view.shift
        else:
            claimed, _, corrections = cast("Answer", message.control)
            made = self._last[packet.source_no]
            if any(sender == self.me for sender, _ in corrections):
                return "corrects what its receiver knows best"
        return knows_too_much(made) if claimed > made and not self.is_stale else ""

    def needs(self, packet: Packet) -> list[int]:
        """RCV(1): the messages named for this process."""
        return cast("list[int] | None", packet.own) or NOBODY

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """RCV(2) to RCV(5), and the acknowledgement; or take one."""
        message, source = packet.content, packet.source_no
        if not message.seq:
            self._take_answer(source, *cast("Answer", message.control))
            return ()
        tops, log, mark = cast("Data", message.control)
        corrections = self._corrections(packet, tops, log)
        self._learn(source, mark)
        self.reached[source] = key = message.seq << self.view.shift | source
        tops = tops.copy()
        tops[source] = key
        if rest := message.dests & ~(1 << source | 1 << self.me):
            log = {**log, key: rest}
        self._tops, log = merged(self._tops, self._log, tops, log, self.low)
        self._log = self._without_acknowledged(log)
        self._purge()
        self._answer(source, (message.seq, self._mark(), corrections))
        return self.places[source]

    def _corrections(self, packet: Packet, tops: Tops, log: Log) -> Pairs:
        """Return the w of senders of whom a packet carries what is delivered everywhere."""
        stable, low, shift = self._stable, self.low, self.view.shift
        old = {key & low for key in log if key <= stable[key & low]}
        old.update([key & low for key in self.needs(packet) if key <= stable[key & low]])
        old.update([key & low for key in tops if low < key <= stable[key & low]])
        old -= {packet.source_no, self.me}
        return [(sender, stable[sender] >> shift) for sender in sorted(old)]

    def _take_answer(self, source: int, seq: int, mark: int, corrections: Pairs) -> None:
        for sender, level in ((source, mark), *corrections):
            self._learn(sender, level)
        if seq:
            self._drop_acknowledged(source, seq)

    def _drop_acknowledged(self, dest: int, seq: int) -> None:
        """Drop a destination from the entries of the own messages that it has delivered."""
        self._open[dest] = [number for number in self._open[dest] if number > seq]
        self._log = self._without_acknowledged(self._log)
        self._raise_mark()

    def _without_acknowledged(self, log: Log) -> Log:
        """Return a log whose own entries name nobody who has acknowledged them."""
        me, low, shift = self.me, self.low, self.view.shift
        own = [key for key in log if key & low == me]
        if own:
            log = log.copy()
            firsts = [numbers[0] if numbers else SAVED_MAX for numbers in self._open]
            for key in own:
                seq, mask = key >> shift, log[key]
                for dest in self.view.list(mask):
                    if seq < firsts[dest]:
                        mask &= ~(1 << dest)
                if mask:
                    log[key] = mask
                else:
                    del log[key]
        return log

    # What is delivered everywhere.

    def _mark(self) -> int:
        """Return the number up to which all own messages are delivered everywhere."""
        return self._stable[self.me] >> self.view.shift

    def _raise_mark(self) -> None:
        """Find out up to which number all own messages are acknowledged; tell those concerned."""
        mark = min([numbers[0] for numbers in self._open if numbers], default=self.made + 1) - 1
        if mark > self._mark():
            self._learn(self.me, mark)
            for dest, owed in enumerate(self._owed):
                if owed and owed[0] <= mark:
                    self._answer(dest, (0, mark, []))

    def _answer(self, dest: int, answer: Answer) -> None:
        """Send an acknowledgement or a release."""
        self.outbox.append((dest, Message(self.view, self.me, 0, 0, b"", answer), None))
        self._tell(dest)

    def _tell(self, dest: int) -> None:
        """Note that a packet tells a destination what is delivered everywhere."""
        owed, mark = self._owed[dest], self._mark()
        if owed and owed[0] <= mark:
            self._owed[dest] = [number for number in owed if number > mark]

    def _learn(self, sender: int, mark: int) -> None:
        """Drop what concerns the messages of a sender that are delivered everywhere."""
        key = mark << self.view.shift | sender
        if key > self._stable[sender]:
            self._stable[sender] = key
            if self._tops[sender] > self.low:
                self._purge()

    def _purge(self) -> None:
        """Drop what is delivered everywhere, also a sender's newest."""
        stable, low = self._stable, self.low
        self._tops = [
            top if top > done else i
            for i, (top, done) in enumerate(zip(self._tops, stable, strict=True))
        ]
        self._log = {key: mask for key, mask in self._log.items() if key > stable[key & low]}

    def gone(self, source: int) -> None:
        """Take everything as acknowledged by one that is gone."""
        self._owed[source] = []
        self._drop_acknowledged(source, SAVED_MAX)

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Tell whether the sender of a packet knew of a message."""
        return cast("Data", packet.content.control)[0][sender] >> self.view.shift >= seq

    # What is kept.

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the entries that still name a destination."""
        return explicit(self.view, self._log)

    def kept_entries(self) -> int:
        """Return the entries of the log."""
        return count(self.view, self._tops, self._log)

    def state(self) -> State:
        """Return everything by its name."""
        return {
            "tops": list(self._tops),
            "log": saved(self._log),
            "stable": list(self._stable),
            "open": [list(numbers) for numbers in self._open],
            "last": list(self._last),
            "owed": [list(numbers) for numbers in self._owed],
        }

    def load(self, state: Fields) -> None:
        """Take over a state."""
        view = self.view
        self._tops = state.keys("tops", view.n, view.shift)
        self._log = load_log(state, "log", view, self._tops)
        self._stable = state.keys("stable", view.n, view.shift)
        if max(self._tops[self.me], self._stable[self.me]) >> view.shift > self.made:
            raise state.wrong("tops", self._tops, f"at most {self.made} messages of its own")
        self._last = state.numbers("last", view.n, most=self.made)
        for name, kept in (("open", self._open), ("owed", self._owed)):
            for dest, row in enumerate(state.rows(name, view.n)):
                least = self._mark() + 1
                if sorted(set(row)) != row or (row and not least <= row[0] <= row[-1] <= self.made):
                    raise state.wrong(name, row, f"ascending numbers from {least}")
                kept[dest] = row


register(Acknowledged)
