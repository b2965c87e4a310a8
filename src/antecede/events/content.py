"""Read everything from a file, a pipe or standard input, within limits: some never end."""

from __future__ import annotations

import os
import stat
import sys
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from antecede.errors import LogError
from antecede.memory import GIB, machine_bytes

#: The path that stands for standard input.
STDIN = "-"
#: The memory divided by this is the most that a pipe may hold: processing takes a multiple.
_SHARE = 4
_PIECE = 1 << 20


def title_of(path: str | os.PathLike[str]) -> str:
    """Return a file's name for messages."""
    return "standard input" if str(path) == STDIN else str(path)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a pipe, readable only once; refuse devices, which may not end."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise _device(repr(str(path)), path)
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def stream_content(path: str | os.PathLike[str]) -> bytes:
    """Return all content of a pipe, or of standard input if the path is ``-``."""
    if str(path) != STDIN:
        with Path(path).open("rb", buffering=0) as file:
            return _all_of(file.fileno(), title_of(path))
    if sys.stdin is None:
        reason = "standard input is closed; name a file, or send the log through a pipe"
        raise LogError(reason, path=STDIN, reason=reason)
    try:
        number = sys.stdin.fileno()
    except (OSError, AttributeError):  # not a real file, as in tests
        return sys.stdin.buffer.read()
    mode = os.fstat(number).st_mode
    is_null = stat.S_ISCHR(mode) and os.fstat(number).st_rdev == Path(os.devnull).stat().st_rdev
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not os.isatty(number) and not is_null):
        raise _device(title_of(path), STDIN)
    return _all_of(number, title_of(path))


def content_of(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file or pipe; ``-`` is standard input, which is read only once."""
    if str(path) == STDIN:
        return _rest_of(sys.stdin)
    return stream_content(path) if is_stream(path) else Path(path).read_bytes()


@lru_cache(maxsize=1)
def _rest_of(_stdin: TextIO) -> bytes:
    return stream_content(STDIN)


def _all_of(number: int, name: str) -> bytes:
    """Read in pieces, so that Ctrl-C takes effect between them."""
    pieces, size, most = [], 0, machine_bytes() / _SHARE
    while piece := os.read(number, _PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            reason = (
                f"{name} has more than {most / GIB:,.1f} GiB, too much for the memory of this "
                "machine; write it to a file and give that, or a part of it"
            )
            raise LogError(reason, path=name, reason=reason)
    return b"".join(pieces)


def _device(name: str, path: object) -> LogError:
    reason = f"{name} is a device, which may have no end; give a file, a folder or a pipe"
    return LogError(reason, path=path, reason=reason)
