"""Sends one at a time, by a token: the serialised cases of [KS98]_ section 7.1.

Only the process that has the token may send, so all sends are totally ordered. The token knows the
latest message to each process. A message names the latest one to its destination and waits for it
there. So every process even delivers all that others send it in the order in which it was sent.

Differences from the paper
--------------------------
In [KS98]_ every process keeps the entries, so a message carries one (broadcast) or up to ``n``
(multicast) of them. Here they travel with the token, and a copy carries only the one for its
destination; with ``entries='all'`` it carries them all, as in the paper, and so does the token:
without that, order is lost. The latest message to a process does not count that process's own;
otherwise it could send before it has delivered, and its message would replace one that it has not
delivered. The first member is the token's home: others request the token from it, and return it
when they have sent all their messages, so an idle system sends nothing. If a process that has the
token is declared gone, the home continues with the token as it was lent; if the home is gone, the
next member becomes the home, with a new token.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from typing import Any, ClassVar

from antecede.endpoint import kinds
from antecede.endpoint.info import Option, ProtocolInfo
from antecede.endpoint.messages import PAIR_BYTES, Message, Packet, is_key
from antecede.endpoint.numbers import get_column, put_column, read_count, read_varint, varint
from antecede.endpoint.rules import NOBODY, Rules, View, Wire, own_message
from antecede.endpoint.saved import Saved
from antecede.endpoint.series import ascending, gaps
from antecede.errors import PeerError

Token = dict[int, int]
"""By destination, the key of the latest message to it."""


class SerialWire(Wire):
    """One entry, or all; a request for the token has none, and the token counts itself as one."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._carries_all = view.options["entries"] == "all"

    def put(self, message: Message) -> bytes:
        if message.control is None:
            return b"" if message.seq else b"\0"
        token, shift, low = message.control, self.view.shift, self.view.low
        dests = sorted(token)
        keys = [token[dest] for dest in dests]
        newest = max(keys, default=0) >> shift
        parts = gaps(dests), [key & low for key in keys], [newest - (key >> shift) for key in keys]
        (one, places), (two, senders), (three, ages) = map(put_column, parts)
        count = len(token) + (not message.seq)
        head = varint(count << 6 | one << 4 | two << 2 | three)
        return b"".join((head, varint(newest), places, senders, ages))

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        if message.seq and not self._carries_all:
            return None, at
        code, at = read_varint(data, at)
        if not code and not message.seq:
            return None, at
        count, (newest, at) = (code >> 6) - (not message.seq), read_count(data, at)
        if count < 0:
            raise PeerError("has no token")
        dests, at = get_column(data, at, count, code >> 4 & 3)
        senders, at = get_column(data, at, count, code >> 2 & 3)
        ages, at = get_column(data, at, count, code & 3)
        token: Token = {}
        for dest, sender, age in zip(ascending(dests), senders, ages, strict=True):
            if max(dest, sender) >= self.view.n or sender == dest or age >= newest:
                raise PeerError("has entries of those who are not members, or of no messages")
            token[dest] = newest - age << self.view.shift | sender
        if min(ages, default=newest):
            raise PeerError("has no entry that is the newest")
        return token, at

    def put_own(self, packet: Packet) -> bytes:
        has_none = self._carries_all or not packet.content.seq
        return b"" if has_none else varint(packet.own or 0)

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Any, int]:
        message = packet.content
        if not message.seq:
            return None, at
        if self._carries_all:
            key = message.control.get(packet.dest_no, 0)
        else:
            key, at = read_varint(data, at)
        sender, seq = key & self.view.low, key >> self.view.shift
        if key and not is_key(key, self.view):
            raise PeerError("names a message that nobody sent")
        if key and (sender == packet.dest_no or (sender == message.sender and seq >= message.seq)):
            raise PeerError("waits for a message of its destination, for itself, or a later one")
        return key or None, at

    def spell(self, packet: Packet) -> object:
        view, token = self.view, packet.content.control
        if token is not None:
            return tuple(sorted([(view.members[d], *view.id(key)) for d, key in token.items()]))
        if not packet.content.seq:
            return ("wish",)
        return () if packet.own is None else view.id(packet.own)

    def entries(self, packet: Packet) -> int:
        token: Token | None = packet.content.control
        return len(token) if token is not None else int(packet.own is not None)


