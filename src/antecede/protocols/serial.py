"""Sends one at a time, by a token: the serialised cases of [KS98]_ section 7.1.

Only the process that has the token may send, so all sends are totally ordered. The token knows the
latest message to each process. A message names the latest one to its destination and waits for it
there.

Guarantee
---------
Causal order; every process even delivers what others send it in the order of the token.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.
No process fails while it has the token.

Cost
----
One pair (sender, number) per copy, in broadcast and multicast alike, or with ``entries='all'`` up
to ``n``, as the paper counts; at most ``n`` pairs on the token. A turn takes three control packets:
a request, the token, and its return. Messages wait at their sender for its turn.

Names
-----
==================================  ==================================================
paper                               here
==================================  ==================================================
mutual exclusion                    the token, kept at ``Serial._home`` between turns
entries per destination             ``Serial._token``, while it is here; else None
(sender, timestamp) of the latest   ``Packet.own``; with ``entries='all'``
                                    ``Message.control``, for all destinations
==================================  ==================================================

Differences from the paper
--------------------------
In [KS98]_ every process keeps the entries, so a message carries one (broadcast) or up to ``n``
(multicast) of them. Here they travel with the token, and a copy carries only the one for its
destination; with ``entries='all'`` it carries them all, as in the paper. The latest message to a
process does not count that process's own; otherwise it could send before it has delivered, and its
message would stand for one that it has not. The first member is the token's home: others request
the token from it, and return it when they have sent what they had. So an idle system sends nothing. If a process
that has the token is declared gone, its home goes on with the token as it was lent; if the home is
gone, the next member becomes the home, with a new token.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from __future__ import annotations

from typing import ClassVar, cast

from antecede.endpoint.arguments import as_choice
from antecede.endpoint.fields import Fields
from antecede.endpoint.info import Option, ProtocolInfo
from antecede.endpoint.messages import (
    COUNT_MAX,
    PAIR_BYTES,
    ControlSize,
    Message,
    Packet,
    new_message,
)
from antecede.endpoint.numbers import get_column, put_column, read_count, read_varint, varint
from antecede.endpoint.registry import register
from antecede.endpoint.rules import (
    NOBODY,
    Own,
    Rules,
    State,
    Wire,
    knows_too_much,
    load_message,
    saved_message,
)
from antecede.endpoint.view import View
from antecede.errors import PeerError

Token = dict[int, int]
"""By destination, the key of the latest message to it."""
CARRIED = ("own", "all")


class SerialWire(Wire):
    """One entry, or all; of control packets, a wish has none, and the token begins with a 1."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._carries_all = view.options["entries"] == "all"

    def put(self, message: Message) -> bytes:
        """Return a token, if there is one."""
        if message.control is None:
            return b"" if message.seq else b"\0"
        token = sorted(cast("Token", message.control).items())
        dests, keys = [dest for dest, _ in token], [key for _, key in token]
        newest = max(keys, default=0) >> self.view.shift
        one, gaps = put_column([d - before - 1 for before, d in zip([-1, *dests], dests)])  # noqa: B905
        two, senders = put_column([key & self.view.low for key in keys])
        three, ages = put_column([newest - (key >> self.view.shift) for key in keys])
        count = len(token) if message.seq else len(token) + 1
        head = varint(count << 6 | one << 4 | two << 2 | three) + varint(newest)
        return b"".join((head, gaps, senders, ages))

    def get(self, data: bytes, at: int, message: Message) -> tuple[object, int]:
        """Read it."""
        if message.seq and not self._carries_all:
            return None, at
        code, at = read_varint(data, at)
        if not code and not message.seq:
            return None, at
        count = code >> 6 if message.seq else (code >> 6) - 1
        newest, at = read_count(data, at)
        gaps, at = get_column(data, at, max(count, 0), code >> 4 & 3)
        senders, at = get_column(data, at, max(count, 0), code >> 2 & 3)
        ages, at = get_column(data, at, max(count, 0), code & 3)
        token: Token = {}
        dest, shift = -1, self.view.shift
        for gap, sender, age in zip(gaps, senders, ages, strict=True):
            dest += gap + 1
            if max(dest, sender) >= self.view.n or sender == dest or age >= newest:
                msg = "has entries of processes that are not members, or of messages of nobody"
                raise PeerError(msg)
            token[dest] = newest - age << shift | sender
        if count < 0 or min(ages, default=newest):
            msg = "has no token, or no entry is the newest"
            raise PeerError(msg)
        return token, at

    def put_own(self, packet: Packet) -> bytes:
        """Return the entry of one destination, 0 if there is none."""
        if self._carries_all or not packet.content.seq:
            return b""
        return varint(cast("int | None", packet.own) or 0)

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[object, int]:
        """Read it; what a message waits for is not itself, nor a later one."""
        if not packet.content.seq:
            return None, at
        key: int | None = None
        if self._carries_all:
            key = cast("Token", packet.content.control).get(packet.dest_no)
        elif data[at]:
            key, at = self._get_key(data, at)
        else:
            at += 1
        if key is not None:
            sender, seq = key & self.view.low, key >> self.view.shift
            is_later = sender == packet.source_no and seq >= packet.content.seq
            if sender == packet.dest_no or is_later:
                msg = "waits for a message of its destination, for itself, or for a later one"
                raise PeerError(msg)
        return (None if self._carries_all else key), at

    def _get_key(self, data: bytes, at: int) -> tuple[int, int]:
        key, at = read_varint(data, at)
        if key & self.view.low >= self.view.n or not 1 <= key >> self.view.shift <= COUNT_MAX:
            msg = "names a message that nobody sent"
            raise PeerError(msg)
        return key, at

    def spell(self, packet: Packet) -> object:
        """Return a pair (sender, number), entries (destination, sender, number), or a wish."""
        members, shift, low = self.view.members, self.view.shift, self.view.low
        token = cast("Token | None", packet.content.control)
        if token is not None:
            return tuple(
                sorted([(members[d], members[k & low], k >> shift) for d, k in token.items()])
            )
        if not packet.content.seq:
            return ("wish",)
        key = cast("int | None", packet.own)
        return () if key is None else (members[key & low], key >> shift)

    def measure(self, packet: Packet) -> ControlSize:
        """Return the pairs carried."""
        token = cast("Token | None", packet.content.control)
        count = len(token) if token is not None else int(packet.own is not None)
        return ControlSize(count, 0, PAIR_BYTES * count)


