"""Semantic causal order with logs as small as those of [KS98]_: an answer to [GK00]_.

``semantic`` carries two matrices. [GK00] asks whether its idea can be put on an algorithm that
carries less. Here each message carries, of the messages that it depends on, those that someone may
still have to wait for, as under ``optimal``. Each send names the last local event that the message
depends on (``send(..., after=)``).

Guarantee
---------
Semantic causal order: if a message depends on another, directly or indirectly, every process that
gets both gets them in that order. If the event named by ``after`` is among the last ``window``
ones, a message waits only for messages that it depends on. With the default ``after`` this is
causal order.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.

Cost
----
One entry per message that someone may still have to wait for, one id per remaining destination, and
a pair of integers for each sender of whom something is known. If everything depends on everything,
copies carry as much as under ``optimal``. If most messages depend on something but not on all, they
carry *more* than that, because fewer sends replace what was sent before. A process keeps ``window``
logs.

Names
-----
======================  ====================================================================
paper                   here
======================  ====================================================================
``LOG_j``               ``SemanticOptimal._live`` and ``_known``, one per recent local event
``SR_j``                ``SemanticOptimal._reached`` and ``SemanticOptimal._ahead``
``O_M``                 ``Packet.control``: entries, prefixes, points
``MC`` of definition 5  the log of the event named by ``after``
======================  ====================================================================

Differences from the paper
--------------------------
Neither paper describes this algorithm. [KS98] tells that a message is done by its absence: an entry
is missing although its sender has a newer one. That needs a sender's messages to form a chain, and
here they do not. So a log states what it knows of: for each sender a *prefix* (all its messages up
to a number) and *points* beyond it. Absence means done only for a message that the log knows of.
Messages with an entry are known, and so is what joins on to the prefix.

- The process keeps the log after each of its recent events. A message that depends on event k
  carries the log after k. What it replaces in that log for its destinations is dropped there, as in
  SND(2) and SND(3), and the result is merged into the latest log.
- Messages of one channel need not be delivered in order. So a process keeps which ones it has
  delivered: an unbroken beginning of the channel, and those beyond it.
- Only the last ``window`` logs are kept. An older ``after`` counts as the oldest log kept: this is
  safe, but may order more than was asked for.
- At most ``points`` points per sender are kept. A point that is forgotten makes others keep what is
  done; this costs bytes, not order.

Not reached: the least information. With a window and points without limit the log is exactly what
the Propagation Constraints of [KS98] require, applied to semantic dependence (tested); but then the
state grows with the run. With the default limits it is more in rare cases.

References
----------
.. [GK00] P. Gambhire and A. D. Kshemkalyani. "Reducing false causality in causal message ordering".
   High Performance Computing, HiPC 2000, LNCS 1970:61-72, 2000.
   https://doi.org/10.1007/3-540-44467-X_6
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.entries import (
    Entries,
    Log,
    as_entries,
    as_log,
    explicit,
    is_entries,
    is_keys,
    size_of,
)
from antecede.core.info import Option, ProtocolInfo, Variant
from antecede.core.kinds import LOG, NAME
from antecede.core.messages import (
    PAIR_BYTES,
    ControlSize,
    MessageId,
    Need,
    Packet,
    Sending,
)
from antecede.core.reached import Ahead, Reached, count_delivery, is_delivered
from antecede.core.registry import register
from antecede.core.validation import check_entry, check_number, is_count, malformed
from antecede.errors import UsageError

Pairs = tuple[tuple[str, int], ...]
Control = tuple[Entries, Pairs, Pairs]
Known = dict[str, list[int]]
"""What a log knows of each sender: first the prefix, then the points beyond it, ascending."""


@register
class SemanticOptimal(Endpoint):
    """One process's logs after its recent events."""

    INFO: ClassVar = ProtocolInfo(
        name="semantic_optimal",
        idea="declared dependencies, with logs as small as optimal's",
        paper="Gambhire, Kshemkalyani 2000 (their question; our algorithm)",
        guarantee="semantic causal order: by the dependencies that each send declares",
        cost="one entry per message not yet certain, one id per remaining destination",
        promises=frozenset({"safety", "liveness", "quiescence"}),
        options={
            "window": Option(default=16, doc="for how many recent events the log is kept"),
            "points": Option(
                default=2, doc="how many single messages of each sender a log remembers"
            ),
        },
        fixed_because="messages of a process that left would never be known to be done",
        wire_number=22,
        names_only=True,
        bytes_per_entry=PAIR_BYTES,
        orders_by_after=True,
        variants=(Variant("least", lambda _: {"window": 1, "points": 0}),),
    )
    STATE: ClassVar = {
        "_at": [int],
        "_live": [LOG],
        "_known": [{NAME: [int]}],
        "_first": int,
        "_reached": {NAME: [int, int]},
        "_ahead": {NAME: {int: int}},
    }

    def _start(self) -> None:
        self._window = _as_limit("window", self.options["window"], 1)
        self._points = _as_limit("points", self.options["points"], 0)
        # Recent events in order, and the two parts of the log after each. Logs never change.
        self._at: list[int] = []
        self._live: list[Log] = []
        self._known: list[Known] = []
        self._first = 0  # the first event with a log; before it nothing had happened
        self._reached: Reached = {}
        self._ahead: Ahead = {}

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the entries of the latest log."""
        return explicit(self._latest()[0])

    def kept_entries(self) -> int:
        """Return the entries, prefixes and points of the latest log, as a packet counts them."""
        return sum(map(len, _as_control(*self._latest())))

    # The logs.

    def _latest(self) -> tuple[Log, Known]:
        return (self._live[-1], self._known[-1]) if self._at else ({}, {})

    def _log_after(self, event: int) -> tuple[Log, Known]:
        """Return the log after an event; for one that is too old, the oldest log kept."""
        if not self._at or event < self._first:
            return {}, {}
        place = max(0, bisect_right(self._at, event) - 1)
        return self._live[place], self._known[place]

    def _merge(
        self, carried: Log, they_know: Known, message: MessageId, rest: frozenset[str]
    ) -> None:
        """Merge a log, and a message after it, into the latest one: the log after this event."""
        sender, seq = message
        theirs = {**carried, sender: {**carried.get(sender, {}), seq: rest}}
        mine, i_know = self._latest()
        live: Log = {}
        known: Known = {}
        for name in mine.keys() | theirs.keys() | i_know.keys() | they_know.keys():
            a, b = mine.get(name, {}), theirs.get(name, {})
            p, q = i_know.get(name, [0]), they_know.get(name, [0])
            merged = {
                clock: a.get(clock, dests) & dests
                for clock, dests in b.items()
                if clock in a or not _knows(p, clock)
            } | {
                clock: dests
                for clock, dests in a.items()
                if clock not in b and not _knows(q, clock)
            }
            entries = _filled(merged)
            if entries:
                live[name] = entries
            known[name] = self._united(p, [*q, *(a.keys() | b.keys())], entries)
        if not self._at:
            self._first = self._events
        self._at = [*self._at, self._events][-self._window :]
        self._live = [*self._live, live][-self._window :]
        self._known = [*self._known, known][-self._window :]

    def _narrowed(self, live: Log, known: Known, dests: frozenset[str]) -> tuple[Log, Known]:
        """Return a log in which no entry names any of ``dests``; what is done stays known."""
        left = {sender: _filled(entries) for sender, entries in _without(live, dests).items()}
        return {sender: entries for sender, entries in left.items() if entries}, {
            sender: self._united(parts, [0, *live.get(sender, ())], left.get(sender, ()))
            for sender, parts in known.items()
        }

    def _united(self, a: list[int], b: list[int], live: Iterable[int]) -> list[int]:
        """Unite what is known of one sender; messages with an entry (``live``) are known."""
        prefix, points, entered = max(a[0], b[0]), {*a[1:], *b[1:]}, set(live)
        while prefix + 1 in points or prefix + 1 in entered:
            prefix += 1
        beyond = sorted(point for point in points - entered if point > prefix)
        return [prefix, *beyond[max(0, len(beyond) - self._points) :]]

    # Send and receive.

    def _stamp(self, sending: Sending) -> dict[str, object]:
        """SND(2) to SND(5), on the log after the event that the message depends on."""
        live, known = self._log_after(sending.basis)
        others = frozenset(sending.others)
        controls: dict[str, object] = {
            dest: _as_control(*self._narrowed(live, known, others - {dest}))
            for dest in sending.others
        }
        self._merge(_without(live, others), known, sending.message, others)
        return controls

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        for sender, clock, dests in cast("Control", packet.control)[0]:
            if self.process not in dests:
                continue
            if not is_delivered(self._reached, self._ahead, sender, clock):
                yield Need(sender, clock)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        """RCV(3) to RCV(5). Every packet is a message, so its number is its place."""
        source, message = packet.source, packet.message_id
        count_delivery(self._reached, self._ahead, source, packet.n, message.seq)
        live, known = _as_log(cast("Control", packet.control))
        rest = frozenset(packet.dests) - {source, self.process}
        self._merge(_without(live, frozenset((self.process,))), known, message, rest)
        return (Need(source, message.seq),)

    # What peers may send.

    def _check(self, packet: Packet) -> None:
        control = packet.control
        if packet.kind != "data" or type(control) is not tuple or len(control) != 3:
            raise malformed(packet, "entries, prefixes and points")
        entries, prefixes, points = control
        if not is_entries(entries) or not all(dests for _, _, dests in entries):
            raise malformed(packet, "sorted entries (sender, clock, destinations)")
        if not _are_prefixes(prefixes) or not is_keys(points):
            raise malformed(packet, "sorted prefixes and points (sender, number)")
        for entry in entries:
            check_entry(self, packet, *entry)
        for sender, number in (*prefixes, *points):
            check_number(self, packet, sender, number)

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return entries, prefixes and points, and the destinations in the entries."""
        entries, prefixes, points = cast("Control", packet.control)
        return size_of(entries, len(prefixes) + len(points))


