"""What a node does so that its group can change: propose, vote, tell, ask, pass on copies.

Everything here can be lost and said again. What must survive is in the machine; what others have to
do is asked of them until they have answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from antecede.errors import HoldFullError, PeerError, UnknownProcessError, UsageError
from antecede.net import records
from antecede.net.agreement import KINDS, Vote
from antecede.net.changing import Changing
from antecede.net.copies import copy_for
from antecede.net.fields import Fields, put_names, put_number
from antecede.net.flushes import Answer, Flush, Report, has_of
from antecede.net.outgoing import Outgoing
from antecede.net.peers import Peer
from antecede.net.records import Input
from antecede.net.saving import Batch, Saving
from antecede.net.transports import Changeable
from antecede.net.views import Change, is_quorum
from antecede.net.voting import Voting
from antecede.net.watch import LOG

CHANGED, WELCOME, REMOVED, REPORT, ANSWER, FINISHED = b"CWXFND"
"""The notes between nodes that are not votes."""
ANSWER_BYTES: Final = 1 << 18
LEAVE_SECONDS: Final = 60.0
"""For how long a process that was removed can still hear of it from us."""


class Members:
    """The volatile side of a group; :class:`antecede.net.groups.Group` is what survives."""

    def __init__(
        self,
        machine: Changing,
        peers: dict[str, Peer],
        saving: Saving,
        outgoing: Outgoing,
        *,
        is_full: Callable[[], bool],
    ) -> None:
        self.machine = machine
        self.peers = peers
        self.saving = saving
        self.outgoing = outgoing
        self.loop = asyncio.get_running_loop()
        self.waiters: list[tuple[Change, asyncio.Future[None]]] = []
        self.told_removed = False
        self._is_full = is_full
        self.former: dict[str, Peer] = {}
        """Processes that were removed a short while ago."""
        process, group = machine.setup.process, machine.group
        self.voting = Voting(
            process, group, peers, enter=self._input, tell=self._tell, learn=self._learn
        )
        self._pause = saving.limits.resend_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._shown: tuple[int, bool] | None = None
        outgoing.view = machine.group.number
        outgoing.notes_for = self.notes_for

    # What the node asks for.

    def want(self, wish: Change) -> asyncio.Future[None]:
        """Propose a change; the future is done when it has taken effect here."""
        waiter: asyncio.Future[None] = self.loop.create_future()
        self.waiters.append((wish, waiter))
        if wish not in self.machine.group.wishes:
            self._input(Input(records.WISH, data=wish.encoded()))
        self.voting.propose()
        return waiter

    def unwant(self, wish: Change) -> None:
        """Propose a change no more, unless others have accepted it already."""
        self.waiters = [(other, waiter) for other, waiter in self.waiters if other != wish]
        if wish in self.machine.group.wishes:
            self._input(Input(records.UNWISH, data=wish.encoded()))

    # Batches.

    def seal(self, batch: Batch) -> None:
        """Add to a batch what others must hear now."""
        group, flush = self.machine.group, self.machine.group.flush
        batch.view, batch.stable = group.number, self.machine.stable
        state = None if flush is None else (flush.view, flush.is_done)
        if state != self._shown:
            self._shown = state
            if flush is not None:
                for label in flush.cuts:
                    self._report(flush, label, batch)

    def release(self, batch: Batch) -> None:
        """Take note that a batch is saved."""
        self.outgoing.view, self.outgoing.stable = batch.view, batch.stable
        if self.waiters:
            for wish, waiter in list(self.waiters):
                if self._has_come_true(wish):
                    self.waiters.remove((wish, waiter))
                    if not waiter.done():
                        waiter.set_result(None)
        self._set_timer()

    def _has_come_true(self, wish: Change) -> bool:
        group = self.machine.group
        if not group.is_met(wish):
            return False
        flush = group.flush
        return wish.is_add or flush is None or wish.label in flush.left

    def notes_for(self, peer: Peer) -> list[bytes]:
        """Return what a peer has missed, as far as we know."""
        group = self.machine.group
        notes = []
        is_new = peer.channel.label in group.welcomes and peer.view < peer.channel.joined
        if is_new and self._is_current(peer):
            notes.append(bytes((WELCOME,)) + group.welcomes[peer.channel.label])
        first = max(peer.view, peer.channel.joined)
        return notes + [
            bytes((CHANGED,)) + data
            for number, data in group.changes.items()
            if first < number <= self.outgoing.view and (peer.view >= 0 or notes)
        ]

    def _is_current(self, newcomer: Peer) -> bool:
        """Tell whether a quorum has shown since our start that it knows of nothing newer.

        A member that was away may have missed that the newcomer was removed again. It must not
        welcome the process, which may have been started anew, as what it was.
        """
        views = {name: peer.view for name, peer in self.peers.items()}
        if max(views.values()) > self.outgoing.view:
            return False
        heard = [self.machine.setup.process, *[name for name, view in views.items() if view >= 0]]
        return is_quorum(
            heard, [name for name in self.machine.group.members if name != newcomer.name]
        )

    # Frames.

    def is_level(self, peer: Peer, view: int) -> bool:
        """Take note of a peer's view; tell whether its packets can be taken in ours.

        The peer has joined by then: it knows what a welcome says.
        """
        group, before = self.machine.group, peer.view
        if view != before:
            peer.view = view
            group.welcomes.pop(peer.channel.label, None)
            group.trim(min(other.view for other in self.peers.values()))
        if view < group.number and self.notes_for(peer):
            self._push(peer.name)
        elif view > group.number and view != before:
            self._push(peer.name)  # so that it hears how far we are
        return view <= group.number

    def stranger(self, name: str) -> bytes | None:
        """Return a note for a process that was removed; None if there was none of that name."""
        labels = [label for label, other in self.machine.group.past.items() if other == name]
        if not labels:
            return None
        out = bytearray((REMOVED,))
        put_names(out, labels)
        return bytes(out)

    def answer_stranger(self, name: str) -> None:
        """Tell a process that was removed that it was."""
        note = self.stranger(name)
        if note is not None:
            self.outgoing.answer(name, note)

    def note(self, peer: Peer, data: bytes) -> None:
        """Take a note from a peer; raise PeerError for what is not one."""
        kind = data[0] if data else 0
        if kind in KINDS:
            self.voting.take(peer.name, Vote.decoded(data))
        elif kind == CHANGED:
            if self.machine.check_learn(data[1:]):
                self._learn(data[1:])
        elif kind == REPORT:
            self._reported(peer, Report.decoded(data))
        elif kind == ANSWER:
            self._answered(peer, Answer.decoded(data))
        elif kind == FINISHED:
            view = Fields(data, 1).number()
            self._input(Input(records.FINISHED, peer.channel.label, view))
        elif kind == REMOVED:
            self.told_removed |= self.machine.label in Fields(data, 1).names()
        elif kind != WELCOME:
            msg = f"a note of kind {kind} is not known; run the same version of antecede everywhere"
            raise PeerError(msg)

    # Changes.

    def _learn(self, data: bytes) -> None:
        change = Change.decoded(data)
        self._input(Input(records.LEARN, data=data))
        self._pause = self.saving.limits.resend_seconds
        self._change_peers(change)
        for name in self.peers:
            self._push(name)
        self.voting.decided()

    def _change_peers(self, change: Change) -> None:
        """Get to know a new member, or part from one that was removed."""
        name, transport = change.name, self.outgoing.transport
        if change.is_add:
            self.peers[name] = Peer(
                name,
                self.machine.channels[name],
                self.saving.limits,
                notes_down=self.saving.store is not None,
            )
            self.former.pop(name, None)
            if isinstance(transport, Changeable):
                try:
                    transport.join(name, change.address)
                except UsageError as error:
                    LOG.error("%s: cannot reach %s: %s", self.machine.setup.process, name, error)
        elif (peer := self.peers.pop(name, None)) is not None:
            if peer.timer is not None:
                peer.timer.cancel()
            peer.wake()
            self.former[name] = peer
            self.saving.part(name)
            self.saving.batch.notes[name] = []
            self.loop.call_later(LEAVE_SECONDS, self._part, name, peer)

    def _part(self, name: str, peer: Peer) -> None:
        """Break the connection to a process that was removed, unless it has come back."""
        if self.former.get(name) is peer:
            del self.former[name]
            transport = self.outgoing.transport
            if name not in self.peers and isinstance(transport, Changeable):
                transport.leave(name)

    # Flush.

    def _report(self, flush: Flush, label: str, batch: Batch) -> None:
        """Tell a survivor our cut, and what we have from those who were removed."""
        found = self.machine.by_label.get(label)
        if found is not None:
            channels = [one for one in flush.removed.values() if one.label not in flush.left]
            told = Report(flush.view, flush.cuts[label], flush.is_done, has_of(channels))
            batch.notes.setdefault(found[0], []).append(told.encoded(REPORT))

    def _reported(self, peer: Peer, report: Report) -> None:
        flush, label = self.machine.group.flush, peer.channel.label
        is_over = flush is None and report.view <= self.machine.group.number
        if report.is_done and (is_over or (flush and flush.is_done and flush.view == report.view)):
            out = bytearray((FINISHED,))
            put_number(out, report.view)
            self._tell(peer.name, bytes(out))
        if flush is None:
            return
        if flush.view != report.view or label not in flush.cuts:
            return
        if label not in flush.reports:
            self._input(Input(records.REPORT, label, report.view, report.cut))
        if not report.is_done:
            self._tell(peer.name, self._answer(flush, report, label).encoded(ANSWER))
        elif label not in flush.finished:
            self._input(Input(records.FINISHED, label, report.view))

    def _answer(self, flush: Flush, report: Report, dest: str) -> Answer:
        """Return copies that a survivor lacks, as many as fit into a frame."""
        answer, size = Answer(report.view, is_whole=True, copies=[]), 0
        for label, (prefix, above) in report.has.items():
            channel = flush.removed.get(label)
            for parcel in () if channel is None else channel.kept.values():
                made = copy_for(self.machine.codec, parcel, dest)
                if made is None or made[0] <= prefix or made[0] in above:
                    continue
                if size and size + len(made[1]) > ANSWER_BYTES:
                    answer.is_whole = False
                    return answer
                answer.copies.append((label, *made))
                size += len(made[1])
        return answer

    def _answered(self, peer: Peer, answer: Answer) -> None:
        flush, label = self.machine.group.flush, peer.channel.label
        if flush is None or flush.is_done or flush.view != answer.view or label not in flush.cuts:
            return
        for name, n, parcel in answer.copies:
            given = Input(records.RELAY, name, n, 0, parcel)
            if not self.machine.check_relay(given):
                continue
            if self._is_full():
                return  # the next tick asks again
            try:
                self._input(given)
            except (HoldFullError, UnknownProcessError):
                return
        if answer.is_whole:
            self._input(Input(records.ANSWERED, label, answer.view))
        else:
            self._report(flush, label, self.saving.batch)
            self.saving.schedule()

    # What is asked again.

    def start(self) -> None:
        """Go on with what was under way."""
        self._set_timer()

    def stop(self) -> None:
        """Do nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        for _, waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _is_busy(self) -> bool:
        group = self.machine.group
        return bool(
            group.value
            or group.wishes
            or (group.flush is not None and (group.flush.lagging() or group.flush.missing()))
            or (group.number and self._behind())
        )

    def _behind(self) -> list[str]:
        """Return the peers that may have missed a change, or have seen one that we have not."""
        return [name for name, peer in self.peers.items() if peer.view != self.outgoing.view]

    def _set_timer(self) -> None:
        if self._timer is None and not self.outgoing.is_stopped and self._is_busy():
            pause = self._pause * self.outgoing.chance.uniform(1, 1.5)
            self._timer = self.loop.call_later(pause, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self.outgoing.is_stopped or self.machine.group.is_removed:
            return
        self._pause = min(2 * self._pause, self.saving.limits.resend_seconds_max)
        self.voting.try_again()
        flush = self.machine.group.flush
        if flush is not None:
            for label in dict.fromkeys((*flush.missing(), *flush.lagging())):
                self._report(flush, label, self.saving.batch)
            self.saving.schedule()
        for name in self._behind():
            self._push(name)
        self._set_timer()

    # Ways out.

    def _input(self, given: Input) -> None:
        self.machine.change(given)
        if self.saving.store is not None:
            self.saving.batch.records.append(records.change_record(given))
        self.saving.schedule()

    def _tell(self, name: str, note: bytes) -> None:
        self.saving.batch.notes.setdefault(name, []).append(note)
        self.saving.schedule()

    def _push(self, name: str) -> None:
        """Send a frame soon, with whatever the peer has missed."""
        self.saving.batch.notes.setdefault(name, [])
        self.saving.schedule()
