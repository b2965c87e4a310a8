"""The log of [KS98] by numbers, in two parts, and its form as bytes.

``log`` has the entries that still name someone: key -> mask of destinations. ``tops`` has each
sender's newest key. An entry that names nobody is kept only if it is its sender's newest, so
``tops`` stands for it, and purging has nothing left to do. As bytes, messages are identified by
their distance from their sender's newest: these *places*, ``(top - clock) << shift | sender``, are
small and close together.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

from antecede.endpoint import kinds, numbers
from antecede.endpoint.messages import FREE, ID_BYTES, PAIR_BYTES, ControlSize, MessageId, is_key
from antecede.endpoint.numbers import BYTE, FEW, Sets, read_varint, varint
from antecede.endpoint.rules import NOBODY, Message, Own, Packet, Rules, View, Wire
from antecede.endpoint.saved import SAVED_MAX, Saved
from antecede.errors import PeerError

Tops = list[int]
"""By sender, its newest key: at first the key of clock 0, the paper's initial entry."""
Log = dict[int, int]
"""Key -> mask of destinations."""
Control = tuple[Tops, Log]
Entries = tuple[tuple[str, int, tuple[str, ...]], ...]
"""A log with names: sorted (sender, clock, destinations)."""

PAIRS: Final = 3
"""A form of a few entries with one destination each: place and destination in one number."""
TOO_EARLY: Final = "has an entry before its sender's first message, or for its own destination"
OTHER_FORM: Final = "has a log in another form than it should have"
REPEATED: Final = "names a destination twice for messages of one sender"


def merged(tops: Tops, log: Log, their_tops: Tops, their_log: Log, low: int) -> Control:
    """RCV(4): return two logs merged into a new one.

    If one side lacks an entry but has a newer one of that sender, the entry was deleted there in
    the causal past, so it is dropped. An entry on both sides keeps the common destinations.
    """
    both = {key: mask for key, mask in log.items() if key > their_tops[key & low]} if log else {}
    find = log.get
    for key, mask in their_log.items():
        other = find(key)
        if other is None:
            if key > tops[key & low]:
                both[key] = mask
        elif rest := mask & other:
            both[key] = rest
    return [a if a > b else b for a, b in zip(tops, their_tops)], both


def take(log: Log, dests: int) -> dict[int, list[int]]:
    """Drop destinations from every entry, in place; return, for each, the keys that named it."""
    keys = [key for key, mask in log.items() if mask & dests]
    needs: dict[int, list[int]] = {}
    if not dests & dests - 1:
        for key in keys:
            if rest := log[key] ^ dests:
                log[key] = rest
            else:
                del log[key]
        if keys:
            needs[dests.bit_length() - 1] = keys
        return needs
    for key in keys:
        hit = log[key] & dests
        if rest := log[key] ^ hit:
            log[key] = rest
        else:
            del log[key]
        while hit:
            dest = hit.bit_length() - 1
            hit ^= 1 << dest
            if dest in needs:
                needs[dest].append(key)
            else:
                needs[dest] = [key]
    return needs


def entries(view: View, tops: Tops, log: Log) -> Log:
    """Return the entries of a log with each sender's newest, even if that names nobody."""
    return dict.fromkeys([key for key in tops if key > view.low], 0) | log


def spelt(view: View, tops: Tops, log: Log) -> Entries:
    """Return these entries with names, sorted."""
    found = entries(view, tops, log).items()
    return tuple(sorted([(*view.id(key), view.names(mask)) for key, mask in found]))


def is_repeated(log: Log, low: int) -> bool:
    """Return whether two entries of one sender name the same destination, against Lemma 1."""
    named: dict[int, int] = {}
    for key, mask in log.items():
        if named.get(key & low, 0) & mask:
            return True
        named[key & low] = named.get(key & low, 0) | mask
    return False


def entered(tops: Tops, log: Log, key: int, dests: int, low: int) -> Control:
    """Return a new log with a sender's newest message added, for these destinations."""
    tops = tops.copy()
    tops[key & low] = key
    return tops, {**log, key: dests} if dests else log


def newest(view: View, log: Log) -> Tops:
    """Return each sender's newest key in a log."""
    tops = list(range(view.n))
    for key in log:
        tops[key & view.low] = max(key, tops[key & view.low])
    return tops


