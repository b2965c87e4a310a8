"""Which format a log has: by its content; the file's name decides only where that is not clear."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from antecede.errors import LogError, UsageError
from antecede.pipeline.logs.base import Source, read_bytes
from antecede.pipeline.logs.formats import FORMATS, format_named, format_of_suffix
from antecede.pipeline.logs.patterns import compile_pattern

_SUFFIXES_COMPRESSED = {".gz", ".bz2", ".xz", ".zst", ".zip"}
_HEAD_BYTES = 1 << 16
#: How much a file must look like a format to be taken for it.
LIKELY = 0.5


def form_of(source: Source) -> str:
    """Return the name of a log's format: as given, or by its content and its name."""
    if source.form is not None:
        return format_named(source.form).name
    if source.path.is_dir():
        return next(name for name in FORMATS if format_named(name).reads_folders)
    if source.pattern is not None:
        groups = compile_pattern(source.pattern, "--pattern").groupindex
        return "shiviz" if "clock" in groups else "text"
    by_name = _form_by_name(source)
    form = _form_by_content(source, by_name)
    if form is not None:
        return form
    if source.send is not None or source.deliver is not None:
        return "text"
    if by_name is None:
        _require_readable(source)
        msg = (
            f"neither the name nor the content of {source.name!r} tells the log's format; give "
            f"--format, one of {', '.join(FORMATS)}"
        )
        raise UsageError(msg)
    return by_name


def _require_readable(source: Source) -> None:
    """Say why the content of a file does not tell its format, if it cannot be read."""
    try:
        read_bytes(source, _HEAD_BYTES)
    except (OSError, pa.ArrowException) as error:
        lines = str(error).strip().splitlines() or ["no reason given"]
        reason = getattr(error, "strerror", None) or lines[0][:200]
        msg = f"cannot read {str(source.path)!r}: {reason}"
        raise LogError(msg, path=source.path, reason=reason) from None


def _form_by_name(source: Source) -> str | None:
    name = source.path
    if name.suffix.lower() in _SUFFIXES_COMPRESSED:
        name = name.with_suffix("")
    return format_of_suffix(name.suffix.lower())


def _form_by_content(source: Source, by_name: str | None) -> str | None:
    """Return the format that a file's beginning looks most like, if it looks like any."""
    if by_name is not None and fitness(source, [by_name]).get(by_name) == 1.0:
        return by_name  # Nothing fits better, so the other formats need not be loaded.
    fits = fitness(source)
    best = max(fits.values(), default=0.0)
    if best < LIKELY:
        return None
    likely = [name for name, fit in fits.items() if fit == best]
    return by_name if by_name in likely else likely[0]


def fitness(source: Source, forms: Sequence[str] = FORMATS) -> dict[str, float]:
    """Return how much the beginning of a file looks like each format, from 0 to 1."""
    head = _head(source)
    if head is None:
        return {}
    sniffs = {name: format_named(name).sniff for name in forms}
    return {name: sniff(head) for name, sniff in sniffs.items() if sniff is not None}


def _head(source: Source) -> str | None:
    """Return the first lines of a file, or None if it cannot be read."""
    try:
        data = read_bytes(source, _HEAD_BYTES)
    except (OSError, pa.ArrowException):
        return None
    head = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    if len(data) == _HEAD_BYTES and "\n" in head:
        head = head[: head.rindex("\n")]
    return head


def looks_like(sources: Sequence[Source], form: str) -> str:
    """Return a hint at the format that a log probably has, if that is another one."""
    if sources[0].path.is_dir() or (form == "text" and sources[0].form is None):
        return ""
    fits = fitness(sources[0])
    fits.pop(form, None)
    best = max(fits, key=lambda name: fits[name], default="")
    if best and fits[best] >= LIKELY:
        return f"; it looks like {best}: give --format {best}"
    head = _head(sources[0]) or ""
    if head.lstrip().startswith(("[", "{")) and '"process"' in head and '"kind"' in head:
        return "; it looks like an event log; write each event on a line of its own (jq -c '.[]')"
    return "; if it is another text format, describe its events with --pattern"


def require_options(source: Source, forms: Sequence[str]) -> None:
    """Refuse options for reading that none of the formats uses."""
    used = {option for form in forms for option in format_named(form).options}
    for option in ("pattern", "send", "deliver", "delimiter"):
        if getattr(source, option) is not None and option not in used:
            users = [name for name in FORMATS if option in format_named(name).options]
            msg = (
                f"--{option} has no effect on the format {' and '.join(forms)}; leave it out, or "
                f"give --format {' or '.join(users)}"
            )
            raise UsageError(msg)
