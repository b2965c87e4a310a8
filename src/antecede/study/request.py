"""The request for a study: a preset, experiments, protocols, sizes, traffic and a seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from antecede.endpoint.registry import rules_of
from antecede.errors import UsageError
from antecede.runs import ASKED, STAGE
from antecede.sim.engine import check_state, choose_engine
from antecede.sim.workloads import check_seed
from antecede.sim.workloads import delay as parse_delay
from antecede.study.design import PRESETS, Experiment, Scale
from antecede.study.experiments import chosen, require_known
from antecede.study.grid import grid_rows
from antecede.study.measuring import pack_edges

#: More seeds would run for years. Memory limits the number of processes further, but with more
#: than these even making the grid would take minutes.
SEEDS_MAX, PROCESSES_MAX = 10_000, 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """What to run; all experiments or protocols if none is named."""

    preset: str = "quick"
    experiment: Sequence[str] = ()
    protocol: Sequence[str] = ()
    traffic: str | None = None
    seed: int = 0
    n: Sequence[int] = ()
    delay: str | None = None
    seeds: int | None = None

    @classmethod
    def of(
        cls, given: Mapping[str, Any], out: Path | None = None, *, resume: bool = False
    ) -> Request:
        """Return the request for the fields ``given``; None takes the default.

        With ``resume``, the defaults come from the study in ``out``.
        """
        earlier: dict[str, Any] = {}
        if resume:
            if out is None:
                msg = "--resume needs --out: the folder of the study to resume"
                raise UsageError(msg)
            places = (out / STAGE / ASKED, out / ASKED)
            earlier = next((_read(place) for place in places if place.is_file()), {})
        known = {each.name for each in fields(cls)}
        kept = {name: value for name, value in earlier.items() if name in known}
        request = cls(**kept | {name: value for name, value in given.items() if value is not None})
        traffic = given.get("traffic")
        if traffic is not None and not any(e.needs_traffic for e in chosen(request.experiment)):
            users = " or ".join(each.name for each in chosen(()) if each.needs_traffic)
            msg = (
                f"only the experiment {users} uses --traffic {traffic}: "
                f"add --experiment {users}, or leave --traffic out"
            )
            raise UsageError(msg)
        return request

    def rows(self) -> list[dict[str, Any]]:
        """Return the grid of runs; raise :class:`UsageError` if a name is unknown."""
        check_seed(self.seed)
        for name in self.protocol:
            rules_of(name)
        scale, experiments = self._scale(), self._experiments()
        rows = [
            row
            for each in experiments
            for row in grid_rows(each.name, each.cases(scale), seed=self.seed)
            if not self.protocol or row["protocol"] in self.protocol
        ]
        if not rows:
            names, protocols = (each.name for each in experiments), ", ".join(self.protocol)
            msg = f"nothing to run: none of {', '.join(names)} runs protocol {protocols}"
            raise UsageError(msg)
        for protocol, n in dict.fromkeys((row["protocol"], row["n"]) for row in rows):
            if n in self.n:  # the sizes of presets are known to fit
                check_state(protocol, n, choose_engine(protocol, "auto", {}))
        return rows

    def options(self) -> dict[str, Any]:
        """Return the request as plain data, for the run folder."""
        lists = {name: [*getattr(self, name)] for name in ("experiment", "protocol", "n")}
        return {**asdict(self), **lists}

    def _experiments(self) -> list[Experiment]:
        """Return the experiments to run: with --delay, only those that do not vary the delay."""
        named = chosen(self.experiment)
        if self.delay is None:
            return named
        varied = [each.name for each in named if each.sweeps_delay]
        if self.experiment and varied:
            msg = f"experiment {varied[0]} varies the delay itself; leave --delay out"
            raise UsageError(msg)
        return [each for each in named if not each.sweeps_delay]

    def _scale(self) -> Scale:
        require_known("preset", self.preset, PRESETS)
        scale = self._own(PRESETS[self.preset])
        if self.traffic is not None:
            return replace(scale, traffic=pack_edges(Path(self.traffic)))
        needy = [each.name for each in chosen(self.experiment) if each.needs_traffic]
        if self.experiment and needy:
            msg = f"experiment {needy[0]} needs --traffic FILE, a list of: source destination time"
            raise UsageError(msg)
        return scale

    def _own(self, scale: Scale) -> Scale:
        """Return the scale with the sizes, delay and seeds that were asked for."""
        if any(n < 2 for n in self.n):
            msg = f"--n {min(self.n)}: processes cannot exchange messages; use at least 2"
            raise UsageError(msg)
        if any(n > PROCESSES_MAX for n in self.n):
            msg = f"--n {max(self.n)} is too many processes; use {PROCESSES_MAX:,} or fewer"
            raise UsageError(msg)
        if self.seeds is not None and self.seeds < 1:
            msg = f"--seeds {self.seeds}: there is nothing to run; use at least 1"
            raise UsageError(msg)
        if self.seeds is not None and self.seeds > SEEDS_MAX:
            msg = f"--seeds {self.seeds} would never end; use {SEEDS_MAX:,} or fewer"
            raise UsageError(msg)
        if self.delay is not None:
            parse_delay(self.delay)
        sizes = tuple(sorted(set(self.n)))
        if sizes:
            scale = replace(scale, sizes=sizes, large=sizes, chosen_sizes=sizes)
        if self.seeds is not None:
            scale = replace(scale, seeds=tuple(range(1, self.seeds + 1)))
        return replace(scale, chosen_delay=self.delay)


def _read(place: Path) -> dict[str, Any]:
    try:
        earlier = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        earlier = None
    if not isinstance(earlier, dict):
        msg = f"--resume: {place} does not say what to run; start again in a new folder"
        raise UsageError(msg)
    return earlier