def explicit(view: View, log: Log) -> dict[MessageId, frozenset[str]]:
    """Return the entries that name someone, with names, in order."""
    found = spelt(view, [], log)
    return {MessageId(sender, clock): frozenset(names) for sender, clock, names in found}


def size(count: int, log: Log) -> ControlSize:
    """Return the size of ``count`` entries with the destinations of a log."""
    dests = named(log)
    return ControlSize(count, dests, PAIR_BYTES * count + ID_BYTES * dests)


def named(log: Log) -> int:
    """Return how many destinations the entries of a log name in total."""
    return sum(map(int.bit_count, log.values()))


def kind_of_log(view: View) -> object:
    """Return the kind of a log in saved state."""
    return {kinds.key(view): kinds.mask(view.n)}


def keep_log(saved: Saved, view: View, log: Log, tops: Tops) -> Log:
    """Save or restore a log that fits ``tops``."""
    log = saved.field("log", log, kind_of_log(view))
    is_right = all(mask and key <= tops[key & view.low] for key, mask in log.items())
    saved.require(is_right, "log", log, "messages that are known of, for someone")
    return log


def get_keys(data: bytes, at: int, message: Message) -> tuple[list[int], int]:
    """Read ascending keys of messages that the sender of this one could know of."""
    keys, at = numbers.get_ascending(data, at)
    view, own = message.view, message.seq << message.view.shift | message.sender
    for key in keys:
        if not is_key(key, view) or (key & view.low == message.sender and key >= own):
            raise PeerError("knows of strangers, or of later messages of its sender")
    return keys, at


