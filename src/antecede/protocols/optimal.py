"""Only what the Propagation Constraints require: Kshemkalyani and Singhal [KS98]_.

For each earlier message that someone might still have to wait for, a message names the destinations
where it is neither known to be delivered nor certain to be delivered in order. Knowledge shows as
absence: a destination missing from an entry, or an entry missing although its sender has a newer
one, means "no longer relevant".

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing; after every event the
explicit information kept is exactly what the Propagation Constraints require ([KS98] 3.4). The
paper assumes FIFO channels, but the algorithm does not need them.

Names
-----
=================  ===============================================================================
paper              here
=================  ===============================================================================
``(i, a)``         a *key*, ``(a << shift) + i``, so ``key & low`` is i
``Dests``          a mask: bit d for member d; entries leave out their message's sender
``LOG_j``          ``_log``, key -> Dests, and ``_tops``; ``_heard`` is yet to be merged into both
``TS(i, LOG_j)``   ``_tops[i]``, the newest key of i; if ``_log`` lacks it, its entry names nobody
``SR_j[i]``        ``Rules.reached[i]``, a key
``clock_j``        ``Rules.made``; in :meth:`Optimal.stamp`, ``message.seq``
``O_M``            ``Message.control`` (tops, log) and ``Packet.own``, the needs of one copy
=================  ===============================================================================

The log holds no entry that names nobody, so PURGE_NULL_ENTRIES has nothing to do. SND(2) is
computed once for all copies (4.5): the copy for d differs from the others only in the entries that
name d. Their keys are its *needs*, and the log that all copies share names no destination of M.
:mod:`antecede.protocols.specs.optimal` is the algorithm as printed, with names.

Differences from the paper
--------------------------
The initial entries (i, 0, {}) are the first tops, and are not sent. Our copy of our own message is
delivered at the send. Without options, RCV(3) to RCV(5) wait until the log is needed: ``_heard``
keeps what was delivered, after our last message. The newest is merged first, and messages that the
sender of a newer one knew of are skipped: whoever knows of a message has merged all that it
carried. Of a *run* (:meth:`Optimal.repeat`) only the first message needs to be made. With an
option, :class:`antecede.endpoint.logs.Logged` merges at once, as printed.

``lookahead`` (4.5) merges a message on arrival. The paper does RCV(4) there without RCV(3), and so
loses order: SND(2) took M's destinations from O_M, because M's own entry names them. Here M's own
entry is merged too, and names us until M is delivered; so the log and the waits may be longer.
``hardware_multicast`` (4.5) sends the log as it was, and the receiver does SND(2).
``differential`` (3.5) sends, on each channel, the changes to the control sent there before, which
both ends keep; so a channel's packets are processed in order. Unlike in 3.5, entries stay in the
log when all channels have carried them, because their absence would mean "no longer relevant".

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from typing import Any, ClassVar, Final, cast

from antecede.endpoint import logs
from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.logs import Control, Log, Logged, LogWire, Tops
from antecede.endpoint.messages import COUNT_MAX, PAIR_BYTES, ControlSize
from antecede.endpoint.numbers import BYTE, put_ascending
from antecede.endpoint.rules import ALIKE, NOBODY, Message, Own, Packet, Rules, Saved, View, Wire
from antecede.errors import PeerError, UsageError

HEARD_MAX: Final = 64
"""How many messages may wait to be merged; until then they take memory."""
_OFF: Final = False
_BROKEN: Final = frozenset({"no_overblocking", "necessity"})
"""What ``lookahead`` gives up."""


class OptimalWire(LogWire):
    """O_M: tops and log, and the needs of one copy; with hardware multicast, before SND(2)."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.names_dests = bool(view.options["hardware_multicast"])

    def later(self, first: Packet, ahead: int, payload: bytes) -> Packet | None:
        """Return the packet that ``Optimal.repeat`` sent ``ahead`` places after the first."""
        message, source = first.content, first.source_no
        if self.names_dests or not 0 < message.seq <= COUNT_MAX - ahead:
            return None  # hardware multicast has no runs, nor have packets without a message
        seq, (tops, log) = message.seq + ahead, message.control
        key = (seq - 1 << self.view.shift) | source  # of the message before: a top, and M's need
        control = logs.entered(tops, log, key, 0, self.view.low)
        content = Message(self.view, source, seq, message.dests, payload, control)
        return Packet(content, source, first.dest_no, first.n + ahead, [key])


