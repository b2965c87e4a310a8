"""The machine's inputs that concern its group: votes, changes, and the flush before a removal."""

from __future__ import annotations

from typing import Any

from antecede.errors import PeerError
from antecede.net.agreement import Ballot
from antecede.net.channels import Channel
from antecede.net.flushes import Flush
from antecede.net.machine import Machine
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
)
from antecede.net.views import Change


class Changing(Machine):
    """A machine whose group can change."""

    def _replay(self, kind: int, fields: tuple[Any, ...]) -> None:
        if kind == CHANGE:
            self.change(Input(*fields))
        else:
            super()._replay(kind, fields)

    def change(self, given: Input) -> None:
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
            self._learn(Change.decoded(given.data))
        elif given.kind == RELAY:
            self._relay(given)
        elif flush is not None and flush.view == given.a:
            if given.kind == REPORT:
                flush.reports[given.name] = given.b
            elif given.kind == ANSWERED:
                flush.answered.add(given.name)
            elif given.kind == FINISHED:
                flush.finished.add(given.name)
        self._complete()

    def arrive(self, peer: str, n: int, parcel: bytes) -> None:
        """Take a packet; it may be the last one that a removal waits for."""
        self.take_in(self.channels[peer], n, parcel)
        if self.group.flush is not None:
            self._complete()

    def _relay(self, given: Input) -> None:
        """Take a copy that a removed process sent to us and another one has passed on."""
        if self.check_relay(given):
            assert self.group.flush is not None
            self.take_in(self.group.flush.removed[given.name], given.a, given.data)

    def _learn(self, change: Change) -> None:
        group = self.group
        if change.number <= group.number:
            return
        group.apply(change)
        if change.is_add:
            self.codec.add(change.label)
            self.channels[change.name] = Channel(change.label, change.number)
            self._index()
            self._carry_out(self.endpoint.add(change.label))
        elif change.label == self.label:
            group.is_removed = True
        else:
            self._begin_flush(self.channels.pop(change.name))
            self._index()

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

    def _complete(self) -> None:
        """Let a removal take effect if nothing more can come."""
        flush = self.group.flush
        if flush is not None and not flush.is_done and self._has_all(flush):
            flush.is_done = True
            gone = [label for label in flush.removed if label not in flush.left]
            flush.left.update(gone)
            for label in gone:
                # Deliver nothing before all have left: what waits for one may follow what waits
                # for another.
                self.endpoint.pull = label != gone[-1]
                self._carry_out(self.endpoint.remove(label))
        if flush is not None and flush.is_done and not flush.lagging():
            self.group.flush = None

    def _has_all(self, flush: Flush) -> bool:
        """Tell whether everything from before the cuts has arrived."""
        if flush.missing():
            return False
        return all(
            self.by_label[label][1].prefix >= cut
            for label, cut in flush.reports.items()
            if label in self.by_label
        )

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
