"""Synthetic traffic for benchmarks: an edge list like that of a small social network."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_edges(path: Path, *, people: int = 200, messages: int = 5000, seed: int = 1) -> None:
    """Write lines of ``source destination time``: few people write a lot, most answers are quick.

    Half of the messages answer one of the latest that the sender received, the others go to someone
    new; one in ten goes to three people at once. The same arguments give the same file.
    """
    rng = np.random.default_rng(seed)
    activity = 1.0 / np.arange(1, people + 1)
    activity /= activity.sum()
    inbox: dict[int, list[int]] = {}
    lines = ["source destination time"]
    time = 1_000_000_000
    for _ in range(messages):
        time += int(rng.exponential(20.0))
        sender = int(rng.choice(people, p=activity))
        recent = inbox.get(sender, [])[-3:]
        dests = {int(rng.choice(recent))} if recent and rng.random() < 0.5 else set()
        while not dests:
            width = 3 if rng.random() < 0.1 else 1
            dests = {int(d) for d in rng.choice(people, width, p=activity)} - {sender}
        for dest in sorted(dests):
            lines.append(f"{sender} {dest} {time}")
            inbox.setdefault(dest, []).append(sender)
    path.write_text("\n".join(lines) + "\n")
