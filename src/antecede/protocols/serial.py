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
(sender, timestamp) of the latest   ``Packet.control``
==================================  ==================================================

Differences from the paper
--------------------------
In [KS98]_ every process keeps the entries, so a message carries one (broadcast) or up to ``n``
(multicast) of them. Here they travel with the token, and a copy carries only the one for its
destination; with ``entries='all'`` it carries them all, as in the paper. The latest message to a
process does not count that process's own; otherwise it could send before it has delivered, and its
message would stand for one that it has not. The first member is the token's home: others request
the token from it, and return it when they have sent what they had. So an idle system sends nothing.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_choice
from antecede.core.info import Option, ProtocolInfo
from antecede.core.kinds import NAME, Maybe
from antecede.core.messages import PAIR_BYTES, MessageId, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import are_names, check_claim, is_count, is_counts, malformed
from antecede.errors import QueueFullError

Latest = dict[str, tuple[str, int]]
"""The latest message to each process: its sender and number."""
Entries = tuple[tuple[str, str, int], ...]
"""The same as a control: destination, sender and number."""
WISH = ("wish",)
CARRIED = ("own", "all")


@register
class Serial(Endpoint):
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
        fixed_because="the token would be lost with a process that has it",
        wire_number=15,
        bytes_per_entry=PAIR_BYTES,
        has_roles=True,
        queueing=True,
    )
    STATE: ClassVar = {
        "_queue": [(MessageId, (NAME, ...), bytes)],
        "_token": Maybe({NAME: (NAME, int)}),
        "_wishes": [NAME],
        "_has_asked": bool,
        "_newest": {NAME: int},
    }

    def _start(self) -> None:
        self._home = self.members[0]
        self._carries_all = as_choice("entries", self.options["entries"], CARRIED) == "all"
        self._token: Latest | None = {} if self.process == self._home else None
        self._queue: list[tuple[MessageId, tuple[str, ...], bytes]] = []
        self._wishes: list[str] = []
        self._has_asked = False
        self._newest: dict[str, int] = {}

    @property
    def queued(self) -> int:
        """The number of messages that wait for the token."""
        return len(self._queue)

    def _admit(self, targets: tuple[str, ...]) -> None:
        must_wait = self._token is None and set(targets) != {self.process}
        if must_wait and len(self._queue) >= self.queue_max:
            msg = (
                f"{len(self._queue)} messages of {self.process!r} already wait for the token "
                f"(queue_max={self.queue_max}); send again after some have gone out"
            )
            raise QueueFullError(msg, queued=self.queued, queue_max=self.queue_max)

    def _post(self, sending: Sending) -> None:
        self._queue.append((sending.message, sending.dests, sending.payload))
        if self._token is not None:
            self._send_queue(self._token)
        elif self.process != self._home and not self._has_asked:
            self._has_asked = True
            self._emit_control(self._home, WISH)

    def _send_queue(self, token: Latest) -> None:
        for sending in itertools.starmap(Sending, self._queue):
            before = _entries(token)
            for dest in sending.dests:
                if dest != self.process:
                    own = token.get(dest, ())
                    self._emit(dest, before if self._carries_all else own, sending)
                    token[dest] = (self.process, sending.message.seq)
        self._queue.clear()

    def _check(self, packet: Packet) -> None:
        control = packet.control
        if packet.kind == "data" and self._carries_all:
            if not _is_token(control):
                raise malformed(packet, "entries (destination, sender, number)")
            self._check_entries(packet)
            self._check_awaited(packet)
        elif packet.kind == "data":
            if control != () and not _is_pair(control):
                raise malformed(packet, "a pair (sender, number), or nothing")
            self._check_names(packet, cast("tuple[str, int] | tuple[()]", control)[:1])
            self._check_awaited(packet)
        elif control == WISH and self.process == self._home:
            return
        elif not _is_token(control) or self._home not in (self.process, packet.source):
            raise malformed(packet, "a wish to the home of the token, or the token from or to it")
        else:
            self._check_entries(packet)

    def _check_entries(self, packet: Packet) -> None:
        entries = cast("Entries", packet.control)
        names = {name for dest, sender, _ in entries for name in (dest, sender)}
        if not self._positions.keys() >= names:
            self._check_names(packet, sorted(names))
        claimed = max([seq for _, sender, seq in entries if sender == self.process], default=0)
        check_claim(self, packet, claimed, self._seq)

    def _check_awaited(self, packet: Packet) -> None:
        """Refuse a message that would wait for itself, for a later one, or for one of ours."""
        for sender, seq in self._awaited(packet):
            if sender == self.process:
                raise malformed(packet, f"no message of {sender!r} to {sender!r} itself")
            if sender == packet.source and seq >= packet.message_id.seq:
                raise malformed(packet, f"messages of {sender!r} before {packet.message}")

    def _awaited(self, packet: Packet) -> tuple[tuple[str, int], ...]:
        """Return the message to this process before this one, or nothing."""
        if self._carries_all:
            entries = cast("Entries", packet.control)
            return tuple([(sender, seq) for dest, sender, seq in entries if dest == self.process])
        pair = cast("tuple[str, int] | tuple[()]", packet.control)
        return (pair,) if pair else ()

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        for sender, seq in self._awaited(packet):
            if self._newest.get(sender, 0) < seq:
                yield Need(sender, seq)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        self._newest[packet.source] = packet.message_id.seq
        return (Need(*packet.message_id),)

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        if packet.control == WISH:
            self._wishes.append(packet.source)
        else:
            entries = cast("Entries", packet.control)
            token = {dest: (sender, seq) for dest, sender, seq in entries}
            self._send_queue(token)
            if self.process == self._home:
                self._token = token
            else:
                self._has_asked = False
                self._pass_on(token, self._home)
        if self._token is not None and self._wishes:
            token, self._token = self._token, None
            self._pass_on(token, self._wishes.pop(0))
        return ()

    def _pass_on(self, token: Latest, dest: str) -> None:
        self._emit_control(dest, _entries(token))


def _entries(token: Latest) -> Entries:
    return tuple((name, *latest) for name, latest in sorted(token.items()))


def _is_pair(value: object) -> bool:
    if type(value) is not tuple or len(value) != 2:
        return False
    return type(value[0]) is str and is_count(value[1], 1)


def _is_token(control: object) -> bool:
    if type(control) is not tuple:
        return False
    if not control:
        return True
    if set(map(type, control)) != {tuple} or set(map(len, control)) != {3}:
        return False
    dests, senders, numbers = zip(*control, strict=True)
    if not are_names(dests) or set(map(type, senders)) != {str}:
        return False
    return is_counts(numbers, len(numbers)) and 0 not in numbers
