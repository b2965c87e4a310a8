"""Causal broadcast by flooding links that keep order: PC-broadcast [NMM18]_.

Processes are joined by links that keep order. A process sends a message to all its neighbours, and
whoever gets a message for the first time passes it on to all others before sending anything itself.
So over each link a message follows everything that its source had delivered before: no control is
needed but the message's own name, by which repeats are recognised.

Links may be added while messages flow. A new link is not used at once, because its messages could
overtake others that still travel by other links. The process floods a *ping* over its links; when
the ping reaches the other end, everything delivered before it is there too. The other end answers;
what is delivered until then is kept for the new link and sent over it first.

Why this is safe: a link from p to q carries, in order, all messages that p delivers after some
point (except those that q itself sent to p), and q has delivered what p delivered before that point
when it gets anything by the link. For the first links that point is the beginning; for a new one it
is p's ping, which is flooded like a message, so that q then has all that p had when it sent the
ping. Hence if m is a cause of m', q has m before it first gets m', by whatever link.

Differences from the paper
--------------------------
A message is not sent back to where it came from. A ping opens the link both ways: the other end
answers it with a ping of its own. Pings are kept for links that are being opened, as messages are;
otherwise a later ping could overtake an earlier one of the same process, which would then look like
a repeat, and its link would never open. Repeats are recognised by numbers instead of a set of
messages: n numbers, as long as nobody fails. The paper's processes come and go; here members are
fixed. In pull mode processes also pass on what their application has not taken yet.

References
----------
.. [NMM18] B. Nédelec, P. Molli and A. Mostéfaoui. "Breaking the scalability barrier of causal
   broadcast for large and dynamic systems". 37th Symposium on Reliable Distributed
   Systems:51-60, 2018. https://arxiv.org/abs/1805.05201
"""

from itertools import pairwise
from typing import ClassVar, cast

from antecede.endpoint import kinds
from antecede.endpoint.arguments import as_links
from antecede.endpoint.hold import Channels
from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.messages import PAIR_BYTES, Message, Packet
from antecede.endpoint.numbers import read_count, read_varint, varint
from antecede.endpoint.relays import Chained, ChainWire
from antecede.endpoint.rules import Saved, View
from antecede.errors import PeerError

Ping = tuple[int, int]
"""The process to link to, and the number of this ping among its sender's pings."""


def default_links(n: int) -> list[tuple[int, int]]:
    """Return links from each place i to 2i and 2i + 1 (mod n): few links, and short paths."""
    pairs = {(min(i, j), max(i, j)) for i in range(n) for j in (2 * i % n, (2 * i + 1) % n)}
    return sorted([(i, j) for i, j in pairs if i != j])


class FloodingWire(ChainWire):
    """Nothing for messages; a ping, or an answer to one."""

    def put(self, message: Message) -> bytes:
        if message.seq:
            return b""
        ping = cast("Ping | None", message.control)
        return b"\0" if ping is None else varint(ping[0] + 1) + varint(ping[1])

    def get(self, data: bytes, at: int, message: Message) -> tuple[object, int]:
        if message.seq:
            return None, at
        target, at = read_varint(data, at)
        if not target:
            return None, at
        number, at = read_count(data, at, 1)
        if target > self.view.n or target - 1 == message.sender:
            raise PeerError("wants a link to itself, or to someone who is not a member")
        return (target - 1, number), at

    def spell(self, packet: Packet) -> object:
        """Return ("ping", process, number), ("pong",), or nothing for messages."""
        ping = cast("Ping | None", packet.content.control)
        if packet.content.seq:
            return None
        return ("pong",) if ping is None else ("ping", self.view.members[ping[0]], ping[1])

    def entries(self, packet: Packet) -> int:
        """Return 1: the name of a message, or of a ping."""
        return 1


