"""Agreement on the next view: one decision of Paxos [L98] for each view number.

The members of a view vote on the change that leads to the next one. Any of them may propose. A
proposer first asks for promises; if a voter has already accepted a change, the proposer proposes
that one instead of its own. So a change that a majority has accepted stays, whoever crashes, and
another member completes it. Votes are saved before they are sent.

Three things are stricter than in the paper. A member proposes its own change only when all that
would stay have answered: so no change begins that must wait for a member that is down. Voters tell
all members what they accept, and a member learns a decision from a majority of voters, each
speaking for itself; nobody is believed alone. And a process votes only when a majority of the
others know its store: so nobody that has lost its first vote votes twice.

References
----------
.. [L98] L. Lamport. "The Part-Time Parliament". ACM Transactions on Computer Systems
   16(2):133-169, 1998. https://doi.org/10.1145/279227.279229
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from antecede.errors import PeerError
from antecede.net.fields import Fields, put_bytes, put_number, put_text
from antecede.net.group.views import Ballot, Change, Group, is_quorum

PREPARE, PROMISE, ACCEPT, ACCEPTED, REFUSED, DECIDED = b"PQRSTC"
KINDS: Final = frozenset((PREPARE, PROMISE, ACCEPT, ACCEPTED, REFUSED, DECIDED))
_VALUED: Final = frozenset((ACCEPT, ACCEPTED, DECIDED))
PATIENCE_TICKS: Final = 3
"""After how many ticks without an answer a member takes over another's attempt."""
ROUNDS_MAX: Final = 1 << 20
"""How far a round may be above the last one promised, so that a liar cannot use them all up."""


class Vote(NamedTuple):
    """What a voter of view ``slot - 1`` says about the change to view ``slot``."""

    kind: int
    slot: int
    ballot: Ballot = Ballot()
    accepted: Ballot = Ballot()
    value: bytes = b""

    def encoded(self) -> bytes:
        """Return the note as bytes."""
        out = bytearray((self.kind,))
        put_number(out, self.slot)
        for ballot in (self.ballot, self.accepted):
            put_number(out, ballot.round)
            put_text(out, ballot.proposer)
        put_bytes(out, self.value)
        return bytes(out)

    @classmethod
    def decoded(cls, data: bytes) -> Vote:
        """Return a note from its bytes; raise PeerError for anything else."""
        fields = Fields(data)
        kind, slot = fields.byte(), fields.number()
        ballot = Ballot(fields.number(), fields.text())
        accepted = Ballot(fields.number(), fields.text())
        value = fields.bytes()
        if kind not in KINDS or fields.left or (kind in _VALUED and not value):
            fields.fail("are not a vote")
        return cls(kind, slot, ballot, accepted, value)


class Attempt:
    """A proposer's attempt at one decision; it is not saved, as a new attempt can replace it."""

    def __init__(self, slot: int, ballot: Ballot, value: bytes, stayers: Collection[str]) -> None:
        self.slot = slot
        self.ballot = ballot
        self.own = value
        self.stayers = stayers
        """Voters that must have promised before this value may be proposed."""
        self.chosen: bytes | None = None
        """The value that voters are asked to accept, once enough have promised."""
        self.promises: dict[str, tuple[Ballot, bytes]] = {}
        self.accepts: set[str] = set()
        self.highest = ballot.round
        """The highest round known: the next attempt must be above it."""
        self.is_refused = False

    def promised(self, voter: str, vote: Vote, voters: Collection[str]) -> bool:
        """Note a promise; return True when enough have promised for the first time."""
        self.promises[voter] = vote.accepted, vote.value
        if self.chosen is not None or not is_quorum(self.promises, voters):
            return False
        accepted, value = max(self.promises.values())
        if accepted.round:
            self.chosen = value
        elif all(name in self.promises for name in self.stayers):
            self.chosen = self.own
        return self.chosen is not None

    def missing(self, voters: Collection[str]) -> list[str]:
        """Return the voters who have not answered the current question."""
        told: Collection[str] = self.promises if self.chosen is None else self.accepts
        return [voter for voter in voters if voter not in told]

    def question(self) -> bytes:
        """Return the question that voters are asked now."""
        if self.chosen is None:
            return Vote(PREPARE, self.slot, self.ballot).encoded()
        return Vote(ACCEPT, self.slot, self.ballot, value=self.chosen).encoded()


