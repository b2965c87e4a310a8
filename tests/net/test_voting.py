"""Votes on the next view, in any order: even if lost, late or repeated, one change wins."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from antecede.errors import PeerError
from antecede.net import journal
from antecede.net.group.paxos import ACCEPT, DECIDED, PREPARE, PROMISE, ROUNDS_MAX, Vote, Voting
from antecede.net.group.views import Ballot, Change, Wish
from antecede.net.journal import Input
from antecede.net.machine import Machine
from antecede.net.settings import Setup
from tests.support.rounds import some

NAMES = ("a", "b", "c", "d")
RUNS = some(900)


class Voter:
    """A member without network and disk: its votes stay in ``world`` until they arrive."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.machine = Machine(Setup(name, NAMES, "optimal", {}), name.encode())
        self.start()

    def start(self) -> None:
        """Forget the current attempt, which is not saved."""
        others = dict.fromkeys(name for name in NAMES if name != self.name)
        self.voting = Voting(
            self.name,
            self.machine.group,
            cast("Any", others),
            promise=lambda ballot: self.enter(journal.PROMISE, ballot),
            accept=lambda ballot, value: self.enter(journal.ACCEPT, ballot, value),
            may_vote=lambda: True,
            tell=lambda dest, note: self.world.flying.append((self.name, dest, note)),
            learn=self.learn,
        )

    def enter(self, kind: int, ballot: Ballot, value: bytes = b"") -> None:
        """Save a promise or an accepted change."""
        self.machine.change(Input(kind, ballot.proposer, 0, ballot.round, value))

    def want(self, name: str) -> None:
        """Want a process removed, and propose it."""
        group = self.machine.group
        if name in group.members:
            self.machine.change(Input(journal.WISH, name, group.members[name].joined))
            self.voting.propose()

    def learn(self, data: bytes) -> None:
        """Note the decision; no member may have learnt another one."""
        change = Change.decoded(data)
        decided = self.world.decided.setdefault(change.number, change)
        assert decided == change, f"{self.name} learns to {change}, another one to {decided}"
        self.machine.change(Input(journal.LEARN, data=data))
        self.voting.decided()


class World:
    """Four members, and the votes between them."""

    def __init__(self) -> None:
        self.flying: list[tuple[str, str, bytes]] = []
        self.decided: dict[int, Change] = {}
        self.voters = {name: Voter(name, self) for name in NAMES}

    def take(self, place: int) -> None:
        """Let a vote arrive; it may arrive again."""
        source, dest, note = self.flying[place]
        self.voters[dest].voting.take(source, Vote.decoded(note))

    def take_first(self, source: str, dest: str, kind: int) -> None:
        """Let the first vote of a kind from one to another arrive."""
        found = [(one, other, Vote.decoded(note).kind) for one, other, note in self.flying]
        self.take(found.index((source, dest, kind)))


@pytest.fixture
def rivals() -> World:
    """Let b gather promises for its change, but give one to c before they have arrived."""
    world = World()
    world.voters["b"].want("d")
    for name in "ac":
        world.take_first("b", name, PREPARE)
    world.voters["c"].want("a")
    world.take_first("c", "b", PREPARE)
    for name in "ac":
        world.take_first(name, "b", PROMISE)
    return world


def test_a_proposer_keeps_the_promise_that_it_has_given_to_another(rivals: World) -> None:
    group = rivals.voters["b"].machine.group
    assert group.promised == Ballot(2, "c")
    assert not group.value
    assert ACCEPT not in [Vote.decoded(note).kind for _, _, note in rivals.flying]


def test_a_proposer_that_has_promised_another_tries_again_above_it(rivals: World) -> None:
    rivals.flying.clear()
    rivals.voters["b"].voting.try_again()
    assert rivals.voters["b"].machine.group.promised == Ballot(3, "b")
    while rivals.flying and not rivals.decided:
        rivals.take(0)
        del rivals.flying[0]
    assert rivals.decided[1].leaves == ("d",)


