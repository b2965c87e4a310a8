"""Very many random scripts under the oracle: ``python -m antecede.check.campaign``.

A protocol is tried in each of its :mod:`cases`. Scripts of the kind ``order`` reorder and duplicate
packets, and some restart endpoints. Those of the kind ``loss`` crash processes, and the others then
skip what was lost. If a protocol waits only for messages, some scripts also lose single packets.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, get_args

from antecede.check.cases import Case, cases, random_groups
from antecede.check.promises import BrokenPromiseError, Script
from antecede.check.scripts import process_names, random_script, run_script, shrunk
from antecede.check.world import World
from antecede.endpoint.registry import PROTOCOLS, rules_of
from antecede.errors import UsageError

Kind = Literal["order", "loss"]
KINDS: Final = get_args(Kind)
SIZES: Final = (2, 3, 3, 4, 4, 5, 6, 8)
LOSS_SIZES: Final = (3, 3, 4, 4, 5, 6)


@dataclass
class Campaign:
    """What a series of scripts showed."""

    protocol: str
    kind: Kind
    scripts: int = 0
    events: int = 0
    unmet: int = 0
    """How many deliveries depended on a lost message and said so."""
    seconds: float = 0.0
    broken: Counter[str] = field(default_factory=Counter)
    failures: list[BrokenPromiseError] = field(default_factory=list)

    def __str__(self) -> str:
        broken = ", ".join(f"{what}: {count}" for what, count in sorted(self.broken.items()))
        return (
            f"{self.protocol} {self.kind}: {self.scripts:,} scripts, {self.events:,} events, "
            f"{self.unmet:,} marked, {sum(self.broken.values())} broken {broken and f'({broken}) '}"
            f"in {self.seconds:.0f} s"
        )


def run(protocol: str, kind: Kind, scripts: int, *, first: int = 0) -> Campaign:
    """Run scripts with the seeds from ``first`` on."""
    found, began = Campaign(protocol, kind), time.process_time()
    for seed in range(first, first + scripts):
        case, script = script_for(protocol, kind, seed)
        try:
            world = judge(case, script, seed)
        except BrokenPromiseError as error:
            what = f"{case} {error.promise}"
            found.broken[what] += 1
            if found.broken[what] == 1:
                found.failures.append(_smallest(case, script, seed))
        else:
            found.events += len(world.history.events)
            found.unmet += world.marked
        found.scripts += 1
    found.seconds = time.process_time() - began
    return found


def script_for(protocol: str, kind: Kind, seed: int) -> tuple[Case, Script]:
    """Return the case and the script of a seed."""
    sizes = LOSS_SIZES if kind == "loss" else SIZES
    members = process_names(sizes[seed % len(sizes)])
    known = cases(protocol, members)
    case = known[seed // len(sizes) % len(known)]
    info = PROTOCOLS[protocol]
    is_losing = kind == "loss"
    crashes = (1, 1, 2, 0)[seed % 4]
    if info.queueing or "no_overblocking" not in info.promises:  # it may wait for permits too
        crashes = max(crashes, 1)
    script = random_script(
        seed,
        members=members,
        casts=(case.cast,),
        steps=24 + (2 if case.cast == "broadcast" else 4) * len(members),
        self_share=0.08,
        restart_share=0.1 if seed % 9 == 4 else 0.0,
        loss_share=0.08 if is_losing and not crashes else 0.0,
        crashes=crashes if is_losing else 0,
        link_share=0.1 if info.opens_links and seed % 5 else 0.0,
        tick_share=0.2 if info.timed and seed % 5 else 0.0,
        ranks=info.orders_by_after,
        fifo=seed % 7 == 3,
        pull=seed % 6 == 5,
        groups=random_groups(members, seed) if case.cast == "groups" else None,
    )
    return case, script


def judge(case: Case, script: Script, seed: int) -> World:
    """Run a script and let the rest arrive, in an order that depends on the seed."""
    return run_script(
        script,
        case.protocol,
        options={name: value for name, value in case.options.items() if name != "groups"},
        promises=case.promises,
        coded=seed % 8 == 1,
        drain=(Random(seed), 0, -1)[seed % 3],  # noqa: S311 - scripts, not secrets
    )


def _smallest(case: Case, script: Script, seed: int) -> BrokenPromiseError:
    return shrunk(script, lambda part: judge(case, part, seed))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return 0 if all promises were kept, 1 if not, 2 for a wrong call."""
    parser = argparse.ArgumentParser(
        prog="python -m antecede.check.campaign",
        description="Run random scripts under the oracle.",
        epilog="example: python -m antecede.check.campaign --scripts 20000 --protocol optimal",
    )
    parser.add_argument("--scripts", type=int, default=20_000, help="how many of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", action="append", choices=KINDS, help="repeatable; default: all")
    parser.add_argument("--protocol", action="append", help="repeatable; by default all")
    chosen = parser.parse_args(arguments)
    try:
        names = [rules_of(name).INFO.name for name in chosen.protocol or PROTOCOLS]
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    is_clean = True
    for name in names:
        for kind in chosen.kind or KINDS:
            found = run(name, kind, chosen.scripts, first=chosen.first)
            lines = [str(found), *(f"  {error}" for error in found.failures)]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
            is_clean = is_clean and not found.broken
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