class Flooding(Chained):
    """A process, its links, and the links that it is opening."""

    INFO: ClassVar = ProtocolInfo(
        idea="pass every message on over all links, which keep order",
        casts=("broadcast",),
        assumptions="links that connect all, also without those who fail; every packet arrives",
        cost="a message's name; each message crosses every link once or twice",
        options={
            "links": Option(
                None,
                "pairs of members that connect all; by default member i with 2i and 2i + 1 (mod n)",
                check=as_links,
            )
        },
        lost_by_skip="a process that is gone takes along what it has not passed on",
        unmarked_by_skip="a message tells what went before it, but not what its sender knew of",
        research=True,
        bytes_per_entry=PAIR_BYTES,
        has_roles=True,
        relays=True,
        opens_links=True,
        variants=(
            Variant("ring", lambda members: {"links": _ring(members)}),
            Variant("line", lambda members: {"links": tuple(pairwise(members))}),
        ),
    )
    WIRE: ClassVar = FloodingWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        given = cast("tuple[tuple[str, str], ...] | None", view.options["links"])
        numbers = view.numbers
        links = default_links(view.n) if given is None else [
            (numbers[one], numbers[other]) for one, other in given
        ]  # fmt: skip
        self._near = sorted([i + j - me for i, j in links if me in (i, j)])
        """Whom this process sends to, and who may send to it, as a mask."""
        self._heard = sum([1 << near for near in self._near])
        self._opening: dict[int, list[Message]] = {}
        """By process to which a link is being opened, what must be sent over it first."""
        self._wishes = 0
        self._pings = [0] * view.n
        """How many links this process has asked for, and each process's last ping seen here."""
        self._seen = Channels(view.n)
        """Which messages of each sender have arrived."""

    # Send.

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        """Send the message over all links."""
        self._spread(message, self.me)

    def _spread(self, message: Message, source: int) -> None:
        """Send a message or ping on all links but the one it came by, and keep it for new links."""
        for dest in self._near:
            if dest != source:
                self._put(dest, message)
        for dest, kept in self._opening.items():
            if dest != source:
                kept.append(message)

    def _put(self, dest: int, message: Message) -> None:
        if message.seq:
            self.post(dest, message)
        else:
            self.outbox.append((dest, message, None))

    def link(self, dest: int) -> None:
        """Flood a ping; until it is answered, keep what must be sent over the new link first."""
        if dest not in self._near and dest not in self._opening and not self._gone >> dest & 1:
            self._wishes += 1
            wish = Message(self.view, self.me, 0, 0, b"", (dest, self._wishes))
            self._spread(wish, self.me)
            self._opening[dest] = []

    # Receive.

    def check(self, packet: Packet) -> str:
        message, source = packet.content, packet.source_no
        ping = cast("Ping | None", message.control)
        if message.seq or ping is not None:
            if not self._heard >> source & 1:
                return "comes from a process that has no link to this one"
        elif message.sender != source:
            return "answers for another process"
        if message.seq and message.dests | 1 << message.sender != self.view.everyone:
            return "is not for all"
        if message.sender != self.me:
            return ""
        if ping is not None and ping[1] > self._wishes and not self.is_stale:
            return f"wants more links of this process than the {self._wishes} that it wished for"
        return self.too_new(message.seq)

    def drops(self, packet: Packet) -> bool:
        """Return whether a message has arrived before."""
        return self._is_seen(packet.content)

    def _is_seen(self, message: Message) -> bool:
        return message.sender == self.me or self._seen.is_seen(message.sender, message.seq)

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Pass on what arrives for the first time; answer a ping; use a link that is answered."""
        message, source = packet.content, packet.source_no
        self.reached[source] = max(self.key(packet), self.reached[source])
        if message.seq:
            if not self._is_seen(message):
                self._seen.accept(message.sender, message.seq)
                self._spread(message, source)
        elif message.control is None:
            self._use(source)
        else:
            target, number = cast("Ping", message.control)
            if message.sender != self.me and number > self._pings[message.sender]:
                self._pings[message.sender] = number
                self._spread(message, source)
                if target == self.me:
                    self._heard |= 1 << message.sender
                    self.say(message.sender, None)
                    self.link(message.sender)
        return self.places[source]

    def _use(self, dest: int) -> None:
        """Start to use a link: first send over it what was delivered since its ping."""
        if dest in self._opening:
            self._near = sorted([*self._near, dest])
            for message in self._opening.pop(dest):
                self._put(dest, message)

    def newest(self, sender: int) -> int:
        return self._seen.prefix[sender]

    def ahead(self, sender: int) -> list[int]:
        return sorted(self._seen.ahead[sender])

    def gone(self, source: int) -> None:
        """Stop using the link to a process that is gone."""
        super().gone(source)
        self._near = [near for near in self._near if near != source]
        self._opening.pop(source, None)

    # What is kept.

    def kept_entries(self) -> int:
        """Return how many messages are kept for links that are being opened."""
        return sum(map(len, self._opening.values()))

    def keep(self, saved: Saved) -> None:
        super().keep(saved)
        n, seen = self.view.n, self._seen
        self._near = saved.numbers("near", self._near, most=n - 1, is_open=True)
        self._heard = saved.field("heard", self._heard, kinds.mask(n))

        kind = [(range(n), [kinds.Kind(_saved, self._loaded)])]
        self._opening = dict(saved.field("opening", [*self._opening.items()], kind))
        self._wishes = saved.number("wishes", self._wishes)
        self._pings = saved.numbers("pings", self._pings)
        seen.prefix = saved.numbers("prefix", seen.prefix)
        seen.ahead = saved.rows("ahead", seen.ahead, leasts=[one + 2 for one in seen.prefix])

    def _loaded(self, value: object) -> Message:
        """Return the message or ping that :func:`_saved` wrote."""
        who, dests = range(self.view.n), kinds.mask(self.view.n)
        parts = kinds.get((who, int, dests, bytes, who, int), value)
        sender, seq, dests, payload, target, wish = parts
        return Message(self.view, sender, seq, dests, payload, None if seq else (target, wish))


def _saved(message: Message) -> list[object]:
    """Return a message or a ping in the form that a snapshot has."""
    target, number = cast("Ping", message.control or (0, 0))
    dests = format(message.dests, "x")
    return [message.sender, message.seq, dests, message.payload, target, number]


def _ring(members: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return a link from each member to the next, and from the last to the first."""
    around = members if len(members) < 3 else (*members, members[0])
    return tuple(pairwise(around))
