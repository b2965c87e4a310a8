"""Every small case of declared causes: ``python -m tests.inbox.explore [--messages N]``.

:func:`explore_sends` enumerates systems in which each message is a root or is sent with one or two
others as parents, with every choice of topics, every subset that a subscriber may take and every
order of arrival. The judge is happened-before as explicit sets of messages, without clocks.

:func:`explore_steps` enumerates every script of offers, handling, releasing, parking and retrying
over graphs of causes, including cycles and unknown causes, and compares the machine with the
specification after each step: every graph of three messages, and some of five, which are only
offered and handled.
"""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from antecede.inbox.causes import PARKED, READY, WAITING, Causes, carried, joined
from tests.inbox.specification import Specification

Carry = Callable[[str, tuple[str, ...]], tuple[str, ...]]


def labellings(count: int, most: int) -> Iterator[tuple[int, ...]]:
    """Return the ways to give topics to messages, up to renaming."""
    for labels in itertools.product(range(most), repeat=count):
        if all(label <= max(labels[:at], default=-1) + 1 for at, label in enumerate(labels)):
            yield labels


def _few(among: Iterable[int], most: int) -> list[tuple[int, ...]]:
    """Return the choices of at most the given number of parents."""
    every = list(among)
    sizes = range(min(most, len(every)) + 1)
    return [chosen for size in sizes for chosen in itertools.combinations(every, size)]


def explore_sends(
    messages: int, topics: int, carry: Carry = carried, joins: int = 2
) -> tuple[int, list[str]]:
    """Return how many cases there are, and a sentence for each that breaks causal order.

    A message has at most ``joins`` parents.
    """
    cases, broken = 0, []
    choices = [_few(range(at), joins) for at in range(messages)]
    shapes = itertools.product(itertools.product(*choices), labellings(messages, topics))
    for parents, labels in shapes:
        keys = [f"{'abcdef'[label]}/{at}" for at, label in enumerate(labels)]
        causes: list[tuple[str, ...]] = []
        before: list[set[int]] = []
        for mine in parents:
            causes.append(joined(*(carry(keys[one], causes[one]) for one in mine)))
            before.append({old for one in mine for old in before[one] | {one}})
        used = sorted({key[0] for key in keys})
        for size in range(1, len(used) + 1):
            for subset in itertools.combinations(used, size):
                got = [at for at in range(messages) if keys[at][0] in subset]
                for arrival in itertools.permutations(got):
                    cases += 1
                    if wrong := _run(arrival, keys, causes, before, subset):
                        broken.append(f"{parents} {keys} {subset} {arrival}: {wrong}")
    return cases, broken


def _run(
    arrival: tuple[int, ...],
    keys: list[str],
    causes: list[tuple[str, ...]],
    before: list[set[int]],
    subset: Iterable[str],
) -> str:
    """Return the error in the order in which an inbox hands messages over, if any."""
    inbox = Causes(set(subset))
    handed: list[int] = []
    for at in arrival:
        inbox.offer(keys[at], causes[at], 0.0)
        while (entry := inbox.take()) is not None:
            handed.append(keys.index(entry.key))
            inbox.done(entry, 0.0)
    for place, at in enumerate(handed):
        if missing := (before[at] & set(arrival)) - set(handed[:place]):
            return f"{keys[at]} came before {[keys[each] for each in sorted(missing)]}"
    return "" if len(handed) == len(arrival) else f"only {handed} of {arrival} were handed over"


STEPS = ("offer", "finish", "release", "park", "retry")


