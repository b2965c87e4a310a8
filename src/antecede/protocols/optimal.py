"""The least information that causal order needs: Kshemkalyani and Singhal [KS98]_.

For each earlier message that someone might still have to wait for, a message names the destinations
where it is neither known to be delivered nor certain to be delivered in order. Knowledge shows as
absence: a destination missing from an entry, or an entry missing although its sender has a newer
one, means "no longer relevant".

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing; after every event the
explicit information kept is exactly what the Propagation Constraints require ([KS98] 3.4).

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets
([KS98] assumes FIFO channels, but the algorithm does not need them).

Cost
----
At most ``n * n`` units per copy, usually far fewer: one entry per relevant message and one id per
remaining destination. ``O(n * n)`` time per send and delivery, because the part of SND(2) that all
destinations share is computed once.

Names
-----
=================  =========================================================================
paper              here
=================  =========================================================================
``LOG_j``          ``Optimal._tops`` and ``Optimal._log``: see :mod:`antecede.endpoint.logs`
``SR_j``           ``Rules.reached``
``clock_j``        ``Message.seq``
``M.Dests``        ``Message.dests``, a mask; the sender itself is left out
``O_M``            ``Message.control`` (tops, log) and ``Packet.own``, the needs of one copy
=================  =========================================================================

:mod:`antecede.protocols.specs.optimal` is the algorithm as printed, by names. Here the copies of a
message share what SND(2) computes for all of them. A copy for d differs from the others only in the
entries that name d: these are its *needs*, and the log that all share names no destination of M.

Differences from the paper
--------------------------
The initial entries (i, 0, {}) are left out: an absent sender means the same. RCV(4) and RCV(5) wait
for the next send: a delivery only notes what its message carried. Then the newest is merged first,
and one that its sender knew of is passed over: whoever knew of a message had merged all that it
carried. The log is the same whenever it is looked at.

``lookahead`` (4.5) merges a message's control on arrival. The paper's remark lets the receiver
purge by a message that it has not delivered. That alone loses order, because the guarantee holds
only in the causal future of a send; so the message's own entries are merged as well, and messages
may then wait longer than necessary. ``hardware_multicast`` (4.5) sends the log as it was, and the
receiver applies SND(2) with its own name. ``differential`` (3.5) sends, on each channel, the changes
to the control sent there before; packets of a channel are then handled in order. This delays
nothing, because causal order requires it between two messages on one channel anyway. It costs the
last control sent and received on each channel as state. Entries stay in the log even if all
channels have carried them, because their absence would mean something.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from __future__ import annotations

from typing import ClassVar, Final, cast

from antecede.endpoint.arguments import as_flag
from antecede.endpoint.fields import Fields
from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.logs import (
    Control,
    Log,
    LogWire,
    Tops,
    count,
    explicit,
    load_log,
    merged,
    saved,
    spelt,
    take,
    with_needs,
)
from antecede.endpoint.messages import (
    COUNT_MAX,
    FREE,
    ID_BYTES,
    PAIR_BYTES,
    ControlSize,
    Message,
    MessageId,
    Packet,
    new_message,
    new_packet,
)
from antecede.endpoint.numbers import read_varint, varint
from antecede.endpoint.registry import register
from antecede.endpoint.rules import ALIKE, NOBODY, Own, Rules, State, Wire, knows_too_much
from antecede.endpoint.view import View
from antecede.errors import PeerError, UsageError

HEARD_MAX: Final = 64
"""How many messages may wait to be merged."""
_LOST_BY_LOOKAHEAD: Final = frozenset({"no_overblocking", "necessity"})


class OptimalWire(LogWire):
    """O_M: tops and log as all copies share them, and the needs of one.

    With ``hardware_multicast`` it is O_M before SND(2), the same for all copies.
    """

    def excluded(self, message: Message) -> int:
        """Return whom no entry names: with ``hardware_multicast`` there is nobody."""
        return 0 if self.view.options["hardware_multicast"] else super().excluded(message)

    def spell(self, packet: Packet) -> object:
        """Return O_M for one copy: sorted entries (sender, clock, destinations)."""
        tops, log = cast("Control", packet.content.control)
        return spelt(self.view, tops, with_needs(packet, log))

    def measure(self, packet: Packet) -> ControlSize:
        """Return the entries carried and the destinations left in them."""
        tops, log = cast("Control", packet.content.control)
        return _size(count(self.view, tops, with_needs(packet, log)), with_needs(packet, log))

    def later(self, first: Packet, ahead: int, payload: bytes) -> Packet | None:
        """Return a packet of a run: its message needs the one before, and knows no others."""
        message, source = first.content, first.source_no
        if type(self) is not OptimalWire or message.seq + ahead > COUNT_MAX or not message.seq:
            return None
        tops, log = cast("Control", message.control)
        tops = tops.copy()
        tops[source] = key = message.seq + ahead - 1 << self.view.shift | source
        made = new_message(
            self.view, source, message.seq + ahead, message.dests, payload, (tops, log)
        )
        return new_packet(made, source, first.dest_no, first.n + ahead, [key])


class Optimal(Rules):
    """One process's log of messages whose delivery is not yet certain."""

    INFO: ClassVar = ProtocolInfo(
        name="optimal",
        idea="exactly the necessary and sufficient information",
        paper="Kshemkalyani, Singhal 1998",
        guarantee="causal order with the least explicit information",
        cost="one entry per message not yet certain, one id per remaining destination; at most n*n",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking", "necessity"}),
        options={
            "hardware_multicast": Option(
                default=False, doc="one identical packet to all destinations ([KS98] 4.5)"
            ),
            "lookahead": Option(
                default=False, doc="merge a message's control on arrival ([KS98] 4.5)"
            ),
            "differential": Option(
                default=False, doc="send only what changed on that channel ([KS98] 3.5)"
            ),
        },
        short_name="KS",
        bytes_per_entry=PAIR_BYTES,
        variants=(
            Variant("hardware", lambda _: {"hardware_multicast": True}),
            Variant("lookahead", lambda _: {"lookahead": True}, _LOST_BY_LOOKAHEAD),
            Variant(
                "both",
                lambda _: {"hardware_multicast": True, "lookahead": True},
                _LOST_BY_LOOKAHEAD,
            ),
            Variant("differential", lambda _: {"differential": True}),
        ),
    )
    WIRE: ClassVar[type[Wire]] = OptimalWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._tops: Tops = list(range(view.n))
        self._log: Log = {}
        self._heard: list[tuple[int, int, Control]] = []
        """Not merged yet: keys, destinations and controls."""
        self._is_known = False
        """Whether our last message, the first in ``_heard``, stands for all in ``_log``."""
        self._run: Tops = []
        """The tops of the last message of a run, which nobody else has."""

    @classmethod
    def of(cls, view: View) -> type[Rules]:
        """Return the class that the options ask for."""
        if view.options["differential"]:
            return Differential
        return Remarks if any(view.options.values()) else cls

    @classmethod
    def check_options(cls, options: dict[str, object], members: tuple[str, ...]) -> None:
        """Refuse what is not a flag, and flags that exclude each other."""
        for name, value in options.items():
            as_flag(name, value)
        if options["differential"] and (options["hardware_multicast"] or options["lookahead"]):
            msg = (
                "differential sends what changed, packet by packet, so it excludes "
                "hardware_multicast and lookahead; choose one"
            )
            raise UsageError(msg)

    def stamp(
        self, message: Message, others: tuple[int, ...], event: int, after: int
    ) -> Own | None:
        """SND(2) to SND(5)."""
        if self._heard:
            self._merge()
        dests, log = message.dests & ~(1 << self.me), self._log
        # SND(2): an entry that names d goes to d; SND(3): nobody else needs to know it from us.
        needs = take(log, dests) if log else ALIKE
        message.control = control = self._tops, log
        key = message.seq << self.shift | self.me
        self._heard.append((key, dests, control))  # SND(4); SND(5) is done by the form of the log
        self._is_known = True
        return needs

    def repeat(self) -> bool:
        """SND(2) to SND(5), if all that is new is that our last message went to one process."""
        heard = self._heard
        if len(heard) != 1 or not self._is_known or type(self) is not Optimal:
            return False
        key, dests, (tops, log) = heard[0]
        if dests & dests - 1 or not dests:
            return False
        if tops is not self._run:
            tops = self._run = tops.copy()
        tops[self.me] = key
        heard[0] = key + (1 << self.shift), dests, (tops, log)
        return True

    def check(self, packet: Packet) -> str:
        """Refuse to hear of messages that this process has not sent."""
        tops = cast("Control", packet.content.control)[0]
        if tops[self.me] >> self.shift > self.made and not self.is_stale:
            return knows_too_much(self.made)
        return ""

    def needs(self, packet: Packet) -> list[int]:
        """Return the entries of O_M that name this process."""
        return cast("list[int] | None", packet.own) or NOBODY

    def blocker(self, packet: Packet) -> int:
        """RCV(1), the Delivery Condition: SR_j has each message that O_M says was sent to j."""
        own = cast("list[int] | None", packet.own)
        if own:
            reached, low = self.reached, self.low
            for key in own:
                if key > reached[key & low]:
                    return key
        return FREE

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """RCV(2), and a note for RCV(3) to RCV(5)."""
        message = packet.content
        sender = message.sender
        self.reached[sender] = key = message.seq << self.shift | sender
        self._heard.append((key, message.dests, cast("Control", message.control)))
        if len(self._heard) > HEARD_MAX:
            self._merge()
        return self.places[sender]

    def repeated(self, first: Packet, count: int) -> bool:
        """RCV(2) for a run, and a note of its last message, whose sender knew of the others."""
        message = first.content
        sender, shift = message.sender, self.shift
        key = message.seq << shift | sender
        if type(self) is not Optimal or self.reached[sender] != key:
            return False
        if message.seq + count > COUNT_MAX:
            return False
        tops, log = cast("Control", message.control)
        tops = tops.copy()
        tops[sender] = key + (count - 1 << shift)
        self.reached[sender] = last = key + (count << shift)
        if self._heard and self._heard[-1][0] == key:
            self._heard.pop()
        self._heard.append((last, message.dests, (tops, log)))
        if len(self._heard) > HEARD_MAX:
            self._merge()
        return True

    def _merge(self) -> None:
        """RCV(3) to RCV(5) for all that was heard, the newest first."""
        low, mine = self.view.low, 1 << self.me
        tops: Tops = []
        log: Log = {}
        for key, dests, (their_tops, their_log) in reversed(self._heard):
            sender = key & low
            if not tops:
                tops, log = their_tops.copy(), their_log.copy()
            elif key > tops[sender]:
                tops, log = merged(tops, log, their_tops, their_log, low)  # RCV(4)
            else:
                continue  # whoever sent a later one knew of it
            tops[sender] = key  # RCV(3): the message itself, for its other destinations
            if rest := dests & ~(1 << sender | mine):
                log[key] = rest
        if not self._is_known:
            tops, log = merged(tops, log, self._tops, self._log, low)
        self._heard.clear()
        self._tops, self._log, self._is_known = tops, log, False

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Tell whether the sender of a packet knew of a message."""
        return cast("Control", packet.content.control)[0][sender] >> self.shift >= seq

    def kept(self) -> object:
        """Return LOG_j: sorted entries (sender, clock, destinations)."""
        return spelt(self.view, *self._settled())

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the explicit part of the log."""
        return explicit(self.view, self._settled()[1])

    def kept_entries(self) -> int:
        """Return the entries of the log."""
        return count(self.view, *self._settled())

    def _settled(self) -> Control:
        """Return the log with all that was heard."""
        if self._heard:
            self._merge()
        return self._tops, self._log

    def state(self) -> State:
        """Return LOG_j."""
        tops, log = self._settled()
        return {"tops": list(tops), "log": saved(log)}

    def load(self, state: Fields) -> None:
        """Take over LOG_j."""
        self._tops = state.keys("tops", self.view.n, self.shift)
        self._log = load_log(state, "log", self.view, self._tops)
        if self._tops[self.me] >> self.shift > self.made:
            raise state.wrong("tops", self._tops, f"at most {self.made} messages of its own")