class Serial(Rules):
    """One process, its messages that wait for the token, and the token while it is here."""

    INFO: ClassVar = ProtocolInfo(
        name="serial",
        idea="sends one at a time, by a token",
        paper="Kshemkalyani, Singhal 1998, section 7.1",
        cost="one pair per copy; at most n on the token; three control packets per turn",
        promises=frozenset({"safety", "liveness", "quiescence"}),
        options={
            "entries": Option(
                "own",
                "what a copy carries: the entry of its 'own' destination, or 'all', as printed",
                CARRIED,
            )
        },
        lost_by_skip="a token that is lost takes along what the latest messages were",
        unmarked_by_skip="a token that is lost takes along what the latest messages were",
        research=True,
        bytes_per_entry=PAIR_BYTES,
        has_roles=True,
        queueing=True,
    )
    WIRE: ClassVar = SerialWire
    IS_GUARDED: ClassVar = True

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._carries_all = view.options["entries"] == "all"
        self._home = 0
        self._token: Token | None = {} if me == 0 else None
        self._lent: tuple[int, Token] | None = None
        """At home, who has the token, and what it was when it left."""
        self._queue: list[Message] = []
        self._wishes: list[int] = []
        self._has_asked = False
        self._gone = 0

    @classmethod
    def check_options(cls, options: dict[str, object], members: tuple[str, ...]) -> None:
        """Refuse an unknown word."""
        as_choice("entries", options["entries"], CARRIED)

    def admit(self, others: tuple[int, ...]) -> None:
        """Refuse what would have to wait if too much does."""
        if self._token is None:
            self._check_queue(1)

    def stamp(
        self, message: Message, others: tuple[int, ...], event: int, after: int
    ) -> Own | None:
        """Send if the token is here, else wish for it."""
        self._queue.append(message)
        if self._token is not None:
            self._send_queue(self._token)
        else:
            self._wish()
        self.queued = len(self._queue)
        return None

    def _wish(self) -> None:
        if self.me != self._home and not self._has_asked:
            self._has_asked = True
            self._say(self._home, None)

    def _say(self, dest: int, token: Token | None) -> None:
        self.outbox.append((dest, new_message(self.view, self.me, 0, 0, b"", token), None))

    def _send_queue(self, token: Token) -> None:
        """Send all that waits, in order: each copy names the latest message to its destination."""
        shift, me = self.view.shift, self.me
        for message in self._queue:
            if self._carries_all:
                message.control = dict(token)
            for dest in self.view.list(message.dests & ~(1 << me) & ~self._gone):
                own = None if self._carries_all else token.get(dest)
                self.outbox.append((dest, message, own))
                token[dest] = message.seq << shift | me
        self._queue.clear()
        self.queued = 0

    def check(self, packet: Packet) -> str:
        """Refuse to hear of messages that this process has not sent, and a token from strangers."""
        message, view = packet.content, self.view
        token = cast("Token | None", message.control)
        if not message.seq and token is None:
            return ""
        if not message.seq and self._home not in (self.me, packet.source_no):
            return "is the token, but neither from its home nor to it"
        claims = [key for key in (token or {}).values() if key & view.low == self.me]
        if max(claims, default=0) >> view.shift > self.made and not self.is_stale:
            return knows_too_much(self.made)
        return ""

    def needs(self, packet: Packet) -> list[int]:
        """Return the latest message to this process before this one."""
        if not packet.content.seq:
            return NOBODY
        key = cast("int | None", packet.own)
        if self._carries_all:
            key = cast("Token", packet.content.control).get(self.me)
        return NOBODY if key is None else [key]

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Deliver a message, note a wish, or use the token and pass it on."""
        message, source = packet.content, packet.source_no
        if message.seq:
            self.reached[source] = message.seq << self.view.shift | source
            return self.places[source]
        if message.control is None:
            if source not in self._wishes:
                self._wishes.append(source)
        else:
            token = dict(cast("Token", message.control))
            self._send_queue(token)
            if self.me == self._home:
                self._token, self._lent = token, None
            else:
                self._has_asked = False
                self._say(self._home, token)
        self._lend()
        return ()

    def _lend(self) -> None:
        """Pass the token to who wished for it first."""
        if self._token is not None and self._wishes:
            dest, token = self._wishes.pop(0), self._token
            self._token, self._lent = None, (dest, dict(token))
            self._say(dest, token)

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Tell whether the message waited for is this one, or a later one of its sender."""
        low, shift = self.view.low, self.view.shift
        return any(key & low == sender and key >> shift >= seq for key in self.needs(packet))

    def gone(self, source: int) -> None:
        """Go on without the token that it has, or without the home that it was."""
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
        elif self._queue:
            self._wish()

    def state(self) -> State:
        """Return what waits, the token if it is here, and who wishes for it."""
        token, lent = self._token, self._lent
        return {
            "queue": [saved_message(message) for message in self._queue],
            "token": None if token is None else sorted(map(list, token.items())),
            "lent": None if lent is None else [lent[0], sorted(map(list, lent[1].items()))],
            "wishes": list(self._wishes),
            "has_asked": self._has_asked,
            "home": self._home,
            "gone": format(self._gone, "x"),
        }

    def load(self, state: Fields) -> None:
        """Take over all that."""
        n = self.view.n
        self._queue = [load_message(self, state, "queue", one) for one in state.list("queue")]
        self.queued = len(self._queue)
        self._token = self._load_token(state, state.take("token"))
        lent = state.take("lent")
        if lent is not None:
            if type(lent) is not list or len(lent) != 2 or lent[0] not in range(n):
                raise state.wrong("lent", lent, "a member and a token")
            self._lent = lent[0], self._load_token(state, lent[1]) or {}
        self._wishes = state.numbers("wishes", most=n - 1)
        self._has_asked = state.value("has_asked", bool)
        self._home = state.number("home", 0, n - 1)
        self._gone = state.mask("gone", n)
        if (self._token is not None or self._lent is not None) and self.me != self._home:
            raise state.wrong("token", self._token, "no token away from its home")

    def _load_token(self, state: Fields, saved: object) -> Token | None:
        if saved is None:
            return None
        view, token = self.view, dict[int, int]()
        if type(saved) is not list:
            raise state.wrong("token", saved, "pairs of a destination and a message")
        for pair in saved:
            if type(pair) is not list or len(pair) != 2 or set(map(type, pair)) != {int}:
                raise state.wrong("token", pair, "a destination and a message")
            dest, key = pair
            is_message = key & view.low < view.n and view.low < key <= COUNT_MAX << view.shift
            if not 0 <= dest < view.n or dest in token or not is_message:
                raise state.wrong("token", pair, "distinct destinations, and messages")
            token[dest] = key
        return token


register(Serial)
