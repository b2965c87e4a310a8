"""Damaged logs: a short form of ``make fuzz``."""

from __future__ import annotations

from pathlib import Path

import pytest

from antecede.events.formats import FORMATS
from antecede.events.sources import Source
from tests.events.fuzz import Campaign, samples
from tests.support.rounds import some

STEPS = some(90)


@pytest.mark.parametrize("form", FORMATS)
def test_only_our_own_errors_come_out_of_a_damaged_log(tmp_path: Path, form: str) -> None:
    campaign = Campaign(form, 7, tmp_path)
    for _ in range(STEPS):
        campaign.step()
    assert campaign.findings == []
    assert campaign.counts["logs read"] > STEPS / 10


@pytest.mark.parametrize("form", FORMATS)
def test_the_samples_are_whole_logs(tmp_path: Path, form: str) -> None:
    campaign = Campaign(form, 0, tmp_path)
    found = samples(form)
    assert found
    for data, options in found:
        campaign.path.write_bytes(data)
        log = campaign.read(Source(campaign.path, form, **options))
        assert log.bad <= 1  # The beginning of a real log may end inside an event.


def test_the_fuzzer_finds_an_exception_that_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr("tests.events.fuzz.read", fail)
    campaign = Campaign("jsonl", 7, tmp_path)
    campaign.step()
    assert "KeyError" in campaign.findings[0]