def _without(live: Log, dests: frozenset[str]) -> Log:
    """Return entries that name none of ``dests``; those that are empty then are done."""
    return {
        sender: {clock: names - dests for clock, names in entries.items()}
        for sender, entries in live.items()
    }


def _filled(entries: dict[int, frozenset[str]]) -> dict[int, frozenset[str]]:
    return {clock: dests for clock, dests in entries.items() if dests}


def _knows(known: list[int], seq: int) -> bool:
    return seq <= known[0] or seq in known[1:]


def _as_control(live: Log, known: Known) -> Control:
    """Return a log as it travels; a prefix that ends with the sender's last entry goes unsaid."""
    prefixes = tuple(
        (sender, parts[0])
        for sender, parts in sorted(known.items())
        if parts[0] != max(live.get(sender, ()), default=0)
    )
    points = tuple((sender, seq) for sender, parts in sorted(known.items()) for seq in parts[1:])
    return as_entries(live), prefixes, points


def _as_log(control: Control) -> tuple[Log, Known]:
    entries, prefixes, points = control
    live = as_log(entries)
    known: Known = {sender: [max(clocks)] for sender, clocks in live.items()}
    for sender, prefix in prefixes:
        known[sender] = [prefix]
    for sender, seq in points:
        known.setdefault(sender, [0]).append(seq)
    return live, known


def _are_prefixes(value: object) -> bool:
    """Tell whether these are pairs (sender, number from 0), sorted, each sender once."""
    if type(value) is not tuple or not all(type(p) is tuple and len(p) == 2 for p in value):
        return False
    senders = [sender for sender, _ in value]
    if not all(type(sender) is str for sender in senders) or not all(is_count(x) for _, x in value):
        return False
    return senders == sorted(set(senders))


def _as_limit(option: str, value: object, least: int) -> int:
    if type(value) is not int or value < least:
        msg = f"{option}={value!r} is not a limit; expected an integer of at least {least}"
        raise UsageError(msg)
    return value
