"""All computations of a few processes and writes, with every read and some fetches.

There is a key for every set of processes that may keep it; in a full store (``full``, which is
Opt-Track-CRP) all keep two keys. A computation is a sequence of blocks:
silent steps of one process (arrivals, reads) and then one step that others notice (a write, a
fetch, an answer). What is left at the end is examined process by process. Each step of a process is
carried out once for each of its states. ``python -m tests.replicas.explorer 3 3 0`` explores three
processes and three writes, without fetches; ``3 3 0 full`` does so in a full store.
"""

from __future__ import annotations

import sys
import time
from copy import deepcopy
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from antecede import Codec
from antecede.replicas import Outcome, Replica
from tests.support.replica_oracle import NotCausalError

Copies = frozenset[tuple[int, str]]


class Node(NamedTuple):
    """A write and everything that it depends on."""

    writer: str
    clock: int
    key: str
    keepers: frozenset[str]
    past: frozenset[int]


class Local(NamedTuple):
    """What identifies the state of one process, and what the oracle knows of it."""

    process: str
    past: frozenset[int] = frozenset()
    applied: tuple[int, ...] = ()
    arrived: frozenset[bytes] = frozenset()
    clock: int = 0
    sent: tuple[int, ...] = ()
    asking: tuple[str, str] | None = None
    kept: object = ()
    waiting: tuple[object, ...] = ()


class Situation(NamedTuple):
    """The states of all processes, what is in flight, and what may still be done."""

    locals: tuple[int, ...]
    flying: frozenset[bytes]
    writes: int
    fetches: int


