"""Mutants of bounded: each breaks one rule, and the oracle, or the bound, must notice."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

import pytest

from antecede import Packet, size
from antecede.check import BrokenPromiseError
from antecede.endpoint.messages import FREE
from antecede.protocols.bounded import Bounded, Column
from tests.protocols.support import promise_broken_by, run, scripts
from tests.protocols.test_bounded import ALL_CASTS


class ClearsWithoutSending(Bounded):
    """Drops a column and sends no extra message for it."""

    def _trim(self) -> None:
        while self._entries > self._k:
            dest = self._chosen_column()
            self._put(dest, own_of(self, dest))


class ImpatientExtras(Bounded):
    """Takes extra messages in without waiting for their constraints, but in their order."""

    def blocker(self, packet: Packet) -> int:
        if packet.content.seq or packet.n == 1 + (self.reached[packet.source_no] >> self.shift):
            return super().blocker(packet) if packet.content.seq else FREE
        return packet.n - 1 << self.shift | packet.source_no


class ForgetsOtherCopies(Bounded):
    """A receiver does not note the message for its other destinations."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        before = self._columns.copy()
        places = super().taken(packet)
        for dest in others_of(packet):
            self._put(dest, before.get(dest, {}))
        return places


class DropsTooMuch(Bounded):
    """A receiver clears the columns of a multicast's other destinations altogether."""

    def taken(self, packet: Packet) -> tuple[int, ...]:
        for dest in others_of(packet):
            self._put(dest, own_of(self, dest))
        return super().taken(packet)


def others_of(packet: Packet) -> tuple[int, ...]:
    """Return the destinations of a message but its receiver and its sender."""
    content = packet.content
    return content.view.list(content.dests & ~(1 << packet.dest_no | 1 << packet.source_no))


def own_of(rules: Bounded, dest: int) -> Column:
    """Return a column without the constraints by others."""
    column = rules._columns.get(dest, {})
    return {rules.me: column[rules.me]} if rules.me in column else {}


class NeverTrims(Bounded):
    """Lets the matrix grow."""

    def _trim(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    "mutant", [ClearsWithoutSending, ImpatientExtras, ForgetsOtherCopies, DropsTooMuch]
)
def test_a_broken_rule_is_noticed(mutant: type[Bounded]) -> None:
    with pytest.raises(BrokenPromiseError) as caught:
        run_many(mutant)
    assert caught.value.promise == "safety"


def run_many(mutant: type[Bounded]) -> None:
    for script in scripts(200, ALL_CASTS):
        run(
            script,
            "bounded",
            options={"k": len(script.members) + 1},
            rules=mutant,
            promises={"safety"},
        )


def test_a_matrix_that_grows_is_noticed() -> None:
    over = 0
    for script in scripts(20, ALL_CASTS):
        world = run(script, "bounded", options={"k": len(script.members) + 1}, rules=NeverTrims)
        over += any(size(packet).entries > len(script.members) + 1 for packet in world.packets)
    assert over > 5


def test_default_options_also_show_a_mutant() -> None:
    assert promise_broken_by(ForgetsOtherCopies, promises={"safety"}) == "safety"
