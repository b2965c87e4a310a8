"""The data pipeline on Spark: ``study``, ``audit``, ``advise`` and ``reorder`` as functions.

Each name is imported at its first use, because Spark, Arrow and Numba are heavy. A session is
passed in or taken from the frame, never made at import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antecede.advise.api import advise
    from antecede.audit.api import audit
    from antecede.audit.found import Audit
    from antecede.reorder.api import reorder
    from antecede.spark.session import session
    from antecede.study.api import study

__all__ = ["Audit", "advise", "audit", "reorder", "session", "study"]

_MODULES = {
    "Audit": "antecede.audit.found",
    "advise": "antecede.advise.api",
    "audit": "antecede.audit.api",
    "reorder": "antecede.reorder.api",
    "session": "antecede.spark.session",
    "study": "antecede.study.api",
}


def __getattr__(name: str) -> object:
    """Import what a name stands for at its first use."""
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """List the names, imported or not."""
    return sorted({*globals(), *__all__})
