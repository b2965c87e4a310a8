"""Nodes over NATS, and its server, killed at random: the short form of ``make soak``."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nats", reason="needs nats-py")
pytest.importorskip("numba", reason="the audit of the event log needs it")


def test_kills_of_nodes_and_server(tmp_path: Path) -> None:
    from tests.net.nats_soak import soak

    print(soak(8, seed=1, rate=20.0, folder=tmp_path))
