"""Nodes over TLS, killed, added and removed at random: ``make soak`` in a quarter of a minute.

Nodes wait more than they work, so both soaks run at the same time. Starting a node costs more than
running it, so the pauses between kills are longer than in ``make soak``.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.net.soak import soak
from tests.net.soak_changes import soak_changes

pytest.importorskip("numba", reason="the audit of the event log needs it")

SECONDS = 15
PAUSE = (2.0, 7.0)
Soaks = dict[str, Future[str]]


@pytest.fixture(scope="module")
def soaks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soaks]:
    """Start both soaks; each test waits for its own."""

    def room(name: str) -> Path:
        return tmp_path_factory.mktemp(name)

    with ThreadPoolExecutor(2) as pool:
        yield {
            "kills": pool.submit(soak, SECONDS, 3, rate=5.0, folder=room("kills"), pause=PAUSE),
            "changes": pool.submit(soak_changes, 15, seed=3, rate=10.0, folder=room("changes")),
        }


def test_kills(soaks: Soaks) -> None:
    print(soaks["kills"].result())


def test_kills_joins_and_removals(soaks: Soaks) -> None:
    print(soaks["changes"].result())