class Serial(Rules):
    """One process, its messages that wait for the token, and the token while it has it."""

    INFO: ClassVar = ProtocolInfo(
        idea="sends one at a time, by a token",
        paper="Kshemkalyani, Singhal 1998, section 7.1",
        guarantee="causal order; all deliver what others send them in the order of the token",
        assumptions="no process fails while it has the token; every packet arrives eventually",
        cost="one pair per copy; at most n on the token; three control packets per turn",
        options={"entries": Option("own", "those in a copy: its own, or all", ("own", "all"))},
        lost_by_skip="a token that is lost takes along what the latest messages were",
        unmarked_by_skip="a token that is lost takes along what the latest messages were",
        research=True,
        bytes_per_entry=PAIR_BYTES,
        has_roles=True,
        queueing=True,
    )
    WIRE: ClassVar = SerialWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._carries_all = view.options["entries"] == "all"
        self._home = 0
        self._token: Token | None = {} if me == 0 else None
        self._lent: tuple[int, Token] | None = None
        """At home, which process has the token, and the token as it was when it left."""
        self._queue: list[Message] = []
        self._wishes: list[int] = []
        self._has_asked, self._gone = False, 0

    def admit(self, others: tuple[int, ...]) -> None:
        if self._token is None:
            self._check_queue(1)

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        self._queue.append(message)
        if self._token is not None:
            self._send_queue(self._token)
        else:
            self._wish()
        self.queued = len(self._queue)

    def _wish(self) -> None:
        """Ask for the token, only once, if messages wait for it."""
        if self._queue and self.me != self._home and not self._has_asked:
            self._has_asked = True
            self.say(self._home, None)

    def _send_queue(self, token: Token) -> None:
        """Send all waiting messages; each copy names the latest message to its destination."""
        shift, me = self.shift, self.me
        for message in self._queue:
            if self._carries_all:
                message.control = dict(token)
            for dest in self.view.list(message.dests & ~(1 << me) & ~self._gone):
                self.outbox.append((dest, message, token.get(dest)))
                token[dest] = message.seq << shift | me
        self._queue.clear()
        self.queued = 0

    def check(self, packet: Packet) -> str:
        message, token = packet.content, packet.content.control
        if token is None:
            return ""
        if not message.seq and self._home not in (self.me, packet.source_no):
            return "is the token, but neither from its home nor to it"
        claims = [key >> self.shift for key in token.values() if key & self.low == self.me]
        return self.too_new(max(claims, default=0))

    def needs(self, packet: Packet) -> list[int]:
        return NOBODY if packet.own is None else [packet.own]

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Deliver a message, note a request, or use the token and pass it on."""
        message, source = packet.content, packet.source_no
        if message.seq:
            self.reached[source] = message.seq << self.view.shift | source
            return self.places[source]
        if message.control is not None:
            token = dict(message.control)
            self._send_queue(token)
            if self.me == self._home:
                self._token, self._lent = token, None
            else:
                self._has_asked = False
                self.say(self._home, token)
        elif source not in self._wishes:
            self._wishes.append(source)
        self._lend()
        return ()

    def _lend(self) -> None:
        """Pass the token to the process that asked for it first."""
        if self._token is not None and self._wishes:
            dest, token = self._wishes.pop(0), self._token
            self._token, self._lent = None, (dest, dict(token))
            self.say(dest, token)

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        key: int = packet.own or 0
        return key & self.low == sender and key >> self.shift >= seq

    def gone(self, source: int) -> None:
        """Replace the token if a process that is gone had it, and the home if it was that."""
        self._gone |= 1 << source
        self._wishes = [other for other in self._wishes if other != source]
        if self._lent is not None and self._lent[0] == source:
            self._token, self._lent = self._lent[1], None
        if source == self._home:
            left = self.view.everyone & ~self._gone
            self._home, self._has_asked = (left & -left).bit_length() - 1, False
            if self.me == self._home:
                self._token = {}
        if self._token is not None:
            self._send_queue(self._token)
            self._lend()
        else:
            self._wish()

    def keep(self, saved: Saved) -> None:
        n = self.view.n
        self._queue = saved.field("queue", self._queue, [own_message(self)])
        self.queued = len(self._queue)
        token = {n: kinds.key(self.view)}
        self._token = saved.field("token", self._token, kinds.optional(token))
        self._lent = saved.field("lent", self._lent, kinds.optional((range(n), token)))
        self._wishes = saved.numbers("wishes", self._wishes, most=n - 1, is_open=True)
        self._has_asked = saved.field("has_asked", self._has_asked, bool)
        self._home = saved.number("home", self._home, 0, n - 1)
        self._gone = saved.field("gone", self._gone, kinds.mask(n))
        is_away = self.me != self._home and (self._token is not None or self._lent is not None)
        saved.require(not is_away, "token", self._token, "no token away from its home")
