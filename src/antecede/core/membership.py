"""Removed processes are forgotten: see :mod:`antecede.core.farewells`."""

from __future__ import annotations

from typing import Final

from antecede.core.changing import Changing
from antecede.core.farewells import Farewell
from antecede.core.messages import Packet
from antecede.core.roster import Roster, roster_of
from antecede.core.stamps import Translation

FORGOTTEN_MAX: Final = 1024
"""How many names are remembered after they were forgotten, for packets of those who join late."""


class Membership(Changing):
    """The part of an endpoint by numbers that tells, hears and forgets who left."""

    def _joined(self, process: str) -> None:
        super()._joined(process)
        self._farewells.joined(self._roster.numbers[process], self._gone)

    def _renumber(self, roster: Roster) -> None:
        self._farewells.move(Translation(self._roster, roster))
        super()._renumber(roster)

    def _release(self, process: str) -> None:
        self._farewells.known.setdefault(self._roster.numbers[process], Farewell())
        super()._release(process)

    def _tell(self, packets: tuple[Packet, ...], targets: int) -> None:
        """Let packets say who left."""
        news = self._farewells.news(self._gone)
        for packet in packets:
            if packet.roster is not None:
                packet.stamp.news = news
        self._farewells.tell(targets)
        self._part()

    def _hear(self, packet: Packet) -> None:
        """Note who left according to a packet that has arrived."""
        news = packet.stamp.news
        if news is not None:
            self._farewells.hear(packet.source_no, packet.n, news)
        if self._gone:
            self._part()

    def _part(self) -> None:
        """Forget those who left and of whom nothing can turn up any more."""
        peers = [i for i in range(len(self._roster)) if i != self._me and not self._gone >> i & 1]
        finished = self._farewells.advance(
            self._gone, peers, self._links.prefix, is_quiet=not self.held
        )
        if not finished:
            return
        names = {self._roster.names[number] for number in finished}
        for number in finished:
            self._departures.forget(number, self._roster.low)
            self._closed.pop(self._roster.names[number], None)
            self._farewells.forget(number)
        self._removed -= names
        self._forgotten = dict.fromkeys([*self._forgotten, *sorted(names)][-FORGOTTEN_MAX:])
        self._renumber(roster_of(tuple(n for n in self._roster.names if n not in names)))