class Optimal(Logged):
    """One process's log of messages whose delivery is not yet certain.

    RCV(1), and what is kept of the log, are those of :class:`antecede.endpoint.logs.Logged`.
    """

    INFO: ClassVar = ProtocolInfo(
        idea="exactly what the Propagation Constraints require",
        guarantee="causal order; the log names exactly the destinations that the Propagation "
        "Constraints require",
        cost="one entry per message not yet certain, one id per remaining destination; at most n*n",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking", "necessity"}),
        options={
            "hardware_multicast": Option(
                _OFF, "one identical packet to all destinations ([KS98] 4.5)"
            ),
            "lookahead": Option(_OFF, "merge a message's control on arrival ([KS98] 4.5)"),
            "differential": Option(_OFF, "send only what changed on that channel ([KS98] 3.5)"),
        },
        short_name="KS",
        bytes_per_entry=PAIR_BYTES,
        variants=(
            Variant("hardware", lambda _: {"hardware_multicast": True}),
            Variant("lookahead", lambda _: {"lookahead": True}, _BROKEN),
            Variant("both", lambda _: {"hardware_multicast": True, "lookahead": True}, _BROKEN),
            Variant("differential", lambda _: {"differential": True}),
        ),
    )
    WIRE: ClassVar[type[Wire]] = OptimalWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._heard: list[tuple[int, int, Control]] = []
        """Messages not merged yet: keys, destinations, controls; perhaps our last, then others'."""
        self._is_own_first = False
        """Whether ``_heard`` begins with our last message: its control brings LOG_j."""
        self._run: Tops = []
        """The tops of our last message if :meth:`repeat` sent it; no packet shares them."""
        self._step = 1 << self.shift

    @classmethod
    def of(cls, view: View) -> type[Rules]:
        """With an option, return a class that merges at once; it does not build on this one."""
        if view.options["differential"]:
            return Differential
        return Remarks if any(view.options.values()) else cls

    @classmethod
    def check_options(cls, options: dict[str, object], members: tuple[str, ...]) -> None:
        if options["differential"] and (options["hardware_multicast"] or options["lookahead"]):
            raise UsageError("differential excludes hardware_multicast and lookahead; choose one")

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Send M; the endpoint did SND(1), and ``message.seq`` is the new clock."""
        if self._heard:
            # This makes a new log; every send leaves its message in _heard, so no copy shares it.
            self._merge()
        dests, log = message.dests & ~(1 << self.me), self._log
        # SND(2), SND(3): take M.Dests from all entries; each d gets the keys of those that named d.
        needs = logs.take(log, dests) if log else ALIKE
        message.control = control = self._tops, log
        # SND(4): the next merge enters M, as if we had received it.
        self._heard.append((message.seq << self.shift | self.me, dests, control))
        self._is_own_first = True
        return needs

    def repeat(self) -> bool:
        """SND(2) to SND(4) for M, which follows our last message L in a *run*: both go to d alone.

        SND(2) and SND(3): after L the one entry that names d is L's, so L is M's one need. Then
        L's entry names nobody, and O_M is L's control with L as our newest in ``tops``.
        """
        heard = self._heard
        if len(heard) != 1 or not self._is_own_first:
            return False  # something was delivered since, or L's entry is merged already
        key, dests, control = heard[0]
        if key >> self.shift != self.made:
            return False  # we sent to ourselves alone since
        if control[0] is not self._run:
            if dests & dests - 1:
                return False  # L went to several
            self._run = control[0].copy()
            control = self._run, control[1]
        self._run[self.me] = key
        # SND(4): M, with the next clock, in place of L.
        heard[0] = key + self._step, dests, control
        return True

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """RCV(2); M waits in ``_heard`` for RCV(3) to RCV(5). Return where SR_j rose."""
        message, heard = packet.content, self._heard
        sender = message.sender
        self.reached[sender] = key = message.seq << self.shift | sender
        heard.append((key, message.dests, message.control))
        if len(heard) > HEARD_MAX:
            self._merge()
        return self.places[sender]

    def repeated(self, first: Packet, count: int) -> bool:
        """RCV(2) for the messages after the first of a run; the last carries all the others did."""
        message = first.content
        sender, shift = message.sender, self.shift
        key = message.seq << shift | sender
        if self.reached[sender] != key or message.seq + count > COUNT_MAX:
            return False
        tops, log = message.control
        before = key + (count - 1 << shift)  # the last but one: the last one's top, as in later()
        control = logs.entered(tops, log, before, 0, self.low)
        self.reached[sender] = last = key + (count << shift)
        if self._heard and self._heard[-1][0] == key:
            self._heard.pop()
        self._heard.append((last, message.dests, control))
        if len(self._heard) > HEARD_MAX:
            self._merge()
        return True

    def _merge(self) -> None:
        """RCV(3) to RCV(5) for ``_heard``, which is not empty: the newest first, LOG_j last.

        RCV(3): no O_M received names us, because needs are kept apart. RCV(5): nothing to purge.
        """
        low, mine = self.view.low, 1 << self.me
        tops: Tops = []
        log: Log = {}
        for key, dests, (their_tops, their_log) in reversed(self._heard):
            sender = key & low
            if not tops:
                tops, log = their_tops.copy(), their_log.copy()
            elif key > tops[sender]:
                tops, log = logs.merged(tops, log, their_tops, their_log, low)  # RCV(4)
            else:
                continue  # the sender of a newer message knew of it, and had merged all of it
            # RCV(3), without us; it can come after RCV(4), as nobody merged before knew of M.
            tops[sender] = key
            if rest := dests & ~(1 << sender | mine):
                log[key] = rest
        if not self._is_own_first:  # otherwise our own message brought LOG_j
            tops, log = logs.merged(tops, log, self._tops, self._log, low)  # RCV(4)
        self._heard.clear()
        self._tops, self._log, self._is_own_first = tops, log, False

    def settled(self) -> Control:
        """Return LOG_j as tops and log, after merging ``_heard``."""
        if self._heard:
            self._merge()
        return self._tops, self._log


# Section 4.5: one packet for all destinations, and RCV(4) and RCV(5) as soon as a message arrives.


class Remarks(Logged):
    """``hardware_multicast``, ``lookahead``, or both."""

    WIRE: ClassVar = OptimalWire
    blocker = Rules.blocker  # uses needs(), not packet.own

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._is_hardware = bool(view.options["hardware_multicast"])
        self._looks_ahead = bool(view.options["lookahead"])

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """SND(2) to SND(5); with hardware multicast all get O_M as the log was before SND(2)."""
        before = self._log.copy()
        needs = super().stamp(message, others, event, after)
        if not self._is_hardware:
            return needs
        message.control = message.control[0], before
        return ALIKE

    def needs(self, packet: Packet) -> list[int]:
        """RCV(1); with hardware multicast the shared log names us for messages to wait for."""
        if not self._is_hardware:
            return super().needs(packet)
        log = packet.content.control[1]
        return [key for key, mask in log.items() if mask >> self.me & 1]

    def arrived(self, packet: Packet) -> None:
        """RCV(4) and RCV(5) early, with M's own entry; it and its needs name us until delivery."""
        if not self._looks_ahead:
            return
        message, bit = packet.content, 1 << self.me
        tops, log = self._carried(packet)
        log = log | {need: log.get(need, 0) | bit for need in self.needs(packet)}
        dests = message.dests & ~(1 << message.sender)
        tops, log = logs.entered(
            tops, log, self.key(packet), dests, self.low
        )  # as RCV(3), but with us
        self._tops, self._log = logs.merged(self._tops, self._log, tops, log, self.low)  # RCV(4)
        self._drop_delivered()

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """RCV(2) to RCV(5); after lookahead's merge on arrival, only our name has to go."""
        message = packet.content
        self.reached[message.sender] = key = self.key(packet)
        if self._looks_ahead:
            self._drop_delivered()
        else:
            self.merge(message, key, *self._carried(packet))
        return self.places[message.sender]

    def _carried(self, packet: Packet) -> Control:
        """Return O_M without the needs; with hardware multicast this does SND(2)."""
        tops, log = packet.content.control
        drop = packet.content.dests & ~(1 << packet.content.sender) if self._is_hardware else 0
        return tops, {key: rest for key, mask in log.items() if (rest := mask & ~drop)}

    def _drop_delivered(self) -> None:
        """Drop this process from the entries of messages that it has delivered."""
        bit, reached, low = 1 << self.me, self.reached, self.low
        self._log = {
            key: rest
            for key, mask in self._log.items()
            if (rest := mask & ~bit if key <= reached[key & low] else mask)
        }


