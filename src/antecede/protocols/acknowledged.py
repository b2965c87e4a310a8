"""Control information and acknowledgements combined: [KS98]_ until a message is acknowledged.

[MF95]_ asks how control information and acknowledged buffers could be combined. Here nothing waits
at the sender, as under ``optimal``, and every delivery is acknowledged, as under ``buffered``.
Control is carried only about messages that are not known to be delivered everywhere.

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing. Of its own messages a
process keeps only the copies that are not acknowledged yet; of the messages of others, what [KS98]
requires, and some of what was delivered meanwhile.

Cost
----
The shorter a round trip is against the gap between sends, the less is carried: acknowledgements do
what a later message would do under ``optimal``. Under load, broadcasts gain little.

Differences from the paper
--------------------------
Neither paper describes this algorithm. Send, delivery and merging are those of [KS98], and:

- A delivery is acknowledged by the number of the message, which covers all earlier ones to that
  process, since channels are in causal order. The sender then drops the process from the entries of
  its own messages up to there. Acknowledging an arrival instead would lose order.
- ``w`` is the largest number such that all the sender's messages up to it are acknowledged by all
  destinations. Every packet carries its source's own ``w``; whoever gets it drops all entries of
  that sender up to ``w``, even the newest one. When ``w`` rises, a *release* tells the new ``w``
  to those destinations of the messages up to ``w`` that do not know it yet.
- As even the newest entry may be dropped, absence does not always show that an older message is
  no longer relevant. Such entries do no harm, as their messages are delivered. The next
  acknowledgement to a process that still carries them has a *correction*: the sender's ``w``.

Acknowledgements tell only of deliveries, never what a later message promises; so, unlike logs, they
may travel outside causal order.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938:197-213, 1995.
   https://doi.org/10.1007/3-540-60042-6_14
"""

from typing import Any, ClassVar

from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.logs import Log, Logged, LogWire, Tops
from antecede.endpoint.messages import CLOCK_BYTES, PAIR_BYTES, ControlSize, Message, Packet
from antecede.endpoint.numbers import read_count, read_varint, varint
from antecede.endpoint.rules import Own, View, knows_too_much
from antecede.endpoint.saved import SAVED_MAX, Saved
from antecede.errors import PeerError

Data = tuple[Tops, Log, int]
"""What the copies of a message share: tops, log, and its sender's own w."""
Pairs = list[tuple[int, int]]
Answer = tuple[int, int, Pairs]
"""The number delivered (0 in a mere release), the source's own w, and corrections by sender."""


class AcknowledgedWire(LogWire):
    """w and O_M, or an answer."""

    def put(self, message: Message) -> bytes:
        if message.seq:
            mark = message.control[2]
            return varint(message.seq - 1 - mark) + super().put(message)
        seq, mark, corrections = message.control
        numbers = [seq, mark]
        if seq:
            numbers += [len(corrections), *[part for pair in corrections for part in pair]]
        return b"".join(map(varint, numbers))

    def get(self, data: bytes, at: int, message: Message) -> tuple[Data | Answer, int]:
        seq, at = read_count(data, at)
        if message.seq:
            if seq >= message.seq:
                raise PeerError("has a number below 0")
            (tops, log), at = super().get(data, at, message)
            return (tops, log, message.seq - 1 - seq), at
        mark, at = read_count(data, at)
        length, at = read_varint(data, at) if seq else (0, at)
        corrections: Pairs = []
        last = -1
        for _ in range(length):
            sender, at = read_varint(data, at)
            level, at = read_count(data, at, 1)
            if not last < sender < self.view.n or sender == message.sender:
                raise PeerError("corrects its own sender, strangers, or in another order")
            corrections.append((sender, level))
            last = sender
        return (seq, mark, corrections), at

    def put_own(self, packet: Packet) -> bytes:
        return super().put_own(packet) if packet.content.seq else b""

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Any, int]:
        return super().get_own(data, at, packet) if packet.content.seq else (None, at)

    def spell(self, packet: Packet) -> object:
        """Return (w, sorted entries), (number delivered, w, corrections), or (w,)."""
        if packet.content.seq:
            return packet.content.control[2], super().spell(packet)
        seq, mark, corrections = packet.content.control
        names = [(self.view.members[sender], level) for sender, level in corrections]
        return (seq, mark, tuple(sorted(names))) if seq else (mark,)

    def measure(self, packet: Packet) -> ControlSize:
        """Return the entries of the log or of the corrections, and all the clocks around them."""
        if packet.content.seq:
            entries, dests, size = super().measure(packet)
            return ControlSize(entries, dests, size + CLOCK_BYTES)
        seq, _, corrections = packet.content.control
        pairs = len(corrections)
        return ControlSize(pairs, 0, CLOCK_BYTES * (2 if seq else 1) + PAIR_BYTES * pairs)


