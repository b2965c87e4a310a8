"""What a node does so that its group can change: propose, vote, tell, report, pass on copies.

Everything here can be lost and sent again. State that must survive is in the machine; questions to
others are repeated until they have answered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final, Protocol

from antecede.errors import AntecedeError, PeerError, UsageError
from antecede.net import journal
from antecede.net.fields import Fields, put_number
from antecede.net.group.flush import (
    ANSWER,
    ANSWER_BYTES,
    COPIES_MAX,
    OVER,
    PASSING,
    REPORT,
    UNSTABLE,
    UNSTABLE_MAX,
    Answer,
    Flush,
    Report,
)
from antecede.net.group.joining import REMOVED, WELCOME
from antecede.net.group.paxos import DECIDED, KINDS, Vote, Voting
from antecede.net.group.views import Ballot, Change, Wish, is_quorum
from antecede.net.journal import Input
from antecede.net.log import tell
from antecede.net.machine import Machine
from antecede.net.peers import HELLO, Outgoing, Peer
from antecede.net.settings import Limits
from antecede.net.transports import Changeable

LEAVE_SECONDS: Final = 60.0
"""For how long a removed process's frames are still accepted, so that it learns of its removal."""
ANSWER_SECONDS: Final = 0.005
"""How long a question for copies waits for further ones, so that all are answered together."""
PATIENCE_TICKS: Final = 4
"""After how many ticks the members that hold up a change are logged."""


class Host(Protocol):
    """What ``Members`` needs from the driver."""

    @property
    def is_inbox_full(self) -> bool:
        """Whether deliveries that are not marked done have reached a limit."""

    def changed(self, record: bytes) -> None:
        """Note that the machine has processed an input about the group."""

    def tell(self, name: str, note: bytes | None) -> None:
        """Send a note with the next batch; with None, a frame with what the peer has missed."""

    def refuse(self, name: str, reason: str) -> None:
        """Count what a peer sent and we refused."""

    def stop_as_removed(self) -> None:
        """Stop, because the others have removed this process."""


