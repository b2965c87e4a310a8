"""Semantic causal order with logs like those of [KS98]_, as [GK00]_ says is possible.

``semantic`` carries two matrices. [GK00] says, without showing how, that its idea can be applied to
algorithms that carry less. Here each message carries, of the messages that it depends on, those
that someone may still have to wait for, as under ``optimal``. Each send names the last local event
that the message depends on (``send(..., after=)``).

Guarantee
---------
Semantic causal order: if a message depends on another, directly or indirectly, every process that
gets both gets them in that order. If ``after`` is among the last ``window`` events, a message waits
only for messages that it depends on. With the default ``after`` this is causal order.

Cost
----
If everything depends on everything, copies carry as much as under ``optimal``; if most messages
depend on some messages but not on all, they carry *more*, because fewer sends replace earlier ones.

Differences from the paper
--------------------------
Neither paper describes this algorithm. In [KS98] absence shows that a message is *done*, no longer
relevant: its entry is missing although its sender has a newer one. That needs a sender's messages
to form a chain, and here they do not. So a log states what it knows of: for each sender a *prefix*
(all its messages up to a number) and *points* beyond it. Absence means done only for a message
that the log knows of. (In Opt-Track [HKS18]_, the nearest relative, a write depends on what its
process has read; a process's own writes still form a chain.)

- The process keeps the log after each of its recent events. A message that depends on event k
  carries the log after k. What it replaces there for its destinations is dropped, as in SND(2) and
  SND(3), and the result is merged into the latest log.
- Messages of one channel need not be delivered in order, so a process keeps which ones it has
  delivered: an unbroken beginning of the channel, and those beyond it.
- Only the last ``window`` logs are kept. An older ``after`` counts as the oldest log kept: this is
  safe, but may order more than was asked for.
- At most ``points`` points per sender are kept. If a point is forgotten, others keep entries that
  are done; this costs bytes, not order.

With neither limit the log is exactly what the Propagation Constraints of [KS98] require, applied to
semantic dependence (tested), but the state grows with the run. With the default limits the log is
larger in rare cases.

References
----------
.. [GK00] P. Gambhire and A. D. Kshemkalyani. "Reducing false causality in causal message ordering".
   High Performance Computing, HiPC 2000, LNCS 1970:61-72, 2000.
   https://doi.org/10.1007/3-540-44467-X_6
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
.. [HKS18] T. Hsu, A. D. Kshemkalyani and M. Shen. "Causal consistency algorithms for partially
   replicated and fully replicated systems". Future Generation Computer Systems, 2018 (Opt-Track
   first appeared in 2015). https://doi.org/10.1016/j.future.2017.04.044
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable
from typing import Any, ClassVar

from antecede.endpoint import kinds, logs
from antecede.endpoint.arguments import as_number
from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.logs import Entries, Log, Unordered
from antecede.endpoint.messages import PAIR_BYTES, ControlSize, Message, MessageId, Packet
from antecede.endpoint.numbers import BYTE, Sets, get_clocks, put_ascending, put_clocks
from antecede.endpoint.rules import Own, View, Wire
from antecede.endpoint.saved import SAVED_MAX, Saved
from antecede.errors import PeerError

Prefixes = list[int]
"""By sender, the key up to which all its messages are known."""
Known = tuple[Log, Prefixes, list[int]]
"""A log: messages with destinations left, prefixes, and points beyond them, ascending."""
Shared = tuple[Log, Prefixes]
Single = tuple[list[int], list[int]]
"""What one copy carries besides: its needs, and its points."""
Pairs = tuple[tuple[str, int], ...]


class SemanticOptimalWire(Wire):
    """Prefixes and entries; entries that name a copy's destination are its needs; and points."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.sets = Sets(view)

    def put(self, message: Message) -> bytes:
        log, prefixes = message.control
        base, form, column = put_clocks(prefixes, self.view, message.seq)
        keys = sorted(log)
        how, dests = self.sets.put([log[key] for key in keys]) if keys else (0, b"")
        return b"".join((BYTE[form | how << 2], base, column, put_ascending(keys), dests))

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        form = data[at]
        prefixes, at = get_clocks(data, at + 1, form & 3, self.view, message.seq)
        keys, at = logs.get_keys(data, at, message)
        if not keys and form > 3:
            raise PeerError("has entries in another form than it should have")
        masks, at = self.sets.get(data, at, len(keys), form >> 2) if keys else ([], at)
        dests = message.dests & ~(1 << message.sender)
        if any(mask & dests for mask in masks):
            raise PeerError("names its own destinations")
        if prefixes[message.sender] >> self.view.shift >= message.seq:
            raise PeerError("knows of later messages of its sender")
        return (dict(zip(keys, masks, strict=True)), prefixes), at

    def put_own(self, packet: Packet) -> bytes:
        needs, points = packet.own
        return put_ascending(needs) + put_ascending(points)

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Any, int]:
        """Read both; points are beyond the prefixes and have no entries."""
        needs, at = logs.get_keys(data, at, packet.content)
        points, at = logs.get_keys(data, at, packet.content)
        log, prefixes = packet.content.control
        low = self.view.low
        if any(key in log or key in needs or key <= prefixes[key & low] for key in points):
            raise PeerError("has points that need not be told")
        return (needs, points), at

    def spell(self, packet: Packet) -> tuple[Entries, Pairs, Pairs]:
        """Return entries, prefixes and points; see :func:`_spelt`."""
        return _spelt(self.view, self._known(packet))

    def measure(self, packet: Packet) -> ControlSize:
        """Return entries, prefixes and points, and the destinations in the entries."""
        return logs.size(sum(map(len, self.spell(packet))), self._known(packet)[0])

    def _known(self, packet: Packet) -> Known:
        """Return the log that one copy carries, with its needs among the entries."""
        (log, prefixes), (needs, points) = _parts(packet)
        bit = 1 << packet.dest_no
        return log | {key: log.get(key, 0) | bit for key in needs}, prefixes, points


