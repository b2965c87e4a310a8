"""The data pipeline on Spark: ``study``, ``audit``, ``advise`` and ``reorder`` as functions.

Each name is imported at its first use, because Spark, Arrow and Numba are heavy. A session is
passed in or taken from the frame, never made at import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antecede.audit.api import Audit, audit
    from antecede.pipeline.advice.entry import advise
    from antecede.pipeline.streams.entry import reorder
    from antecede.pipeline.studies.entry import study
    from antecede.spark.session import session

__all__ = ["Audit", "advise", "audit", "reorder", "session", "study"]

_MODULES = {
    "Audit": "audits.entry",
    "advise": "advice.entry",
    "audit": "audits.entry",
    "reorder": "streams.entry",
    "session": "spark.session",
    "study": "studies.entry",
}


def __getattr__(name: str) -> object:
    """Import what a name stands for at its first use."""
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """List the names, imported or not."""
    return sorted({*globals(), *__all__})