class Voting:
    """A node's part in the decision on the next view.

    ``promise`` and ``accept`` save what this node promises and accepts, ``tell`` sends a note,
    ``learn`` is called with a decision; ``may_vote`` returns whether enough others know our store.
    """

    def __init__(
        self,
        process: str,
        group: Group,
        peers: Mapping[str, object],
        *,
        promise: Callable[[Ballot], None],
        accept: Callable[[Ballot, bytes], None],
        tell: Callable[[str, bytes], None],
        learn: Callable[[bytes], None],
        may_vote: Callable[[], bool],
    ) -> None:
        self.process = process
        self.group = group
        self.peers = peers
        self._promise, self._accept = promise, accept
        self._tell, self._learn, self._may_vote = tell, learn, may_vote
        self._attempt: Attempt | None = None
        self._rounds = 0
        self._idle_ticks = 0
        self._accepts: dict[str, tuple[Ballot, bytes]] = {}
        """By voter, what it last said that it accepts; and, below, what it said was decided."""
        self._decisions: dict[str, bytes] = {}

    @property
    def _voters(self) -> tuple[str, ...]:
        return self.group.names

    @property
    def is_busy(self) -> bool:
        """Whether a decision is under way, or may be."""
        return bool(self.group.value or self.group.wishes or self._decisions)

    def missing(self) -> list[str]:
        """Return the members that our own proposal waits for."""
        attempt = self._attempt
        if attempt is None or attempt.slot != self.group.number + 1:
            return []
        return [name for name in attempt.missing(self._voters) if name in attempt.stayers]

    def propose(self) -> None:
        """Begin an attempt, if there is something to decide and none is under way."""
        group, me = self.group, self.process
        value = group.proposal()
        if value is None and self._decisions:
            value = next(iter(self._decisions.values()))  # if it is true, this was decided
        if value is None or group.is_removed or not self._may_vote():
            self._attempt = None
            return
        slot, before = group.number + 1, self._attempt
        if before is not None and before.slot == slot:
            if before.chosen is not None or before.own == value:
                return
            self._rounds = max(self._rounds, before.highest)  # we want another change by now
        self._rounds = max(self._rounds, group.promised.round) + 1
        stayers = [one for one in self._voters if one not in Change.decoded(value).leaves]
        attempt = self._attempt = Attempt(slot, Ballot(self._rounds, me), value, stayers)
        own = self._voted(Vote(PREPARE, slot, attempt.ballot))
        assert own.kind == PROMISE
        if attempt.promised(me, own, self._voters):
            self._ask_to_accept(attempt)
        else:
            self._ask(attempt)

    def decided(self) -> None:
        """Begin with the next decision."""
        self._attempt, self._idle_ticks = None, 0
        self._accepts.clear()
        self._decisions.clear()
        self.propose()

    def try_again(self) -> None:
        """Ask voters that have not answered, or begin another attempt."""
        group, attempt = self.group, self._attempt
        self._idle_ticks += 1
        if attempt is None or attempt.slot != group.number + 1:
            # Another member may be proposing: take over only after a while.
            if group.wishes or self._idle_ticks >= PATIENCE_TICKS:
                self.propose()
        elif attempt.is_refused:
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
        if own.kind == REFUSED:  # another proposer has our promise by now
            self._refused(attempt, own.ballot)
        elif not self._has_learnt():
            self._ask(attempt)

    def take(self, peer: str, vote: Vote) -> None:
        """Process a question or an answer from a peer; PeerError if no member would send it."""
        group = self.group
        if group.is_removed or peer not in group.members:
            return
        is_question = vote.kind in (PREPARE, ACCEPT)
        if is_question:
            self._check_ballot(peer, vote)
        if vote.slot == group.number:
            self._answer_straggler(peer, vote)
        elif vote.slot == group.number + 1:
            if not is_question:
                self._take_answer(peer, vote)
            elif self._may_vote() and not self._removes_us(vote):
                self._tell(peer, self._voted(vote).encoded())
                self._has_learnt()

    def _removes_us(self, vote: Vote) -> bool:
        """Return whether we are asked to accept our own removal, which the others decide.

        With only two members this is False, because the other one alone may be no quorum.
        """
        if vote.kind != ACCEPT or len(self._voters) <= 2:
            return False
        return self.process in Change.decoded(vote.value).leaves

    def _take_answer(self, peer: str, vote: Vote) -> None:
        group, attempt = self.group, self._attempt
        if vote.value:
            group.check(Change.decoded(vote.value))
        if vote.kind == DECIDED:
            self._decisions[peer] = vote.value
            self._has_learnt()
        elif vote.kind == ACCEPTED:
            self._accepts[peer] = vote.ballot, vote.value
            if attempt is not None and vote.ballot == attempt.ballot:
                attempt.accepts.add(peer)
            self._has_learnt()
        elif attempt is not None and attempt.slot == vote.slot:
            if vote.kind == REFUSED:
                self._refused(attempt, vote.ballot)
            elif vote.ballot == attempt.ballot and attempt.promised(peer, vote, self._voters):
                self._ask_to_accept(attempt)

    def _refused(self, attempt: Attempt, by: Ballot) -> None:
        """Note that a voter refused, because it has promised another proposer."""
        if by.round <= attempt.highest + ROUNDS_MAX:
            attempt.highest = max(attempt.highest, by.round)
            attempt.is_refused = True

    def _check_ballot(self, peer: str, vote: Vote) -> None:
        """Refuse a ballot that is not the peer's own, or that would use up all rounds."""
        if vote.ballot.proposer != peer:
            msg = f"{peer!r} proposes in the name of {vote.ballot.proposer!r}"
            raise PeerError(msg)
        if vote.ballot.round > self.group.promised.round + ROUNDS_MAX:
            msg = f"{peer!r} proposes in round {vote.ballot.round}, far above any other"
            raise PeerError(msg)
        if vote.kind == ACCEPT and vote.slot == self.group.number + 1:
            self.group.check(Change.decoded(vote.value))

    def _answer_straggler(self, peer: str, vote: Vote) -> None:
        """Vote again for the last decision, so that a member that was away can learn it."""
        decided = self.group.decided
        if not decided or not self._may_vote():
            return
        if vote.kind == PREPARE:
            told = Vote(PROMISE, vote.slot, vote.ballot, vote.ballot, decided)
            self._tell(peer, told.encoded())
        elif vote.kind == ACCEPT and vote.value == decided:
            self._tell(peer, Vote(ACCEPTED, vote.slot, vote.ballot, value=decided).encoded())

    def _voted(self, vote: Vote) -> Vote:
        """Return our answer to a proposer (perhaps ourselves); it is saved before it leaves."""
        group, slot, ballot = self.group, vote.slot, vote.ballot
        if ballot < group.promised:
            return Vote(REFUSED, slot, group.promised)
        if vote.kind == PREPARE:
            if ballot > group.promised:
                self._promise(ballot)
            return Vote(PROMISE, slot, ballot, group.accepted, group.value)
        if (ballot, vote.value) != (group.accepted, group.value):
            self._accept(ballot, vote.value)
        told = Vote(ACCEPTED, slot, ballot, value=vote.value)
        for name in self._voters:
            if name in self.peers and name != ballot.proposer:
                self._tell(name, told.encoded())
        return told

    def _has_learnt(self) -> bool:
        """Learn the value that a quorum accepted or calls decided; return whether there is one."""
        group = self.group
        accepts = dict(self._accepts)
        if group.value:
            accepts[self.process] = group.accepted, group.value
        for ballot, value in {
            *accepts.values(),
            *((Ballot(), v) for v in self._decisions.values()),
        }:
            voices = {name for name, said in accepts.items() if said == (ballot, value)}
            voices |= {name for name, said in self._decisions.items() if said == value}
            if is_quorum(voices, self._voters):
                self._learn(value)
                return True
        return False