class Members:
    """The volatile side of a group; :class:`antecede.net.group.views.Group` is the durable one."""

    def __init__(
        self,
        machine: Machine,
        peers: dict[str, Peer],
        outgoing: Outgoing,
        limits: Limits,
        host: Host,
    ) -> None:
        self.machine = machine
        self.peers = peers
        self.outgoing = outgoing
        self.limits = limits
        self.host = host
        self.loop = asyncio.get_running_loop()
        self.waiters: list[tuple[Wish, asyncio.Future[None]]] = []
        self.voting = Voting(
            machine.setup.process,
            machine.group,
            peers,
            promise=lambda ballot: self._ballot(journal.PROMISE, ballot, b""),
            accept=lambda ballot, value: self._ballot(journal.ACCEPT, ballot, value),
            tell=host.tell,
            learn=self._learn,
            may_vote=self._may_vote,
        )
        self._removers: set[str] = set()
        """Members that have said that this process was removed."""
        self._former: dict[str, asyncio.TimerHandle] = {}
        self.flush: Flush | None = None
        self._told: Report | None = None
        """The flush that we last reported on, and that report."""
        self._pause = limits.resend_seconds
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._asked: dict[str, Report] = {}
        """By peer that has asked for copies, its report of what it has."""
        self._answering: asyncio.TimerHandle | None = None
        outgoing.notes_for = self.notes_for

    # Called for the node.

    def want(self, wishes: list[Wish]) -> list[asyncio.Future[None]]:
        """Propose changes; a future is done when its change has taken effect here."""
        made = []
        for wish in wishes:
            waiter: asyncio.Future[None] = self.loop.create_future()
            self.waiters.append((wish, waiter))
            made.append(waiter)
            if wish not in self.machine.group.wishes:
                data = wish.address.encode()
                self._input(Input(journal.WISH, wish.name, wish.joined, wish.is_join, data))
        self._pause, self._ticks = self.limits.resend_seconds, 0
        self.voting.propose()
        return made

    def unwant(self, wishes: list[Wish]) -> None:
        """Stop proposing changes, unless others have accepted them already."""
        self.waiters = [(wish, waiter) for wish, waiter in self.waiters if wish not in wishes]
        for wish in wishes:
            if wish in self.machine.group.wishes:
                self._input(Input(journal.UNWISH, wish.name))

    def missing(self) -> list[str]:
        """Return the members that a change waits for."""
        flush = self.machine.flush
        if flush is not None:
            return flush.missing()
        if self.voting.is_busy:
            return self._unknown_to() or self.voting.missing()
        return []

    def _unknown_to(self) -> list[str]:
        """Return the others that may not know our store; none if enough do, so that we may vote."""
        others = [name for name in self.machine.group.names if name in self.peers]
        if is_quorum(self.machine.known_by, others):
            return []
        return [name for name in others if name not in self.machine.known_by]

    def _may_vote(self) -> bool:
        """Return whether enough others know our store; if not, show it to them."""
        unknown = self._unknown_to()
        for name in unknown:
            self.host.tell(name, None)
        return not unknown

    # Batches.

    def seal(self) -> None:
        """Send what others must hear now about a view that ends."""
        flush, before, told = self.machine.flush, self.flush, self._told
        if before is not None and before.stage == OVER:
            for name in before.stayers:
                if name in self.peers:
                    over = Report(before.view, before.upto, OVER)
                    self.host.tell(name, over.encoded())
        self.flush = flush
        if flush is None:
            self._told = None
            return
        own = self.machine.report(flush)
        if (
            flush is not before
            or told is None
            or own.stage != told.stage
            or (own != told and flush.is_level(self.machine.setup.process, own))
        ):
            self._told = own
            self._report(flush, own)

    def release(self) -> None:
        """Note that a batch is saved, and tell callers whose changes have taken effect."""
        if self.waiters:
            group = self.machine.group
            for wish, waiter in list(self.waiters):
                is_over = wish.is_join or self.machine.flush is None
                if group.is_met(wish) and is_over:
                    self.waiters.remove((wish, waiter))
                    if not waiter.done():
                        waiter.set_result(None)
        self._set_timer()

    def notes_for(self, peer: Peer) -> list[bytes]:
        """Return the notes that a peer may have missed, as far as we know."""
        group = self.machine.group
        if peer.name in group.newcomers:
            return [bytes((WELCOME,)) + group.welcome().encoded()]
        if group.decided and peer.view < group.number:
            return [Vote(DECIDED, group.number, value=group.decided).encoded()]
        return []

    # Frames.

    def seen(self, peer: Peer, view: int) -> None:
        """Note the view of a peer's frame, which is not the newest view seen from it."""
        machine, name = self.machine, peer.name
        if view > peer.view:
            peer.view = view
            if view != machine.group.number:
                self.host.tell(name, None)  # a frame says what it has missed, or how far we are
        elif view < machine.sides[0].number:
            self.host.tell(name, Report(view, machine.group.number, OVER).encoded())

    def came_back(self) -> None:
        """Ask again soon: a peer has restarted and may not have heard our last question.

        This happens only once between two questions, so that nobody can put them off.
        """
        if self._timer is not None and self._pause > self.limits.resend_seconds:
            self._timer.cancel()
            self._timer, self._pause = None, self.limits.resend_seconds
            self._set_timer()

    def knows_us(self, peer: Peer) -> None:
        """Note that a peer knows our store."""
        if peer.name not in self.machine.known_by:
            self._input(Input(journal.KNOWN, peer.name))

    def answer_stranger(self, name: str) -> None:
        """Tell a process that it is not a member."""
        out = bytearray((REMOVED,))
        put_number(out, self.machine.group.number)
        self.outgoing.answer(name, bytes(out))

    def told_removed(self, name: str, view: int) -> None:
        """Note that a member does not count us among the members of a later view.

        No member is believed alone, unless there is no other.
        """
        group, process = self.machine.group, self.machine.setup.process
        others = [one for one in group.names if one != process]
        if view > group.number and name in others:
            if name not in self._removers:
                self._removers.add(name)
                for other in others:
                    self.host.tell(other, None)  # ask for their view
            if is_quorum(self._removers, others) and len(self._removers) >= min(2, len(others)):
                removal = Change(group.number + 1, leaves=(process,)).encoded()
                self._input(Input(journal.LEARN, data=removal))

    def note(self, peer: Peer, data: bytes) -> None:
        """Process a note from a peer; raise PeerError if it is malformed."""
        kind = data[0] if data else 0
        if kind in KINDS:
            vote = Vote.decoded(data)
            if vote.kind == DECIDED and vote.slot <= self.machine.group.number:
                self.host.tell(peer.name, None)  # a frame says how far we are
            else:
                self.voting.take(peer.name, vote)
                self._set_timer()
        elif kind == REPORT:
            self._reported(peer, Report.decoded(data))
        elif kind == ANSWER:
            self._answered(peer, Answer.decoded(data))
        elif kind == UNSTABLE:
            fields = Fields(data, 1)
            if (link := peer.links.get(fields.number())) is not None:
                link.channel.settle_but(fields.number(), fields.numbers(UNSTABLE_MAX))
        elif data == HELLO:
            self.host.tell(peer.name, None)
        elif kind == REMOVED:
            self.told_removed(peer.name, Fields(data, 1).number())
        elif kind != WELCOME:
            msg = f"a note of kind {kind} is not known; run the same version of antecede everywhere"
            raise PeerError(msg)

    # Changes.

    def _learn(self, data: bytes) -> None:
        change = Change.decoded(data)
        self._input(Input(journal.LEARN, data=data))
        self._pause, self._ticks = self.limits.resend_seconds, 0
        transport = self.outgoing.transport
        if not self.machine.group.is_removed and isinstance(transport, Changeable):
            for name, address in change.joins:
                if (timer := self._former.pop(name, None)) is not None:
                    timer.cancel()
                try:
                    transport.join(name, address)
                except UsageError as error:
                    self._warn("unreachable", f"cannot reach {name}: {error}", peer=name)
            for name in change.leaves:
                self._former[name] = self.loop.call_later(LEAVE_SECONDS, self._part, name)
        if (tell := getattr(transport, "tell_view", None)) is not None:
            tell(self.machine.group.number)
        if change.leaves and self.machine.sides[0].endpoint.info.relays:
            gone = ", ".join(change.leaves)
            sentence = f"messages of others that were under way through {gone} may be lost"
            self._warn("relay removed", sentence, removed=list(change.leaves))
        for name in change.leaves:
            self.answer_stranger(name)
        for name in self.peers:
            self.host.tell(name, None)
        self.voting.decided()

    def _part(self, name: str) -> None:
        """Break the connection to a process that was removed."""
        del self._former[name]
        transport = self.outgoing.transport
        if isinstance(transport, Changeable):
            transport.leave(name)

    # The end of a view.

    def _report(self, flush: Flush, report: Report) -> None:
        """Tell all members that stay how far we are."""
        for name in flush.stayers:
            if name in self.peers:
                self.host.tell(name, report.encoded())

    def _reported(self, peer: Peer, report: Report) -> None:
        machine, name = self.machine, peer.name
        if report.view < machine.sides[0].number:
            if report.stage != OVER:
                over = Report(report.view, machine.group.number, OVER)
                self.host.tell(name, over.encoded())
            return
        flush = machine.flush
        if flush is None or flush.view != report.view or name not in flush.stayers:
            return
        if report.upto == flush.upto and report.stage == PASSING:
            self._asked[name] = report
            if self._answering is None:
                self._answering = self.loop.call_later(ANSWER_SECONDS, self._answer_all)
        if flush.takes(name, report):
            self._input(Input(journal.REPORT, name, data=report.encoded()))

    def _answer_all(self) -> None:
        """Pass copies on to the peers that asked; then pause, since a peer may ask all the time."""
        begin, flush = time.perf_counter(), self.machine.flush
        for name, report in self._asked.items():
            if flush is not None and (report.view, report.upto) == (flush.view, flush.upto):
                self.host.tell(name, self._answer(flush, report, name).encoded())
        self._asked.clear()
        pause = ANSWER_SECONDS + 10 * (time.perf_counter() - begin)
        self._answering = self.loop.call_later(pause, self._rested)

    def _rested(self) -> None:
        self._answering = None
        if self._asked and not self.outgoing.is_stopped:
            self._answer_all()

    def _answer(self, flush: Flush, report: Report, name: str) -> Answer:
        """Return copies that a member lacks, as many as fit into a frame."""
        answer, size = Answer(flush.view, flush.upto, is_whole=True, copies=[]), 0
        for copy in self.machine.copies_for(name, report.has):
            if len(answer.copies) == COPIES_MAX or (size and size + len(copy[2]) > ANSWER_BYTES):
                answer.is_whole = False
                break
            answer.copies.append(copy)
            size += len(copy[2])
        return answer

    def _answered(self, peer: Peer, answer: Answer) -> None:
        flush = self.machine.flush
        if (
            flush is None
            or flush.stage != PASSING
            or (flush.view, flush.upto) != (answer.view, answer.upto)
            or peer.name not in flush.stayers
        ):
            return
        for name, n, parcel in answer.copies:
            if not self.machine.check_relay(name, n):
                continue
            if self.host.is_inbox_full:
                return  # the next tick asks again
            try:
                self._input(Input(journal.RELAY, name, n, 0, parcel))
            except AntecedeError as error:
                self.host.refuse(peer.name, str(error))
        if answer.is_whole:
            self._input(Input(journal.ANSWERED, peer.name, answer.upto))
        else:
            self.host.tell(peer.name, self.machine.report(flush).encoded())

    # Repeated questions.

    def start(self) -> None:
        """Resume changes that were under way."""
        self._set_timer()

    def stop(self) -> None:
        """Stop all timers, and release waiting callers."""
        for timer in (self._timer, self._answering, *self._former.values()):
            if timer is not None:
                timer.cancel()
        for _, waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _behind(self) -> list[str]:
        """Return peers that may have missed a change, or have seen one that we have missed."""
        number = self.machine.group.number
        return [
            name
            for name, peer in self.peers.items()
            if self._removers or peer.view > number or (number and peer.view < number)
        ]

    def _set_timer(self) -> None:
        is_busy = self.voting.is_busy or self.machine.flush is not None or self._behind()
        if self._timer is None and not self.outgoing.is_stopped and is_busy:
            pause = self._pause * self.outgoing.chance.uniform(1, 1.5)
            self._timer = self.loop.call_later(pause, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self.outgoing.is_stopped or self.machine.group.is_removed:
            return
        self._pause = min(2 * self._pause, self.limits.resend_seconds_max)
        self._ticks += 1
        self.voting.try_again()
        if (flush := self.machine.flush) is not None:
            self._report(flush, self.machine.report(flush))
        for name in (*self._behind(), *self._unknown_to()):
            self.host.tell(name, None)
        if self._ticks == PATIENCE_TICKS and (missing := self.missing()):
            sentence = f"a change of the members waits for {', '.join(missing)}"
            self._warn("change waits", sentence, missing=missing)
        self._set_timer()

    # Inputs, and warnings.

    def _warn(self, event: str, sentence: str, **fields: object) -> None:
        tell(logging.WARNING, self.machine.setup.process, event, sentence, **fields)

    def _ballot(self, kind: int, ballot: Ballot, value: bytes) -> None:
        slot = self.machine.group.number + 1
        self._input(Input(kind, ballot.proposer, slot, ballot.round, value))

    def _input(self, given: Input) -> None:
        self.machine.change(given)
        self.host.changed(journal.change_record(given))