class Explorer:
    """One exploration; any error raises :class:`NotCausalError`."""

    def __init__(self, processes: int, writes: int, fetches: int, *, full: bool = False) -> None:
        self.members = tuple("abcd"[:processes])
        sets = [s for size in range(1, processes + 1) for s in combinations(self.members, size)]
        self.where = {"".join(names): names for names in sets}
        if full:
            self.where = dict.fromkeys(("x", "y"), self.members)
        self.first = Situation(tuple(range(processes)), frozenset(), writes, fetches)
        self.nodes: list[Node] = []
        self.node_numbers: dict[Node, int] = {}
        self.locals: list[Local] = []
        self.replicas: list[Replica] = []
        self.numbers: dict[Local, int] = {}
        self.done: dict[tuple[object, ...], tuple[int, frozenset[bytes]]] = {}
        self.reaches: dict[tuple[int, frozenset[bytes]], list[tuple[int, frozenset[bytes]]]] = {}
        self.situations = 0
        for name in self.members:
            replica = Replica(name, self.members, {} if full else self.where)
            self._enter(Local(name, sent=(0,) * processes), replica)

    @cached_property
    def codec(self) -> Codec:
        return Codec(self.replicas[0].view)

    def run(self) -> None:
        """Visit every situation."""
        todo, seen = [self.first], {self.first}
        while todo:
            situation = todo.pop()
            self.situations += 1
            for entered in self._following(situation):
                if entered not in seen:
                    seen.add(entered)
                    todo.append(entered)

    def _following(self, situation: Situation) -> list[Situation]:
        found = []
        # At first all processes are alike: the one that begins is called a.
        active = self.members[:1] if situation == self.first else self.members
        for place, process in enumerate(active):
            mine = frozenset(d for d in situation.flying if self.codec.route(d)[1] == process)
            others = situation.flying - mine
            rests = self._reach(situation.locals[place], mine)
            for local, waiting in rests:
                if not waiting and not situation.writes:
                    self._check_end(local)
                for step in self._loud(local, waiting, situation):
                    after, packets = self._do(local, step)
                    flying = others | waiting | packets
                    if step[0] == "arrive":
                        flying -= {step[1]}
                    places = list(situation.locals)
                    places[place] = after
                    found.append(
                        Situation(
                            tuple(places), flying,
                            situation.writes - (step[0] == "write"),
                            situation.fetches - (step[0] == "fetch"),
                        )
                    )  # fmt: skip
        return found

    def _reach(self, local: int, waiting: frozenset[bytes]) -> list[tuple[int, frozenset[bytes]]]:
        """Return the states that a process can reach by silent steps."""
        key = (local, waiting)
        if key not in self.reaches:
            rests, seen = [key], {key}
            for here, left in rests:
                steps: list[tuple[object, ...]] = [("arrive", data) for data in sorted(left)]
                steps += [("read", name) for name in self._readable(here)]
                for step in steps:
                    after, packets = self._do(here, step)
                    entered = (after, left - {step[1]} if step[0] == "arrive" else left)
                    if not packets and entered not in seen:
                        seen.add(entered)
                        rests.append(entered)
            self.reaches[key] = rests
        return self.reaches[key]

    def _readable(self, local: int) -> list[str]:
        one = self.locals[local]
        return [] if one.asking else [key for key in self.where if one.process in self.where[key]]

    def _loud(
        self, local: int, waiting: frozenset[bytes], situation: Situation
    ) -> list[tuple[object, ...]]:
        one = self.locals[local]
        steps: list[tuple[object, ...]] = [
            ("arrive", data) for data in sorted(waiting) if self._do(local, ("arrive", data))[1]
        ]
        if not one.asking:
            steps += [("write", key) for key in self.where if situation.writes]
            steps += [
                ("fetch", key, source)
                for key, names in self.where.items()
                if situation.fetches and one.process not in names
                for source in names
            ]
        return steps

    # Steps of one process, each carried out once.

    def _do(self, local: int, step: tuple[object, ...]) -> tuple[int, frozenset[bytes]]:
        key = (local, *step)
        if key not in self.done:
            replica = self.replicas[local]
            self.done[key] = self._carry_out(
                self.locals[local], deepcopy(replica, {id(replica.view): replica.view}), step
            )
        return self.done[key]

    def _carry_out(
        self, one: Local, replica: Replica, step: tuple[object, ...]
    ) -> tuple[int, frozenset[bytes]]:
        outcome = Outcome()
        match step:
            case ("write", str(key)):
                made = Node(one.process, one.clock + 1, key, frozenset(self.where[key]), one.past)
                number = self.node_numbers.setdefault(made, len(self.nodes))
                self.nodes[number:] = self.nodes[number:] or [made]
                outcome = replica.write(key, b"%d" % number)
                one = one._replace(past=one.past | {number}, clock=one.clock + 1)
            case ("fetch", str(key), str(source)):
                outcome = replica.fetch(key, source)
                one = one._replace(asking=(key, source))
            case ("read", str(key)):
                one = self._read(one, key, replica.read(key))
            case ("arrive", bytes(data)):
                outcome = replica.receive(self.codec.decode(data))
                one = one._replace(arrived=one.arrived | {data})
            case _:
                msg = f"unknown step {step!r}"
                raise ValueError(msg)
        for write in outcome.applied:
            one = self._apply(one, int(write.value))
        if outcome.answer is not None:
            assert one.asking is not None
            asked, one = one.asking, one._replace(asking=None)
            assert asked[0] == outcome.answer.key
            one = self._read(one, asked[0], outcome.answer.value)
        packets = frozenset(map(self.codec.encode, outcome.packets))
        sent = list(one.sent)
        for packet in outcome.packets:
            sent[self.members.index(packet.dest)] = packet.n
        return self._enter(one._replace(sent=tuple(sent)), replica), packets

    def _enter(self, one: Local, replica: Replica) -> int:
        one = one._replace(kept=replica.kept(), waiting=tuple(replica.waiting()))
        number = self.numbers.setdefault(one, len(self.locals))
        if number == len(self.locals):
            self.locals.append(one)
            self.replicas.append(replica)
        return number

    # The oracle.

    def _due(self, one: Local, past: frozenset[int]) -> set[int]:
        return {w for w in past if one.process in self.nodes[w].keepers} - set(one.applied)

    def _apply(self, one: Local, write: int) -> Local:
        if one.process not in self.nodes[write].keepers or write in one.applied:
            msg = f"{one.process} applies {self.nodes[write]} wrongly"
            raise NotCausalError(msg)
        if self._due(one, self.nodes[write].past):
            msg = f"{one.process} applies {self.nodes[write]} too early"
            raise NotCausalError(msg)
        return one._replace(applied=tuple(sorted((*one.applied, write))))

    def _read(self, one: Local, key: str, value: bytes | None) -> Local:
        past, found = one.past, None
        if value is not None:
            found = int(value)
            past |= {found, *self.nodes[found].past}
        for other in past:
            if self.nodes[other].key == key and (found is None or found in self.nodes[other].past):
                msg = f"{one.process} reads {value!r}, which was overwritten"
                raise NotCausalError(msg)
        if self._due(one, past):
            msg = f"{one.process} reads {value!r} too early"
            raise NotCausalError(msg)
        return one._replace(past=past)

    def _check_end(self, local: int) -> None:
        """Check that a process holds nothing once no more packets come."""
        if self.replicas[local].held:
            msg = f"{self.locals[local].process} holds something forever"
            raise NotCausalError(msg)


def main(processes: str, writes: str, fetches: str, full: str = "") -> None:
    """Explore, and print how much there was."""
    started = time.process_time()
    explorer = Explorer(int(processes), int(writes), int(fetches), full=full == "full")
    explorer.run()
    print(
        f"{processes} processes, {writes} writes, {fetches} fetches {full}: "
        f"{explorer.situations:,} situations, {len(explorer.locals):,} local states, "
        f"{len(explorer.done):,} local steps, {time.process_time() - started:.0f} CPU s, no failure"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
