"""The machine's inputs that concern its group: votes, changes, and the flush before a removal."""

from __future__ import annotations

from typing import Any

from antecede.core.messages import Effects
from antecede.errors import PeerError
from antecede.net.agreement import Ballot
from antecede.net.channels import Channel
from antecede.net.flushes import Flush
from antecede.net.machine import Machine, Step
from antecede.net.records import (
    ACCEPT,
    ANSWERED,
    CHANGE,
    FINISHED,
    LEARN,
    PROMISE,
    RELAY,
    REPORT,
    UNWISH,
    WISH,
    Input,
    Logged,
)
from antecede.net.views import Change


class Changing(Machine):
    """A machine whose group can change."""

    def _replay(self, kind: int, fields: tuple[Any, ...]) -> list[Logged]:
        if kind != CHANGE:
            return super()._replay(kind, fields)
        return self.change(Input(*fields)).logged

    def change(self, given: Input) -> Step:
        """Take an input that concerns the group; it belongs into the journal."""
        group, flush = self.group, self.group.flush
        if given.kind == PROMISE:
            group.promised = Ballot(given.b, given.name)
        elif given.kind == ACCEPT:
            group.check(Change.decoded(given.data))
            group.promised = group.accepted = Ballot(given.b, given.name)
            group.value = given.data
        elif given.kind == WISH:
            group.wishes.append(Change.decoded(given.data))
        elif given.kind == UNWISH:
            wish = Change.decoded(given.data)
            group.wishes = [other for other in group.wishes if other != wish]
        elif given.kind == LEARN:
            return self._learn(Change.decoded(given.data))
        elif given.kind == RELAY:
            return self._relay(given)
        elif flush is not None and flush.view == given.a:
            if given.kind == REPORT:
                flush.reports[given.name] = given.b
            elif given.kind == ANSWERED:
                flush.answered.add(given.name)
            elif given.kind == FINISHED:
                flush.finished.add(given.name)
        return self._completed([])

    def arrive(self, peer: str, n: int, parcel: bytes) -> Step:
        """Take a packet; it may be the last one that a removal waits for."""
        step = super().arrive(peer, n, parcel)
        return step if self.group.flush is None else self._completed([step])

    def _relay(self, given: Input) -> Step:
        """Take a copy that a removed process sent to us and another one has passed on."""
        flush = self.group.flush
        channel = None if flush is None else flush.removed.get(given.name)
        if flush is None or channel is None or given.name in flush.left or channel.has(given.a):
            return self._completed([])
        return self._completed([self._take_in(channel, given.a, given.data)])

    def _learn(self, change: Change) -> Step:
        group = self.group
        if change.number <= group.number:
            return self._completed([])
        group.apply(change)
        steps = []
        if change.is_add:
            self.codec.add(change.label)
            steps.append(self._outcome(self.endpoint.add(change.label)))
            self.channels[change.name] = Channel(change.label, change.number)
        elif change.label == self.label:
            group.is_removed = True
        else:
            self._begin_flush(self.channels.pop(change.name))
        self._index()
        return self._completed(steps)

    def _begin_flush(self, channel: Channel) -> None:
        """Take no more from a process that is removed; from now on this is our cut."""
        group = self.group
        self._settled(channel, channel.drop(list(channel.outbox)))
        before = group.flush
        removed = {} if before is None else before.removed
        removed[channel.label] = channel
        cuts = {one.label: one.sent for one in self.channels.values()}
        group.flush = Flush(group.number, removed, cuts)
        if before is not None:
            group.flush.left = before.left

    def _completed(self, steps: list[Step]) -> Step:
        """Let a removal take effect if nothing more can come; return all that happened."""
        flush = self.group.flush
        if flush is not None and not flush.is_done and self._has_all(flush):
            flush.is_done = True
            for label in flush.removed:
                if label not in flush.left:
                    steps.append(self._outcome(self.endpoint.remove(label)))
                    flush.left.add(label)
        if flush is not None and flush.is_done and not flush.lagging():
            self.group.flush = None
        return _joined(steps)

    def _has_all(self, flush: Flush) -> bool:
        """Tell whether everything from before the cuts has arrived."""
        if flush.missing():
            return False
        return all(
            self.by_label[label][1].prefix >= cut
            for label, cut in flush.reports.items()
            if label in self.by_label
        )

    def _outcome(self, effects: Effects) -> Step:
        return self._carry_out(effects, [], None)

    def check_relay(self, given: Input) -> bool:
        """Tell whether a copy that was passed on is one that we lack."""
        flush = self.group.flush
        if flush is None or given.name not in flush.removed or given.name in flush.left:
            return False
        return not flush.removed[given.name].has(given.a)

    def check_learn(self, data: bytes) -> bool:
        """Tell whether a change is the next one; refuse one that cannot be."""
        change = Change.decoded(data)
        if change.number != self.group.number + 1:
            return False
        self.group.check(change)
        if change.is_add and change.name == self.setup.process:
            msg = f"view {change.number} adds {change.name!r} to itself"
            raise PeerError(msg)
        return True


def _joined(steps: list[Step]) -> Step:
    """Return several outcomes as one."""
    if len(steps) == 1:
        return steps[0]
    whole = Step([], (), [], 0)
    for step in steps:
        whole = Step(
            whole.packets + step.packets,
            whole.deliveries + step.deliveries,
            whole.logged + step.logged,
            whole.control + step.control,
            step.held or whole.held,
        )
    return whole