class Both:
    """The machine and the specification, taken through the same steps."""

    def __init__(self, causes: dict[str, tuple[str, ...]], topics: set[str]) -> None:
        self.given = causes
        self.machine, self.truth = Causes(topics), Specification(topics)

    def can(self, step: str, key: str) -> bool:
        truth = self.truth
        return {
            "offer": key not in truth.causes,
            "finish": key in truth.ready(),
            "release": key in truth.waiting() | truth.parked,
            "park": key in truth.here() - truth.parked,
            "retry": key in truth.parked,
        }[step]

    def take(self, step: str, key: str) -> None:
        machine, truth = self.machine, self.truth
        if step == "offer":
            machine.offer(key, self.given[key], 0.0)
            truth.offer(key, self.given[key])
        elif step == "finish":
            entry = machine.take_one(key)
            assert entry is not None
            machine.done(entry, 0.0)
            truth.finish(key)
        elif step == "release":
            machine.release(key, 0.0)
            truth.release(key)
        elif step == "park":
            machine.park(key, "by hand")
            truth.park(key)
        else:
            machine.retry(key, 0.0)
            truth.retry(key)

    def check(self) -> None:
        machine, truth = self.machine, self.truth
        states = {key: entry.state for key, entry in machine.entries.items()}
        assert {k for k, state in states.items() if state == READY} == truth.ready()
        assert {k for k, state in states.items() if state == WAITING} == truth.waiting()
        assert {k for k, state in states.items() if state == PARKED} == truth.parked
        assert set(machine.ready) == truth.ready()
        assert set(machine.waiting) == truth.waiting()
        assert set(machine.parked) == truth.parked
        assert set(machine.past) == truth.done
        for key, entry in machine.entries.items():
            assert entry.lacks == truth.lacks(key), key
            assert set(entry.unmet) == truth.unmet.get(key, set()), key
            assert entry.late == (key in truth.late), key
        awaited = {(c, k) for c, waiters in machine._awaited.items() for k in waiters}
        assert awaited == {(c, k) for k, e in machine.entries.items() for c in e.lacks}

    def fingerprint(self) -> tuple[object, ...]:
        truth = self.truth
        sets = (truth.causes, truth.done, truth.parked, truth.late, truth.missed)
        waived = tuple(sorted((k, *sorted(v)) for k, v in truth.waived.items() if v))
        return (*(frozenset(each) for each in sets), waived)


def graphs(messages: int) -> Iterator[dict[str, tuple[str, ...]]]:
    """Return every graph of causes: on each other, on themselves, on a message that never comes."""
    sets = cause_sets(messages)
    for choice in itertools.product(sets, repeat=messages):
        yield graph(choice)


def some_graphs(messages: int, count: int, seed: int = 17) -> Iterator[dict[str, tuple[str, ...]]]:
    """Return a random sample of these graphs."""
    rng, sets = random.Random(seed), cause_sets(messages)
    for _ in range(count):
        yield graph(rng.choices(sets, k=messages))


def cause_sets(messages: int) -> list[tuple[str, ...]]:
    """Return every set of causes that a message may have."""
    named = [*map(key_of, range(messages)), "a/never"]
    sizes = range(len(named) + 1)
    return [chosen for size in sizes for chosen in itertools.combinations(named, size)]


def key_of(at: int) -> str:
    return f"{'ab'[at % 2]}/{at}"


def graph(choice: Sequence[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the causes by message; the first also has one in a topic without a subscriber."""
    first, *rest = choice
    return {key_of(at): each for at, each in enumerate([(*first, "c/elsewhere"), *rest])}


def explore_steps(given: Iterable[dict[str, tuple[str, ...]]], names: Sequence[str] = STEPS) -> int:
    """Compare machine and specification on every script of these steps; count the states."""
    states = 0
    for causes in given:
        seen: set[tuple[object, ...]] = set()
        scripts: list[tuple[tuple[str, str], ...]] = [()]
        while scripts:
            script = scripts.pop()
            both = Both(causes, {"a", "b"})
            for step, key in script:
                both.take(step, key)
            try:
                both.check()
            except AssertionError as error:
                msg = f"{causes} {script}: {error}"
                raise AssertionError(msg) from error
            if (mark := both.fingerprint()) in seen:
                continue
            seen.add(mark)
            steps = itertools.product(names, causes)
            scripts += [(*script, (step, key)) for step, key in steps if both.can(step, key)]
        states += len(seen)
    return states


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=5, help="messages of a system of sends")
    parser.add_argument("--topics", type=int, default=3)
    parser.add_argument("--graphs", type=int, default=200, help="graphs of five messages")
    asked = parser.parse_args()
    cases, broken = explore_sends(asked.messages, asked.topics)
    print(
        f"sends of {asked.messages}: {cases:,} cases, {len(broken)} broken", *broken[:5], sep="\n"
    )
    states = explore_steps(graphs(3))
    print(f"steps with 3, every graph: {states:,} states of machine and specification, all equal")
    states = explore_steps(some_graphs(5, asked.graphs), STEPS[:2])
    print(f"{', '.join(STEPS[:2])} with 5, {asked.graphs:,} graphs: {states:,} states, all equal")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
