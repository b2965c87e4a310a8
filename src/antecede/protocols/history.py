"""Causal order by carrying the causal past itself: Birman and Joseph [BJ87]_.

Every packet brings, before its own message, all messages that causally precede it and are not known
to be delivered everywhere. So a receiver has everything it needs and never waits.

Guarantee
---------
Causal order; no message ever waits, because its causes come with it.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.
Members are honest about the messages of others: whatever a member brings as another's message is
delivered as such. Where that is too much trust, senders sign their payloads.

Cost
----
Whole messages, without bound: every packet carries each message that is not known to be delivered
at all its destinations. What is known to be delivered where travels too, at most ``n * n`` numbers,
which the model does not count.

Names
-----
===================  =======================================================
paper                here
===================  =======================================================
``BUF_p``            ``History._past``, in an order that extends causality
piggybacked copies   ``Packet.control``: (sender, seq, dests, payload) each,
                     after the rows of ``History._known``
===================  =======================================================

Differences from the paper
--------------------------
Written from descriptions of the idea. What has been seen, and what is known to be delivered, is one
number per sender instead of a set of ids: a process delivers the messages of another in order, and
whoever brings a message also brings the earlier ones or knows them to be delivered. In pull mode,
where the application chooses, a message waits for those before it in the same packet: for the last
one that the packet has brought, which waits for those before that, and for any that is held since.

References
----------
.. [BJ87] K. P. Birman and T. A. Joseph. "Reliable communication in the presence of failures". ACM
   Transactions on Computer Systems 5(1):47-76, 1987. https://doi.org/10.1145/7351.7478
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.entries import size_of
from antecede.core.info import ProtocolInfo
from antecede.core.kinds import NAME
from antecede.core.messages import ControlSize, MessageId, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.tally import fits
from antecede.core.validation import are_names, check_claim, is_count, is_pairs, malformed
from antecede.errors import HoldFullError

Names = tuple[str, ...]
Entry = tuple[str, int, Names, bytes]
"""Sender, seq, destinations, payload."""
Row = tuple[str, tuple[tuple[str, int], ...]]
"""A process, and the newest message of each sender that it is known to have delivered."""
Control = tuple[tuple[Row, ...], tuple[Entry, ...]]


@register
class History(Endpoint):
    """The part of the past that others may still need, at one process."""

    INFO: ClassVar = ProtocolInfo(
        name="history",
        idea="the whole causal past travels along, except what is known to be delivered",
        paper="Birman, Joseph 1987",
        guarantee="causal order, and no message ever waits",
        assumptions=(
            "fixed membership; every packet arrives eventually; "
            "members bring the messages of others unchanged"
        ),
        cost="every earlier message not known to be delivered, with its payload; no bound",
        promises=frozenset({"safety", "liveness", "quiescence"}),
        fixed_because=(
            "a message travels until all its destinations are known to have it, and one that "
            "left never is"
        ),
        wire_number=11,
        bytes_per_entry=None,
        carries_messages=True,
    )
    REWRITES: ClassVar = True
    STATE: ClassVar = {
        "_past": {MessageId: ((str, ...), bytes)},
        "_seen": {NAME: int},
        "_known": {NAME: {NAME: int}},
    }

    def _start(self) -> None:
        self._past: dict[MessageId, tuple[Names, bytes]] = {}
        self._seen: dict[str, int] = {}
        self._known: dict[str, dict[str, int]] = {self.process: {}}

    def _post(self, sending: Sending) -> None:
        rows = ((name, tuple(sorted(row.items()))) for name, row in sorted(self._known.items()))
        before = tuple((*old, *self._past[old]) for old in self._past)
        control: Control = (tuple(row for row in rows if row[1]), before)
        self._past[sending.message] = (sending.dests, sending.payload)
        self._seen[self.process] = self._known[self.process][self.process] = sending.message.seq
        for dest in sending.others:
            self._emit(dest, control, sending)

    def _check(self, packet: Packet) -> None:
        if packet.kind != "data" or not _is_control(packet.control):
            raise malformed(packet, "rows (process, pairs) and (sender, seq, dests, payload) each")
        rows, entries = cast("Control", packet.control)
        known = [dict(pairs) for _, pairs in rows]
        names = {name for name, _ in rows}.union(*known)
        names.update(*[(sender, *dests) for sender, _, dests, _ in entries])
        if not self._positions.keys() >= names:
            self._check_names(packet, sorted(names))
        claims = [pairs.get(self.process, 0) for pairs in known]
        claims += [seq for sender, seq, _, _ in entries if sender == self.process]
        check_claim(self, packet, max(claims, default=0), self._seq)

    def _check_room(self, packet: Packet) -> None:
        """Only pull mode holds messages, and there a packet may bring several."""
        if not self.pull:
            return
        entries = [e for e in _all(packet) if self._is_fresh(e) and self.process in e[2]]
        fresh, size = len(entries), sum(len(payload) for *_, payload in entries)
        if fresh and not self._has_room(packet.source, fresh, size):
            mine = self._tally.counts_of.get(packet.source, 0)
            msg = (
                f"packet {packet.n} from {packet.source!r} brings {fresh} messages ({size} bytes) "
                f"to hold, but {self.held} ({self._tally.bytes} bytes) are held already, {mine} of "
                f"them from {packet.source!r} (held_max={self.held_max}, "
                f"held_bytes_max={self.held_bytes_max}); offer it again later"
            )
            raise HoldFullError(msg, held=self.held, held_max=self.held_max)

    def _has_room(self, source: str, fresh: int, size: int) -> bool:
        """Tell whether messages fit, and leave the other peers their shares of the buffer.

        An empty buffer takes whatever it can: a packet cannot be divided.
        """
        tally, peers = self._tally, len(self.members) - 1
        if not tally.count:
            return fresh <= self.held_max
        return fits(self.held_max, tally.counts_of, fresh, source, peers) and fits(
            self.held_bytes_max, tally.bytes_of, size, source, peers
        )

    def _is_fresh(self, entry: Entry) -> bool:
        return entry[1] > self._seen.get(entry[0], 0)

    def _is_missing(self, entry: Entry) -> bool:
        return self.process in entry[2] and not self._is_known(self.process, entry[0], entry[1])

    def _is_known(self, process: str, sender: str, seq: int) -> bool:
        """Tell whether a process is known to have delivered a message addressed to it."""
        return self._known.get(process, {}).get(sender, 0) >= seq

    def _on_data(self, packet: Packet) -> None:
        rows, _ = cast("Control", packet.control)
        for name, pairs in rows:
            if name != self.process:
                known = self._known.setdefault(name, {})
                for sender, seq in pairs:
                    if seq > known.get(sender, 0):
                        known[sender] = seq
        seen, before, is_kept = self._seen, list[Entry](), self.pull
        for entry in _all(packet):
            sender, seq, dests, payload = entry
            if seq > seen.get(sender, 0):
                seen[sender] = seq
                self._past[MessageId(sender, seq)] = (dests, payload)
                if self.process in dests:
                    self._arrive(_single(packet, entry, ((), tuple(before))))
                    before.clear()  # this one waits for them
            if is_kept and self._is_missing(entry):
                before.append((sender, seq, dests, b""))
        self._known.setdefault(packet.source, {})[packet.source] = self._seen[packet.source]
        self._prune()

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        _, entries = cast("Control", packet.control)
        for entry in entries:
            if self._is_missing(entry):
                yield Need(entry[0], entry[1])

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        sender, seq = packet.message_id
        self._known[self.process][sender] = seq
        if self.pull:  # otherwise pruning once per packet is enough
            dests, _ = self._past.get(packet.message_id, ((), b""))
            if all(self._is_known(dest, sender, seq) for dest in dests):
                self._past.pop(packet.message_id, None)
        return (Need(sender, seq),)

    def _prune(self) -> None:
        """Drop the messages that all their destinations are known to have delivered."""
        known, nothing = self._known, dict[str, int]()
        kept = {}
        for message, (dests, payload) in self._past.items():
            sender, seq = message
            for dest in dests:
                if known.get(dest, nothing).get(sender, 0) < seq:
                    kept[message] = (dests, payload)
                    break
        self._past = kept

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return the messages that travel along, with their destinations and payloads."""
        _, entries = cast("Control", packet.control)
        heads = size_of(tuple(entry[:3] for entry in entries))
        payload_bytes = sum(len(entry[3]) for entry in entries)
        return heads._replace(model_bytes=heads.model_bytes + payload_bytes)


