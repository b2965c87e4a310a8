"""Three nodes over TLS, killed at random: the one-minute form of ``make soak``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.net.soak import soak

pytest.importorskip("numba", reason="the audit of the event log needs it")


def test_a_minute_of_kills(tmp_path: Path) -> None:
    print(soak(45, seed=3, rate=10.0, folder=tmp_path))
