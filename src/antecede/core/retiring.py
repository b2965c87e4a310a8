"""Endpoints that forget the names of those who left; see :mod:`antecede.core.farewells`."""

from __future__ import annotations

from antecede.core.endpoint import Endpoint
from antecede.core.farewells import Farewells, Named
from antecede.core.restarts import FORGOTTEN_MAX
from antecede.core.roster import Roster


class Retiring(Endpoint):
    """An endpoint that forgets the names of those who left."""

    _farewells: Farewells
    _roster: Roster

    def _retire(self, names: set[str]) -> None:
        """Forget processes that were removed, and what identified duplicates of their packets."""
        self._removed -= names
        for name in names:
            self._channels.prefix.pop(name, None)
            self._channels.ahead.pop(name, None)
        self._forgotten = dict.fromkeys([*self._forgotten, *sorted(names)][-FORGOTTEN_MAX:])

    @property
    def _partings(self) -> Named:
        """The removals under way by names, for states."""
        return self._farewells.named(self._roster)

    @_partings.setter
    def _partings(self, partings: Named) -> None:
        self._farewells.read(partings, self._roster)
