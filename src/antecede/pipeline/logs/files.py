"""The files of a log: what paths name, and which of them cannot be read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from antecede.errors import LogError, UsageError
from antecede.eventlog.content import is_stream, stream_content
from antecede.pipeline.logs.base import STDIN, Source
from antecede.pipeline.logs.formats import FORMATS, format_named

#: How the names of files and folders begin that are not meant to be read.
_HIDDEN = ("_", ".")
#: How files begin that have to be unpacked first, and what unpacks them.
_PACKED = {b"\xfd7zXZ": "unxz", b"PK\x03\x04": "unzip"}


def sources_in(paths: Sequence[Path], like: Source) -> list[Source]:
    """Return the files that paths name: files, folders of them, or ``-`` for standard input.

    ``like`` says how to read them. A folder that is one log, as Parquet folders are, stays whole.
    """
    if list(paths).count(STDIN) > 1:
        msg = "standard input (-) can be read only once; name it once"
        raise UsageError(msg)
    found = [source for path in paths for source in _sources_at(replace(like, path=path))]
    # A service that logged nothing may leave an empty file beside those of the others.
    full = [source for source in found if not _is_empty(source)]
    return full if len(found) > 1 and full else found


def _sources_at(source: Source) -> list[Source]:
    path = source.path
    if path == STDIN:
        return [replace(source, data=stream_content(path))]
    if path.is_dir():
        inside = files_in(path)
        if not inside or _is_one_log(source, inside):
            return [source]
        return [replace(source, path=file, label=str(file.relative_to(path))) for file in inside]
    if is_stream(path):
        try:
            return [replace(source, data=stream_content(path))]
        except OSError as error:
            msg = f"cannot read {str(path)!r}: {error.strerror}"
            raise LogError(msg, path=path, reason=str(error.strerror)) from None
    return [source]


def files_in(folder: Path) -> list[Path]:
    """Return the files in a folder and its folders, without those that are hidden.

    A folder that cannot be read is refused: without it, the log would be another.
    """
    found = []
    for place, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        found += [Path(place, name) for name in names if not name.startswith(_HIDDEN)]
    return sorted(file for file in found if file.is_file())


def _refuse(error: OSError) -> None:
    reason = f"cannot read the folder {str(error.filename)!r}: {error.strerror}"
    raise LogError(reason, path=error.filename, reason=reason)


def _is_one_log(source: Source, inside: Sequence[Path]) -> bool:
    """Return whether a folder of these files is one log of a format that has such folders."""
    for name in FORMATS:
        form = format_named(name)
        if form.reads_folders:
            is_all = all(file.suffix.lower() in form.suffixes for file in inside)
            return source.form == name or (source.form is None and is_all)
    return False


def _is_empty(source: Source) -> bool:
    try:
        return not (source.path.stat().st_size if source.data is None else source.data)
    except OSError:
        return False


def name_of(sources: Sequence[Source]) -> str:
    """Return what a log in these files is called in results."""
    if len(sources) == 1:
        return sources[0].name
    return f"{sources[0].name} and {len(sources) - 1} more"


def titled(sources: Sequence[Source], execution: str | None) -> str:
    """Return what an execution of a log is called in results."""
    name = name_of(sources)
    return f"{name}, execution {execution}" if execution else name


def require_file(source: Source) -> None:
    """Refuse a log that does not exist, is empty, or has to be unpacked first."""
    name, reason = repr(str(source.path)), ""
    if source.data is not None:
        reason = _why_unreadable(repr(source.name), source.data[:8])
    elif not source.path.exists():
        reason = f"there is no log {name}"
    elif source.path.is_dir():
        if not files_in(source.path):
            reason = f"the folder {name} has no files in it"
    else:
        try:
            with source.path.open("rb") as file:
                reason = _why_unreadable(name, file.read(8))
        except OSError as error:
            reason = f"cannot read {name}: {error.strerror}"
    if reason:
        raise LogError(reason, path=source.path, reason=reason)


def _why_unreadable(name: str, start: bytes) -> str:
    if not start:
        return f"{name} has no events: the file is empty"
    tool = next((tool for mark, tool in _PACKED.items() if start.startswith(mark)), None)
    return f"{name} is compressed; unpack it first, with {tool}" if tool else ""


def aliases_of(texts: Sequence[str]) -> Mapping[str, str]:
    """Parse aliases NAME=PROCESS."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, process = text.partition("=")
        if not equals or not name or not process:
            msg = f"cannot read --alias {text!r}; use NAME=PROCESS, such as 10.0.0.7=billing"
            raise UsageError(msg)
        if found.setdefault(name, process) != process:
            msg = f"--alias gives {name!r} two names, {found[name]!r} and {process!r}; keep one"
            raise UsageError(msg)
    return found
