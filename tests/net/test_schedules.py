"""Nodes under seeded faults: safe always, live once the faults are over.

``make soak`` tries many more schedules.
"""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

from pathlib import Path

import pytest

from antecede.net.driver import Batch, Saving
from tests.net.schedules import crash_at, try_seed


def crash_everywhere(folder: Path) -> None:
    for step in range(20, 120):
        crash_at(step, folder)


@pytest.mark.parametrize("block", range(4))
def test_random_faults(block: int, tmp_path: Path) -> None:
    seeds = range(10 * block, 10 * block + 5)
    assert sum(try_seed(seed, tmp_path) for seed in seeds) > 0


@pytest.mark.parametrize("offset", range(4))
def test_a_crash_at_any_await(offset: int, tmp_path: Path) -> None:
    struck = [crash_at(step, tmp_path) for step in range(1 + offset, 120, 8)]
    assert all(struck[:10])


def test_the_schedules_notice_a_node_that_never_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forget(self: Saving, batch: Batch) -> None:
        del batch

    monkeypatch.setattr(Saving, "_save", forget)
    with pytest.raises(AssertionError):
        crash_everywhere(tmp_path)


def test_the_schedules_notice_packets_that_leave_before_they_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Saving._save

    async def late(self: Saving, batch: Batch) -> None:
        self._finish(batch)
        batch.packets, batch.arrivals, batch.deliveries, batch.logged = {}, {}, [], []
        await save(self, batch)

    monkeypatch.setattr(Saving, "_save", late)
    with pytest.raises(AssertionError):
        crash_everywhere(tmp_path)