# Section 4.5: one packet for all destinations, and RCV(4) and RCV(5) as soon as a message arrives.


class Remarks(Optimal):
    """``hardware_multicast`` and ``lookahead``. All is merged at once."""

    HEARS: ClassVar = True

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._is_hardware = bool(view.options["hardware_multicast"])
        self._looks_ahead = bool(view.options["lookahead"])

    def stamp(
        self, message: Message, others: tuple[int, ...], event: int, after: int
    ) -> Own | None:
        """SND(2) to SND(5); hardware sends the log as it was, to all."""
        before = self._log.copy()
        needs = super().stamp(message, others, event, after)
        if self._is_hardware:
            message.control = self._tops, before
            needs = ALIKE
        self._merge()
        return needs

    def needs(self, packet: Packet) -> list[int]:
        """Return the entries of O_M that name this process."""
        if not self._is_hardware:
            return super().needs(packet)
        bit = 1 << self.me
        log = cast("Control", packet.content.control)[1]
        return [key for key, mask in log.items() if mask & bit]

    def blocker(self, packet: Packet) -> int:
        """RCV(1)."""
        return Rules.blocker(self, packet)

    def arrived(self, packet: Packet) -> None:
        """RCV(4) and RCV(5) early, with the message's own entries, which name this process."""
        if self._looks_ahead:
            bit, (their_tops, their_log) = 1 << self.me, self._carried(packet)
            named = {key: their_log.get(key, 0) | bit for key in self.needs(packet)}
            self._merge_now(packet, (their_tops, their_log | named))
            self._drop_delivered()

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """RCV(2) to RCV(5)."""
        self.reached[packet.content.sender] = self.key(packet)
        if not self._looks_ahead:
            self._merge_now(packet, self._carried(packet))
        self._drop_delivered()
        return self.places[packet.content.sender]

    def _carried(self, packet: Packet) -> Control:
        """Return O_M, after SND(2) if the sender left that to us."""
        tops, log = cast("Control", packet.content.control)
        drop = packet.content.dests & ~(1 << packet.content.sender) if self._is_hardware else 0
        return tops, {key: rest for key, mask in log.items() if (rest := mask & ~drop)}

    def _merge_now(self, packet: Packet, control: Control) -> None:
        """RCV(3) and RCV(4): merge what a message carries, and the message itself."""
        key, sender = self.key(packet), packet.content.sender
        rest = packet.content.dests & ~(1 << sender)
        if key <= self._tops[sender]:
            rest &= self._log.get(key, 0)
        bounds = control[0].copy()
        bounds[sender] = key
        low = self.view.low
        self._tops, self._log = merged(self._tops, self._log, bounds, control[1], low)
        if rest:
            self._log[key] = rest

    def _drop_delivered(self) -> None:
        """Drop this process from the entries of messages that it has delivered."""
        bit, reached, low = 1 << self.me, self.reached, self.view.low
        self._log = {
            key: rest
            for key, mask in self._log.items()
            if (rest := mask & ~bit if key <= reached[key & low] else mask)
        }


