"""The formats of logs, one module each; a module's name is the format's name.

To add a format, add a module here with a :class:`~antecede.events.log.Format` called ``FORMAT``. It
is found automatically.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from antecede.errors import UsageError

if TYPE_CHECKING:
    from antecede.events.log import Format

#: The names of all formats, known without importing any of them.
FORMATS = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@cache
def format_named(name: str) -> Format:
    """Return a format by its name."""
    if name not in FORMATS:
        msg = f"unknown format {name!r}; known: {', '.join(FORMATS)}"
        raise UsageError(msg)
    found: Format = import_module(f"{__name__}.{name}").FORMAT
    return found


def format_of_suffix(suffix: str) -> str | None:
    """Return the name of the format whose files have this suffix, or None."""
    return next((name for name in FORMATS if suffix in format_named(name).suffixes), None)
