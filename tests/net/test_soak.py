"""Nodes over TLS, killed, added and removed at random: ``make soak`` in one minute together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.net.soak import soak
from tests.net.soak_changes import soak_changes

pytest.importorskip("numba", reason="the audit of the event log needs it")


def test_kills(tmp_path: Path) -> None:
    print(soak(24, seed=3, rate=10.0, folder=tmp_path))


def test_kills_joins_and_removals(tmp_path: Path) -> None:
    print(soak_changes(20, seed=3, rate=10.0, folder=tmp_path))
