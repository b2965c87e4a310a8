"""The endpoint base: what all protocols share.

An endpoint is a plain state machine: inputs are method calls, outputs are returned
:class:`Effects`. It does no I/O, reads no clock and uses no randomness. The base handles
duplicates, the bounded holding buffer with its wake-up index, messages to oneself, membership,
channel numbers, pull mode and the state as plain data. A protocol adds only its own rules: see
:class:`antecede.core.hooks.Hooks`.

Of the held messages that can be delivered, the one that arrived first goes first.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Self

from antecede.core.casts import TargetCache
from antecede.core.channels import Channels
from antecede.core.copies import twin_of
from antecede.core.groups import as_name
from antecede.core.hold import HoldingBuffer
from antecede.core.messages import (
    INCARNATION_SHIFT,
    Delivery,
    Effects,
    MessageId,
    Need,
    Packet,
    Restart,
    Sending,
    delivery_of,
    effects_of,
)
from antecede.core.restarts import Restarting
from antecede.core.state import ChannelsState, State, copied
from antecede.core.tally import Tally
from antecede.core.validation import check_address, checked_basis, not_bytes, shown
from antecede.errors import PeerError, UnknownProcessError, UsageError

HELD_MAX = 100_000
HELD_BYTES_MAX = 1 << 28
QUEUE_MAX = 100_000


class Endpoint(Restarting):
    """One process's side of a protocol; made by :func:`antecede.endpoint`."""

    def __init__(
        self,
        *,
        process: str,
        members: tuple[str, ...],
        options: Mapping[str, object],
        pull: bool = False,
        held_max: int = HELD_MAX,
        held_bytes_max: int = HELD_BYTES_MAX,
        queue_max: int = QUEUE_MAX,
        removed: Iterable[str] = (),
    ) -> None:
        self.process = process
        self.members = members
        self.options = dict(options)
        self.pull = pull
        self.held_max = held_max
        self.held_bytes_max = held_bytes_max
        self.queue_max = queue_max
        self._positions = {member: position for position, member in enumerate(members)}
        self._removed: set[str] = set(removed)
        self._forgotten: dict[str, None] = {}
        self._seq = 0
        self._events = 0
        self._targets = TargetCache(self)
        self._tally = Tally()
        self._channels: Channels[str] = Channels(self._tally)
        self._hold = HoldingBuffer(self._tally)
        self._out: list[Packet] = []
        self._delivered: list[Delivery] = []
        self._restarted: list[Restart] = []
        self._fifo = self.FIFO
        if self._removed:
            self._check_dynamic()
        self._set_up()
        self._start()

    # What applications and drivers call.

    def send(
        self, dests: Iterable[str] | str, payload: bytes = b"", *, after: int | None = None
    ) -> Effects:
        """Send ``payload`` to ``dests`` (process names, or the name of a group).

        ``after`` is the number of the last local event that the message depends on; by default it
        depends on everything so far. Only a protocol whose record says ``orders_by_after`` uses it.
        """
        to = self._targets.find(dests)
        if not isinstance(payload, bytes):
            raise UsageError(not_bytes(payload))
        basis = self._events if after is None else checked_basis(after, self._events)
        self._admit(to.names)
        self._seq += 1
        self._events += 1
        event = self._events
        message = MessageId(self.process, self._seq)
        if to.others:
            self._post(Sending(message, to.names, payload, to.others, basis))
        if to.has_me:
            self._events += 1
            unmet = self._own_unmet()
            self._delivered.append(Delivery(message, to.names, payload, self._events, unmet))
        return self._flush(event)

    def receive(self, packet: Packet) -> Effects:
        """Accept a packet from the network; return what it released, in order."""
        self._check_packet(packet)
        source, n = packet.source, packet.n
        if self._channels.is_seen(source, n):
            return self._flush()
        self._check_room(packet)
        is_early = self._fifo and not self._channels.is_next(source, n)
        self._channels.accept(source, n)
        if is_early:
            self._channels.park(source, packet)
        else:
            self._handle(packet)
            for due in self._channels.unpark(source, n):
                self._handle(due)
        return self._flush()

    def take(self, source: str | None = None) -> Effects:
        """Deliver at most one message that is ready (from ``source``, if given); for pull mode."""
        if not self.pull:
            msg = "take() needs pull mode: make the endpoint with pull=True"
            raise UsageError(msg)
        if source is not None and source not in self.members and not self._is_gone(source):
            raise UsageError(self._not_a_member(source))
        self._deliver_next(source)
        return self._flush()

    @property
    def held(self) -> int:
        """The number of packets that arrived and are held back."""
        return self._tally.count

    @property
    def departed(self) -> tuple[str, ...]:
        """The removed processes that are not forgotten yet: packets may still name them."""
        return tuple(sorted(self._removed))

    @property
    def queued(self) -> int:
        """The number of messages that wait to be sent."""
        return 0

    def waiting(self) -> dict[MessageId, tuple[Need, ...]]:
        """Return what each held message waits for; nothing means that it can be taken."""
        result = {}
        for _, packet in self._hold:
            if packet.message is not None:
                result[packet.message] = tuple(self._awaited_needs(packet))
        for source, parked in self._channels.parked.items():
            prefix = self._channels.prefix.get(source, 0)
            for packet in parked.values():
                if packet.message is not None:
                    result[packet.message] = (Need(source, prefix + 1, "channel"),)
        return result

    def add(self, process: str) -> Effects:
        """Add a process at run time; call this on every endpoint, in any order."""
        self._check_dynamic()
        if self._is_gone(as_name("process", process)):
            msg = f"process {process!r} was removed and cannot come back; use a new name"
            raise UsageError(msg)
        if process in self._positions:
            msg = f"process {process!r} is already a member"
            raise UsageError(msg)
        self._positions[process], self.members = len(self.members), (*self.members, process)
        self._targets.clear()
        self._joined(process)
        if self.incarnation:
            self._number_channel(process, self.incarnation << INCARNATION_SHIFT)
        return self._flush()

    def remove(self, process: str) -> Effects:
        """Remove a process for good; what waited only for it is delivered, marked as such."""
        self._check_dynamic()
        if process not in self.members:
            raise UsageError(self._not_a_member(process))
        if process == self.process:
            msg = f"process {process!r} cannot remove itself; the others remove it"
            raise UsageError(msg)
        self.members = tuple(member for member in self.members if member != process)
        self._positions = {member: position for position, member in enumerate(self.members)}
        self._removed.add(process)
        self._targets.clear()
        self._release(process)
        self._drain()
        return self._flush()

    def state(self) -> State:
        """Return the whole state as plain data; :func:`registry.restore` reverses it."""
        return {
            "protocol": self.INFO.name,
            "process": self.process,
            "members": self.members,
            "removed": set(self._removed),
            "options": copied(self.options),
            "pull": self.pull,
            "held_max": self.held_max,
            "held_bytes_max": self.held_bytes_max,
            "queue_max": self.queue_max,
            "seq": self._seq,
            "events": self._events,
            "channels": self._channels_state(),
            "arrivals": self._hold.arrivals,
            "held": list(self._hold),
            "own": {name: copied(getattr(self, name)) for name in self.STATE},
        }

    def __copy__(self) -> Self:
        return twin_of(self)  # a shallow copy would share half of the state

    def _channels_state(self) -> ChannelsState:
        return copied(self._channels.state())

    def load(self, state: State) -> None:
        """Take over a state made by :meth:`state` on an endpoint of the same kind."""
        saved = copied(state)
        self._removed = saved["removed"]
        self._seq = saved["seq"]
        self._events = saved["events"]
        self._channels.load(saved["channels"])
        for name, value in saved["own"].items():
            setattr(self, name, value)
        self._hold.arrivals = saved["arrivals"]
        for arrival, packet in saved["held"]:
            self._hold.put_back(arrival, packet)
            self._hold.file(arrival, self._first_unmet(packet))

    # What protocols use.

    def _emit(self, dest: str, control: object, content: Sending | Packet) -> None:
        """Put a message, our own or one to pass on, on the channel to ``dest``."""
        n, name = self._channels.next_number(dest), self.INFO.name
        message, dests, payload = content.message, content.dests, content.payload
        self._out.append(
            Packet(self.process, dest, n, "data", message, dests, payload, control, name)
        )

    def _emit_control(self, dest: str, control: object) -> None:
        """Put a control packet on the channel to ``dest``."""
        n, name = self._channels.next_number(dest), self.INFO.name
        self._out.append(Packet(self.process, dest, n, "control", None, (), b"", control, name))

    def _advance(self, reached: Iterable[Need]) -> None:
        """Wake what waited for needs that are now met, and deliver what is ready."""
        for need in reached:
            self._refile(self._hold.wake(need))
        self._drain()

    def _arrive(self, packet: Packet) -> None:
        """Deliver a data packet if it need not wait, else put it into the holding buffer."""
        if self.pull or self._hold.ready or self._first_unmet(packet) is not None:
            self._refile([self._hold.take_in(packet)])
        else:
            self._hold.arrivals += 1
            self._deliver(packet)
        self._drain()

    def _check_names(self, packet: Packet, names: Iterable[object]) -> None:
        """Refuse a packet that names a process which was never a member."""
        for name in names:
            if type(name) is not str:
                source = shown(packet.source)
                msg = f"packet {packet.n} from {source} names {shown(name)}, which is not a name"
                raise PeerError(msg)
            if name not in self._positions and not self._is_gone(name):
                msg = (
                    f"packet {packet.n} from {packet.source!r} names process {name!r}, which is "
                    f"not a member of {self.members}; if it is joining, offer the packet after "
                    f"add(); if it left before, make this endpoint with removed=({name!r},) or, if "
                    f"it was restored, call recall(({name!r},))"
                )
                raise UnknownProcessError(msg, process=name, members=self.members)

    # The base's own steps.

    def _check_packet(self, packet: Packet) -> None:
        """Refuse a packet that is not for us or malformed, before anything changes."""
        check_address(self, packet)
        if self._is_gone(packet.source):
            if self._is_seen(packet):
                return
            msg = f"packet {packet.n} comes from {packet.source!r}, which was removed; drop it"
            raise PeerError(msg)
        self._check_names(packet, (packet.source,))
        self._check_incarnation(packet)
        self._targets.check_message(packet)
        self._check(packet)

    def _check_room(self, packet: Packet) -> None:
        if self._tally.is_low(self, packet):
            return
        is_blocked = self._is_blocked(packet)
        if is_blocked or (self.pull and packet.kind == "data"):
            self._check_space(packet, is_blocked=is_blocked)

    def _check_space(self, packet: Packet, *, is_blocked: bool) -> None:
        """Refuse a packet that must be held if there is no space for it."""
        if not self._tally.has_room(self, packet, is_blocked=is_blocked):
            raise self._tally.full(self, packet)

    def _is_blocked(self, packet: Packet) -> bool:
        """Tell whether the packet must wait for others."""
        if self._fifo and not self._channels.is_next(packet.source, packet.n):
            return True
        return packet.kind == "data" and self._first_unmet(packet) is not None

    def _handle(self, packet: Packet) -> None:
        if packet.kind == "control":
            self._advance(self._on_control(packet))
        else:
            self._on_data(packet)

    def _first_unmet(self, packet: Packet) -> Need | None:
        return next(self._awaited_needs(packet) if self._removed else self._unmet(packet), None)

    def _awaited_needs(self, packet: Packet) -> Iterator[Need]:
        """Yield what the packet waits for and what may still come.

        A removed process sends nothing more. But its messages that are held here will be delivered,
        so their effects keep waiting for them.
        """
        for need in self._unmet(packet):
            if need.process not in self._removed or self._hold.has(need.message):
                yield need

    def _refile(self, arrivals: Iterable[int]) -> None:
        for arrival in arrivals:
            self._hold.file(arrival, self._first_unmet(self._hold.packets[arrival]))

    def _next_ready(self, source: str | None = None) -> tuple[int, Packet] | None:
        return self._hold.pop_ready(source)

    def _drain(self) -> None:
        while self._hold.ready and not self.pull and self._deliver_next():
            pass

    def _deliver_next(self, source: str | None = None) -> bool:
        """Deliver the next message that is ready; file again those that are not ready any more."""
        while (ready := self._next_ready(source)) is not None:
            arrival, packet = ready
            need = self._first_unmet(packet)
            if need is None:
                self._deliver(packet)
                return True
            self._hold.put_back(arrival, packet)
            self._hold.file(arrival, need)
        return False

    def _deliver(self, packet: Packet) -> None:
        assert packet.message is not None
        unmet = tuple(self._unmet(packet)) if self._removed else ()
        self._events += 1
        self._delivered.append(delivery_of(packet, self._events, unmet))
        for need in self._absorb(packet):
            if self._hold.waiting:
                self._refile(self._hold.wake(need))

    def _flush(self, event: int | None = None) -> Effects:
        packets, deliveries = tuple(self._out), tuple(self._delivered)
        self._out.clear()
        self._delivered.clear()
        effects = effects_of(packets, deliveries, self._events if event is None else event)
        if self._restarted:
            effects._restarts = tuple(self._restarted)
            self._restarted.clear()
        return effects

    def _is_seen(self, packet: Packet) -> bool:
        return self._channels.is_seen(packet.source, packet.n)

    def _is_gone(self, process: object) -> bool:
        return isinstance(process, str) and (process in self._removed or process in self._forgotten)

    # The hooks that have a default.

    def _release(self, process: str) -> None:
        """Drop what is kept about a process that left, and wake what waits for it."""
        self._channels.forget(process)
        self._left(process)
        self._refile(self._hold.wake_all(process))

    def _post(self, sending: Sending) -> None:
        """Carry out a send: by default one packet to each of the others, with its control."""
        for dest, control in self._stamp(sending).items():
            self._emit(dest, control, sending)

    def _on_data(self, packet: Packet) -> None:
        """Handle a data packet on arrival; by default it goes to the holding buffer."""
        self._arrive(packet)
