"""The explorer: all computations of a few processes and messages under a protocol.

``python -m antecede.check.explore --processes 3 --messages 4`` explores every protocol.
:mod:`antecede.check.search` explains how the search avoids repeating itself.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from antecede.check.cases import cases
from antecede.check.promises import BrokenPromiseError, Script
from antecede.check.scripts import process_names
from antecede.check.search import Action, Explorer
from antecede.endpoint.info import Cast
from antecede.endpoint.registry import PROTOCOLS, rules_of
from antecede.endpoint.rules import Rules
from antecede.errors import UsageError


@dataclass
class Exploration:
    """What the explorer found."""

    protocol: str
    processes: int
    messages: int
    situations: int = 0
    blocks: int = 0
    local_states: int = 0
    local_steps: int = 0
    seconds: float = 0.0
    is_complete: bool = True
    promise: str = ""
    sentence: str = ""
    script: Script | None = None
    failure: tuple[Action, ...] = field(default=())
    case: str = ""

    def figures(self) -> dict[str, object]:
        """Return the counts and the verdict as plain data."""
        names = ("processes", "messages", "situations", "blocks", "local_states", "local_steps")
        counts = {name: getattr(self, name) for name in names}
        return {
            "case": self.case or self.protocol,
            **counts,
            "seconds": round(self.seconds, 1),
            "is_complete": self.is_complete,
            "broken": self.promise or None,
        }

    @property
    def is_clean(self) -> bool:
        """Whether everything was visited and no promise was broken."""
        return self.is_complete and not self.promise

    def __str__(self) -> str:
        what = (
            f"{self.case or self.protocol} {self.processes}x{self.messages}: "
            f"{self.situations:,} situations, {self.blocks:,} blocks, "
            f"{self.local_states:,} local states, {self.local_steps:,} local steps, "
            f"{self.seconds:.1f} CPU s"
        )
        if self.promise:
            return f"{what}: BROKEN {self.promise}: {self.sentence}"
        return what if self.is_complete else f"{what}: not finished"


def explore(
    protocol: str,
    processes: int = 3,
    messages: int = 3,
    *,
    options: Mapping[str, object] | None = None,
    casts: Sequence[Cast] | None = None,
    promises: Iterable[str] | None = None,
    rules: type[Rules] | None = None,
    symmetric: bool = True,
    selves: bool = False,
    seconds_max: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Exploration:
    """Explore every computation of ``processes`` processes and ``messages`` messages.

    Pass ``symmetric=False`` if a process has a special role. With ``selves`` processes also send to
    themselves.
    """
    info = rules_of(protocol).INFO
    began = time.process_time()
    due = frozenset(info.promises if promises is None else promises)
    explorer = Explorer(
        protocol,
        process_names(processes),
        messages,
        options=dict(options or {}),
        casts=casts or info.casts,
        promises=due,
        rules=rules,
        symmetric=symmetric,
        selves=selves,
    )

    def is_time_up(situations: int, steps: int) -> bool:
        passed = time.process_time() - began
        if progress is not None and situations % 4096 == 0:
            progress(
                f"{protocol}: {situations:,} situations, {steps} steps deep, {passed:.0f} CPU s"
            )
        return seconds_max is not None and passed > seconds_max

    result = Exploration(protocol, processes, messages)
    result.is_complete = explorer.run(is_time_up)
    result.situations, result.blocks = explorer.situations, explorer.blocks
    result.local_states = explorer.machine.local_count
    result.local_steps = explorer.machine.step_count
    result.seconds = time.process_time() - began
    found = explorer.failure()
    if found is not None:
        result.failure, (result.promise, result.sentence) = found
        try:
            result.script = explorer.replay(result.failure).script
        except BrokenPromiseError as error:
            result.script, result.sentence = error.script, error.sentence
    return result


def explore_all(
    protocol: str,
    processes: int,
    messages: int,
    *,
    seconds_max: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Iterator[Exploration]:
    """Explore a protocol in each of its :mod:`cases`.

    Unicast and broadcast are special cases of multicast, so a protocol that offers multicast is not
    explored for them separately.
    """
    info = PROTOCOLS[protocol]
    for case in cases(protocol, process_names(processes)):
        if "multicast" in info.casts and case.cast in ("unicast", "broadcast"):
            continue
        result = explore(
            protocol,
            processes,
            messages,
            options=case.options,
            casts=(case.cast,),
            promises=case.promises,
            symmetric=case.is_symmetric,
            seconds_max=seconds_max,
            progress=progress,
        )
        result.case = str(case)
        yield result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return 0 if all promises were kept, 1 if not, 2 for a wrong call."""
    parser = argparse.ArgumentParser(
        prog="python -m antecede.check.explore",
        description="Explore every interleaving of small computations.",
        epilog="example: python -m antecede.check.explore --messages 3 --protocol matrix",
    )
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--messages", type=int, default=3)
    parser.add_argument(
        "--protocol", action="append", help="a protocol to explore (repeatable); by default all"
    )
    parser.add_argument(
        "--seconds", type=float, help="stop each exploration after this many CPU seconds"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per exploration")
    chosen = parser.parse_args(arguments)
    try:
        names = [rules_of(name).INFO.name for name in chosen.protocol or PROTOCOLS]
    except UsageError as error:
        _say(error, sys.stderr)
        return 2
    if chosen.processes < 2 or chosen.messages < 1:
        _say("expected at least 2 processes and 1 message", sys.stderr)
        return 2
    is_clean = True
    for name in names:
        found = explore_all(
            name,
            chosen.processes,
            chosen.messages,
            seconds_max=chosen.seconds,
            progress=_show if sys.stderr.isatty() else None,
        )
        for result in found:
            _say(json.dumps(result.figures()) if chosen.json else result)
            if result.script is not None:
                _say(f"  shortest failing script: {result.script!r}")
            is_clean = is_clean and not result.promise
    return 0 if is_clean else 1


def _say(line: object, stream: TextIO | None = None) -> None:
    stream = stream or sys.stdout
    stream.write(f"{line}\n")
    stream.flush()


def _show(line: str) -> None:
    sys.stderr.write(f"\r{line}  ")
    sys.stderr.flush()
