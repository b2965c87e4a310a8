"""The endpoint: one process's side of one view. All protocols share it; none overrides it.

It is a plain state machine: inputs are calls, outputs are :class:`Effects`. It has channels, a
holding buffer, and the rules of a protocol (:class:`antecede.endpoint.rules.Rules`).
"""

from collections import deque
from collections.abc import Iterable
from heapq import heappop
from typing import Final, cast, final

from antecede.endpoint.arguments import as_destinations
from antecede.endpoint.hold import Channels, Hold
from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.messages import (
    FREE,
    PAYLOAD_MAX,
    Delivery,
    Effects,
    MessageId,
    Need,
    Packet,
    new_delivery,
    new_message,
    new_packet,
    new_tuple,
)
from antecede.endpoint.rules import Rules
from antecede.endpoint.saved import SAVED_MAX, Saved
from antecede.endpoint.skips import Skips
from antecede.endpoint.view import CACHE_MAX, View
from antecede.errors import OtherViewError, PeerError, UsageError, listed, shown

HELD_MAX: Final = 100_000
HELD_BYTES_MAX: Final = 1 << 28
QUEUE_MAX: Final = 100_000


@final
class Endpoint:
    """One process's side of a view; made by :func:`antecede.endpoint`."""

    def __init__(
        self,
        view: View,
        process: str,
        rules: type[Rules],
        *,
        pull: bool = False,
        held_max: int = HELD_MAX,
        held_bytes_max: int = HELD_BYTES_MAX,
        queue_max: int = QUEUE_MAX,
    ) -> None:
        self.view: Final = view
        self.process: Final = process
        self.info: Final[ProtocolInfo] = rules.INFO
        self.pull: Final = pull
        self.held_max: Final = held_max
        self.held_bytes_max: Final = held_bytes_max
        self.queue_max: Final = queue_max
        self._me = view.numbers[process]
        self._bit = 1 << self._me
        self._seq = self._events = 0
        self._rules = rules(view, self._me)
        self._rules.queue_max = queue_max
        self._is_guarded = rules.has("admit")
        self._unpacks, self._hears = rules.has("unpack"), rules.has("arrived")
        self._drops = rules.has("drops")
        self._is_plain = not (pull or self._unpacks or self._hears or self._drops)
        """Whether a packet that need not wait can simply be delivered."""
        self._channels = Channels(view.n)
        self._hold = Hold(view.n, self._rules.low, held_max, held_bytes_max, pull=pull)
        self._skips: Skips | None = None
        """The messages declared lost, if any are."""
        self._check, self._blocker = self._rules.check, self._rules.blocker
        self._inbox: deque[Packet] | None = deque() if pull and rules.IS_EAGER else None
        """In pull mode, messages that took effect but that the application has not taken yet."""
        self._targets: dict[tuple[str, ...], tuple[int, tuple[int, ...]]] = {}
        """Cached destinations: all of them as a mask, and the numbers of those other than us."""

    # What applications and drivers call.

    def send(
        self, dests: Iterable[str] | str, payload: bytes = b"", *, after: int | None = None
    ) -> Effects:
        """Send ``payload`` to ``dests`` (process names, or the name of a group).

        ``after`` is the number of the last local event that the message depends on; by default it
        depends on everything so far. Only a protocol whose record says ``orders_by_after`` uses it.
        """
        try:
            found = self._targets.get(dests)  # type: ignore[call-overload] # mostly a tuple
        except TypeError:
            found = None
        mask, others = found = found or self._find(dests)
        if type(payload) is not bytes or len(payload) > PAYLOAD_MAX:
            _check_payload(payload)
        rules, event = self._rules, self._events + 1
        basis = event - 1 if after is None else self._checked_basis(after)
        if self._is_guarded:
            mask, others = self._admitted(mask, others)
        self._seq = rules.made = seq = self._seq + 1
        self._events = event
        message = new_message(self.view, self._me, seq, mask, payload, None)
        packets: tuple[Packet, ...] = ()
        if self._skips is not None:
            self._skips.sent(seq)
        if others or (found[1] and self.info.groups_by_after):  # even if all of them are gone
            own = rules.stamp(message, others, event, basis)
            if own is None:
                packets = self._posted()
            elif len(others) == 1:
                dest, sent = others[0], self._channels.sent
                sent[dest] = n = sent[dest] + 1
                packets = (new_packet(message, self._me, dest, n, own.get(dest)),)
            else:
                me, sent, made = self._me, self._channels.sent, []
                for dest in others:
                    sent[dest] = n = sent[dest] + 1
                    made.append(new_packet(message, me, dest, n, own.get(dest)))
                packets = tuple(made)
        if not mask & self._bit:
            return new_tuple(Effects, (packets, (), event))
        self._events += 1
        unmet = self._skips.own_unmet() if self._skips else ()
        return new_tuple(Effects, (packets, (new_delivery(message, self._events, unmet),), event))

    def receive(self, packet: Packet) -> Effects:
        """Accept a packet from the network; return what it released, in order."""
        if type(packet) is not Packet:
            msg = f"receive() takes a Packet, got {shown(packet)}; decode bytes with a Codec"
            raise UsageError(msg)
        message, source, n = packet.content, packet.source_no, packet.n
        if message.view is not self.view or packet.dest_no != self._me:
            self._check_address(packet)
        rules, channels = self._rules, self._channels
        is_next = n == channels.prefix[source] + 1
        if not is_next and channels.is_seen(source, n):
            return new_tuple(Effects, ((), (), self._events))
        if fault := self._check(packet):
            raise PeerError(f"packet {n} from {packet.source!r} {fault}; drop it")
        if not self._is_plain:
            return self._receive_otherwise(packet)
        need = self._blocker(packet)
        if need != FREE:
            self._hold.check_room(packet, len(message.payload), is_blocked=True)
            channels.accept(source, n)
            self._hold.add(packet, need)
            return new_tuple(Effects, ((), (), self._events))
        if is_next and not channels.ahead[source]:
            channels.prefix[source] = n
        else:
            channels.accept(source, n)
        if self._skips is not None or not message.dests & self._bit:
            deliveries = tuple(self._take(packet))
        else:
            self._events = rules.events = event = self._events + 1
            deliveries = (new_delivery(message, event, ()),)
            places, waiting = rules.taken(packet), self._hold.waiting
            if waiting and not waiting.keys().isdisjoint(places):
                deliveries += tuple(self._released(places))
        packets = self._posted() if rules.outbox else ()
        return new_tuple(Effects, (packets, deliveries, self._events))

    # A run: consecutive messages to one process, whose sender delivers nothing in between. Their
    # packets follow from the first one, so they are only made when asked for (``Wire.later``).

    def repeat(self, dest: int) -> int:
        """Send one more message of a run; return its packet's number, or 0 if it cannot be one."""
        rules = self._rules
        if self._is_guarded or not rules.repeat():
            return 0
        self._seq = rules.made = self._seq + 1
        self._events += 1
        sent = self._channels.sent
        sent[dest] = n = sent[dest] + 1
        return n

    def receive_run(self, first: Packet, count: int) -> int:
        """Deliver ``count`` messages after ``first`` in a run; return the first event, or 0."""
        source, n, channels = first.source_no, first.n, self._channels
        if (
            not self._is_plain
            or first.content.view is not self.view
            or not first.content.dests & self._bit
            or channels.prefix[source] != n
            or channels.ahead[source]
            or source in self._hold.waiting
            or not self._rules.repeated(first, count)
        ):
            return 0
        channels.prefix[source] = n + count
        self._events += count
        return self._events - count + 1

    def take(self, source: str | None = None) -> Effects:
        """Deliver at most one message that is ready (from ``source``, if given); for pull mode."""
        if not self.pull:
            raise UsageError("take() needs pull mode: make the endpoint with pull=True")
        sender = None if source is None else self._number(source)
        deliveries: list[Delivery] = []
        if self._inbox and sender in (None, self._inbox[0].content.sender):
            packet = self._inbox.popleft()
            self._hold.count_in(packet, -1)
            deliveries.append(self._delivery(packet))
        elif self._inbox is None:
            while arrival := self._hold.pop_ready(sender):
                need = self._blocker(self._hold.packets[arrival])
                if need != FREE:
                    self._hold.file(arrival, need)  # we sent something since it became ready
                elif deliveries := self._take(self._hold.take(arrival)):
                    break
        return new_tuple(Effects, (self._posted(), tuple(deliveries), self._events))

    def skip(self, source: str, upto: int | None = None) -> Effects:
        """Declare lost the messages of ``source`` up to this number that have not arrived.

        Messages that wait only for these are delivered, and ``Delivery.unmet`` names them; should
        they arrive later, they are refused. Numbers are as in :meth:`waiting`. Without ``upto`` the
        process is gone: nothing waits for its acknowledgements and permits either.
        """
        number = self._number(source)
        if number == self._me:
            msg = f"cannot skip {source!r}: it is this process itself; name another member"
            raise UsageError(msg)
        if upto is not None and (type(upto) is not int or not 1 <= upto <= SAVED_MAX):
            msg = f"upto={shown(upto)} is not the number of a message; expected 1 or more"
            raise UsageError(msg)
        self._begin_skips().skip(number, upto)
        hold = self._hold
        for arrival in hold.wake_all():
            hold.file(arrival, self._blocker(hold.packets[arrival]))
        deliveries = tuple(self._take_due())
        return new_tuple(Effects, (self._posted(), deliveries, self._events))

    def tick(self, now: int) -> Effects:
        """Tell the time, before anything else happens at that time; return what this releases.

        Only for a protocol whose record says ``timed``. You choose the unit, as in its options.
        """
        if not self.info.timed:
            msg = f"{self.info.name} does not go by time; call tick() for a protocol that does"
            raise UsageError(msg)
        if type(now) is not int or not self._rules.now <= now <= SAVED_MAX:
            msg = f"now={shown(now)} is no time; expected {self._rules.now} or later, an integer"
            raise UsageError(msg)
        deliveries = self._released(self._rules.tick(now))
        return new_tuple(Effects, (self._posted(), tuple(deliveries), self._events))

    def link(self, process: str) -> Effects:
        """Open a link to another process while messages flow; it is used as soon as that is safe.

        Only for a protocol whose record says ``opens_links``.
        """
        if not self.info.opens_links:
            msg = f"{self.info.name} opens no links; call link() for a protocol that does"
            raise UsageError(msg)
        number = self._number(process)
        if number == self._me:
            raise UsageError(f"cannot link {process!r} with itself; name another member")
        if self._is_guarded:
            self._admitted(0, ())
        self._rules.link(number)
        return new_tuple(Effects, (self._posted(), (), self._events))

    def waiting(self) -> dict[MessageId, tuple[Need, ...]]:
        """Return what each held message waits for; with no needs it can be taken."""
        rules, found = self._rules, {}
        missing = self._skips.missing if self._skips else rules.missing
        for packet in self._hold.packets.values():
            if packet.content.seq:
                needs = [rules.need(packet, key) for key in missing(packet)]
                found[packet.content.id] = tuple(needs)
        for packet in self._inbox or ():
            found[packet.content.id] = ()
        return found

    @property
    def members(self) -> tuple[str, ...]:
        """All processes of the view."""
        return self.view.members

    @property
    def held(self) -> int:
        """The number of packets that have arrived and are held."""
        return self._hold.count

    @property
    def queued(self) -> int:
        """The number of messages (for several destinations, copies) that wait to be sent."""
        return self._rules.queued

    @property
    def rules(self) -> Rules:
        """The protocol's rules, for a layer above that brings its own rules."""
        return self._rules

    def flush(self) -> Effects:
        """Return what the rules want to send because a layer above asked them to."""
        return new_tuple(Effects, (self._posted(), (), self._events))

    def kept(self) -> object:
        """Return what the protocol keeps, with names, as its specification shows it, or None."""
        return self._rules.kept()

    def dependencies(self) -> dict[MessageId, frozenset[str]]:
        """Return the explicit information kept, if the protocol keeps any."""
        return self._rules.dependencies()

    def kept_entries(self) -> int | None:
        """Return how many entries are kept, or None if the protocol does not count them."""
        return self._rules.kept_entries()

    def notes(self) -> dict[str, int]:
        """Return what the protocol counts for studies."""
        return self._rules.notes()

    # State as plain data.

    def state(self) -> dict[str, object]:
        """Return the whole state by field names; :func:`registry.restored` reverses it."""
        return {
            "process": self.process,
            "pull": self.pull,
            "held_max": self.held_max,
            "held_bytes_max": self.held_bytes_max,
            "queue_max": self.queue_max,
            **({"stale": True} if self._rules.is_stale else {}),
            **Saved.of(self._keep),
        }

    def load(self, saved: Saved, *, resumed: bool) -> None:
        """Load the rest of a saved state; a ValueError says what no process can have."""
        rules = self._rules
        rules.is_stale = "stale" in saved.data and saved.field("stale", value=True, kind=bool)
        saved.read(self._keep)
        rules.is_stale |= not resumed
        if rules.is_stale:
            self._is_guarded = True

    def _keep(self, saved: Saved) -> None:
        channels, hold, rules = self._channels, self._hold, self._rules
        self._seq = rules.made = saved.number("seq", self._seq)
        self._events = saved.number("events", self._events, self._seq)
        channels.sent = saved.numbers("sent", channels.sent)
        channels.prefix = saved.numbers("prefix", channels.prefix)
        firsts = [prefix + 2 for prefix in channels.prefix]
        channels.ahead = saved.rows("ahead", channels.ahead, leasts=firsts)
        own = channels.sent[self._me], channels.prefix[self._me], *channels.ahead[self._me]
        saved.require(not any(own), "sent", own, f"no packets of {self.process!r} to itself")
        hold.arrivals = saved.number("arrivals", hold.arrivals)
        kind = [(range(hold.arrivals + 1), Packet)]
        held = saved.field("held", sorted(hold.packets.items()), kind)
        taken = saved.field("taken", list(self._inbox or ()), [Packet])
        rules.reached[:] = saved.keys("reached", rules.reached, rules.low.bit_length())
        skips = saved.plain("skips", self._skips and Saved.of(self._skips.keep))
        saved.part("rules", rules.keep)
        if saved.is_read:
            if skips is not None:
                Saved("skips", skips).read(self._begin_skips().keep)
            self._load_held(saved, held, taken)

    def _load_held(self, saved: Saved, held: list[tuple[int, Packet]], taken: list[Packet]) -> None:
        hold, last = self._hold, 0
        for arrival, packet in held:
            saved.require(last < arrival, "held", arrival, "arrivals in order")
            self._check_held(saved, packet)
            hold.put_back(arrival, packet)
            last = arrival
        is_eager = self._inbox is not None
        saved.require(is_eager or not taken, "taken", taken, "nothing outside pull mode")
        for packet in taken:
            self._check_held(saved, packet)
            cast("deque[Packet]", self._inbox).append(packet)
            hold.count_in(packet)
        can_be_free = self.pull and self._inbox is None
        for arrival, packet in hold.packets.items():
            need = self._blocker(packet)
            is_right = need != FREE or (can_be_free and packet.content.seq)
            saved.require(is_right, "held", packet, "packets that wait for something")
            hold.file(arrival, need)

    def _check_held(self, saved: Saved, packet: Packet) -> None:
        """Refuse a saved packet if this endpoint would not have accepted it."""
        self._check_address(packet)
        is_seen = self._channels.is_seen(packet.source_no, packet.n)
        saved.require(is_seen, "held", packet, "packets that have arrived")
        fault = self._rules.readmit(packet)
        saved.require(not fault, "held", packet, f"a packet that no peer sends: it {fault}")

    # Inside.

    def _begin_skips(self) -> Skips:
        """Return the skips; from now on they decide what is refused and what waits."""
        if self._skips is None:
            self._skips = Skips(self._rules, self._hold)
            self._check, self._blocker = self._skips.check, self._skips.blocker
            self._is_guarded = True
        return self._skips

    def _admitted(self, mask: int, others: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """Return the destinations that are not gone; raise if the send is refused."""
        if self._rules.is_stale:
            raise UsageError(
                f"{self.process!r} was restored without resumed=True, so its next message could "
                "reuse a number: it can only deliver; send in a new view "
                f"(after {self.view.number})"
            )
        if self._skips is not None and ("multicast" in self.info.casts or len(others) == 1):
            others = self._skips.present(others)
            mask &= self._bit | sum([1 << other for other in others])
        if others:
            self._rules.admit(others)
        return mask, others

    def _receive_otherwise(self, packet: Packet) -> Effects:
        """Accept a packet in pull mode, or if rules unpack, drop or process it on arrival."""
        rules, hold = self._rules, self._hold
        parts = rules.unpack(packet) if self._unpacks else [packet]
        skips = self._skips if self._unpacks else None  # what is lost takes effect, without room
        kept = [part for part in parts if not skips.is_lost(part)] if skips else parts
        self._check_room(packet, kept)
        self._channels.accept(packet.source_no, packet.n)
        places = rules.arrived(packet) if self._hears else None
        is_pulled = self.pull and self._inbox is None
        deliveries: list[Delivery] = []
        for part in parts:
            need = self._blocker(part)
            is_kept = is_pulled and part.content.seq and not (skips and skips.is_lost(part))
            if need != FREE or is_kept:
                hold.add(part, need)
            else:
                deliveries += self._take(part)
        if places:
            deliveries += self._released(places)
        return new_tuple(Effects, (self._posted(), tuple(deliveries), self._events))

    def _released(self, places: tuple[int, ...]) -> list[Delivery]:
        """Deliver packets that waited at places where ``reached`` rose, and those they free."""
        if self._hold.waiting.keys().isdisjoint(places):
            return []
        self._wake(places)
        return self._take_due()

    def _take_due(self) -> list[Delivery]:
        """Let the next due packet take effect, and those that it frees."""
        due = self._next_due()
        return self._take(self._hold.take(due)) if due else []

    def _check_room(self, packet: Packet, parts: list[Packet]) -> None:
        """Refuse a packet that does not fit; one of several messages fits into an empty buffer."""
        count, size = len(parts), sum([len(part.content.payload) for part in parts])
        if self._hold.has_plenty(count, size):
            return
        is_blocked = not self._unpacks and self._blocker(packet) != FREE
        is_blocked = is_blocked and not self._rules.frees(packet)
        is_kept = is_blocked or (self.pull and any(p.content.dests & self._bit for p in parts))
        if is_kept and (count == 1 or self._hold.count or count > self.held_max):
            self._hold.check_room(packet, size, is_blocked=is_blocked, count=count)

    def _take(self, packet: Packet) -> list[Delivery]:
        """Let a packet take effect, and then those that it frees, in order of arrival."""
        rules, hold, bit = self._rules, self._hold, self._bit
        may_drop = self._drops or self._skips is not None
        deliveries: list[Delivery] = []
        while True:
            if packet.content.dests & bit and not (may_drop and self._is_dropped(packet)):
                if self._inbox is None:
                    deliveries.append(self._delivery(packet))
                else:
                    self._inbox.append(packet)
                    hold.count_in(packet)
            places = rules.taken(packet)
            if hold.waiting:
                self._wake(places)
                if self._skips is not None:
                    self._skips.taken(packet)
            due = self._next_due() if hold.ready or hold.controls else 0
            if not due:
                return deliveries
            packet = hold.take(due)

    def _is_dropped(self, packet: Packet) -> bool:
        """Return whether a message takes effect without being delivered to the application."""
        if self._drops and self._rules.drops(packet):
            return True
        return self._skips is not None and self._skips.drops(packet)

    def _wake(self, places: tuple[int, ...]) -> None:
        """File again the packets that waited at places where ``reached`` rose."""
        rules, hold = self._rules, self._hold
        for place in places:
            if place in hold.waiting:
                for arrival in hold.wake(place, rules.reached[place]):
                    need = self._blocker(hold.packets[arrival]) if self.pull else FREE
                    hold.file(arrival, need)  # without pull, _next_due() checks it

    def _next_due(self) -> int:
        """Return the arrival that takes effect next, or 0; control packets go first."""
        hold = self._hold
        is_pulled = self.pull and self._inbox is None
        while due := hold.controls or (not is_pulled and hold.ready):
            arrival = heappop(due)
            need = self._blocker(hold.packets[arrival])
            if need == FREE:
                return arrival
            hold.file(arrival, need)  # an earlier packet changed that
        return 0

    def _delivery(self, packet: Packet) -> Delivery:
        self._events = self._rules.events = event = self._events + 1
        unmet = self._skips.unmet(packet) if self._skips else ()
        return new_delivery(packet.content, event, unmet)

    def _posted(self) -> tuple[Packet, ...]:
        """Return the packets that the rules want to send, numbered."""
        outbox = self._rules.outbox
        if self._rules.is_stale:  # the numbers were used before
            outbox.clear()
        if not outbox:
            return ()
        me, sent, packets = self._me, self._channels.sent, []
        for dest, message, own in outbox:
            sent[dest] = n = sent[dest] + 1
            packets.append(new_packet(message, me, dest, n, own))
        outbox.clear()
        return tuple(packets)

    def _find(self, dests: object) -> tuple[int, tuple[int, ...]]:
        """Return checked destinations: a mask of all, and the numbers of those other than us."""
        names = as_destinations(dests, self.process, self.view, self.info)
        mask = self.view.mask(names)
        found = mask, self.view.list(mask & ~self._bit)
        if type(dests) is tuple:
            if len(self._targets) >= CACHE_MAX:
                self._targets.clear()
            self._targets[dests] = found
        return found

    def _number(self, process: object) -> int:
        number = self.view.numbers.get(process) if isinstance(process, str) else None
        if number is None:
            msg = f"{shown(process)} is not a member; the members are {listed(self.view.members)}"
            raise UsageError(msg)
        return number

    def _checked_basis(self, after: object) -> int:
        """Return ``after`` if it is the number of a local event, or NOTHING."""
        events = self._events
        if type(after) is not int or not 0 <= after <= events:
            known = f"expected a number from 1 to {events}" if events else "there is none yet"
            raise UsageError(
                f"after={shown(after)} is not a local event; {known}; use antecede.NOTHING for "
                "none and None for everything so far"
            )
        return after

    def _check_address(self, packet: Packet) -> None:
        """Refuse a packet of another view, or for someone else."""
        theirs, mine = packet.content.view, self.view
        where = f"packet {packet.n} from {packet.source!r}"
        if theirs is not mine and theirs.digest != mine.digest:
            raise other_view(where, theirs, mine)
        if packet.dest_no != self._me:
            raise UsageError(
                f"{where} is for {packet.dest!r}, but this endpoint is {self.process!r}; hand it "
                "to the endpoint it is for"
            )


def other_view(where: str, theirs: View, mine: View) -> PeerError:
    """Return the error for a packet of another view."""
    if theirs.protocol != mine.protocol:
        return PeerError(
            f"{where} is of protocol {theirs.protocol!r}, but this endpoint runs "
            f"{mine.protocol!r}; all members must run the same protocol"
        )
    return other_number(where, theirs.number, mine)


def other_number(where: str, number: int, mine: View) -> PeerError:
    """Return the error for a packet of the view with this number and another digest."""
    if number == mine.number:
        return PeerError(
            f"{where} is of another view with the same number {number}; make all endpoints of a "
            "view with the same members, in the same order, and the same options"
        )
    what = "drop it" if number < mine.number else f"offer it again in view {number}"
    msg = f"{where} is of view {number}, but this endpoint is in view {mine.number}; {what}"
    return OtherViewError(msg, number=number, current=mine.number)


def _check_payload(payload: object) -> None:
    if not isinstance(payload, bytes):
        raise UsageError(f"payload is {type(payload).__name__}; expected bytes: encode it first")
    if len(payload) > PAYLOAD_MAX:
        raise UsageError(
            f"payload has {len(payload)} bytes; at most {PAYLOAD_MAX} can be sent: divide it, or "
            "send where it can be fetched"
        )