# Section 3.5: on each channel, only what changed.

Entries = dict[int, int]
"""O_M for one copy, with an empty mask for a sender's newest message that names nobody."""
Change = tuple[bool, list[int], Entries]
"""Whether all is new; else the entries that are gone; and those that are new or changed."""


class DifferentialWire(Wire):
    """The changes to O_M that one copy brings."""

    def put(self, message: Message) -> bytes:
        """Return nothing: copies share nothing."""
        return b""

    def get(self, data: bytes, at: int, message: Message) -> tuple[object, int]:
        """Read nothing."""
        return None, at

    def put_own(self, packet: Packet) -> bytes:
        """Return the entries that are gone, and those that are new or changed."""
        is_all, gone, fresh = cast("Change", packet.own)
        out = [varint(len(gone) << 1 | is_all), varint(len(fresh))]
        last = -1
        for key in gone:
            out.append(varint(key - last - 1))
            last = key
        last = -1
        for key, mask in fresh.items():
            out += varint(key - last - 1), mask.to_bytes(self.view.n + 7 >> 3, "little")
            last = key
        return b"".join(out)

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[object, int]:
        """Read them."""
        code, at = read_varint(data, at)
        count, at = read_varint(data, at)
        gone: list[int] = []
        fresh: Entries = {}
        last, size = -1, self.view.n + 7 >> 3
        for _ in range(code >> 1):
            gap, at = read_varint(data, at)
            last += gap + 1
            gone.append(last)
        last = -1
        for _ in range(count):
            gap, at = read_varint(data, at)
            last += gap + 1
            fresh[last] = int.from_bytes(data[at : at + size], "little")
            at += size
        self._check(packet.content, code, gone, fresh)
        if at > len(data):
            raise IndexError(at)
        return (bool(code & 1), gone, fresh), at

    def _check(self, message: Message, code: int, gone: list[int], fresh: Entries) -> None:
        view = self.view
        keys = [*gone, *fresh]
        if any(
            not view.low < key < COUNT_MAX << view.shift or key & view.low >= view.n for key in keys
        ):
            msg = "has entries of messages that nobody sent"
            raise PeerError(msg)
        later = [
            k for k in keys if k & view.low == message.sender and k >> view.shift >= message.seq
        ]
        if later or any(mask >> view.n for mask in fresh.values()) or (code & 1 and gone):
            msg = "knows of later messages of its sender, or of destinations that are not members"
            raise PeerError(msg)

    def spell(self, packet: Packet) -> object:
        """Return O_M, or ("diff", what is gone, what is new or changed)."""
        is_all, gone, fresh = cast("Change", packet.own)
        view = self.view
        entries = spelt(view, [], fresh)
        if is_all:
            return entries
        return (
            "diff",
            tuple(sorted([(view.members[k & view.low], k >> view.shift) for k in gone])),
            entries,
        )

    def measure(self, packet: Packet) -> ControlSize:
        """Return the entries carried; one that is gone counts too."""
        _, gone, fresh = cast("Change", packet.own)
        return _size(len(gone) + len(fresh), fresh)


