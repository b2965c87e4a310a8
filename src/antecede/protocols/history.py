"""Causal order by carrying the causal past itself: Birman and Joseph [BJ87]_.

Every packet brings, before its own message, all messages that causally precede it and are not known
to be delivered everywhere. So a receiver has everything it needs and never waits.

Differences from the paper
--------------------------
Written from descriptions of the idea. What has been seen, and what is known to be delivered, is one
number per sender instead of a set of ids: a process delivers the messages of another in order, and
whoever brings a message also brings the earlier ones or knows them to be delivered. In pull mode,
where the application chooses, a message waits for those before it in the same packet: for the last
one that the packet brought, which in turn waits for those before it, and for any held since then.

References
----------
.. [BJ87] K. P. Birman and T. A. Joseph. "Reliable communication in the presence of failures". ACM
   Transactions on Computer Systems 5(1):47-76, 1987. https://doi.org/10.1145/7351.7478
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from antecede.endpoint import kinds, logs, numbers
from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.messages import COUNT_MAX, PAYLOAD_MAX, ControlSize, Message, Packet, is_key
from antecede.endpoint.numbers import BYTE, read_varint, varint
from antecede.endpoint.rules import ALIKE, NOBODY, Own, Rules, Saved, View, Wire
from antecede.errors import PeerError

Rows = Sequence[tuple[int, ...]]
"""By process, the newest message of each sender that it is known to have delivered."""
Control = tuple[Rows, tuple[Message, ...]]
"""What is known to be delivered, and the messages that travel along."""
Waits = tuple[list[int], list[int]]
"""For a message that travelled along: the keys that it waits for, and those that preceded it."""
PAST_MIN: Final = 64
"""How many messages may be kept before it is worth checking which are no longer needed."""


def newest_of(rows: Rows) -> list[int]:
    """Return the number of each sender's newest message in any row."""
    return [max(column) for column in zip(*rows, strict=True)]


class HistoryWire(Wire):
    """Rows of numbers, and whole messages; a held message also has what it waits for."""

    def put(self, message: Message) -> bytes:
        """Return each sender's newest number, how far each row is behind it, and the messages."""
        rows, past = message.control
        view, n = self.view, self.view.n
        tops = newest_of(rows) or [0] * n
        keys = [top << view.shift | sender for sender, top in enumerate(tops)]
        base, width, clocks = numbers.put_clocks(keys, view, message.seq)
        behind = [top - q + 1 if q else 0 for row in rows for top, q in zip(tops, row, strict=True)]
        form, lags = numbers.put_column(behind or [0] * (n * n))
        out = [BYTE[width | form << 2], base, clocks, lags, varint(len(past))]
        newest, size = [0] * n, n + 7 >> 3
        for old in past:
            sender = old.sender
            gap = varint(old.seq - newest[sender] - 1)
            dests = old.dests.to_bytes(size, "little")
            out += varint(sender), gap, dests, varint(len(old.payload)), old.payload
            newest[sender] = old.seq
        return b"".join(out)

    def get(self, data: bytes, at: int, message: Message) -> tuple[Control, int]:
        view, n, form = self.view, self.view.n, data[at]
        keys, at = numbers.get_clocks(data, at + 1, form & 3, view, message.seq)
        tops = [key >> view.shift for key in keys]
        lags, at = numbers.get_column(data, at, n * n, form >> 2)
        below = [max(tops[i % n] + 1 - lag, 0) if lag else 0 for i, lag in enumerate(lags)]
        rows = [tuple(below[i : i + n]) for i in range(0, n * n, n)]
        if newest_of(rows) != tops or below.count(0) != list(lags).count(0):
            raise PeerError("has rows that do not fit the newest messages that it names")
        if tops[message.sender] >= message.seq:
            raise PeerError("knows of later messages of its sender")
        count, at = read_varint(data, at)
        newest, size, past = [0] * n, n + 7 >> 3, []
        for _ in range(count):
            sender, at = read_varint(data, at)
            gap, at = read_varint(data, at)
            dests = int.from_bytes(data[at : at + size], "little")
            length, at = read_varint(data, at + size)
            newest[sender] = seq = newest[sender] + gap + 1
            if at + length > len(data) or not 0 < dests <= view.everyone or length > PAYLOAD_MAX:
                raise PeerError("brings a message that is cut off, or is for no member")
            past.append(Message(view, sender, seq, dests, data[at : at + length], None))
            at += length
        if max(newest) > COUNT_MAX or newest[message.sender] >= message.seq:
            raise PeerError("brings later messages of its own sender, or numbers that are too high")
        return (rows, tuple(past)), at

    def put_own(self, packet: Packet) -> bytes:
        """Return what a held message waits for; a packet on the wire waits for nothing."""
        if packet.own is None:
            return b"\0"
        needs, tops = packet.own
        return b"".join(map(varint, (len(needs) + 1, *needs, *tops)))

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Waits | None, int]:
        count, at = read_varint(data, at)
        if not count:
            return None, at
        keys, view = [], self.view
        for _ in range(min(count - 1, len(data)) + view.n):
            key, at = read_varint(data, at)
            keys.append(key)
        needs, tops = keys[: count - 1], keys[count - 1 :]
        if not all(is_key(key, view) for key in needs):
            raise PeerError("waits for messages that nobody sent")
        if any(key & view.low != place for place, key in enumerate(tops)):
            raise PeerError("has clocks of processes that are not members")
        return (needs, tops), at

    def spell(self, packet: Packet) -> object:
        rows, past = packet.content.control
        names = self.view.members
        known = [
            (name, tuple(sorted([(names[s], seq) for s, seq in enumerate(row) if seq])))
            for name, row in zip(names, rows)
        ]
        before = [(*old.id, self.view.names(old.dests), old.payload) for old in past]
        return tuple(sorted([row for row in known if row[1]])), tuple(before)

    def measure(self, packet: Packet) -> ControlSize:
        _, past = packet.content.control
        count, dests, size = logs.size(len(past), {i: old.dests for i, old in enumerate(past)})
        return ControlSize(count, dests, size + sum([len(old.payload) for old in past]))