class SemanticOptimal(Unordered):
    """One process's logs after its recent events."""

    INFO: ClassVar = ProtocolInfo(
        idea="declared dependencies, with logs like optimal's",
        paper="Gambhire, Kshemkalyani 2000 (their remark, worked out here)",
        guarantee="semantic causal order: by the dependencies that each send declares",
        cost="one entry per message not yet certain, one id per remaining destination",
        options={
            "window": Option(16, "for how many recent events the log is kept", check=as_number(1)),
            "points": Option(
                2, "how many single messages of each sender a log remembers", check=as_number(0)
            ),
        },
        lost_by_skip="a message with an older basis than the window stands for more causes than it "
        "has; if it is lost, nobody knows that",
        unmarked_by_skip="a log forgets messages that are done",
        bytes_per_entry=PAIR_BYTES,
        orders_by_after=True,
        variants=(Variant("least", lambda _: {"window": 1, "points": 0}),),
    )
    WIRE: ClassVar = SemanticOptimalWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._window: int = view.options["window"]
        self._points: int = view.options["points"]
        self._nothing: Known = {}, list(range(view.n)), []
        self._at: list[int] = []
        """Recent events, and the log after each; logs are never modified."""
        self._logs: list[Known] = []
        self._first = 0
        """The first event with a log; before it nothing had happened."""

    # The logs.

    def _latest(self) -> Known:
        return self._logs[-1] if self._logs else self._nothing

    def _log_after(self, event: int) -> Known:
        """Return the log after an event; after one that is too old, the oldest log kept."""
        if not self._at or event < self._first:
            return self._nothing
        return self._logs[max(0, bisect_right(self._at, event) - 1)]

    def _merge(self, theirs: Log, prefixes: Prefixes, points: list[int], event: int) -> None:
        """Merge a log into the latest: what either side knows of but has no entry for is done."""
        mine, my_prefixes, my_points = self._latest()
        low = self.low
        log: Log = {}
        for key, mask in theirs.items():
            is_done = key not in mine and (key <= my_prefixes[key & low] or key in my_points)
            if rest := 0 if is_done else mask & mine.get(key, mask):
                log[key] = rest
        for key, mask in mine.items():
            if not (key in theirs or key <= prefixes[key & low] or key in points):
                log[key] = mask
        longer = list(map(max, my_prefixes, prefixes))
        beyond = self._joined(longer, (*mine, *theirs, *my_points, *points), log)
        if not self._at:
            self._first = event
        self._at = [*self._at, event][-self._window :]
        self._logs = [*self._logs, (log, longer, beyond)][-self._window :]

    def _joined(self, prefixes: Prefixes, keys: Iterable[int], log: Collection[int]) -> list[int]:
        """Extend prefixes by keys that continue them; return the points beyond, without entries."""
        low, step = self.low, 1 << self.shift
        beyond = sorted({key for key in keys if key > prefixes[key & low]})
        for key in beyond:
            if key == prefixes[key & low] + step:
                prefixes[key & low] = key
        left, kept = [self._points] * self.view.n, []
        for key in reversed(beyond):
            if key > prefixes[key & low] and key not in log and left[key & low]:
                left[key & low] -= 1
                kept.append(key)
        return kept[::-1]

    # Send and receive.

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """SND(2) to SND(5), on the log after the event that the message depends on."""
        log, prefixes, points = self._log_after(after)
        dests, rest = message.dests & ~(1 << self.me), log.copy()
        needs = logs.take(rest, dests)
        longer, known = prefixes.copy(), (*log, *points)
        alike: Single = [], self._joined(longer, known, rest)
        message.control = rest, longer
        theirs = {key: rest.get(key, 0) for key in log}
        theirs[message.seq << self.shift | self.me] = dests
        self._merge(theirs, prefixes, points, event)
        return {
            dest: (sorted(keys), self._joined(longer, known, {*rest, *keys}))
            if (keys := needs.get(dest))
            else alike
            for dest in others
        }

    def check(self, packet: Packet) -> str:
        (log, prefixes), (needs, points) = _parts(packet)
        claims = [key for key in (*log, *needs, *points) if key & self.low == self.me]
        claimed = max(prefixes[self.me], *claims) if claims else prefixes[self.me]
        return self.too_new(claimed >> self.shift)

    def needs(self, packet: Packet) -> list[int]:
        return packet.own[0]

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """RCV(2) to RCV(5)."""
        message, sender, key = packet.content, packet.source_no, self.deliver(packet)
        (log, prefixes), (needs, points) = _parts(packet)
        theirs = dict.fromkeys(needs, 0) | log
        theirs[key] = message.dests & ~(1 << sender | 1 << self.me)
        self._merge(theirs, prefixes, points, self.events)
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Return whether a packet's message depends on another."""
        key, ((log, prefixes), (needs, points)) = seq << self.shift | sender, _parts(packet)
        return key <= prefixes[sender] or key in log or key in points or key in needs

    # What is kept.

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        return logs.explicit(self.view, self._latest()[0])

    def kept_entries(self) -> int:
        """Return the entries, prefixes and points of the latest log, as a packet counts them."""
        return sum(map(len, _spelt(self.view, self._latest())))

    def keep(self, saved: Saved) -> None:
        self._at = saved.numbers("at", self._at, is_open=True)
        is_right = self._at == sorted(set(self._at)) and len(self._at) <= self._window
        saved.require(is_right, "at", self._at, f"at most {self._window} ascending events")
        self._logs = saved.field("logs", self._logs, [kinds.Kind(self._saved, self._loaded)])
        is_right = len(self._logs) == len(self._at)
        saved.require(is_right, "logs", len(self._logs), "one after each event")
        self._first = saved.number("first", self._first, 0, self._at[0] if self._at else 0)
        saved.part("delivered", self.keep_delivered)

    def _saved(self, known: Known) -> object:
        log, prefixes, points = known
        entries = kinds.put(logs.kind_of_log(self.view), log)
        return {"log": entries, "prefixes": [*prefixes], "points": [*points]}

    def _loaded(self, value: object) -> Known:
        view, saved, highest = self.view, Saved("log", value), (SAVED_MAX + 1 << self.shift) - 1
        most = [highest] * view.n
        if not self.is_stale:
            most[self.me] = self.made << self.shift | self.me
        log = logs.keep_log(saved, view, {}, most)
        prefixes = saved.keys("prefixes", most, self.shift)
        points = saved.numbers("points", [], most=highest, is_open=True)
        is_real = all(k & view.low < view.n and k > prefixes[k & view.low] for k in points)
        is_right = is_real and points == sorted(set(points)) and prefixes[self.me] <= most[self.me]
        saved.require(is_right, "points", points, "points beyond prefixes, and no unsent messages")
        saved.read(lambda _: None)
        return log, prefixes, points


def _parts(packet: Packet) -> tuple[Shared, Single]:
    return packet.content.control, packet.own


def _spelt(view: View, known: Known) -> tuple[Entries, Pairs, Pairs]:
    """Return a log with names; omit a prefix that ends with the sender's last entry."""
    log, prefixes, points = known
    last = logs.newest(view, log)
    said = [key for key, newest in zip(prefixes, last, strict=True) if key != newest]
    ids = view.id
    return logs.spelt(view, [], log), tuple(sorted(map(ids, said))), tuple(sorted(map(ids, points)))
