"""The command line: one file per verb, which parses, calls, prints and sets the exit status.

Printed names and paths come from logs, so they may contain any character.
"""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """Return text as one line: with control characters and lone surrogates escaped."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def tolerate_any_character() -> None:
    """Let standard output escape characters that its encoding lacks, as standard error does."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