class Logged(Rules):
    """The algorithm of [KS98] on such a log, as printed; subclasses change individual steps."""

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._tops: Tops = list(range(view.n))  # (i, 0, {}) for all i
        self._log: Log = {}

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """SND(2) to SND(5); only the copy for d carries the keys of the entries that named d."""
        key, dests = message.seq << self.shift | self.me, message.dests & ~(1 << self.me)
        needs = take(self._log, dests)  # SND(2), SND(3)
        message.control = tops, log = self._tops, self._log
        self._tops, self._log = entered(tops, log, key, dests, self.view.low)  # SND(4)
        return needs

    def check(self, packet: Packet) -> str:
        """Refuse O_M if it has an entry of ours that is newer than our clock."""
        newest = packet.content.control[0][self.me] >> self.shift
        return self.too_new(newest) if newest > self.made else ""  # mostly saves the call

    def needs(self, packet: Packet) -> list[int]:
        """RCV(1): the entries of O_M that name us; M waits until SR_j has reached them all."""
        return packet.own or NOBODY

    def blocker(self, packet: Packet) -> int:
        """RCV(1), the Delivery Condition: return a need that SR_j has not reached, or FREE."""
        if packet.own:
            reached, low = self.reached, self.low
            for key in packet.own:
                if key > reached[key & low]:
                    return key
        return FREE

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """RCV(2) to RCV(5)."""
        message = packet.content
        self.reached[message.sender] = key = message.seq << self.shift | message.sender
        self.merge(message, key, *message.control)
        return self.places[message.sender]

    def merge(self, message: Message, key: int, tops: Tops, log: Log) -> None:
        """RCV(3) and RCV(4): merge the log that a message brought, and its own entry without us."""
        low, rest = self.view.low, message.dests & ~(1 << message.sender | 1 << self.me)
        tops, log = entered(tops, log, key, rest, low)
        self._tops, self._log = merged(self._tops, self._log, tops, log, low)

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Return whether TS(sender, O_M) is at least ``seq``."""
        return packet.content.control[0][sender] >> self.shift >= seq

    def settled(self) -> Control:
        """Return LOG_j, with nothing left to merge."""
        return self._tops, self._log

    def kept(self) -> object:
        """Return LOG_j: sorted entries (sender, clock, destinations)."""
        return spelt(self.view, *self.settled())

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        return explicit(self.view, self.settled()[1])

    def kept_entries(self) -> int:
        return len(entries(self.view, *self.settled()))

    def keep(self, saved: Saved) -> None:
        """Save or restore tops and log; refuse what no process can have."""
        tops, log = self.settled()
        self._tops = tops = saved.keys("tops", tops, self.view.shift)
        self.require_own(saved, "tops", tops[self.me] >> self.view.shift)
        self._log = keep_log(saved, self.view, log, tops)


class Unordered(Rules):
    """Rules that may deliver the messages of a channel in any order; every packet is a message.

    For each channel they keep its delivered beginning without a gap, and deliveries beyond it.
    """

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._places = [0] * view.n
        """The length of each channel's beginning, and the key of its last message."""
        self._keys = list(range(view.n))
        self._ahead: list[dict[int, int]] = [{} for _ in range(view.n)]
        """The keys delivered beyond it: by source and place; and all together."""
        self._beyond: set[int] = set()

    def missing(self, packet: Packet) -> list[int]:
        """RCV(1): the needs that are not delivered, each checked, as channels keep no order."""
        return [key for key in self.needs(packet) if not self.is_delivered(key)]

    def blocker(self, packet: Packet) -> int:
        return next(iter(self.missing(packet)), FREE)

    def is_delivered(self, key: int) -> bool:
        """Return whether a message for this process is delivered."""
        return key <= self._keys[key & self.low] or key in self._beyond

    def deliver(self, packet: Packet) -> int:
        """RCV(2): note that a message is delivered; return its key."""
        source, place, made = packet.source_no, packet.n, self.key(packet)
        self.reached[source] = max(made, self.reached[source])
        ahead, key = self._ahead[source], made
        if place != self._places[source] + 1:
            ahead[place] = key
            self._beyond.add(key)
            return made
        while place + 1 in ahead:
            place += 1
            key = ahead.pop(place)
            self._beyond.remove(key)
        self._places[source], self._keys[source] = place, key
        return made

    def newest(self, sender: int) -> int:
        return self._keys[sender] >> self.shift

    def ahead(self, sender: int) -> list[int]:
        return [key >> self.shift for key in self._ahead[sender].values()]

    def keep_delivered(self, saved: Saved) -> None:
        """Save or restore what is delivered."""
        low, most = self.low, (SAVED_MAX + 1 << self.shift) - 1
        self._places = saved.numbers("places", self._places)
        self._keys = saved.keys("keys", self._keys, self.shift)
        kind = [{most: range(most + 1)}, self.view.n]
        self._ahead = saved.field("ahead", self._ahead, kind)
        self._beyond = {key for ahead in self._ahead for key in ahead.values()}
        for source, ahead in enumerate(self._ahead):
            first, places = self._places[source] + 2, [*ahead]
            is_right = places == sorted(places) and min(places, default=first) >= first
            is_right = is_right and all(low < k and k & low == source for k in ahead.values())
            saved.require(is_right, "ahead", ahead, "messages beyond the first gap, in order")


