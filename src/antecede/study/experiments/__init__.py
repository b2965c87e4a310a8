"""The experiments, one module each, in the order in which they are reported.

Every module of this package defines one ``EXPERIMENT``, and is found automatically.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from antecede.errors import UsageError, meant
from antecede.study.design import Experiment
from antecede.study.measuring import measure_run, unpack


def discovered() -> dict[str, Experiment]:
    """Import every module of this package and return their experiments by rank."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    found: list[Experiment] = [module.EXPERIMENT for module in modules]
    return {each.name: each for each in sorted(found, key=lambda each: each.rank)}


EXPERIMENTS: Mapping[str, Experiment] = discovered()


def chosen(names: Iterable[str]) -> list[Experiment]:
    """Return the experiments with these names; all if no name is given."""
    wanted = list(dict.fromkeys(names)) or list(EXPERIMENTS)
    for name in wanted:
        require_known("experiment", name, EXPERIMENTS)
    return [experiment for name, experiment in EXPERIMENTS.items() if name in wanted]


def require_known(what: str, name: str, known: Iterable[str]) -> None:
    """Raise :class:`UsageError`, with the nearest names, unless ``name`` is one of ``known``."""
    names = list(known)
    if name not in names:
        msg = f"unknown {what} {name!r}; {meant(name, names)}"
        raise UsageError(msg)


def execute(row: Mapping[str, Any]) -> dict[str, Any]:
    """Run one grid row as its experiment says, or as a plain run if we have no such experiment."""
    experiment = EXPERIMENTS.get(row["experiment"])
    measure = measure_run if experiment is None else experiment.measure
    return measure(unpack(row))
