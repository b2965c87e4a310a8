"""bounded with phases: order, liveness and the bound, and that broken phases are caught."""

from __future__ import annotations

from random import Random

import pytest

from antecede.check import BrokenPromiseError, random_script, rules_from, run_script
from antecede.protocols.specs import Copy
from antecede.study.experiments.phased import Process, size


class Often(Process):
    """A new phase after each message of the coordinator, if the last change is complete."""

    every = 1


def run_with(process: type[Process], scripts: int) -> list[object]:
    """Run random scripts under the oracle; return the controls of all packets."""
    controls: list[object] = []
    for seed in range(scripts):
        script = random_script(seed, members=2 + seed % 4, casts=("unicast",), steps=80)
        world = run_script(script, "bounded", rules=rules_from(process), drain=Random(seed))
        controls += [packet.control for packet in world.packets]
    return controls


def test_order_and_liveness_hold_in_phases() -> None:
    kinds = {
        control[0] for control in run_with(Often, 150) if control and isinstance(control, tuple)
    }
    assert {"enter", "report", "await", "done", "over"} <= {k for k in kinds if isinstance(k, str)}


class OverTooEarly(Often):
    """What was sent before is not awaited."""

    def report(self, i: str, row: tuple[int, ...]) -> None:
        super().report(i, tuple(0 for _ in row))


class TakesBack(Often):
    """Entries of phases that are over are merged again, for ever: only the matrix gets fuller."""

    def drop(self, phase: int) -> None:
        super().drop(phase)
        self.over = 0


def test_phases_that_end_too_early_lose_order() -> None:
    with pytest.raises(BrokenPromiseError):
        run_with(OverTooEarly, 150)


def test_what_is_over_is_not_merged_again() -> None:
    def entries(process: type[Process]) -> int:
        controls = [c for c in run_with(process, 40) if isinstance(c, tuple) and c]
        return sum(len(control) for control in controls if isinstance(control[0], tuple))

    assert entries(Often) < entries(TakesBack)


def test_sizes_by_hand() -> None:
    def bytes_of(*control: object) -> int:
        return size(Copy("a", "b", 0, frozenset(), control))

    assert bytes_of() == 0
    assert bytes_of(("a", "b", 1), ("c", "b", 2)) == 16
    assert bytes_of(("a", "b", 1, 0)) == 9
    assert bytes_of("report", (1, 2, 3)) == 12
    assert bytes_of("over", 2) == 4
