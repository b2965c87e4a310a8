"""Seeded series of damaged inputs, run for a given time; both fuzzers share this."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

FINDINGS_MAX = 20


class Campaign(Protocol):
    """A seeded series of steps; ``findings`` are the rules broken."""

    counts: Counter[str]
    findings: list[str]

    def step(self) -> None:
        """Damage an input and feed it to the code under test."""


def run(
    begin: Callable[[int], Campaign], seconds: float, seed: int, steps: int, label: str = ""
) -> list[str]:
    """Run campaigns of ``steps`` steps until the time is up, print counts, return findings."""
    stop, first = time.monotonic() + seconds, seed
    total: Counter[str] = Counter()
    findings: list[str] = []
    while time.monotonic() < stop and len(findings) < FINDINGS_MAX:
        campaign = begin(seed)
        for _ in range(steps):
            campaign.step()
            if time.monotonic() >= stop:
                break
        total += campaign.counts
        findings += campaign.findings
        seed += 1
    print(f"{label}{seed - first} campaigns, seeds {first} to {seed - 1}")
    for what, count in sorted(total.items()):
        print(f"{count:10,}  {what}")
    return findings


def conclude(findings: list[str]) -> int:
    """Print the findings and return the exit status."""
    for finding in findings[:FINDINGS_MAX]:
        print(finding)
    print(f"{len(findings)} findings")
    return 1 if findings else 0
