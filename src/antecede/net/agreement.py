"""Agreement on the next view: one decision of Paxos [L98] for each view number.

The members of a view vote on the change that leads to the next one. Any of them may propose. A
proposer first asks for promises; if a voter has already accepted a change, the proposer takes that
one up instead of its own. So a change that a majority has accepted stays, whoever crashes, and
another member completes it. Votes are saved before they are told.

References
----------
.. [L98] L. Lamport. "The Part-Time Parliament". ACM Transactions on Computer Systems
   16(2):133-169, 1998. https://doi.org/10.1145/279227.279229
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from antecede.net.fields import Fields, put_bytes, put_number, put_text
from antecede.net.views import is_quorum

PREPARE, PROMISE, ACCEPT, ACCEPTED, REFUSED = b"PQRST"
KINDS: Final = frozenset((PREPARE, PROMISE, ACCEPT, ACCEPTED, REFUSED))


class Ballot(NamedTuple):
    """An attempt to decide; a later one has a higher round, and no two proposers share one."""

    round: int = 0
    proposer: str = ""


class Vote(NamedTuple):
    """What a voter of view ``slot - 1`` says about the change to view ``slot``."""

    kind: int
    slot: int
    ballot: Ballot
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
        if kind not in KINDS or fields.left:
            fields.fail("are not a vote")
        return cls(kind, slot, ballot, accepted, value)


class Attempt:
    """A proposer's attempt at one decision; it is not saved, a new one takes its place."""

    def __init__(self, slot: int, ballot: Ballot, value: bytes) -> None:
        self.slot = slot
        self.ballot = ballot
        self.own = value
        self.chosen: bytes | None = None
        """The value that voters are asked to accept, once enough have promised."""
        self.promises: dict[str, tuple[Ballot, bytes]] = {}
        self.accepts: set[str] = set()
        self.highest = ballot.round
        """The highest round heard of: the next attempt must be above it."""
        self.is_refused = False
        self.ticks = 0

    def promised(self, voter: str, vote: Vote, voters: Collection[str]) -> bool:
        """Note a promise; return True when enough have promised for the first time."""
        self.promises[voter] = vote.accepted, vote.value
        if self.chosen is not None or not is_quorum(self.promises, voters):
            return False
        accepted, value = max(self.promises.values())
        self.chosen = value if accepted.round else self.own
        return True

    def accepted(self, voter: str, voters: Collection[str]) -> bool:
        """Note that a voter has accepted; return whether that decides."""
        self.accepts.add(voter)
        return is_quorum(self.accepts, voters)

    def refused(self, by: Ballot) -> None:
        """Note that a voter has promised another proposer."""
        self.highest = max(self.highest, by.round)
        self.is_refused = True

    def missing(self, voters: Collection[str]) -> list[str]:
        """Return the voters who have not answered the current question."""
        told: Collection[str] = self.promises if self.chosen is None else self.accepts
        return [voter for voter in voters if voter not in told]

    def question(self) -> bytes:
        """Return what voters are asked now."""
        if self.chosen is None:
            return Vote(PREPARE, self.slot, self.ballot).encoded()
        return Vote(ACCEPT, self.slot, self.ballot, value=self.chosen).encoded()
