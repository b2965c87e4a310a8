"""The command line: one file per verb, each parses, calls, prints and sets the exit status.

What they print may hold names from logs and paths, and so any character.
"""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """Return text with control characters and half characters escaped, so that it stays a line."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def tolerate_any_character() -> None:
    """Let standard output escape what its encoding lacks, as standard error does."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