class LogWire(Wire):
    """Tops and log, which all copies share, and each copy's needs; subclasses may add to these."""

    names_dests = False
    """Whether entries may name the message's own destinations."""
    stands_for_earlier = True
    """Whether no two messages of one sender name the same destination, as Lemma 1 says."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.sets = Sets(view)
        self._is_disjoint = self.stands_for_earlier and not view.options.get("lookahead")

    def put(self, message: Message) -> bytes:
        tops, log = message.control[:2]
        base, form, column = numbers.put_clocks(tops, self.view, message.seq)
        if not log:
            return b"".join((BYTE[form], base, column, b"\0"))
        low = self.view.low
        by_place = {tops[key & low] - key | key & low: mask for key, mask in log.items()}
        places = sorted(by_place)
        if len(places) <= FEW and (pairs := self._put_pairs(places, by_place)):
            return b"".join((BYTE[form | PAIRS << 4], base, column, BYTE[len(places)], pairs))
        masks = list(map(by_place.__getitem__, places))
        width, gaps = numbers.put_gaps(places)
        how, dests = self.sets.put(masks)
        form |= width << 2 | how << 4
        return b"".join((BYTE[form], base, column, varint(len(places)), gaps, dests))

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        low, form = self.view.low, data[at]
        tops, at = numbers.get_clocks(data, at + 1, form & 3, self.view, message.seq)
        if tops[message.sender] >> self.view.shift >= message.seq:
            raise PeerError("knows of later messages of its sender")
        length, at = read_varint(data, at)
        if not length:
            if form > 3:
                raise PeerError(OTHER_FORM)
            return (tops, {}), at
        how = form >> 4
        named = 0 if self.names_dests else message.dests & ~(1 << message.sender)
        if how == PAIRS:
            log, at = self._get_pairs(data, at, length, tops, named)
            is_right, is_named = not form & 12, False
        else:
            gaps, at = numbers.get_column(data, at, length, form >> 2 & 3)
            masks, at = self.sets.get(data, at, length, how)
            log = dict(zip(self._keys(gaps, tops), masks))
            is_right = how != Sets.SINGLES or length > FEW
            is_named = reduce(or_, masks) & named > 0
        if not is_right:
            raise PeerError(OTHER_FORM)
        if min(log) <= low or is_named:
            raise PeerError(TOO_EARLY)
        # A short log cannot hide much, and most are short; checking them too would cost a fifth.
        if length > 4 * self.view.n and self._is_disjoint and is_repeated(log, low):
            raise PeerError(REPEATED)
        return (tops, log), at

    def put_own(self, packet: Packet) -> bytes:
        """Return the needs of a copy."""
        needs: list[int] | None = packet.own
        if not needs:
            return b"\0"
        low = self.view.low
        tops = packet.content.control[0]
        if len(needs) == 1:  # the usual case: only the place
            key = needs[0]
            return varint((tops[key & low] - key | key & low) + 1 << 1)
        width, gaps = numbers.put_gaps(sorted([tops[k & low] - k | k & low for k in needs]))
        return varint(len(needs) << 3 | width << 1 | 1) + gaps

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Any, int]:
        code, at = data[at], at + 1
        if not code:
            return None, at
        if code > 0x7F:
            code, at = read_varint(data, at - 1)
        tops = packet.content.control[0]
        low = self.view.low
        if not code & 1:
            place = (code >> 1) - 1
            needs = [tops[place & low] - (place & ~low)]
        else:
            gaps, at = numbers.get_column(data, at, code >> 3, code >> 1 & 3)
            needs = self._keys(gaps, tops)
            if len(needs) < 2:
                raise PeerError(OTHER_FORM)
        if min(needs) <= low:
            raise PeerError(TOO_EARLY)
        return needs, at

    def spell(self, packet: Packet) -> object:
        """Return what one copy carries: sorted entries (sender, clock, destinations)."""
        return spelt(self.view, *_carried(packet))

    def measure(self, packet: Packet) -> ControlSize:
        tops, log = _carried(packet)
        return size(len(entries(self.view, tops, log)), log)

    def _keys(self, gaps: Sequence[int], tops: Tops) -> list[int]:
        """Return the keys of the messages whose ascending places have these gaps."""
        low, high, place = self.view.low, ~self.view.low, -1
        keys = []
        for gap in gaps:
            place += gap + 1
            keys.append(tops[place & low] - (place & high))
        return keys

    def _put_pairs(self, places: list[int], by_place: Log) -> bytes:
        """Return the entries of a short log, or nothing if one has several destinations."""
        shift, pairs = self.view.shift, b""
        for place in places:
            mask = by_place[place]
            if mask & mask - 1:
                return b""
            pairs += varint(place << shift | mask.bit_length() - 1)
        return pairs

    def _get_pairs(
        self, data: bytes, at: int, length: int, tops: Tops, named: int
    ) -> tuple[Log, int]:
        """Read the entries of a short log, which name no one in ``named``, and the offset after."""
        shift, low, n, last = self.view.shift, self.view.low, self.view.n, -1
        log: Log = {}
        if length > FEW:
            raise PeerError(OTHER_FORM)
        for _ in range(length):
            code, at = data[at], at + 1
            if code > 0x7F:
                code, at = read_varint(data, at - 1)
            place, number = code >> shift, code & low
            if number >= n or place <= last or named >> number & 1:
                raise PeerError(TOO_EARLY)
            log[tops[place & low] - (place & ~low)] = 1 << number
            last = place
        return log, at


def _carried(packet: Packet) -> Control:
    """Return tops and log, with the needs of one copy as entries that name its destination."""
    tops, log = packet.content.control[:2]
    needs, bit = packet.own or NOBODY, 1 << packet.dest_no
    return tops, log | {key: log.get(key, 0) | bit for key in needs}