def play(seed: int) -> World:
    """Let members wish, tick, crash and vote at random; votes are lost, late and repeated."""
    chance, world = random.Random(seed), World()
    loss, again = chance.choice((0.0, 0.1, 0.3)), chance.choice((0.0, 0.2))
    for _ in range(chance.randint(2, 3)):
        world.voters[chance.choice(NAMES)].want(chance.choice(NAMES))
    for _ in range(chance.randint(20, 120)):
        voter = world.voters[chance.choice(NAMES)]
        if not world.flying or chance.random() < 0.1:
            voter.voting.try_again()
        elif chance.random() < 0.02:
            voter.start()
        else:
            place = chance.randrange(len(world.flying))
            if chance.random() >= loss:
                world.take(place)
            if chance.random() >= again:
                del world.flying[place]
    return world


def test_no_two_members_learn_different_changes() -> None:
    assert sum(len(play(seed).decided) for seed in range(RUNS)) > RUNS / 2


def test_the_schedules_notice_a_promise_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def obliging(self: Voting, vote: Vote) -> Vote:
        self.group.promised = min(self.group.promised, vote.ballot)
        return voted(self, vote)

    voted = Voting._voted
    monkeypatch.setattr(Voting, "_voted", obliging)
    with pytest.raises(AssertionError, match="another one to"):
        test_no_two_members_learn_different_changes()


def test_a_change_is_proposed_only_when_all_who_stay_have_promised() -> None:
    world = World()
    b = world.voters["b"]
    b.want("d")
    world.take_first("b", "a", PREPARE)
    world.take_first("a", "b", PROMISE)
    world.take_first("b", "d", PREPARE)
    world.take_first("d", "b", PROMISE)  # three of four have promised
    assert b.voting.missing() == ["c"]
    assert ACCEPT not in [Vote.decoded(note).kind for _, _, note in world.flying]
    world.take_first("b", "c", PREPARE)
    world.take_first("c", "b", PROMISE)
    assert ACCEPT in [Vote.decoded(note).kind for _, _, note in world.flying]


def test_nobody_is_believed_alone_about_a_decision() -> None:
    a = World().voters["a"]
    told = Vote(DECIDED, 1, value=Change(1, leaves=("d",)).encoded())
    a.voting.take("b", told)
    a.voting.take("b", told)
    assert a.machine.group.number == 0
    a.voting.take("c", told)
    a.voting.take("d", told)
    assert a.machine.group.number == 1


def test_two_who_say_different_things_decide_nothing() -> None:
    a = World().voters["a"]
    for name, gone in (("b", "d"), ("c", "b"), ("d", "c")):
        a.voting.take(name, Vote(DECIDED, 1, value=Change(1, leaves=(gone,)).encoded()))
    assert a.machine.group.number == 0


def test_a_vote_in_the_name_of_another_is_refused() -> None:
    voter = World().voters["a"]
    with pytest.raises(PeerError, match="'c' proposes in the name of 'b'"):
        voter.voting.take("c", Vote(PREPARE, 1, Ballot(1, "b")))
    assert voter.machine.group.promised == Ballot()


def test_a_liar_cannot_use_up_the_rounds() -> None:
    world = World()
    voter = world.voters["a"]
    with pytest.raises(PeerError, match="far above any other"):
        voter.voting.take("c", Vote(PREPARE, 1, Ballot((1 << 63) - 1, "c")))
    assert voter.machine.group.promised == Ballot()
    voter.voting.take("c", Vote(PREPARE, 1, Ballot(ROUNDS_MAX, "c")))
    assert voter.machine.group.promised == Ballot(ROUNDS_MAX, "c")


def test_wishes_that_have_come_true_are_not_proposed_and_the_others_all_at_once() -> None:
    group = World().voters["a"].machine.group
    group.wishes = [Wish(is_join=False, name=name) for name in "cd"]
    group.wishes += [Wish(is_join=True, name=name) for name in "fe"]
    del group.members["c"]
    proposal = group.proposal()
    assert proposal is not None
    assert Change.decoded(proposal) == Change(1, (("e", ""), ("f", "")), ("d",))
