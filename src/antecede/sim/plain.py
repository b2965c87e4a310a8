"""The plain engine: real endpoints over a schedule. Slow and obvious; kernels must equal it.

Events are ordered by time and, at equal times, by a number: sends by row, then copies by row,
then packets added by protocols, in the order they were made. The first packet from a message's
sender to one of its destinations counts as the scheduled copy. Everything else (acknowledgements,
extra messages, relays) counts as added, and its delay is a hash of (seed, channel, number).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import antecede
from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.registry import restored, rules_of
from antecede.sim.delays import added_delay
from antecede.sim.schedule import HEADER_BYTES, Schedule
from antecede.sim.trace import NOTHING, Progress, Trace, new_trace

NO_LIMIT = 2**62 - 1
# How many events to run between two updates of the progress bar.
CHUNK = 1 << 10


class PlainRun:
    """One run: its endpoints, the event heap, and the trace so far."""

    def __init__(
        self,
        protocol: str,
        schedule: Schedule,
        options: Mapping[str, Any],
        *,
        sent_before: int = 0,
    ) -> None:
        names = schedule.names
        options = {"held_max": NO_LIMIT, "queue_max": NO_LIMIT, **options}
        self.schedule = schedule
        self.endpoints = _endpoints(protocol, names, options)
        self.trace = new_trace(schedule.messages, schedule.copies)
        self.model_bytes: NDArray[np.int64] = np.zeros(schedule.copies, np.int64)
        self.on_packet: Callable[[antecede.Packet, int], None] | None = None
        self._plan = schedule.plan()
        self._position = {name: i for i, name in enumerate(names)}
        self._rows: dict[antecede.MessageId, int] = {}
        self._heap: list[tuple[float, int, antecede.Packet | None]] = []
        self._events = [0] * schedule.n
        self._sends = [0] * schedule.n
        self._order = 0
        self._pruned: dict[tuple[int, str], int] = {}
        self._added = 0
        self._numbers: dict[int, int] = {}
        # When each message (by row) first left its sender: a relay sends the other copies later.
        self._left: dict[int, float] = {}
        self._newest: dict[int, float] = {}
        self._free: dict[int, float] = {}
        self._now = 0.0
        # Sends that an endpoint refuses until an earlier one is delivered: its process is blocked.
        self._blocked: list[list[int]] | None = None
        if antecede.PROTOCOLS[protocol].blocking:
            self._blocked = [[] for _ in names]
        if sent_before:
            self._start_late(sent_before)
        for row in self._plan.fixed:
            heapq.heappush(self._heap, (float(schedule.time[row]), int(row), None))

    def _start_late(self, sent_before: int) -> None:
        """Start as if every process had sent `sent_before` messages, so clocks are as large."""
        counts = {"seq": sent_before, "events": sent_before}
        self.endpoints = [
            restored(one.view, one.state() | counts, resumed=True) for one in self.endpoints
        ]
        self._sends = [sent_before] * self.schedule.n
        self._events = [sent_before] * self.schedule.n

    def run(self, progress: Progress | None = None) -> Trace:
        """Run to the end."""
        total = len(self.trace.order)
        while self._heap:
            self._now, key, packet = heapq.heappop(self._heap)
            if packet is None:
                self._want(key)
            else:
                self._arrive(packet)
            if progress is not None and self._order % CHUNK == 0:
                progress(self._order / total)
        return self.trace

    def _want(self, row: int) -> None:
        """Carry out a send of the application, or queue it while its process is blocked."""
        self.trace.sent[row] = self._now
        if self._blocked is None:
            self._send(row)
            return
        place = int(self.schedule.sender[row])
        self._blocked[place].append(row)
        self._unblock(place)

    def _unblock(self, place: int) -> None:
        """Carry out queued sends, in order, until one is refused."""
        assert self._blocked is not None
        while self._blocked[place]:
            try:
                self._send(self._blocked[place][0])
            except antecede.UsageError:
                self._sends[place] -= 1
                return
            self._blocked[place].pop(0)

    def _send(self, row: int) -> None:
        schedule, trace = self.schedule, self.trace
        place = int(schedule.sender[row])
        endpoint = self.endpoints[place]
        dests = schedule.dests[schedule.offsets[row] : schedule.offsets[row + 1]]
        rank = int(schedule.rank[row])
        after = None
        if rank >= 0:
            after = max(0, self._events[place] - rank + 1) if rank else antecede.NOTHING
        self._sends[place] += 1
        effects = endpoint.send([schedule.names[d] for d in dests], after=after)
        message = antecede.MessageId(endpoint.process, self._sends[place])
        trace.number[row] = message.seq
        self._rows[message] = row
        self._events[place] = effects.event
        self._record(row)
        self._carry_out(place, effects, sent=True)

    def _arrive(self, packet: antecede.Packet) -> None:
        place = self._position[packet.dest]
        if packet.message is not None:
            copy = self._copy(packet.message, place)
            if copy is not None:
                self._reach(copy, self._rows[packet.message])
        self._carry_out(place, self.endpoints[place].receive(packet))
        if self._blocked is not None:
            self._unblock(place)

    def _reach(self, copy: int, row: int) -> None:
        """Note the first time that a copy reaches its receiver, by whatever route.

        A copy that a relay forwards left its sender with the message's first packet.
        """
        trace = self.trace
        if np.isnan(trace.arrived[copy]):
            trace.arrived[copy] = self._now
        if np.isnan(trace.posted[copy]):
            trace.posted[copy] = self._left[row]

    def _carry_out(self, place: int, effects: antecede.Effects, *, sent: bool = False) -> None:
        for delivery in effects.deliveries:
            copy = self._copy(delivery.message, place)
            assert copy is not None, f"{delivery.message} was not sent to {place}"
            # It may have arrived inside another message, before its own packet.
            self._reach(copy, self._rows[delivery.message])
            self.trace.delivered[copy] = self._now
            self._events[place] = delivery.event
            self._record(self.schedule.messages + copy)
            self._set_off(copy)
        kept = self.endpoints[place].kept_entries() if effects.deliveries or sent else None
        if kept is not None:
            self.trace.kept[self._order - 1] = kept
            self._note(place, sent=sent)
        for packet in effects.packets:
            self._post(packet)

    def _post(self, packet: antecede.Packet) -> None:
        source, dest = self._position[packet.source], self._position[packet.dest]
        channel = source * self.schedule.n + dest
        size = antecede.size(packet)
        copy = self._copy_to_post(packet, dest)
        if copy is None:
            number = self._numbers.get(channel, 0) + 1
            self._numbers[channel] = number
            delay = self._hashed_delay(channel, number)
            key = self.schedule.messages + self.schedule.copies + self._added
            self._added += 1
            self.trace.added[self._order - 1] += 1
            self.trace.added_bytes[self._order - 1] += size.model_bytes
        else:
            delay = float(self.schedule.delays[copy])
            key = self.schedule.messages + copy
            self.trace.entries[copy] = size.entries
            self.trace.destinations[copy] = size.destinations
            self.model_bytes[copy] = size.model_bytes
            if self.on_packet is not None:
                self.on_packet(packet, copy)
        when = self._on_link(channel, packet, size.model_bytes) + delay
        if self.schedule.fifo:
            newest = self._newest.get(channel, -np.inf)
            when = float(np.nextafter(newest, np.inf)) if when <= newest else when
            self._newest[channel] = when
        heapq.heappush(self._heap, (when, key, packet))

    def _on_link(self, channel: int, packet: antecede.Packet, control: int) -> float:
        """Return when a packet has left; a link of limited bandwidth sends packets one by one."""
        schedule = self.schedule
        if schedule.bandwidth <= 0:
            return self._now
        size = HEADER_BYTES + control + (schedule.payload if packet.message is not None else 0)
        start = max(self._now, self._free.get(channel, 0.0))
        self._free[channel] = start + size / schedule.bandwidth
        return self._free[channel]

    def _copy_to_post(self, packet: antecede.Packet, dest: int) -> int | None:
        """Return the scheduled copy that a packet is, if any, and note that it leaves."""
        message = packet.message
        if message is None or message.sender != packet.source:
            return None
        self._left.setdefault(self._rows[message], self._now)
        copy = self._copy(message, dest)
        if copy is None or not np.isnan(self.trace.posted[copy]):
            return None  # the first hop of a relayed message, or a packet sent again
        self.trace.posted[copy] = self._now
        return copy

    def _copy(self, message: antecede.MessageId, dest: int) -> int | None:
        row = self._rows[message]
        start, stop = self.schedule.offsets[row], self.schedule.offsets[row + 1]
        found = np.flatnonzero(self.schedule.dests[start:stop] == dest)
        return int(start + found[0]) if len(found) else None

    def _record(self, event: int) -> None:
        self.trace.order[self._order] = event
        # Of several deliveries at once, only the last sees the endpoint's state: see _carry_out.
        self.trace.kept[self._order] = NOTHING
        self._order += 1

    def _note(self, place: int, *, sent: bool) -> None:
        """Note what kernels note: destinations `pruned` removed, sends `semantic` moved MCV to."""
        notes = self.endpoints[place].notes()
        if "covered" in notes and sent:
            self.trace.noted[self._order - 1] = notes["covered"] == self._events[place]
        kind = "just_replaced" if sent else "already"
        if kind in notes:
            before = self._pruned.get((place, kind), 0)
            self.trace.noted[self._order - 1] = notes[kind] - before
            self._pruned[place, kind] = notes[kind]

    def _hashed_delay(self, channel: int, number: int) -> float:
        plan = self._plan
        with np.errstate(over="ignore"):  # a hash wraps around
            return float(added_delay(plan.model, plan.links, plan.seed[0], channel, number))

    def _set_off(self, copy: int) -> None:
        offsets = self._plan.trigger_offsets
        if len(offsets) > 1:
            for row in self._plan.triggered[offsets[copy] : offsets[copy + 1]]:
                when = self._now + float(self.schedule.think[row])
                heapq.heappush(self._heap, (when, int(row), None))


def run_plain(
    protocol: str, schedule: Schedule, *, options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> PlainRun:  # fmt: skip
    """Run a protocol's endpoints over a schedule; the result holds the trace."""
    result = PlainRun(protocol, schedule, options or {})
    result.run(progress)
    return result


def _endpoints(protocol: str, names: tuple[str, ...], options: Mapping[str, Any]) -> list[Endpoint]:
    """Return an endpoint for each process; only the first one checks the options."""
    one = antecede.endpoint(protocol, process=names[0], members=names, **options)
    rules = rules_of(protocol).of(one.view)
    limits = {name: getattr(one, name) for name in ("held_max", "held_bytes_max", "queue_max")}
    return [Endpoint(one.view, name, rules, **limits) for name in names]