class Acknowledged(Logged):
    """One process's log, and what it knows to be delivered everywhere."""

    INFO: ClassVar = ProtocolInfo(
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
        super().__init__(view, me)  # ``_tops`` lacks those known to be delivered everywhere
        n = view.n
        self._releases = bool(view.options["releases"])
        self._stable = list(range(n))
        """w, as keys."""
        self._open: list[list[int]] = [[] for _ in range(n)]
        """By destination: own messages that it has not acknowledged, the last one sent there, and
        those that it does not know to be delivered everywhere."""
        self._last = [0] * n
        self._owed: list[list[int]] = [[] for _ in range(n)]

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """SND(2) to SND(5), with this message among those that are not acknowledged."""
        for dest in others:
            self._open[dest].append(message.seq)
            self._last[dest] = message.seq
        self._raise_mark()
        for dest in others:
            self._tell(dest)
            if self._releases:
                self._owed[dest].append(message.seq)
        needs = super().stamp(message, others, event, after)
        message.control = *message.control, self._mark()
        return needs

    def check(self, packet: Packet) -> str:
        if packet.content.seq:
            return super().check(packet)
        seq, _, corrections = packet.content.control
        if any(sender == self.me for sender, _ in corrections):
            return "corrects what its receiver knows best"
        last = self._last[packet.source_no]
        return knows_too_much(last) if seq > last and not self.is_stale else ""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Do RCV(2) to RCV(5) and acknowledge the message; or process an acknowledgement."""
        message, source = packet.content, packet.source_no
        if not message.seq:
            seq, mark, corrections = message.control
            for sender, level in ((source, mark), *corrections):
                self._learn(sender, level)
            if seq:
                self._drop_acknowledged(source, seq)
            return ()
        tops, log, mark = message.control
        corrections = self._corrections(packet, tops, log)
        self._learn(source, mark)
        self.reached[source] = key = self.key(packet)
        self.merge(message, key, tops, log)
        self._purge()
        self._answer(source, (message.seq, self._mark(), corrections))
        return self.places[source]

    def _corrections(self, packet: Packet, tops: Tops, log: Log) -> Pairs:
        """Return w of each sender from whom a packet carries entries delivered everywhere."""
        stable, low = self._stable, self.low
        carried = (*log, *self.needs(packet), *tops)
        old = {key & low for key in carried if low < key <= stable[key & low]}
        return [(k, stable[k] >> self.shift) for k in sorted(old - {packet.source_no, self.me})]

    def _drop_acknowledged(self, dest: int, seq: int) -> None:
        """Note that a destination has delivered our messages up to this number."""
        self._open[dest] = [number for number in self._open[dest] if number > seq]
        self._purge()
        self._raise_mark()

    # What is delivered everywhere.

    def _mark(self) -> int:
        """Return the number up to which all own messages are delivered everywhere."""
        return self._stable[self.me] >> self.shift

    def _raise_mark(self) -> None:
        """Raise w if more of our messages are acknowledged by all, and tell those concerned."""
        mark = min([numbers[0] for numbers in self._open if numbers], default=self.made + 1) - 1
        if mark > self._mark():
            self._learn(self.me, mark)
            for dest, owed in enumerate(self._owed):
                if owed and owed[0] <= mark:
                    self._answer(dest, (0, mark, []))

    def _answer(self, dest: int, answer: Answer) -> None:
        """Send an acknowledgement or a release."""
        self.say(dest, answer)
        self._tell(dest)

    def _tell(self, dest: int) -> None:
        """Note that a packet tells a destination what is delivered everywhere."""
        owed, mark = self._owed[dest], self._mark()
        if owed and owed[0] <= mark:
            self._owed[dest] = [number for number in owed if number > mark]

    def _learn(self, sender: int, mark: int) -> None:
        """Note that a sender's messages up to a number are delivered everywhere, and drop them."""
        key = mark << self.shift | sender
        if key > self._stable[sender]:
            self._stable[sender] = key
            if self._tops[sender] > self.low:
                self._purge()

    def _purge(self) -> None:
        """Drop entries delivered everywhere, even a sender's newest, and acknowledged dests."""
        stable, low, me = self._stable, self.low, self.me
        both = zip(self._tops, stable, strict=True)
        self._tops = [top if top > done else i for i, (top, done) in enumerate(both)]
        log: Log = {}
        for key, mask in self._log.items():
            if key > stable[key & low]:
                rest = mask & self._waiting(key >> self.shift) if key & low == me else mask
                if rest:
                    log[key] = rest
        self._log = log

    def _waiting(self, seq: int) -> int:
        """Return, as a mask, who has not acknowledged all our messages up to this one."""
        open_to = [dest for dest, numbers in enumerate(self._open) if numbers and numbers[0] <= seq]
        return sum([1 << dest for dest in open_to])

    def gone(self, source: int) -> None:
        """Count everything sent to a process that is gone as acknowledged."""
        self._owed[source] = []
        self._drop_acknowledged(source, SAVED_MAX)

    def keep(self, saved: Saved) -> None:
        super().keep(saved)
        self._stable = saved.keys("stable", self._stable, self.shift)
        self.require_own(saved, "stable", self._mark())
        most, leasts = self.made, [self._mark() + 1] * self.view.n
        self._open = saved.rows("open", self._open, most=most, leasts=leasts)
        self._last = saved.numbers("last", self._last, most=most)
        self._owed = saved.rows("owed", self._owed, most=most, leasts=leasts)
