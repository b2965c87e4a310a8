"""The proof of [SA00] as invariants: lemmas 2 and 3, propositions 1 and 5.

A set of constraints is a matrix: it is satisfied at a process that has delivered, of each sender's
messages to it, as many as the matrix says. One set implies another if, wherever and whenever it is
satisfied from then on, the other is too.
"""

from __future__ import annotations

from itertools import count
from random import Random
from typing import cast

import pytest

from antecede.check import edited, rules_from
from antecede.check.scripts import run_script
from antecede.protocols.specs import Copy
from antecede.protocols.specs.bounded import Matrix, Process, read
from tests.protocols.support import scripts

NAMES = ("a", "b", "c", "d")


def satisfied(matrix: Matrix, process: Process) -> bool:
    return all(n <= process.deliv[k] for (k, d), n in matrix.items() if d == process.i)


class Run:
    """Processes on a network that reorders, and the implications found between matrices."""

    def __init__(self, seed: int, k: int, kind: type[Process], *, width: int) -> None:
        self.rng, self.width = Random(seed), width
        self.processes = {name: kind(name, NAMES, k=k) for name in NAMES}
        self.flying: list[tuple[int, Copy]] = []  # with their numbers on the channel
        self.numbers = {(one, other): count(1) for one in NAMES for other in NAMES}
        self.arrived: list[tuple[int, Copy]] = []
        #: Lemma 2: before and after an event; lemma 3: what a message carries, and after it.
        self.implied: list[tuple[Matrix, Matrix]] = []
        self.extras = 0

    def go(self) -> int:
        """Take some steps; return how many extra messages there were."""
        for _ in range(60):
            self.step()
        return self.extras

    def step(self) -> None:
        if self.flying and self.rng.random() < 0.6:
            self.receive(self.flying.pop(self.rng.randrange(len(self.flying))))
        else:
            self.send(self.rng.choice(NAMES))
        self.check()

    def send(self, name: str) -> None:
        process = self.processes[name]
        others = [one for one in NAMES if one != name]
        before = dict(process.m)
        process.send(frozenset(self.rng.sample(others, self.rng.randint(1, self.width))))
        for copy in process.outbox:
            if copy.number:
                assert read(copy) == before  # lemma 3: what m carries is what was kept
        self.note(process, before)

    def receive(self, numbered: tuple[int, Copy]) -> None:
        copy = numbered[1]
        process = self.processes[copy.dest]
        before = dict(process.m)
        self.arrived.append(numbered)
        for one in process.receive(copy):
            self.implied.append((read(one), dict(process.m)))  # lemma 3
        self.note(process, before)

    def note(self, process: Process, before: Matrix) -> None:
        self.implied.append((before, dict(process.m)))  # lemma 2
        for copy in process.outbox:
            self.extras += not copy.number
            self.flying.append((next(self.numbers[copy.source, copy.dest]), copy))
        process.outbox.clear()

    def check(self) -> None:
        for process in self.processes.values():
            for before, after in self.implied:
                assert satisfied(before, process) or not satisfied(after, process)
        for number, copy in self.arrived:  # proposition 5
            process = self.processes[copy.dest]
            assert (process.deliv[copy.source] < number) == (copy in process.waiting)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("k", [5, 8, 16])
def test_the_lemmas_hold_at_every_step(k: int, width: int) -> None:
    extras = 0
    for seed in range(8):
        extras += Run(seed, k, Process, width=width).go()
    assert extras == 0 if k == len(NAMES) ** 2 else extras > 0 or k > 5


def test_a_column_that_is_cleared_for_nothing_breaks_lemma_2() -> None:
    broken = edited("bounded", ("| {(self.i, j): count}", "| dict[tuple[str, str], int]()"))
    runs = [Run(seed, 5, cast("type[Process]", broken), width=1) for seed in range(20)]
    with pytest.raises(AssertionError):
        sum(run.go() for run in runs)


def test_a_larger_matrix_implies_a_smaller_one() -> None:  # proposition 1
    rng = Random(1)
    for _ in range(300):
        process = Process("a", NAMES)
        process.deliv = {name: rng.randrange(4) for name in NAMES}
        small = {(name, "a"): rng.randrange(4) for name in NAMES}
        large = {cell: n + rng.randrange(2) for cell, n in small.items()}
        assert satisfied(small, process) or not satisfied(large, process)


def test_clearing_only_before_a_send_is_safe_and_takes_fewer_extra_messages() -> None:
    """Then what is kept may exceed k between sends, but no message does."""
    late = edited(
        "bounded",
        ("            self.replace(j)\n        self.trim()\n", "            self.replace(j)\n"),
        ("max(self.m.get(cell, 0), n)\n        self.trim()\n", "max(self.m.get(cell, 0), n)\n"),
        ("        self.number += 1\n", "        self.trim()\n        self.number += 1\n"),
    )
    extras, most, kept = {}, 0, 0
    for process in (Process, late):
        extras[process] = 0
        for script in scripts(40, ("unicast", "multicast"), first=100, steps=60):
            k = len(script.members) + 1
            world = run_script(
                script, "bounded", options={"k": k}, rules=rules_from(process), drain=0
            )
            extras[process] += sum(packet.kind == "control" for packet in world.packets)
            if process is late:
                carried = [len(cast("tuple[object, ...]", p.control)) for p in world.packets]
                most = max(most, *[count - k for count in carried])
                kept = max(kept, *[len(cast("tuple[object, ...]", one.kept())) - k
                                   for one in world.endpoints.values()])  # fmt: skip
    assert most <= 0 < kept
    assert extras[late] < extras[Process]
