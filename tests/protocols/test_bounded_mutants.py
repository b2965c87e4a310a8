"""Mutants of bounded: each breaks one rule, and the oracle, or the bound, must notice."""

from collections.abc import Iterable

import pytest

from antecede import Need, Packet, size
from antecede.check import BrokenPromiseError
from antecede.protocols.bounded import Bounded
from tests.protocols.support import promise_broken_by, run, scripts
from tests.protocols.test_bounded import ALL_CASTS


class ClearsWithoutSending(Bounded):
    """Drops a column and sends no extra message for it."""

    def _trim(self) -> None:
        while self.kept_entries() > self._k:
            me, dest = self._positions[self.process], self._chosen_column()
            own = self._columns[dest].get(me, 0)
            self._columns[dest] = {me: own} if own else {}


class ImpatientExtras(Bounded):
    """Takes extra messages in without waiting for their constraints."""

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        return (self._count(packet),)


class ForgetsOtherCopies(Bounded):
    """A receiver does not note the message for its other destinations."""

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        before = [dict(column) for column in self._columns]
        reached = super()._absorb(packet)
        for dest in packet.dests:
            if dest not in (self.process, packet.source):
                self._columns[self._positions[dest]] = before[self._positions[dest]]
        return reached


class DropsTooMuch(Bounded):
    """A receiver clears the columns of a multicast's other destinations altogether."""

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        for dest in packet.dests:
            if dest not in (self.process, packet.source):
                place, me = self._positions[dest], self._positions[self.process]
                own = self._columns[place].get(me, 0)
                self._columns[place] = {me: own} if own else {}
        return super()._absorb(packet)


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
            endpoint_class=mutant,
            promises={"safety"},
        )


def test_a_matrix_that_grows_is_noticed() -> None:
    over = 0
    for script in scripts(20, ALL_CASTS):
        world = run(
            script, "bounded", options={"k": len(script.members) + 1}, endpoint_class=NeverTrims
        )
        over += any(size(packet).entries > len(script.members) + 1 for packet in world.packets)
    assert over > 5


def test_default_options_also_show_a_mutant() -> None:
    assert promise_broken_by(ForgetsOtherCopies, promises={"safety"}) == "safety"