# Section 3.5: on each channel, only what changed.

Entries = dict[int, int]
"""O_M for one copy, with an empty mask for a sender's newest message that names nobody."""
Change = tuple[bool, list[int], Entries]
"""Whether this is all of O_M; otherwise the entries removed; and those added or changed."""


class DifferentialWire(Wire):
    """The changes to O_M that one copy brings; copies share nothing."""

    def put_own(self, packet: Packet) -> bytes:
        """Return whether this is all of O_M, the keys removed, and the entries added or changed."""
        is_all, gone, fresh = packet.own
        masks = [mask.to_bytes(self.view.n + 7 >> 3, "little") for mask in fresh.values()]
        return b"".join((BYTE[is_all], put_ascending(gone), put_ascending(list(fresh)), *masks))

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Any, int]:
        is_all, size = data[at], self.view.n + 7 >> 3
        gone, at = logs.get_keys(data, at + 1, packet.content)
        keys, at = logs.get_keys(data, at, packet.content)
        end = at + size * len(keys)
        masks = [int.from_bytes(data[i : i + size], "little") for i in range(at, end, size)]
        if end > len(data) or is_all > 1 or (is_all and gone):
            raise PeerError("ends too early, or has entries that are gone although all is new")
        if any(mask >> self.view.n for mask in masks):
            raise PeerError("names destinations that are not members")
        fresh = dict(zip(keys, masks, strict=True))
        if logs.is_repeated(fresh, self.view.low):
            raise PeerError(logs.REPEATED)
        return (bool(is_all), gone, fresh), end

    def spell(self, packet: Packet) -> object:
        """Return O_M, or ("diff", keys removed, entries added or changed)."""
        is_all, gone, fresh = packet.own
        entries = logs.spelt(self.view, [], fresh)
        return entries if is_all else ("diff", tuple(sorted(map(self.view.id, gone))), entries)

    def measure(self, packet: Packet) -> ControlSize:
        _, gone, fresh = packet.own
        return logs.size(len(gone) + len(fresh), fresh)


