"""The data pipeline on Spark: ``study``, ``audit``, ``advise`` and ``reorder`` as functions.

Each function is imported at its first use, because Spark, Arrow and Numba are heavy. A session is
passed in or taken from the frame, never made at import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antecede.pipeline.advice.entry import advise
    from antecede.pipeline.audits.entry import audit
    from antecede.pipeline.streams.entry import reorder
    from antecede.pipeline.studies.entry import study

__all__ = ["advise", "audit", "reorder", "study"]

_PACKAGES = {"advise": "advice", "audit": "audits", "reorder": "streams", "study": "studies"}


def __getattr__(name: str) -> object:
    """Import a function at its first use."""
    if name not in _PACKAGES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_PACKAGES[name]}.entry"), name)


def __dir__() -> list[str]:
    """List the functions, imported or not."""
    return sorted({*globals(), *__all__})
