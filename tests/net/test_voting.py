"""Votes on the next view, in any order: whatever is lost, late or told twice, one change wins."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from antecede.net import records
from antecede.net.agreement import ACCEPT, PREPARE, PROMISE, Ballot, Vote
from antecede.net.changing import Changing
from antecede.net.records import Input
from antecede.net.setups import Setup
from antecede.net.views import Change
from antecede.net.voting import Voting

NAMES = ("a", "b", "c", "d")
RUNS = 1000


class Voter:
    """A member without its network and disk: what it tells lies in ``world`` until it is taken."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.machine = Changing(Setup(name, NAMES, "optimal", {}), name.encode())
        self.start()

    def start(self) -> None:
        """Forget what is not saved: the attempt that is under way."""
        others = dict.fromkeys(name for name in NAMES if name != self.name)
        self.voting = Voting(
            self.name,
            self.machine.group,
            cast("Any", others),
            enter=self.machine.change,
            tell=lambda dest, note: self.world.flying.append((self.name, dest, note)),
            learn=self.learn,
        )

    def want(self, name: str) -> None:
        """Wish that a process is removed, and propose that."""
        if name in self.machine.group.members:
            wish = self.machine.group.wish(is_add=False, name=name)
            self.machine.change(Input(records.WISH, data=wish.encoded()))
            self.voting.propose()

    def learn(self, data: bytes) -> None:
        """Note what was decided; nobody may have learnt anything else."""
        change = Change.decoded(data)
        decided = self.world.decided.setdefault(change.number, change)
        assert decided == change, f"{self.name} learns to {change}, another one to {decided}"
        self.machine.change(Input(records.LEARN, data=data))
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
    assert rivals.decided[1].name == "d"


def play(seed: int) -> World:
    """Let members wish, tick, crash and vote at random; votes are lost, late and told twice."""
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