class Differential(Logged):
    """``differential``: a packet says what changed since the previous one on its channel.

    So a channel's packets are processed in order. ``reached`` has two halves: SR_j by sender, then
    the number of the last packet by source. Its keys, like those of ``needs``, have one more bit
    to tell the halves apart (``low`` and ``shift + 1``); keys in logs and entries have ``shift``.
    """

    WIRE: ClassVar[type[Wire]] = DifferentialWire
    blocker = Rules.blocker  # uses needs(), not packet.own

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self.low = 2 * view.low + 1
        self.reached = list(range(2 * view.low + 2))
        self._last_sent: list[Entries] = [{} for _ in range(view.n)]
        self._last_received: list[Entries] = [{} for _ in range(view.n)]

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """SND(2) to SND(5), then leave out what the channel has carried."""
        needs = super().stamp(message, others, event, after)
        tops, log = message.control
        message.control, own = None, {}
        shared = logs.entries(self.view, tops, log)
        for dest in others:
            keys = cast("list[int]", needs.get(dest, NOBODY))
            entries = shared | {key: shared.get(key, 0) | 1 << dest for key in keys}
            own[dest] = _change(self._last_sent[dest], entries)
            self._last_sent[dest] = entries
        return own

    def check(self, packet: Packet) -> str:
        return self.too_new(logs.newest(self.view, packet.own[2])[self.me] >> self.shift)

    def needs(self, packet: Packet) -> list[int]:
        """RCV(1), after the channel's previous packet; before that, the changes show a part."""
        bit, low, shift = 1 << self.me, self.view.low, self.shift
        place = low + 1 + packet.source_no
        before = (packet.n - 1 << shift + 1) | place  # the channel's previous packet
        is_next = before <= self.reached[place]
        entries = self._entries(packet) if is_next else packet.own[2]
        found = [k + (k & ~low) for k, mask in entries.items() if mask & bit]  # one bit more
        return [before, *found]

    def _entries(self, packet: Packet) -> Entries:
        """Return O_M: what the channel carried before, with the changes of this packet."""
        is_all, gone, fresh = packet.own
        if is_all:
            return fresh
        entries = self._last_received[packet.source_no] | fresh
        entries = {key: mask for key, mask in entries.items() if key not in gone}
        if len(entries) > self.view.n * (self.view.n + 1):  # against Lemma 1: bound what we keep
            entries = dict(sorted(entries.items())[-self.view.n :])
        tops = logs.newest(self.view, entries)
        return {key: mask for key, mask in entries.items() if mask or key in tops}

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        place = key & self.low
        if place > self.view.low:  # the previous packet: its message's number is at most this
            return packet.source_no, packet.content.seq - 1
        return place, key >> self.shift + 1

    def key(self, packet: Packet) -> int:
        return packet.content.seq << self.shift + 1 | packet.content.sender

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Compare with TS(sender, O_M), as far as the channel has brought it."""
        return logs.newest(self.view, self._entries(packet))[sender] >> self.shift >= seq

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """RCV(2) to RCV(5), with O_M rebuilt from the changes."""
        message, source, bit = packet.content, packet.source_no, 1 << self.me
        self._last_received[source] = entries = self._entries(packet)
        place = self.view.low + 1 + source
        self.reached[source] = self.key(packet)
        self.reached[place] = packet.n << self.shift + 1 | place
        log = {key: rest for key, mask in entries.items() if (rest := mask & ~bit)}  # RCV(3)
        tops = logs.newest(self.view, entries)
        self.merge(message, message.seq << self.shift | source, tops, log)
        return source, place

    def keep(self, saved: Saved) -> None:
        super().keep(saved)
        kind = [logs.kind_of_log(self.view), self.view.n]
        self._last_sent = saved.field("last_sent", self._last_sent, kind)
        self._last_received = saved.field("last_received", self._last_received, kind)


def _change(before: Entries, after: Entries) -> Change:
    """Return what turns ``before`` into ``after``, or all of ``after`` if that is smaller."""
    after = dict(sorted(after.items()))
    # An entry that named nobody need not be removed: _entries() drops it once there is a newer one.
    gone = sorted([key for key, mask in before.items() if mask and key not in after])
    fresh = {key: mask for key, mask in after.items() if before.get(key) != mask}
    change, whole = logs.size(len(gone) + len(fresh), fresh), logs.size(len(after), after)
    return (False, gone, fresh) if change.model_bytes < whole.model_bytes else (True, [], after)
