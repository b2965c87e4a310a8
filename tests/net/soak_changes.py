"""The soak in which processes also join and leave, with the spare process as the fourth.

``python -m tests.net.soak --changes --seconds 600``. Remaining members must handle all messages
from each other; a message of a removed process reaches all remaining members or none, unless
copies of it may wait at their sender; the event log must have no violation of causal order.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

from antecede import PROTOCOLS
from antecede import events as eventlog
from antecede.events import Rejected
from antecede.net.machine import VIEW_STEP
from tests.net.soak import NAMES, PATIENCE, SPARE, Group, check_once, ledgers, run_audit


class Changes:
    """The driver: the members of the group, and the changes requested from it."""

    def __init__(self, group: Group, chance: random.Random) -> None:
        self.group, self.chance = group, chance
        self.folder = group.folder
        self.addresses = dict(
            line.split() for line in (self.folder / "addresses").read_text().splitlines()
        )
        self.members = set(NAMES)
        self.count = 0
        self._order: tuple[str, str, Path] | None = None

    def step(self) -> None:
        """Note what has been done, and ask for the next change."""
        if self._order is None:
            self._ask()
            return
        verb, name, path = self._order
        if path.exists():
            return
        self._order = None
        self.count += 1
        if verb == "add":
            self.members.add(name)

    def _ask(self) -> None:
        outside = sorted(set(self.addresses) - self.members)
        if outside:
            verb, name = "add", outside[0]
            self._renew(name)
        else:
            verb, name = "remove", self.chance.choice(sorted(self.members))
            self.members.discard(name)
        agent = self.chance.choice(sorted(self.members - {name}))
        path = self.folder / f"{agent}.order"
        whole = path.with_suffix(".writing")
        whole.write_text(f"{verb} {name} {self.addresses[name]} {self.count}")
        whole.rename(path)
        self._order = verb, name, path

    def _renew(self, name: str) -> None:
        """Start a process anew, with an empty store."""
        if name in self.group.running:
            self.group.kill(name)
        for path in self.folder.glob(f"{name}.db*"):
            path.unlink()
        (self.folder / f"{name}.joining").touch()
        self.group.start(name)

    def finish(self) -> None:
        """Wait for the last change; end the processes that are outside."""
        end = time.monotonic() + PATIENCE
        while self._order is not None:
            assert time.monotonic() < end, f"{self._order} has not been done"
            self.step()
            time.sleep(0.5)
        for name in set(self.group.running) - self.members:
            self.group.kill(name)
            del self.group.running[name]


def owed(folder: Path, members: set[str], protocol: str) -> list[tuple[str, str]]:
    """Return the deliveries that are due between members, by label and message.

    A label is a process's name, with the view in which it joined if it was no founder.
    """
    lives: dict[str, list[str]] = {}
    handled = set[tuple[str, str]]()
    for name, words in ledgers(folder):
        if words[0] == "up":
            lives.setdefault(name, []).append(words[1])
        elif words[0] == "handled" and len(words) == 3:
            handled.add((words[2], words[1]))
    if late := sorted(members - lives.keys()):
        return [(name, "that it is up") for name in late]
    here = {lives[name][-1] for name in members}
    missing = []
    for row in eventlog.read(folder / "events.jsonl"):
        if isinstance(row, Rejected) or row.kind != "send" or row.message is None:
            continue
        view = int(row.message.rpartition(":")[2]) // VIEW_STEP
        sender = life_of(lives[row.process], view)
        named = [life_of(lives.get(name, [name]), view) for name in row.dests or ()]
        dests = [label for label in named if label in here]
        got = [label for label in dests if (label, row.message) in handled]
        is_owed = sender in here or (got and not PROTOCOLS[protocol].queueing)
        if got != dests and is_owed:
            missing += [(label, row.message) for label in dests if label not in got]
    return missing


def life_of(labels: list[str], view: int) -> str:
    """Return which of a process's lives was a member in a view."""
    return max((label for label in labels if joined(label) <= view), key=joined, default=labels[0])


def joined(label: str) -> int:
    return int(label.partition("#")[2] or 0)


def soak_changes(
    seconds: float, seed: int, rate: float, folder: Path, protocol: str = "optimal"
) -> str:
    """Kill, add and remove nodes for so many seconds; return a summary."""
    chance, group, kills = random.Random(seed), Group(folder, rate, protocol), 0
    changes = Changes(group, chance)
    for name in NAMES:
        group.start(name)
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            group.wait_mostly(chance, changes.members)
            time.sleep(chance.uniform(0.5, 2))
            changes.step()
            if chance.random() < 0.5:
                name = chance.choice(sorted(changes.members))
                group.kill(name)
                group.start(name)
                kills += 1
        changes.finish()
        (folder / "stop").touch()
        end = time.monotonic() + PATIENCE
        while missing := owed(folder, changes.members, protocol):
            assert time.monotonic() < end, f"{len(missing)} missing, such as {min(missing)}"
            time.sleep(1)
        time.sleep(2)
        statuses = group.stop()
    finally:
        for process in group.running.values():
            process.kill()
            process.wait()
    assert set(statuses) == {0}, statuses
    check_once(folder)
    run_audit(folder)
    (summary,) = (folder / "audit").rglob("summary.json")
    result = json.loads(summary.read_text())["result"]
    assert (result["violations"], result["findings"]) == (0, 0), result
    return (
        f"{kills} kills, {changes.count} joins and removals with {SPARE} as spare; "
        f"{result['messages']} messages, {result['deliveries']} deliveries in causal order"
    )
