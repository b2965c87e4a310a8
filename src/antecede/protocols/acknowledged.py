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
==================  =======================================================================
paper               here
==================  =======================================================================
``LOG_j``           ``Acknowledged._log``
``SR_j``            ``Acknowledged._newest``
``O_M``             second part of ``Packet.control``: sorted (sender, clock, destinations)
``w``               ``Acknowledged._stable``: per sender, all up to it is delivered everywhere
acknowledgement     a control packet (number delivered, own ``w``, corrections)
release             a control packet (own ``w``)
==================  =======================================================================

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
    merged,
    size_of,
)
from antecede.core.groups import as_flag
from antecede.core.info import Option, ProtocolInfo, Variant
from antecede.core.kinds import LOG, NAME
from antecede.core.messages import (
    CLOCK_BYTES,
    PAIR_BYTES,
    ControlSize,
    MessageId,
    Need,
    Packet,
    Sending,
)
from antecede.core.registry import register
from antecede.core.validation import check_claim, check_entry, is_count, is_pairs, malformed

Pairs = tuple[tuple[str, int], ...]
Data = tuple[int, Entries]
Answer = tuple[int, int, Pairs]


@register
class Acknowledged(Endpoint):
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
        fixed_because="a message is done when all its destinations have acknowledged it",
        wire_number=20,
        names_only=True,
        bytes_per_entry=None,
        variants=(Variant("quiet", lambda _: {"releases": False}),),
    )
    STATE: ClassVar = {
        "_log": LOG,
        "_newest": {NAME: int},
        "_stable": {NAME: int},
        "_open": {NAME: [int]},
        "_last": {NAME: int},
        "_owed": {NAME: [int]},
    }

    def _start(self) -> None:
        self._releases = as_flag("releases", self.options["releases"])
        self._log: Log = {}
        self._newest: dict[str, int] = {}
        self._stable: dict[str, int] = {}
        # By destination: own messages not acknowledged, the last one sent there, and those that
        # the destination does not know to be delivered everywhere.
        self._open: dict[str, list[int]] = {}
        self._last: dict[str, int] = {}
        self._owed: dict[str, list[int]] = {}

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the entries that still name a destination."""
        return explicit(self._log)

    def kept_entries(self) -> int:
        """Return the entries of the log."""
        return sum(map(len, self._log.values()))

    # Send.

    def _stamp(self, sending: Sending) -> dict[str, object]:
        """SND(2) to SND(5), with this message among those that are not acknowledged."""
        seq, others = sending.message.seq, frozenset(sending.others)
        for dest in others:
            self._open.setdefault(dest, []).append(seq)
            self._last[dest] = seq
        self._raise_mark()
        mark = self._mark
        controls: dict[str, object] = {
            dest: (mark, as_entries(self._purged(_without(self._log, others - {dest}))))
            for dest in sending.others
        }
        for dest in sending.others:
            self._tell(dest)
            if self._releases:
                self._owed.setdefault(dest, []).append(seq)
        log = _without(self._log, others)
        log.setdefault(self.process, {})[seq] = others
        self._log = self._purged(log)
        return controls

    # Receive.

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        """RCV(1): the messages named for this process."""
        for sender, clock, dests in cast("Data", packet.control)[1]:
            if self.process in dests and self._newest.get(sender, 0) < clock:
                yield Need(sender, clock)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        """RCV(3) to RCV(5), and the acknowledgement."""
        mark, entries = cast("Data", packet.control)
        source, seq = packet.source, packet.message_id.seq
        self._newest[source] = seq
        stale = {
            (sender, self._stable[sender])
            for sender, clock, _ in entries
            if sender not in (source, self.process) and clock <= self._stable.get(sender, 0)
        }
        self._learn(source, mark)
        brought = _without(as_log(entries), frozenset((self.process,)))
        rest = frozenset(packet.dests) - {source, self.process}
        brought.setdefault(source, {})[seq] = rest
        self._log = self._purged(self._merged(brought))
        self._emit_control(source, (seq, self._mark, tuple(sorted(stale))))
        self._tell(source)
        return (Need(source, seq),)

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        control = cast("tuple[int] | Answer", packet.control)
        if len(control) == 1:
            self._learn(packet.source, control[0])
            return ()
        seq, mark, corrections = control
        for sender, level in ((packet.source, mark), *corrections):
            self._learn(sender, level)
        self._drop_acknowledged(packet.source, seq)
        self._raise_mark()
        return ()

    def _drop_acknowledged(self, dest: str, seq: int) -> None:
        """Drop a destination from the entries of the own messages that it has delivered."""
        left = [number for number in self._open.pop(dest, ()) if number > seq]
        if left:
            self._open[dest] = left
        own = self._log.get(self.process)
        if own is not None:
            self._log[self.process] = {
                clock: dests - {dest} if clock <= seq else dests for clock, dests in own.items()
            }
            self._log = self._purged(self._log)

    @property
    def _mark(self) -> int:
        """The number up to which all own messages are delivered everywhere."""
        return self._stable.get(self.process, 0)

    def _raise_mark(self) -> None:
        """Find out up to which number all own messages are acknowledged; tell those concerned."""
        mark = min((numbers[0] for numbers in self._open.values()), default=self._seq + 1) - 1
        if mark <= self._mark:
            return
        self._learn(self.process, mark)
        due = [dest for dest, owed in self._owed.items() if owed[0] <= mark]
        for dest in sorted(due, key=self._positions.__getitem__):
            self._emit_control(dest, (mark,))
            self._tell(dest)

    def _tell(self, dest: str) -> None:
        """Note that a packet tells ``dest`` what is delivered everywhere."""
        left = [number for number in self._owed.pop(dest, ()) if number > self._mark]
        if left:
            self._owed[dest] = left

    def _learn(self, sender: str, mark: int) -> None:
        """Drop what concerns the messages of ``sender`` that are delivered everywhere."""
        if mark <= self._stable.get(sender, 0):
            return
        self._stable[sender] = mark
        if sender in self._log:
            self._log = self._purged(self._log)

    # The log.

    def _merged(self, brought: Log) -> Log:
        """RCV(4), and own entries without what is acknowledged."""
        log = merged(self._log, brought)
        own = log.get(self.process)
        if own is not None:
            log[self.process] = {
                clock: frozenset(dest for dest in dests if self._is_open(dest, clock))
                for clock, dests in own.items()
            }
        return log

    def _is_open(self, dest: str, clock: int) -> bool:
        """Tell whether ``dest`` has not acknowledged the own message of this number."""
        numbers = self._open.get(dest)
        return numbers is not None and clock >= numbers[0]

    def _purged(self, log: Log) -> Log:
        """Drop what is delivered everywhere, and empty entries except the newest of a sender."""
        result: Log = {}
        for sender, entries in log.items():
            stable, newest = self._stable.get(sender, 0), max(entries, default=0)
            kept = {
                clock: dests
                for clock, dests in entries.items()
                if clock > stable and (dests or clock == newest)
            }
            if kept:
                result[sender] = kept
        return result

    # What peers may send.

    def _check(self, packet: Packet) -> None:
        if packet.kind == "control":
            self._check_answer(packet)
            return
        control = packet.control
        if type(control) is not tuple or len(control) != 2 or not is_count(control[0]):
            raise malformed(packet, "a number and sorted entries (sender, clock, destinations)")
        mark, entries = control
        if not is_entries(entries):
            raise malformed(packet, "sorted entries (sender, clock, destinations)")
        if mark >= packet.message_id.seq:
            raise malformed(packet, f"a number below that of {packet.message}")
        for entry in entries:
            check_entry(self, packet, *entry)

    def _check_answer(self, packet: Packet) -> None:
        control = packet.control
        if type(control) is not tuple or len(control) not in (1, 3):
            raise malformed(packet, "a release (number) or an acknowledgement of three parts")
        if not all(map(is_count, control[:2])):
            raise malformed(packet, "numbers from 0")
        if len(control) == 1:
            return
        if not is_pairs(control[2]):
            raise malformed(packet, "corrections: sorted pairs (sender, number)")
        senders = [sender for sender, _ in control[2]]
        self._check_names(packet, senders)
        if self.process in senders or packet.source in senders:
            raise malformed(packet, "no correction about its source or receiver")
        check_claim(self, packet, control[0], self._last.get(packet.source, 0))

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return the entries of the log or of the corrections, and all the clocks around them."""
        if packet.kind == "data":
            entries, dests, model_bytes = size_of(cast("Data", packet.control)[1])
            return ControlSize(entries, dests, model_bytes + CLOCK_BYTES)
        control = cast("tuple[int] | Answer", packet.control)
        pairs = len(control[2]) if len(control) == 3 else 0
        return ControlSize(pairs, 0, CLOCK_BYTES * min(2, len(control)) + PAIR_BYTES * pairs)


def _without(log: Log, dests: frozenset[str]) -> Log:
    """Return a log in which no entry names any of ``dests``."""
    return {
        sender: {clock: names - dests for clock, names in entries.items()}
        for sender, entries in log.items()
    }
