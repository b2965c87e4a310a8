"""Endpoints that forget the names of those who left; see :mod:`antecede.core.farewells`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from antecede.core.endpoint import Endpoint
from antecede.core.farewells import Farewells, Named
from antecede.core.roster import Roster

FORGOTTEN_MAX: Final = 1024
"""How many names are remembered after they were forgotten, for packets of those who join late."""


def recall(endpoint: Endpoint, names: Iterable[str]) -> None:
    """Tell a restored endpoint who has left for good.

    A state does not name those whom the endpoint has forgotten. But packets of processes that
    joined later may still name them, and would be refused as packets that name strangers.
    """
    known = endpoint._positions.keys() | endpoint._removed
    gone = [name for name in names if name not in known]
    endpoint._forgotten = dict.fromkeys([*gone, *endpoint._forgotten])


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
