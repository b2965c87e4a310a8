"""The data pipeline on Spark: study, audit and advise as functions of DataFrames.

``antecede.pipeline.audit(frame)``, ``antecede.pipeline.advise(frame)`` and
``antecede.pipeline.study(grid)`` are the functions of the modules of the same names; the modules
are imported at their first use, because they are heavy. A session is passed in or taken from the
frame, never made at import; ``jobs`` alone reads and writes files.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

VERBS = ("study", "audit", "advise")


class Verb(ModuleType):
    """A module that can be called: the call goes to its function of the same name."""

    def __call__(self, *args: object, **options: object) -> object:
        """Call the function."""
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **options)


def callable_module(name: str) -> None:
    """Let the module ``name`` be called; used by the verbs' modules themselves."""
    sys.modules[name].__class__ = Verb


def __getattr__(name: str) -> ModuleType:
    """Import a verb's module at its first use."""
    if name not in VERBS:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return import_module(f"{__name__}.{name}")