class Differential(Optimal):
    """``differential``: a packet says what changed since the one before on its channel.

    So a channel's packets are handled in order: places from ``n`` on are channels, and their keys
    count packets. All keys have one more bit for that.
    """

    WIRE: ClassVar[type[Wire]] = DifferentialWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self.low = 2 * view.low + 1
        self.reached = list(range(2 * view.low + 2))
        self._last_sent: list[Entries] = [{} for _ in range(view.n)]
        self._last_received: list[Entries] = [{} for _ in range(view.n)]

    def stamp(
        self, message: Message, others: tuple[int, ...], event: int, after: int
    ) -> Own | None:
        """SND(2) to SND(5), then leave out what the channel has carried."""
        needs = super().stamp(message, others, event, after)
        assert needs is not None
        tops, log = cast("Control", message.control)
        low, own = self.view.low, {}
        shared = dict.fromkeys([key for key in tops if key > low], 0) | log
        for dest in others:
            entries = dict(shared)
            for key in cast("list[int]", needs.get(dest, NOBODY)):
                entries[key] = entries.get(key, 0) | 1 << dest
            own[dest] = _change(self._last_sent[dest], entries, low)
            self._last_sent[dest] = entries
        message.control = None
        self._merge_own(message, (tops, log))
        return own

    def _merge_own(self, message: Message, control: Control) -> None:
        """SND(4) at once: the message itself keeps no control that could be noted."""
        self._heard[-1] = (*self._heard[-1][:2], control)
        self._merge()

    def check(self, packet: Packet) -> str:
        """Refuse to hear of messages that this process has not sent."""
        _, _, fresh = cast("Change", packet.own)
        low = self.view.low
        newest = max([key for key in fresh if key & low == self.me], default=0)
        if newest >> self.view.shift > self.made and not self.is_stale:
            return knows_too_much(self.made)
        return ""

    def needs(self, packet: Packet) -> list[int]:
        """Return the packet before on its channel, unless it was handled, and what O_M asks for."""
        bit, low, shift = 1 << self.me, self.view.low, self.view.shift
        place = low + 1 + packet.source_no
        before = packet.n - 1 << shift + 1 | place
        if before > self.reached[place]:
            _, _, entries = cast("Change", packet.own)  # as far as it can be told
        else:
            entries = _changed(self._last_received[packet.source_no], packet, low)
        found = [k >> shift << shift + 1 | k & low for k, mask in entries.items() if mask & bit]
        return [before, *found]

    def blocker(self, packet: Packet) -> int:
        """RCV(1), in the order of the channel."""
        return Rules.blocker(self, packet)

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return the message that a key stands for; for a packet, all before on the channel."""
        place = key & self.low
        if place > self.view.low:
            return packet.source_no, packet.content.seq - 1
        return place, key >> self.view.shift + 1

    def key(self, packet: Packet) -> int:
        """Return the key that others wait for."""
        return packet.content.seq << self.view.shift + 1 | packet.content.sender

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Tell whether O_M, as far as it can be told, has this message or a later one."""
        low, shift = self.view.low, self.view.shift
        entries = _changed(self._last_received[packet.source_no], packet, low)
        return any(key & low == sender and key >> shift >= seq for key in entries)

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """RCV(2) to RCV(5), with all of O_M."""
        message, view, source = packet.content, self.view, packet.source_no
        entries = _changed(self._last_received[source], packet, view.low)
        self._last_received[source] = entries
        place = view.low + 1 + source
        self.reached[source] = self.key(packet)
        self.reached[place] = packet.n << view.shift + 1 | place
        tops, bit = list(range(view.n)), 1 << self.me
        for key in entries:
            tops[key & view.low] = max(key, tops[key & view.low])
        log = {key: rest for key, mask in entries.items() if (rest := mask & ~bit)}
        self._heard.append((message.seq << view.shift | source, message.dests, (tops, log)))
        self._merge()
        return source, place

    def state(self) -> State:
        """Return LOG_j, and what each channel carried last."""
        return super().state() | {
            "last_sent": [saved(entries) for entries in self._last_sent],
            "last_received": [saved(entries) for entries in self._last_received],
        }

    def load(self, state: Fields) -> None:
        """Take over both."""
        super().load(state)
        view = self.view
        anything = [COUNT_MAX << view.shift] * (view.low + 1)
        for name, kept in (("last_sent", self._last_sent), ("last_received", self._last_received)):
            for place, entries in enumerate(state.list(name, view.n)):
                one = Fields(name, {name: entries})
                kept[place] = load_log(one, name, view, anything, is_open=True)