class History(Rules):
    """The part of the past that others may still need, at one process."""

    INFO: ClassVar = ProtocolInfo(
        idea="the whole causal past travels along, except what is known to be delivered",
        guarantee="causal order, and no message ever waits",
        assumptions="fixed membership; every packet arrives eventually; members bring the messages "
        "of others unchanged: where that is too much trust, senders sign their payloads",
        cost="every earlier message not known to be delivered, with its payload, without bound; "
        "and what is known to be delivered, at most n*n numbers, which the model does not count",
        unmarked_by_skip="a message that came along with another does not tell what its sender "
        "knew to be delivered",
        research=True,
        bytes_per_entry=None,
        carries_messages=True,
    )
    WIRE: ClassVar = HistoryWire
    RELAYS: ClassVar = True

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._past: dict[int, Message] = {}
        """``BUF_p``, in an order that extends causality."""
        self._seen = list(range(view.n))
        """By sender, including ourselves, the key of the newest message in the past."""
        self._known: list[tuple[int, ...]] = [(0,) * view.n] * view.n
        self._looked = PAST_MIN
        """The size of the past at which to check again which messages are no longer needed."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Send all of ``BUF_p`` along, and then add the message to it."""
        self._prune()
        message.control = tuple(self._known), tuple(self._past.values())
        key = self._seen[self.me] = self.reached[self.me] = message.seq << self.shift | self.me
        self._past[key] = message.under(None)
        return ALIKE

    def check(self, packet: Packet) -> str:
        rows, past = packet.content.control
        if packet.own is not None or packet.source_no != packet.content.sender:
            return "brings a message of another process as if it were alone"
        brought = [old.seq for old in past if old.sender == self.me]
        return self.too_new(max([*brought, *[row[self.me] for row in rows]]))

    def readmit(self, packet: Packet) -> str:
        rows, past = packet.content.control
        is_one = packet.own is not None and not past and not any(map(any, rows))
        return "" if is_one and packet.content.dests >> self.me & 1 else "is not for this process"

    def unpack(self, packet: Packet) -> list[Packet]:
        view, me, bit, seen, reached = self.view, self.me, 1 << self.me, self._seen, self.reached
        source, n, shift = packet.source_no, packet.n, self.view.shift
        rows, past = packet.content.control
        nothing: Control = ((), ())
        before: list[int] = []
        tops, found = list(range(view.n)), []
        for old in (*past, packet.content):
            sender = old.sender
            key = old.seq << shift | sender
            if old.dests & bit and key > reached[sender] and sender != me:
                if key > seen[sender]:
                    if old is packet.content:  # its sender knew of all this
                        latest = [q << shift | s for s, q in enumerate(newest_of(rows))]
                        tops = list(map(max, tops, latest))
                    waits = before, tops.copy()
                    found.append(Packet(old.under(nothing), source, me, n, waits))
                    before = []  # this one waits for them
                before.append(key)
            tops[sender] = key
        return found

    def arrived(self, packet: Packet) -> None:
        view, seen, known, source = self.view, self._seen, self._known, packet.source_no
        rows, past = packet.content.control
        for place, row in enumerate(rows):
            if row != known[place] and place != self.me:
                known[place] = tuple(map(max, known[place], row))
        for old in (*past, packet.content):
            key = old.seq << view.shift | old.sender
            if key > seen[old.sender]:
                seen[old.sender] = key
                self._past[key] = old.under(None) if old is packet.content else old
        own = known[source]
        known[source] = (*own[:source], seen[source] >> view.shift, *own[source + 1 :])

    def needs(self, packet: Packet) -> list[int]:
        return packet.own[0] if packet.own else NOBODY

    def taken(self, packet: Packet) -> tuple[int, ...]:
        sender = packet.content.sender
        self.reached[sender] = packet.content.seq << self.view.shift | sender
        if len(self._past) >= self._looked:
            self._prune()
        return self.places[sender]

    def _prune(self) -> None:
        """Drop the messages that all their destinations are known to have delivered."""
        view, known = self.view, self._known
        known[self.me] = tuple([key >> view.shift for key in self.reached])
        kept = {}
        for key, old in self._past.items():
            for dest in view.list(old.dests):
                if known[dest][old.sender] < old.seq:
                    kept[key] = old
                    break
        self._past, self._looked = kept, max(PAST_MIN, 2 * len(kept))

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        return packet.own[1][sender] >> self.view.shift >= seq

    def kept_entries(self) -> int:
        self._prune()
        return len(self._past)

    def keep(self, saved: Saved) -> None:
        if not saved.is_read:
            self._prune()
        kind = [(kinds.key(self.view), kinds.mask(self.view.n), bytes)]
        past = [(key, old.dests, old.payload) for key, old in self._past.items()]
        past = saved.field("past", past, kind)
        self._seen = saved.keys("seen", self._seen, self.view.shift)
        self.require_own(saved, "seen", self._seen[self.me] >> self.view.shift)
        self._known = saved.rows("known", self._known, self.view.n)
        view, seen = self.view, self._seen
        is_right = all(key <= seen[key & view.low] for key, _, _ in past)
        saved.require(is_right, "past", past, "messages that were seen")
        if saved.is_read:
            self._past = {
                key: Message(view, key & view.low, key >> view.shift, dests, payload, None)
                for key, dests, payload in past
            }
