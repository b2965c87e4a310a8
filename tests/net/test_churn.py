"""Groups that change under seeded faults: safe always, live once the faults are over.

``make soak`` tries many more schedules.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from antecede.net.group import flush
from antecede.net.machine import Channel, Machine
from tests.net.churn import RELAYED, crash_at, try_seed
from tests.support.rounds import TIMES, seeds


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Silence the log: here it is normal that members leave."""
    caplog.set_level(logging.CRITICAL, logger="antecede.net")


@pytest.mark.parametrize("block", range(4))
def test_random_faults_and_changes(block: int, tmp_path: Path) -> None:
    assert sum(try_seed(seed, tmp_path) for seed in seeds(5, 100 * block)) > 0


@pytest.mark.parametrize(
    ("protocol", "seed"),
    [
        ("bounded", 63),
        ("non_atomic", 288),
        ("acknowledged", 483),
        ("bounded", 1096),
        ("permits", 10280),
        ("buffered", 20072),
        ("semantic", 32284),
        ("central", 107),
        ("broadcast", 128),
        ("matrix", 30),
        ("flooding", 519),
    ],
)
def test_schedules_that_failed_once(protocol: str, seed: int, tmp_path: Path) -> None:
    try_seed(seed, tmp_path, protocol)


@pytest.mark.parametrize("protocol", RELAYED)
def test_changes_of_a_group_with_relays(protocol: str, tmp_path: Path) -> None:
    assert sum(try_seed(seed, tmp_path, protocol) for seed in seeds(6)) > 0


@pytest.mark.parametrize("offset", range(4))
def test_a_crash_at_any_await_of_a_join_and_a_removal(offset: int, tmp_path: Path) -> None:
    steps = range(1 + offset, 280, max(1, 22 // TIMES))
    struck = {step: crash_at(step, tmp_path) for step in steps}
    assert all(is_struck for step, is_struck in struck.items() if step < 212)


def break_something(folder: Path) -> None:
    for seed in range(60):
        try_seed(seed, folder, "optimal")


def test_the_schedules_notice_a_removal_without_a_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush, "agree", lambda reports: True)
    with pytest.raises(AssertionError):
        break_something(tmp_path)


def test_the_schedules_notice_copies_that_are_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "copies_for", lambda self, name, has: iter(()))
    with pytest.raises(AssertionError, match="but not all of"):
        break_something(tmp_path)


def test_the_schedules_notice_copies_that_are_forgotten_too_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Channel, "settle", lambda self, stable: self.kept.clear())
    with pytest.raises(AssertionError, match="but not all of"):
        break_something(tmp_path)