def _all(packet: Packet) -> tuple[Entry, ...]:
    """Return the messages that a packet brings, its own last."""
    _, entries = cast("Control", packet.control)
    return (*entries, (*packet.message_id, packet.dests, packet.payload))


def _single(packet: Packet, entry: Entry, control: Control) -> Packet:
    """Return one of the messages that a packet brought as a packet of its own."""
    sender, seq, dests, payload = entry
    message = MessageId(sender, seq)
    source, dest, n, protocol = packet.source, packet.dest, packet.n, packet.protocol
    return Packet(source, dest, n, "data", message, dests, payload, control, protocol)


def _is_control(control: object) -> bool:
    if type(control) is not tuple or len(control) != 2:
        return False
    rows, entries = control
    return type(rows) is tuple and _is_rows(rows) and type(entries) is tuple and _is_past(entries)


def _is_rows(rows: tuple[object, ...]) -> bool:
    for row in rows:
        if type(row) is not tuple or len(row) != 2 or not is_pairs(row[1]):
            return False
    return are_names(tuple(cast("Row", row)[0] for row in rows))


def _is_past(entries: tuple[object, ...]) -> bool:
    newest: dict[str, int] = {}
    for entry in entries:
        if type(entry) is not tuple or len(entry) != 4:
            return False
        sender, seq, dests, payload = entry
        if type(sender) is not str or not is_count(seq, newest.get(sender, 0) + 1):
            return False
        if not are_names(dests) or not dests or type(payload) is not bytes:
            return False
        newest[sender] = seq
    return True