def _change(before: Entries, after: Entries, low: int) -> Change:
    """Return what turns ``before`` into ``after``, or all of it where that is smaller.

    An entry that names nobody is gone as soon as its sender has a newer one, without a word.
    """
    newest: dict[int, int] = {}
    for key in after:
        newest[key & low] = max(key, newest.get(key & low, 0))
    gone = sorted(
        [k for k, mask in before.items() if k not in after and (mask or k > newest.get(k & low, 0))]
    )
    fresh = {key: mask for key, mask in sorted(after.items()) if before.get(key) != mask}
    change = _size(len(gone) + len(fresh), fresh)
    if change.model_bytes < _size(len(after), after).model_bytes:
        return False, gone, fresh
    return True, [], dict(sorted(after.items()))


def _changed(before: Entries, packet: Packet, low: int) -> Entries:
    """Return the entries of which :func:`_change` was made; any change can be applied."""
    is_all, gone, fresh = cast("Change", packet.own)
    if is_all:
        return fresh
    entries = before | fresh
    for key in gone:
        entries.pop(key, None)
    newest: dict[int, int] = {}
    for key in entries:
        newest[key & low] = max(key, newest.get(key & low, 0))
    return {k: mask for k, mask in entries.items() if mask or k == newest[k & low]}


def _size(entries: int, log: Log) -> ControlSize:
    dests = sum(map(int.bit_count, log.values()))
    return ControlSize(entries, dests, PAIR_BYTES * entries + ID_BYTES * dests)


register(Optimal)
