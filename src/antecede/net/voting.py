"""How a node proposes changes of its group, and votes on those of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from antecede.errors import PeerError
from antecede.net import records
from antecede.net.agreement import (
    ACCEPT,
    ACCEPTED,
    PREPARE,
    PROMISE,
    REFUSED,
    Attempt,
    Ballot,
    Vote,
)
from antecede.net.groups import Group
from antecede.net.peers import Peer
from antecede.net.records import Input
from antecede.net.views import Change

PATIENCE_TICKS: Final = 3
"""After how many ticks without an answer an attempt is given up, or taken over from another."""


class Voting:
    """A node's part in the decision on the next view."""

    def __init__(
        self,
        process: str,
        group: Group,
        peers: Mapping[str, Peer],
        *,
        enter: Callable[[Input], None],
        tell: Callable[[str, bytes], None],
        learn: Callable[[bytes], None],
    ) -> None:
        self.process = process
        self.group = group
        self.peers = peers
        self._enter, self._tell, self._learn = enter, tell, learn
        self._attempt: Attempt | None = None
        self._rounds = 0
        self._idle_ticks = 0

    @property
    def _voters(self) -> tuple[str, ...]:
        return self.group.names

    def propose(self) -> None:
        """Begin an attempt, if there is something to decide and none is under way."""
        group, me = self.group, self.process
        value = group.proposal()
        if value is None or group.is_removed:
            self._attempt = None
            return
        slot = group.number + 1
        if self._attempt is not None and self._attempt.slot == slot:
            return
        self._rounds = max(self._rounds, group.promised.round) + 1
        attempt = self._attempt = Attempt(slot, Ballot(self._rounds, me), value)
        own = self._voted(Vote(PREPARE, slot, attempt.ballot))
        assert own.kind == PROMISE
        if attempt.promised(me, own, self._voters):
            self._ask_to_accept(attempt)
        else:
            self._ask(attempt)

    def decided(self) -> None:
        """Go on to the next decision."""
        self._attempt, self._idle_ticks = None, 0
        self.propose()

    def try_again(self) -> None:
        """Ask those who have not answered, or begin another attempt."""
        group, attempt = self.group, self._attempt
        self._idle_ticks += 1
        if attempt is None or attempt.slot != group.number + 1:
            # Another member may be at it: take over only after a while.
            if group.wishes or self._idle_ticks >= PATIENCE_TICKS:
                self.propose()
            return
        attempt.ticks += 1
        if attempt.is_refused or attempt.ticks >= PATIENCE_TICKS:
            self._rounds = max(self._rounds, attempt.highest)
            self._attempt = None
            self.propose()
        else:
            self._ask(attempt)

    def _ask(self, attempt: Attempt) -> None:
        for name in attempt.missing(self._voters):
            if name in self.peers:
                self._tell(name, attempt.question())

    def _ask_to_accept(self, attempt: Attempt) -> None:
        value = attempt.chosen
        assert value is not None
        own = self._voted(Vote(ACCEPT, attempt.slot, attempt.ballot, value=value))
        if own.kind == REFUSED:  # another proposer has our promise by now, and relies on it
            attempt.refused(own.ballot)
        elif attempt.accepted(self.process, self._voters):
            self._learn(value)
        else:
            self._ask(attempt)

    def take(self, peer: str, vote: Vote) -> None:
        """Take a question or an answer from a peer."""
        group, attempt = self.group, self._attempt
        if vote.slot != group.number + 1 or group.is_removed:
            return
        if vote.kind in (PREPARE, ACCEPT):
            if vote.ballot.proposer != peer:
                msg = f"{peer!r} proposes in the name of {vote.ballot.proposer!r}"
                raise PeerError(msg)
            self._tell(peer, self._voted(vote).encoded())
        elif attempt is None or attempt.slot != vote.slot:
            return
        elif vote.kind == REFUSED:
            attempt.refused(vote.ballot)
        elif vote.ballot != attempt.ballot:
            return
        elif vote.kind == PROMISE:
            if vote.value:
                group.check(Change.decoded(vote.value))
            if attempt.promised(peer, vote, self._voters):
                self._ask_to_accept(attempt)
        elif attempt.chosen is not None and attempt.accepted(peer, self._voters):
            self._learn(attempt.chosen)

    def _voted(self, vote: Vote) -> Vote:
        """Return our answer to a proposer, who may be ourselves; it is saved before it leaves."""
        group, slot, ballot = self.group, vote.slot, vote.ballot
        if ballot < group.promised:
            return Vote(REFUSED, slot, group.promised)
        if vote.kind == PREPARE:
            if ballot > group.promised:
                self._enter(Input(records.PROMISE, ballot.proposer, slot, ballot.round))
            return Vote(PROMISE, slot, ballot, group.accepted, group.value)
        if (ballot, vote.value) != (group.accepted, group.value):
            self._enter(Input(records.ACCEPT, ballot.proposer, slot, ballot.round, vote.value))
        return Vote(ACCEPTED, slot, ballot)
