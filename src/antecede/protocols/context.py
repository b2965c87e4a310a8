"""Causal broadcast by the ids of direct predecessors: the context graph of Psync [PBS89]_.

A conversation is a graph: a message follows those messages that its sender had seen and that no
other message it had seen followed. It carries their ids and waits for them, and for nothing else.

Differences from the paper
--------------------------
Written from descriptions of Psync. The graph is kept as one number per sender, because the messages
of a sender enter it in order. Requesting missing predecessors is unnecessary here: it is for
networks that lose packets.

References
----------
.. [PBS89] L. L. Peterson, N. C. Buchholz and R. D. Schlichting. "Preserving and using context
   information in interprocess communication". ACM Transactions on Computer Systems 7(3):217-246,
   1989. https://doi.org/10.1145/65000.65001
"""

from typing import Any, ClassVar

from antecede.endpoint import kinds
from antecede.endpoint.info import Formula, ProtocolInfo
from antecede.endpoint.messages import COUNT_MAX, PAIR_BYTES, Message, Packet
from antecede.endpoint.numbers import get_column, put_column, read_varint, varint
from antecede.endpoint.rules import ALIKE, Own, Rules, Saved, View, Wire
from antecede.endpoint.series import ascending, gaps, stepped, steps
from antecede.errors import PeerError


class ContextWire(Wire):
    """The ids of the predecessors, at most one of each sender."""

    def put(self, message: Message) -> bytes:
        """Return the number of ids, the gaps between senders, and the steps from our own number."""
        keys: list[int] = message.control
        one, names = put_column(gaps([key & self.view.low for key in keys]))
        two, numbers = put_column(steps([key >> self.view.shift for key in keys], message.seq))
        return b"".join((varint(len(keys) << 4 | one << 2 | two), names, numbers))

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        code, at = read_varint(data, at)
        senders, at = get_column(data, at, code >> 4, code >> 2 & 3)
        numbers, at = get_column(data, at, code >> 4, code & 3)
        keys: list[int] = []
        for sender, seq in zip(ascending(senders), stepped(numbers, message.seq), strict=True):
            if sender >= self.view.n or not 1 <= seq <= COUNT_MAX:
                raise PeerError("names messages that nobody sent")
            if sender == message.sender and seq >= message.seq:
                raise PeerError("knows of later messages of its sender")
            keys.append(seq << self.view.shift | sender)
        return keys, at

    def spell(self, packet: Packet) -> object:
        return tuple(sorted(map(self.view.id, packet.content.control)))

    def entries(self, packet: Packet) -> int:
        return len(packet.content.control)


class Context(Rules):
    """One process's view of the conversation."""

    INFO: ClassVar = ProtocolInfo(
        idea="ids of direct predecessors",
        paper="Peterson, Buchholz, Schlichting 1989 (Psync)",
        casts=("broadcast",),
        assumptions="one fixed group; every packet arrives eventually",
        cost="one id per direct predecessor; at most n, usually far fewer",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        lost_by_skip="a message that is lost takes along the names of those before it",
        bytes_per_entry=PAIR_BYTES,
        formula=Formula(lambda n: n, lambda n: 6 * n, lambda n: 6 * n, most=True),
    )
    WIRE: ClassVar = ContextWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._leaves: dict[int, int] = {}
        """By sender, the key of a message that no other message here follows yet."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Attach the message to all leaves; after that it is the only leaf."""
        message.control = [key for _, key in sorted(self._leaves.items())]
        self._leaves = {self.me: message.seq << self.view.shift | self.me}
        return ALIKE

    def needs(self, packet: Packet) -> list[int]:
        low, me = self.low, self.me
        return [key for key in packet.content.control if key & low != me]

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Add the message to the graph: it is a leaf, and its predecessors no longer are."""
        sender, leaves, low = packet.content.sender, self._leaves, self.low
        for key in packet.content.control:
            if leaves.get(key & low) == key:
                del leaves[key & low]
        self.reached[sender] = leaves[sender] = packet.content.seq << self.view.shift | sender
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        least, keys = seq << self.shift, packet.content.control
        return any(key & self.low == sender and key >= least for key in keys)

    def keep(self, saved: Saved) -> None:
        leaves = saved.field("leaves", sorted(self._leaves.values()), [kinds.key(self.view)])
        self._leaves = {key & self.low: key for key in leaves}
        newest = dict(enumerate(self.reached))
        newest[self.me] = max(newest[self.me], self.made << self.shift | self.me)
        is_known = all(key <= newest[sender] for sender, key in self._leaves.items())
        is_right = is_known and len(self._leaves) == len(leaves)
        saved.require(is_right, "leaves", leaves, "one message of each sender, delivered here")
